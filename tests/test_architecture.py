"""The direction of imports and the uniqueness of names, as docs/architecture.md describes them."""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from functools import cache

import pytest

from tests.support import ROOT

PACKAGE = ROOT / "arc_toolkit"

# What every package may import besides itself and the standard library.
BASE = {"errors", "file_io", "durations", "stderr", "text"}
# Data and text helpers of the packages that decide something.
CORE = BASE | {
    "edit",
    "kube",
    "findings",
    "ignore_rules",
    "inputs",
    "resources",
    "output",
    "__version__",
}
ALLOWED: dict[str, set[str]] = {
    "errors": set(),
    "durations": set(),
    "stderr": set(),
    "text": set(),
    "ray_connection": {"errors"},
    "file_io": {"errors"},
    "inputs": BASE,
    "findings": BASE | {"edit"},
    "ignore_rules": BASE | {"edit", "findings"},
    "resources": BASE,
    "edit": BASE | {"findings"},  # which is data about edits
    "batch": BASE | {"edit", "findings"},
    "kube": BASE,
    "checkpoints": BASE | {"notices"},
    "notices": BASE,
    "elastic": BASE | {"checkpoints", "notices", "ray_connection"},
    "output": BASE | {"edit", "findings", "kube", "resources", "__version__"},
    "azureml": CORE,
    "migrate": CORE | {"azureml", "sizing"},
    "sizing": CORE,
    "placement": CORE | {"sizing"},
    # The interval between saves is the one that `every="auto"` uses; VM sizes and shares are those of sizing.
    "cost": CORE | {"checkpoints", "sizing"},
    "diagnosis": CORE | {"notices"},  # the lines that `run` writes
    "diagnosis.read.sources": CORE | {"diagnosis", "cluster", "azure", "ray_connection"},
    "cluster": CORE | {"sizing"},
    "azure": CORE | {"sizing", "cluster"},
    "__main__": {"cli"},
}
# A module or package of someone else -> the only packages that import it.
ONLY_IN: dict[str, set[str]] = {
    "argparse": {"cli"},
    "kubernetes": {"cluster"},
    "azure": {"azure", "diagnosis.read.sources"},
    "adlfs": {"diagnosis.read.sources"},
    "mlflow": {"diagnosis.read.sources"},
    "ray": {"elastic", "ray_connection"},
}
# These run inside other people's training jobs.
STANDARD_LIBRARY_ONLY = (
    *("checkpoints", "notices", "errors", "file_io", "durations", "stderr", "text"),
)
PRINTS = ("cli",)
VAGUE_CLASSES = {"Work", "Spot", "Place", "Try", "Clue", "About", "Member", "Supply"}
VAGUE_VARIABLES = {
    "found",
    "one",
    "told",
    "said",
    "meant",
    "again",
    "which",
    "when",
    "sent",
    "got",
    "many",
    "few",
    "much",
}
# The same, in the packages from which they are gone.
VAGUE_IN_CLEAN_PACKAGES = {
    "known",
    "own",
    "there",
    "asked",
    "kept",
    "what",
    "left",
    "given",
    "taken",
    "seen",
    "made",
    "wanted",
    "held",
    "done",
    "where",
    "here",
    "both",
    "rest",
    "who",
    "how",
    "why",
    "whole",
    "shown",
    "around",
    "more",
}
CLEAN_PACKAGES = {
    "diagnosis",
    "sizing",
    "kube",
    "cluster",
    "azure",
    "cost",
    "checkpoints",
    "notices",
    "elastic",
}


@cache
def modules() -> dict[str, ast.Module]:
    """Every module by its name without `arc_toolkit.`; a package by its own name."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = ast.parse(path.read_text(), str(path))
    return found


def layer(module: str) -> str:
    """The key of ALLOWED for a module: its package, or the part of a package that has a row of its own."""
    rows = [row for row in ALLOWED if module == row or module.startswith(f"{row}.")]
    return max(rows, key=len, default=module.partition(".")[0])


def imports(tree: ast.Module) -> Iterator[str]:
    """The dotted names that a module imports, at its top, in functions, and by `import_module("...")`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"a relative import in line {node.lineno}"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif (
            isinstance(node, ast.Call)
            and ast.unparse(node.func).rpartition(".")[2] == "import_module"
        ):
            text = node.args[0]
            if isinstance(text, ast.JoinedStr):
                text = text.values[0]
            if isinstance(text, ast.Constant) and isinstance(text.value, str):
                yield text.value


def violations() -> dict[tuple[str, str], set[str]]:
    """(package, what it must not import) -> the modules that do"""
    found = defaultdict(set)
    for module, tree in modules().items():
        here = layer(module)
        for name in imports(tree):
            first, _, rest = name.partition(".")
            if first == "arc_toolkit":
                there = layer(rest)
                wrong = here != "cli" and there != here and there not in ALLOWED.get(here, set())
                # A package uses its own parts.
                wrong = wrong and rest.partition(".")[0] != here
            else:
                there = first
                wrong = here not in ONLY_IN.get(first, {here})
            if wrong and module:
                found[here, there].add(module)
    return dict(found)


def without_type_checking(tree: ast.Module) -> ast.Module:
    """The same module without what only type checkers import."""
    body = [
        node
        for node in tree.body
        if not (isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING")
    ]
    return ast.Module(body, [])


def import_cycles() -> list[set[str]]:
    """The modules that import each other, also by imports in functions.

    By Kosaraju's algorithm: modules in the order in which a walk leaves them, then walked backwards.
    """
    uses: dict[str, set[str]] = {}
    for module, tree in modules().items():
        names = {name.removeprefix("arc_toolkit.") for name in imports(without_type_checking(tree))}
        names |= {name.rpartition(".")[0] for name in names - modules().keys()}
        uses[module] = (names & modules().keys()) - {module, ""}
    users = {module: {name for name in uses if module in uses[name]} for module in uses}

    def walk(module: str, links: dict[str, set[str]], visited: dict[str, None]) -> None:
        stack = [(module, iter(links[module]))]
        entered.add(module)
        while stack:
            module, rest = stack[-1]
            following = next((name for name in rest if name not in entered), None)
            if following is None:
                visited[module] = None
                stack.pop()
            else:
                entered.add(following)
                stack.append((following, iter(links[following])))

    entered: set[str] = set()
    order: dict[str, None] = {}
    for module in uses:
        if module not in entered:
            walk(module, uses, order)
    entered.clear()
    cycles = []
    for module in reversed(order):
        if module not in entered:
            component: dict[str, None] = {}
            walk(module, users, component)
            if len(component) > 1:
                cycles.append(set(component))
    return cycles


def type_names() -> set[str]:
    """The names that two classes or type aliases share."""
    places = defaultdict(list)
    for module, tree in modules().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                places[node.name].append(module)
        for statement in tree.body:
            match statement:
                case ast.Assign(targets=[ast.Name(id=name)], value=value) if is_alias(name, value):
                    places[name].append(module)
    return {name for name, where in places.items() if len(where) > 1}


def is_alias(name: str, value: ast.expr) -> bool:
    """Whether a variable at the top of a module is a type: `Json = dict[str, Any]`, `YamlNode = yaml.Node`."""
    word = name.lstrip("_")
    is_type = isinstance(value, ast.Name | ast.Attribute | ast.Subscript | ast.BinOp)
    return word[:1].isupper() and not word.isupper() and is_type


def module_names() -> set[str]:
    """The names that two modules share. Only a command may be called like a package: cli/cluster.py runs cluster/.

    The folders of `edit/` do the same for two languages, and have the base of what the packages above do: their modules
    are known by both names.
    """
    places = defaultdict(list)
    for name in modules():
        package, _, own = name.rpartition(".")
        if package.startswith("edit."):
            own = name
        if name and not any(other.startswith(f"{name}.") for other in modules()):
            places[own].append(package)
    packages = {part for name in modules() for part in name.split(".")[:-1]}
    return {
        name
        for name, where in places.items()
        if len(where) > 1 or (name in packages and where[0] != "cli")
    }


def printing_modules() -> set[str]:
    return {
        module for module, tree in modules().items() if prints(tree) and layer(module) not in PRINTS
    }


def prints(tree: ast.Module) -> bool:
    return any(
        (isinstance(node, ast.Name) and node.id == "print")
        or (isinstance(node, ast.Attribute) and ast.unparse(node) == "sys.stdout")
        for node in ast.walk(tree)
    )


def test_imports_follow_the_table() -> None:
    assert violations() == {}


def test_no_module_imports_itself_by_way_of_others() -> None:
    assert import_cycles() == []


@pytest.mark.parametrize(
    ("code", "is_cycle"),
    [
        ("from arc_toolkit.kube.b import x", True),
        ("from arc_toolkit.kube import b", True),
        ("def f():\n    from arc_toolkit.kube.b import x", True),
        ("if TYPE_CHECKING:\n    from arc_toolkit.kube.b import x", False),
        ("from arc_toolkit.kube.d import x", False),
    ],
)
def test_a_cycle_is_noticed(monkeypatch: pytest.MonkeyPatch, code: str, is_cycle: bool) -> None:
    others = {
        "kube.b": "import arc_toolkit.kube.c",
        "kube.c": "def f():\n    from arc_toolkit.kube import a",
        "kube.d": "",
    }
    trees = {name: ast.parse(text) for name, text in {**others, "kube.a": code, "kube": ""}.items()}
    monkeypatch.setattr(f"{__name__}.modules", lambda: trees)
    assert import_cycles() == ([{"kube.a", "kube.b", "kube.c"}] if is_cycle else [])


def top_names(tree: ast.Module) -> set[str]:
    """The names that a module defines or imports at its top."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names |= {alias.asname or alias.name for alias in node.names}
    return names


def is_defined(name: str) -> bool:
    """Whether a dotted name below `arc_toolkit` is a module, or a name of one."""
    module, _, last = name.rpartition(".")
    return name in modules() or (module in modules() and last in top_names(modules()[module]))


def test_imports_inside_of_functions_exist() -> None:
    names = {name for tree in modules().values() for name in imports(tree)}
    ours = {name.removeprefix("arc_toolkit.") for name in names if name.startswith("arc_toolkit.")}
    # `import_module(f"arc_toolkit.cli.{name}")` is read up to its first field.
    assert {name for name in ours if not name.endswith(".") and not is_defined(name)} == set()
    assert is_defined("edit.yaml.nodes.YamlNode")
    assert not is_defined("edit.yaml.parts")
    assert not is_defined("edit.yaml.nodes.Node")


def test_every_package_has_a_row() -> None:
    packages = {name.partition(".")[0] for name in modules() if name} - {"cli"}
    assert packages <= set(ALLOWED)


@pytest.mark.parametrize("package", STANDARD_LIBRARY_ONLY)
def test_code_for_training_jobs_needs_the_standard_library_only(package: str) -> None:
    for module, tree in modules().items():
        if layer(module) == package and ".adapters" not in module:
            # Only a store with a URL needs more, and says so if it is missing.
            more = {"fsspec"} if module == "checkpoints.remote" else set()
            names = {name.partition(".")[0] for name in imports(tree)} - {"arc_toolkit", *more}
            assert names <= sys.stdlib_module_names, module


def test_the_map_knows_every_package() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    packages = {name.partition(".")[0] for name in modules() if "." in name}
    assert {name for name in packages if f"| `{name}/` |" not in page} == set()


def test_the_recipes_name_files_that_exist() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    paths = re.findall(r"`((?:arc_toolkit|tests|scripts|docs)/[^`\s]*)`", text)
    assert len(paths) > 15
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_only_the_command_line_prints() -> None:
    assert printing_modules() == set()


def test_no_class_or_alias_has_the_name_of_another() -> None:
    assert type_names() == set()


@pytest.mark.parametrize(
    "code", ["class Name: ...", "Name = dict[str, Any]", "Name = yaml.Node", "Name = int | None"]
)
def test_a_name_with_two_meanings_is_noticed(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    both = {"edit.a": ast.parse("class Name: ..."), "kube.b": ast.parse(code)}
    monkeypatch.setattr(f"{__name__}.modules", lambda: both)
    assert type_names() == {"Name"}


def test_no_module_name_twice() -> None:
    assert module_names() == set()


def vague_names(tree: ast.Module, package: str = "") -> set[str]:
    """Classes and variables whose names say nothing that a reader could search for."""
    vague = VAGUE_VARIABLES | (VAGUE_IN_CLEAN_PACKAGES if package in CLEAN_PACKAGES else set())
    classes = {node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    variables = {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    variables |= {
        node.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    return classes & VAGUE_CLASSES | variables & vague


def test_names_can_be_searched_for() -> None:
    assert {
        module: names
        for module, tree in modules().items()
        if (names := vague_names(tree, module.partition(".")[0]))
    } == {}
    assert vague_names(ast.parse("kept = 1"), "kube") == {"kept"}
    assert vague_names(ast.parse("class Spot: pass\ndef f(one):\n    found = one\n")) == {
        "Spot",
        "one",
        "found",
    }


@pytest.mark.parametrize(
    ("module", "code", "expected"),
    [
        ("edit.x", "from arc_toolkit.azureml.settings import Skipped", {("edit", "azureml")}),
        (
            "sizing.x",
            "def f():\n    from arc_toolkit.azureml import kinds",
            {("sizing", "azureml")},
        ),
        ("azureml.x", "import_module(f'arc_toolkit.sizing.{name}')", {("azureml", "sizing")}),
        (
            "azureml.x",
            "def f():\n    from arc_toolkit.migrate import sweep",
            {("azureml", "migrate")},
        ),
        ("sizing.x", "import kubernetes.client", {("sizing", "kubernetes")}),
        ("diagnosis.x", "from arc_toolkit.azure import scope", {("diagnosis", "azure")}),
        ("kube.x", "import argparse", {("kube", "argparse")}),
        (
            "diagnosis.read.sources.x",
            "from arc_toolkit.azure import scope\nimport azure.core",
            set(),
        ),
        ("placement.x", "from arc_toolkit.sizing import shares", set()),
        ("azureml.rules.x", "from arc_toolkit.azureml import kinds", set()),
        ("cluster.x", "import kubernetes", set()),
        ("cli.x", "import argparse\nfrom arc_toolkit.azureml import kinds", set()),
    ],
)
def test_the_table_is_enforced(
    monkeypatch: pytest.MonkeyPatch, module: str, code: str, expected: set[tuple[str, str]]
) -> None:
    monkeypatch.setattr(f"{__name__}.modules", lambda: {module: ast.parse(code)})
    assert violations().keys() == expected


@pytest.mark.parametrize("code", ["print('x')", "import sys\nsys.stdout.write('x')", "out = print"])
def test_printing_is_noticed(code: str) -> None:
    assert prints(ast.parse(code))
    assert not prints(ast.parse("console.out('x')"))

"""What a job runs, as far as files show it: the script of its command, what that imports, the
packages around it.

Another file of the code folder says nothing about a job: many jobs share a folder.
"""

from __future__ import annotations

import os
import re
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import yaml

from arc_toolkit.azureml.documents import Target, folder_of
from arc_toolkit.azureml.kinds import Role
from arc_toolkit.edit.yaml.nodes import YamlNode, get, pairs, text_of, walk

if TYPE_CHECKING:
    from arc_toolkit.azureml.references import ProjectFiles

# Where a command, or what is one in effect, is in each kind.
_COMMANDS: tuple[tuple[str, ...], ...] = (
    ("command",),
    ("task", "entry_script"),
    ("task", "program_arguments"),
    ("launcher", "additional_arguments"),
    ("parallel", "entry"),
    ("parallel", "args"),
)
_ENVIRONMENTS: tuple[tuple[str, ...], ...] = (("environment",), ("task", "environment"))
_CODES: tuple[tuple[str, ...], ...] = (("code",), ("task", "code"))

_MAX_REMEMBERED = 512
# Files of code that are read for one command.
_MAX_CODE_FILES = 200
_MAX_CODE_CHARS = 256 * 1024

_SCRIPT = re.compile(r"(?<![\w./$}-])([\w./-]+\.(?:py|sh|bash))(?![\w.])")
_MODULE = re.compile(r"(?<!\S)-m[ \t]+([A-Za-z_][\w.]*)")
_IMPORTS = re.compile(
    r"^[ \t]*(?:from[ \t]+([.\w]+)[ \t]+import[ \t]+(\([^)]*\)|[^\n#]+)|import[ \t]+([^\n#]+))",
    re.MULTILINE,
)
# Code that may run a framework without importing it: it loads a model, or trains with whatever is
# installed.
_HIDDEN_USE = re.compile(
    r"(?:joblib|pickle|dill)\.loads?\(|\bload_model\(|\bpyfunc\b|\bimport_module\(|"
    r"^[ \t]*(?:from|import)[ \t]+"
    r"(?:flaml|autogluon|pycaret|darts|sktime|treelite|hummingbird|azureml\.automl)\b",
    re.MULTILINE,
)


Framework = Literal["lightgbm", "faiss"]


@dataclass(frozen=True, slots=True)
class FrameworkEvidence:
    """One reason to believe that a job uses a framework: `lightgbm in conda file env.yml`."""

    what: Literal["lightgbm", "faiss", "dataloader", "workers"]
    where: str
    # For `workers`: how many.
    count: int = 0

    def __str__(self) -> str:
        if self.what == "workers":
            return f"num_workers {self.count} in {self.where}"
        return f"{'a DataLoader' if self.what == 'dataloader' else self.what} in {self.where}"


class EvidenceReader:
    """Looks for frameworks and DataLoader workers, and remembers what files say."""

    def __init__(self, files: ProjectFiles) -> None:
        self._files = files
        self._kept: OrderedDict[tuple[str, ...], tuple[FrameworkEvidence, ...]] = OrderedDict()
        self._decisive: dict[tuple[str, ...], bool] = {}

    def of_target(self, target: Target, path: str) -> tuple[FrameworkEvidence, ...]:
        """What a target itself, then the component it names, says about frameworks and workers."""
        evidence = list(
            self._of_node(target.node, path, target.kind.role == Role.SPEC, target.fields)
        )
        for inline in ("trial", "component"):
            if inline in target.fields:
                evidence += self._of_node(target.fields[inline][1], path)
        if target.reference and (document := self._files.load(target.reference)):
            root = document.root
            evidence += self._of_node(
                root.node, target.reference, root.kind.role == Role.SPEC, root.fields
            )
        return tuple(dict.fromkeys(evidence)) if evidence else ()

    def _of_node(
        self,
        node: YamlNode,
        path: str,
        is_spec: bool = False,
        own: Mapping[str, tuple[YamlNode, YamlNode]] | None = None,
    ) -> Iterator[FrameworkEvidence]:
        if not isinstance(node, yaml.MappingNode):
            return
        own = pairs(node) if own is None else own
        folder = folder_of(path)
        commands = [
            command
            for first, *rest in _COMMANDS
            if first in own and (command := text_of(get(own[first][1], *rest)))
        ]
        for command in commands:
            yield from evidence_in_command(command)
        # The snapshot of a v1.5 spec is the folder of the spec unless it says otherwise.
        code = "." if is_spec else None
        for first, *rest in _CODES:
            if first in own:
                code = text_of(get(own[first][1], *rest)) or code
        decisive = False
        if code is not None and commands and ":" not in code.removeprefix("file:"):
            root = os.path.normpath(os.path.join(folder, code.removeprefix("file:")))
            key = (root, *commands)
            yield from self._remember(key, lambda: self._of_code(root, commands, key))
            decisive = self._decisive.get(key, False)
        if not decisive:
            for first, *rest in _ENVIRONMENTS:
                if first in own and (environment := get(own[first][1], *rest)) is not None:
                    yield from self._of_environment(
                        environment, folder, (code or ".") if is_spec else ""
                    )

    # --- code -------------------------------------------------------------------------------------

    def _of_code(
        self, root: str, commands: list[str], key: tuple[str, ...]
    ) -> Iterator[FrameworkEvidence]:
        """The scripts that the commands name, and all that they import from the code folder.

        If all of it was read, nothing loads a model, and no framework is named, the code uses none,
        even if the packages of a shared environment have one.
        """
        folder = os.path.dirname(root) if root.endswith(".py") else root
        texts: dict[str, str | None] = {}
        names = [name for command in commands for name in _scripts(command)]
        paths = [os.path.normpath(os.path.join(folder, name)) for name in names]
        paths += [
            path
            for command in commands
            for module in _MODULE.findall(command)
            for path in _module_files([folder], module, ("__main__",))
        ]
        main = len(names)
        readable = sum(self._text(path, texts) is not None for path in paths[:main])
        hidden = False
        for path in paths:  # grows
            text = self._text(path, texts)
            if text is None:
                continue
            if not path.endswith(".py"):
                inner = [os.path.normpath(os.path.join(folder, name)) for name in _scripts(text)]
                paths += [path for path in inner if path not in texts]
                hidden = True
                continue
            has_word = "lightgbm" in text or "faiss" in text or "FAISS" in text
            hidden = hidden or has_word or _HIDDEN_USE.search(text) is not None
            if has_word or "DataLoader" in text:
                yield from evidence_in_code(text, os.path.relpath(path, os.path.dirname(folder)))
            if len(texts) < _MAX_CODE_FILES:
                paths += [name for name in _imported(text, path, folder) if name not in texts]
        self._decisive[key] = main > 0 and readable == main and not hidden

    def _text(self, path: str, texts: dict[str, str | None]) -> str | None:
        if path not in texts:
            text = self._files.read_text(path)
            texts[path] = None if text is None else text[:_MAX_CODE_CHARS]
        return texts[path]

    # --- packages ---------------------------------------------------------------------------------

    def _of_environment(
        self, environment: YamlNode, folder: str, snapshot: str
    ) -> Iterator[FrameworkEvidence]:
        if (name := text_of(environment)) is not None:
            if name.startswith("file:") or name.lower().endswith((".yml", ".yaml")):
                yield from self._of_file(folder, snapshot, name)
            else:
                yield from evidence_in_dependencies(name, f"environment {name}")
            return
        for place in (("image",), ("docker", "image"), ("name",)):
            if image := text_of(get(environment, *place)):
                yield from evidence_in_dependencies(image, f"{place[-1]} {image}")
        conda = get(environment, "conda")
        for holder, key in (
            (environment, "conda_file"),
            (conda, "conda_dependencies_file"),
            (conda, "pip_requirements_file"),
            (conda, "conda_dependencies"),
        ):
            value = get(holder, key)
            if (file := text_of(value)) is not None:
                yield from self._of_file(folder, snapshot, file)
            elif value is not None:
                words = "\n".join(text for part in walk((value,)) if (text := text_of(part)))
                yield from evidence_in_dependencies(words, "the conda dependencies")
        if (dockerfile := dockerfile_of(environment)) is not None:
            yield from self._of_file(folder, snapshot, dockerfile)

    def _of_file(self, folder: str, snapshot: str, written: str) -> tuple[FrameworkEvidence, ...]:
        path = self._files.in_snapshot(folder, snapshot, written)

        def read() -> Iterator[FrameworkEvidence]:
            yield from evidence_in_dependencies(
                self._files.read_text(path) or "", os.path.basename(path)
            )

        return self._remember((path,), read)

    def _remember(
        self, key: tuple[str, ...], find: Callable[[], Iterator[FrameworkEvidence]]
    ) -> tuple[FrameworkEvidence, ...]:
        if key not in self._kept:
            self._kept[key] = tuple(dict.fromkeys(find()))
            if len(self._kept) > _MAX_REMEMBERED:
                oldest, _ = self._kept.popitem(last=False)
                self._decisive.pop(oldest, None)
        return self._kept[key]


def dockerfile_of(environment: YamlNode) -> str | None:
    """The Dockerfile that an environment is built from, as written beside the file."""
    build = get(environment, "build")
    if build is not None and "path" in pairs(build):
        folder = (text_of(get(build, "path")) or ".").removeprefix("file:").rstrip("/")
        return f"{folder}/{text_of(get(build, 'dockerfile_path')) or 'Dockerfile'}"
    written = text_of(get(environment, "docker", "build", "dockerfile"))
    return written if written is not None and "\n" not in written else None


def _scripts(command: str) -> list[str]:
    return list(dict.fromkeys(_SCRIPT.findall(command)))


def _imported(text: str, path: str, root: str) -> Iterator[str]:
    """Where the modules that a file imports may be: beside it, or below the code folder."""
    folder = os.path.dirname(path)
    for module, names, plain in _IMPORTS.findall(text):
        if plain:
            for part in plain.split(","):
                yield from _module_files(
                    (folder, root), part.split()[0] if part.split() else "", ()
                )
            continue
        parts = tuple(
            part.split()[0]
            for part in names.strip("() \t\\").replace("\n", " ").split(",")
            if part.split()
        )
        level = len(module) - len(module.lstrip("."))
        folders: tuple[str, ...] = (folder, root)
        if level:
            folders = (os.path.normpath(os.path.join(folder, *[".."] * (level - 1))),)
        yield from _module_files(folders, module.lstrip("."), parts)


def _module_files(
    folders: tuple[str, ...] | list[str], module: str, names: tuple[str, ...]
) -> Iterator[str]:
    """The files that `import module` or `from module import names` may read."""
    for folder in dict.fromkeys(folders):
        base = os.path.join(folder, *module.split(".")) if module else folder
        if module:
            yield f"{base}.py"
        yield os.path.join(base, "__init__.py")
        for name in names:
            if name.isidentifier():
                yield os.path.join(base, f"{name}.py")


# --- words of texts -------------------------------------------------------------------------------


_WORD = re.compile(r"(?i)(?<![a-z0-9])(lightgbm|faiss)(?![a-z])")
# `import lightgbm`, `import a, faiss`, `from synapse.ml.lightgbm import x`, `from mlflow import
# lightgbm`, `from langchain.vectorstores import FAISS`
_IMPORT = re.compile(
    r"(?m)^[ \t]*(?:import|from)[ \t]+(?:[^\n#]*[., \t])?(lightgbm|faiss|FAISS)\b(?![ \t]*=)"
)
_LOADER = re.compile(r"(?<!\w)DataLoader[ \t]*\(")
_WORKERS_CODE = re.compile(r"(?<!\w)num_workers[ \t]*=[ \t]*(\d{1,4})(?!\w)")
_WORKERS_COMMAND = re.compile(
    r"--(?:num[-_]workers|dataloader[-_](?:num[-_])?workers|workers)(?:[ \t]+|=)(\d{1,4})(?!\w)"
)


def evidence_in_command(command: str, where: str = "the command") -> list[FrameworkEvidence]:
    """From a command line: the frameworks it names and `--num_workers N`."""
    evidence = _words_found(command, where)
    if "workers" in command and (number := _WORKERS_COMMAND.search(command)):
        evidence.append(FrameworkEvidence("workers", where, int(number[1])))
    return evidence


def evidence_in_dependencies(text: str, where: str) -> list[FrameworkEvidence]:
    """From a conda file, pip requirements, an image name or a Dockerfile; comments do not count."""
    if not _mentions(text):
        return []
    return _words_found("\n".join(line.partition("#")[0] for line in text.splitlines()), where)


def evidence_in_code(text: str, where: str) -> list[FrameworkEvidence]:
    """From Python source: imports, and a PyTorch DataLoader with its workers."""
    evidence = [
        FrameworkEvidence(_framework(name), where) for name in dict.fromkeys(_IMPORT.findall(text))
    ]
    if "torch" in text and _LOADER.search(text):
        evidence.append(FrameworkEvidence("dataloader", where))
        if number := _WORKERS_CODE.search(text):
            evidence.append(FrameworkEvidence("workers", where, int(number[1])))
    return evidence


def _mentions(text: str) -> bool:
    """Cheap, and enough for nearly every text: the expressions run only on the rest."""
    lower = text.lower()
    return "lightgbm" in lower or "faiss" in lower


def _words_found(text: str, where: str) -> list[FrameworkEvidence]:
    if not _mentions(text):
        return []
    return [
        FrameworkEvidence(_framework(name), where)
        for name in dict.fromkeys(map(str.lower, _WORD.findall(text)))
    ]


def _framework(name: str) -> Framework:
    return "faiss" if name.lower() == "faiss" else "lightgbm"

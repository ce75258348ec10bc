"""What a job runs, as far as files show it: the script of its command, what that imports, the
packages around it.

Another file of the code folder says nothing about a job: many jobs share a folder.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

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
# Files of dependencies, or what they would say, below an environment.
_DEPENDENCIES: tuple[tuple[str, ...], ...] = (
    ("conda_file",),
    ("conda", "conda_dependencies_file"),
    ("conda", "pip_requirements_file"),
    ("conda", "conda_dependencies"),
)

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
# The names in `a as b, c`.
_IMPORTED_NAME = re.compile(r"(?:^|[,(])\s*([\w.]+)")
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
        # Many jobs share their code and their environment.
        self._in_code = lru_cache(_MAX_REMEMBERED)(self._read_code)
        self._in_file = lru_cache(_MAX_REMEMBERED)(self._read_dependencies)

    def of_target(self, target: Target, path: str) -> tuple[FrameworkEvidence, ...]:
        """What a target itself, then the component it names, says about frameworks and workers."""
        evidence = [*self._of_node(target.node, path, target.kind.role == Role.SPEC)]
        for inline in ("trial", "component"):
            if inline in target.fields:
                evidence += self._of_node(target.fields[inline][1], path)
        if target.reference and (document := self._files.load(target.reference)):
            root = document.root
            evidence += self._of_node(root.node, target.reference, root.kind.role == Role.SPEC)
        return tuple(dict.fromkeys(evidence))

    def _of_node(
        self, node: YamlNode, path: str, is_spec: bool = False
    ) -> Iterator[FrameworkEvidence]:
        fields = pairs(node)
        commands = [
            command
            for name, *rest in _COMMANDS
            if name in fields and (command := text_of(get(fields[name][1], *rest)))
        ]
        for command in commands:
            yield from evidence_in_command(command)
        # The snapshot of a v1.5 spec is the folder of the spec unless it says otherwise.
        code = "." if is_spec else None
        code = text_of(get(node, "task", "code")) or text_of(get(node, "code")) or code
        uses_none = False
        if code is not None and commands and ":" not in code.removeprefix("file:"):
            root = os.path.normpath(os.path.join(folder_of(path), code.removeprefix("file:")))
            evidence, uses_none = self._in_code(root, tuple(commands))
            yield from evidence
        snapshot = (code or ".") if is_spec else ""
        for holder in (node, get(node, "task")) if not uses_none else ():
            if (environment := get(holder, "environment")) is not None:
                yield from self._of_environment(environment, folder_of(path), snapshot)

    # --- code -------------------------------------------------------------------------------------

    def _read_code(
        self, root: str, commands: tuple[str, ...]
    ) -> tuple[tuple[FrameworkEvidence, ...], bool]:
        """The scripts that the commands name, and all that they import from the code folder.

        If all of it was read, nothing loads a model, and no framework is named, the code uses none
        (the second value), even if the packages of a shared environment have one.
        """
        folder = os.path.dirname(root) if root.endswith(".py") else root
        evidence: list[FrameworkEvidence] = []
        visited: set[str] = set()
        scripts = [name for command in commands for name in _scripts(command, folder)]
        modules = [name for command in commands for name in _MODULE.findall(command)]
        paths = scripts + [
            path for name in modules for path in _module_files([folder], name, ["__main__"])
        ]
        uses_none = bool(scripts)
        for path in paths:  # grows
            if path in visited:
                continue
            visited.add(path)
            text = self._files.read_text(path)
            if text is None:
                uses_none = uses_none and path not in scripts
            elif not path.endswith(".py"):
                paths += _scripts(text, folder)
                uses_none = False
            else:
                text = text[:_MAX_CODE_CHARS]
                has_word = "lightgbm" in text or "faiss" in text or "FAISS" in text
                uses_none = uses_none and not has_word and not _HIDDEN_USE.search(text)
                if has_word or "DataLoader" in text:
                    where = os.path.relpath(path, os.path.dirname(folder))
                    evidence += evidence_in_code(text, where)
                if len(visited) < _MAX_CODE_FILES:
                    paths += _imported(text, path, folder)
        return tuple(evidence), uses_none

    # --- packages ---------------------------------------------------------------------------------

    def _of_environment(
        self, environment: YamlNode, folder: str, snapshot: str
    ) -> Iterator[FrameworkEvidence]:
        files = []
        if (name := text_of(environment)) is not None:
            if name.startswith("file:") or name.lower().endswith((".yml", ".yaml")):
                files.append(name)
            else:
                yield from evidence_in_dependencies(name, f"environment {name}")
        for place in (("image",), ("docker", "image"), ("name",)):
            if image := text_of(get(environment, *place)):
                yield from evidence_in_dependencies(image, f"{place[-1]} {image}")
        for keys in _DEPENDENCIES:
            value = get(environment, *keys)
            if (file := text_of(value)) is not None:
                files.append(file)
            elif value is not None:
                words = "\n".join(text for part in walk((value,)) if (text := text_of(part)))
                yield from evidence_in_dependencies(words, "the conda dependencies")
        if (dockerfile := dockerfile_of(environment)) is not None:
            files.append(dockerfile)
        for file in files:
            yield from self._in_file(self._files.in_snapshot(folder, snapshot, file))

    def _read_dependencies(self, path: str) -> Sequence[FrameworkEvidence]:
        text = self._files.read_text(path) or ""
        return evidence_in_dependencies(text, os.path.basename(path))


def dockerfile_of(environment: YamlNode) -> str | None:
    """The Dockerfile that an environment is built from, as written beside the file."""
    build = get(environment, "build")
    if build is not None and "path" in pairs(build):
        folder = (text_of(get(build, "path")) or ".").removeprefix("file:").rstrip("/")
        return f"{folder}/{text_of(get(build, 'dockerfile_path')) or 'Dockerfile'}"
    written = text_of(get(environment, "docker", "build", "dockerfile"))
    return written if written is not None and "\n" not in written else None


def _scripts(command: str, folder: str) -> list[str]:
    return [os.path.normpath(os.path.join(folder, name)) for name in _SCRIPT.findall(command)]


def _imported(text: str, path: str, root: str) -> Iterator[str]:
    """Where the modules that a file imports may be: beside it, or below the code folder."""
    beside = os.path.dirname(path)
    for module, names, modules in _IMPORTS.findall(text):
        for name in _IMPORTED_NAME.findall(modules):
            yield from _module_files([beside, root], name)
        if module:
            level = len(module) - len(module.lstrip("."))
            above = os.path.normpath(os.path.join(beside, *[".."] * (level - 1)))
            folders = [above] if level else [beside, root]
            yield from _module_files(folders, module.lstrip("."), _IMPORTED_NAME.findall(names))


def _module_files(folders: list[str], module: str, names: Sequence[str] = ()) -> Iterator[str]:
    """The files that `import module` or `from module import names` may read."""
    for folder in folders:
        base = os.path.join(folder, *module.split(".")) if module else folder
        if module:
            yield f"{base}.py"
        yield from (os.path.join(base, f"{name}.py") for name in ("__init__", *names))


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
    evidence = _named_frameworks(_WORD, command, where)
    if "workers" in command and (number := _WORKERS_COMMAND.search(command)):
        evidence.append(FrameworkEvidence("workers", where, int(number[1])))
    return evidence


def evidence_in_dependencies(text: str, where: str) -> list[FrameworkEvidence]:
    """From a conda file, pip requirements, an image name or a Dockerfile; comments do not count."""
    return _named_frameworks(_WORD, re.sub("#.*", "", text), where)


def evidence_in_code(text: str, where: str) -> list[FrameworkEvidence]:
    """From Python source: imports, and a PyTorch DataLoader with its workers."""
    evidence = _named_frameworks(_IMPORT, text, where)
    if "torch" in text and _LOADER.search(text):
        evidence.append(FrameworkEvidence("dataloader", where))
        if number := _WORKERS_CODE.search(text):
            evidence.append(FrameworkEvidence("workers", where, int(number[1])))
    return evidence


def _named_frameworks(pattern: re.Pattern[str], text: str, where: str) -> list[FrameworkEvidence]:
    names = dict.fromkeys(map(str.lower, pattern.findall(text)))
    return [FrameworkEvidence("faiss" if name == "faiss" else "lightgbm", where) for name in names]

"""What the files of a run say about each other: who uses a component, what a component holds, what its code imports.

Reads on demand, through one function, and keeps only a few parsed files at a time, so that memory stays flat.
"""

from __future__ import annotations

import os
import re
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import yaml

from arc_toolkit.azureml.documents import Document, SourceFile, Target, folder_of, local_reference, parse
from arc_toolkit.azureml.kinds import Family, Role, TargetKind
from arc_toolkit.azureml.threads import (
    FrameworkEvidence,
    evidence_in_code,
    evidence_in_command,
    evidence_in_dependencies,
)
from arc_toolkit.edit.edits import Unreadable
from arc_toolkit.edit.yaml_nodes import MAX_BYTES, Node, get, pairs, text_of, walk

Read = Callable[[str], bytes]

_KEPT_FILES = 32
_KEPT_EVIDENCE = 512
# A code folder is looked through as far as that; what matters is near the top.
_CODE_FILES = 200
_CODE_BYTES = 256 * 1024

_YAML_USE = re.compile(rb"""(?<![\w.])(component|trial)["']?[ \t]*:[ \t]*["']?((?:file:)?[^\s"'#{},]+\.ya?ml)""")
_PYTHON_USE = re.compile(rb"""["']([^"'\n]+\.ya?ml)["']""")
# Where a command, or what stands for one, is in each kind.
_COMMANDS: tuple[tuple[str, ...], ...] = (
    ("command",),
    ("task", "program_arguments"),
    ("launcher", "additional_arguments"),
    ("parallel", "args"),
)
_ENVIRONMENTS: tuple[tuple[str, ...], ...] = (("environment",), ("task", "environment"))
_CODES: tuple[tuple[str, ...], ...] = (("code",), ("task", "code"))


class Library:
    """The files around those that are patched."""

    def __init__(self, read: Read) -> None:
        self.read = read
        self._files: OrderedDict[str, SourceFile | None] = OrderedDict()
        self._loading: set[str] = set()
        self._evidence: OrderedDict[tuple[str, str], tuple[FrameworkEvidence, ...]] = OrderedDict()
        # What the documents of the run have, for options that name a step or a kind.
        self.steps: set[str] = set()
        self.families: set[str] = set()
        self._missing: dict[str, bool] = {}
        # The files of the run, by their full paths.
        self._given: set[str] = set()
        # path -> how it is used: component, trial or python
        self._uses: dict[str, set[str]] = {}
        # trial file -> the files whose sweeps name it
        self._sweeps: dict[str, list[str]] = {}

    # --- who uses what -------------------------------------------------------------------------------------

    def note_uses(self, path: str, data: bytes) -> None:
        """Take in the references of one file, by their text alone: this runs before any file is parsed."""
        self._given.add(os.path.abspath(path))
        python = path.endswith((".py", ".ipynb"))
        if python and not (b"load_component" in data or b"from_yaml" in data or b"Component" in data):
            return
        if b".yml" not in data and b".yaml" not in data:
            return
        pattern = _PYTHON_USE if python else _YAML_USE
        for match in pattern.finditer(data):
            if not python and b"#" in data[data.rfind(b"\n", 0, match.start()) + 1 : match.start()]:
                continue  # in a comment
            how, raw = ("python", match[1]) if python else (match[1].decode(), match[2])
            written = raw.decode("utf-8", errors="replace").replace("\\", "/")
            if reference := local_reference(written, path):
                self._uses.setdefault(reference, set()).add(how)
                if how == "trial":
                    self._sweeps.setdefault(reference, []).append(path)

    def is_given(self, path: str) -> bool:
        """Whether a file, by its full path, is among those of the run."""
        return path in self._given

    def uses(self, path: str) -> set[str]:
        """How other files use this one: component, trial, python; empty where nothing does."""
        return self._uses.get(os.path.abspath(path), set())

    def sweeps(self, path: str) -> Iterator[tuple[SourceFile, Target]]:
        """The v2 sweeps that name this file as their trial, with the files that they are in."""
        name = os.path.abspath(path)
        for user in dict.fromkeys(self._sweeps.get(name, ())):
            try:
                file = self.parse(user, self.read(os.path.abspath(user)))
            except (OSError, Unreadable):
                continue
            for target in (target for document in file.documents for target in document.targets):
                kind = target.kind
                if kind.family == Family.SWEEP and kind.role != Role.SPEC and target.reference == name:
                    yield file, target

    # --- other files ---------------------------------------------------------------------------------------

    def parse(self, path: str, data: bytes) -> SourceFile:
        """Parse a file and remember it for those that refer to it."""
        name = os.path.abspath(path)
        kept = self._files.get(name)
        if kept is not None and kept.data == data:
            # `load` parses by the full path: findings name the path that was given.
            return kept if kept.path == path else replace(kept, path=path)
        self._loading.add(name)
        try:
            parsed = parse(path, data, self.kind_of)
        finally:
            self._loading.discard(name)
        # Nothing refers to a job or a pipeline job; keeping them would push out what is referred to.
        if any(document.root.kind.role != Role.JOB for document in parsed.documents):
            self._keep(name, parsed)
        return parsed

    def load(self, path: str) -> Document | None:
        """The document of a component file, by its full path; None where there is none that can be used."""
        if path in self._loading:  # two files that refer to each other
            return None
        if path not in self._files:
            try:
                data = self.read(path)
                return self.parse(path, data).documents[0] if len(data) <= MAX_BYTES else None
            except (OSError, ValueError, Unreadable):  # ValueError: a null byte in the name
                self._keep(path, None)
        self._files.move_to_end(path)
        file = self._files[path]
        return file.documents[0] if file else None

    def missing(self, path: str) -> bool:
        """Whether there is no file at a full path."""
        if path not in self._missing:
            self._missing[path] = False
            if self._files.get(path) is None:
                try:
                    self.read(path)
                except FileNotFoundError:
                    self._missing[path] = True
                except OSError:  # there, and not readable
                    pass
        return self._missing[path]

    def kind_of(self, path: str) -> TargetKind | None:
        document = self.load(path)
        return document.root.kind if document else None

    def referenced(self, target: Target) -> Document | None:
        """The component (or trial) file that a target names."""
        return self.load(target.reference) if target.reference else None

    def _keep(self, name: str, file: SourceFile | None) -> None:
        self._files[name] = file
        self._files.move_to_end(name)
        if len(self._files) > _KEPT_FILES:
            self._files.popitem(last=False)

    # --- evidence ------------------------------------------------------------------------------------------

    def evidence(self, target: Target, path: str) -> tuple[FrameworkEvidence, ...]:
        """What a target itself, then the component it names, says about frameworks and workers."""
        evidence = list(
            self._of_node(target.node, path, code_default=target.kind.role == Role.SPEC, own=target.own)
        )
        for inline in ("trial", "component"):
            if inline in target.own:
                evidence += self._of_node(target.own[inline][1], path)
        if target.reference:
            evidence += self._remember("component", target.reference, self._of_reference)
        return tuple(dict.fromkeys(evidence)) if evidence else ()

    def _of_reference(self, path: str) -> Iterator[FrameworkEvidence]:
        if document := self.load(path):
            root = document.root
            yield from self._of_node(root.node, path, code_default=root.kind.role == Role.SPEC)

    def _of_node(
        self, node: Node, path: str, code_default: bool = False, own: Mapping[str, tuple[Node, Node]] | None = None
    ) -> Iterator[FrameworkEvidence]:
        if not isinstance(node, yaml.MappingNode):
            return
        own = pairs(node) if own is None else own
        folder = folder_of(path)
        code = "." if code_default else None
        for first, *rest in _COMMANDS:
            if first in own and (command := text_of(get(own[first][1], *rest))):
                yield from evidence_in_command(command)
        for first, *rest in _ENVIRONMENTS:
            if first in own and (environment := get(own[first][1], *rest)) is not None:
                yield from self._of_environment(environment, folder)
        for first, *rest in _CODES:
            if first in own:
                code = text_of(get(own[first][1], *rest)) or code
        if code is not None and ":" not in code.removeprefix("file:"):
            path = os.path.normpath(os.path.join(folder, code.removeprefix("file:")))
            yield from self._remember("code", path, self._read_code)

    def _of_environment(self, environment: Node, folder: str) -> Iterator[FrameworkEvidence]:
        if (name := text_of(environment)) is not None:
            if name.startswith("file:") or name.lower().endswith((".yml", ".yaml")):
                yield from self._of_file(folder, name)
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
                yield from self._of_file(folder, file)
            elif value is not None:
                words = "\n".join(text for part in walk((value,)) if (text := text_of(part)))
                yield from evidence_in_dependencies(words, "the conda dependencies")
        if (dockerfile := dockerfile_of(environment)) is not None:
            yield from self._of_file(folder, dockerfile)

    def _of_file(self, folder: str, written: str) -> tuple[FrameworkEvidence, ...]:
        path = os.path.normpath(os.path.join(folder, written.removeprefix("file:")))
        return self._remember("file", path, self._read_dependencies)

    def _read_dependencies(self, path: str) -> Iterator[FrameworkEvidence]:
        yield from evidence_in_dependencies(self.read_text(path) or "", os.path.basename(path))

    def _read_code(self, path: str) -> Iterator[FrameworkEvidence]:
        for file in _python_files(path):
            try:
                data = self.read(file)
            except OSError:
                continue
            if b"lightgbm" in data or b"faiss" in data or b"DataLoader" in data:
                text = data[:_CODE_BYTES].decode("utf-8", errors="replace")
                yield from evidence_in_code(text, os.path.relpath(file, os.path.dirname(path)))

    def _remember(
        self, what: str, path: str, find: Callable[[str], Iterator[FrameworkEvidence]]
    ) -> tuple[FrameworkEvidence, ...]:
        key = (what, path)
        if key not in self._evidence:
            self._evidence[key] = tuple(dict.fromkeys(find(path)))
            if len(self._evidence) > _KEPT_EVIDENCE:
                self._evidence.popitem(last=False)
        return self._evidence[key]

    def read_text(self, path: str) -> str | None:
        """A small file beside the documents (a Dockerfile); None where it cannot be read."""
        try:
            return self.read(path)[:MAX_BYTES].decode("utf-8", errors="replace")
        except OSError:
            return None


def dockerfile_of(environment: Node) -> str | None:
    """The Dockerfile that an environment is built from, as written beside the file."""
    build = get(environment, "build")
    if build is not None and "path" in pairs(build):
        folder = text_of(get(build, "path")) or "."
        return (
            f"{folder.removeprefix('file:').rstrip('/')}/{text_of(get(build, 'dockerfile_path')) or 'Dockerfile'}"
        )
    written = text_of(get(environment, "docker", "build", "dockerfile"))
    return written if written is not None and "\n" not in written else None


def _python_files(path: str) -> Iterator[str]:
    if path.endswith(".py"):
        yield path
        return
    stack, count = [path], 0
    while stack:
        try:
            with os.scandir(stack.pop()) as listing:
                entries = sorted(listing, key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in entries:
            if entry.name.endswith(".py"):
                yield entry.path
                count += 1
                if count >= _CODE_FILES:
                    return
            elif entry.is_dir(follow_symlinks=False) and not entry.name.startswith((".", "__pycache__")):
                stack.append(entry.path)

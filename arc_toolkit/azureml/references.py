"""What the files of a run say about each other: who uses a component, and what a component holds.

Reads on demand, through one function, and keeps only a few parsed files at a time, so that memory
stays flat.
"""

from __future__ import annotations

import os
import re
from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property

from arc_toolkit.azureml.documents import (
    Document,
    SourceFile,
    Target,
    folder_of,
    full_path,
    local_reference,
    parse,
)
from arc_toolkit.azureml.evidence import EvidenceReader
from arc_toolkit.azureml.kinds import Family, Role, TargetKind
from arc_toolkit.edit.files.discover import CODE_ENDINGS
from arc_toolkit.edit.files.edits import Unreadable
from arc_toolkit.edit.yaml.nodes import MAX_BYTES

_MAX_PARSED_FILES = 32

# `component: ./train.yml`, `{"trial": "azureml:train:1"}`
_USE = re.compile(rb"""(?<![\w.])(component|trial)["']?[ \t]*:[ \t]*["']?([^\s"'#{},]+)""")
# The name or version of a component file: plain keys at the start of a line.
_NAME = re.compile(rb"""^(name|version):[ \t]*["']?([\w.+-]+)["']?[ \t]*(?:\#.*)?\r?$""", re.M)
# azureml:train:1, azureml:train@latest, azureml://registries/r/components/train/versions/1
_REGISTERED = re.compile(
    r"azureml:(?://registries/[^/]+/components/)?([\w.-]+)"
    r"(?:(?::|/versions/)([\w.-]+)|@[\w-]+|/labels/[\w-]+)?"
)
# In code: the last part of "components/train.yml". It is empty or a pattern in "*.yml",
# f"{name}.yml" and name + ".yml", whose names are made while the code runs.
_CODE_FILE = re.compile(rb"""(?<![\w. %*-])([\w. %*-]*\.ya?ml)\\?["']""")
_MADE_NAME = re.compile(r"\.ya?ml|.*[%*].*")
# A component of the workspace that code asks for by its name.
_CODE_CALL = re.compile(rb"(?:components?\.get|load_component|Component\.load)\s*\(([^()]{1,300})")
_CODE_NAME = re.compile(rb"""["']((?:azureml:)?[\w.-]+(?::[\w.-]+)?)\\?["']""")


class ProjectFiles:
    """The files around those that are patched."""

    def __init__(self, read: Callable[[str], bytes]) -> None:
        for remembered in (full_path, folder_of, local_reference):
            remembered.cache_clear()
        self.read = read
        self._files: OrderedDict[str, SourceFile | None] = OrderedDict()
        self._loading: set[str] = set()
        # The files of the run: full path -> the path that was given.
        self._given: dict[str, str] = {}
        # File, or name of a registered component -> how it is used (component, trial or python),
        # the version if there is one, and the YAML file or nothing; in order.
        self._uses: dict[str, dict[tuple[str, str, str], None]] = {}
        # The name and version of a component file, and the files of a name.
        self._names: dict[str, tuple[str, str]] = {}
        self._named_files: dict[str, list[str]] = {}
        # The names of YAML files in code, which may run in another folder.
        self._files_in_code: set[str] = set()
        # The folders around code that loads components by names which are not known: it may use
        # any of them.
        self._open_folders: set[str] = set()

    @cached_property
    def evidence(self) -> EvidenceReader:
        """What targets say about frameworks and workers."""
        return EvidenceReader(self)

    # --- who uses what ----------------------------------------------------------------------------

    def note_uses(self, path: str, data: bytes) -> None:
        """Take in the references of one file, by their text alone: this runs before any file is
        parsed.

        Only a filter for `users`, which reads the files that it names. Parsing every file here
        would take as long as all rules; tests/azureml/test_references.py compares.
        """
        full = full_path(path)
        self._given[full] = path
        if path.endswith(CODE_ENDINGS):
            self._note_code(path, data)
            return
        for match in _USE.finditer(data) if b"component" in data or b"trial" in data else ():
            line_start = data.rfind(b"\n", 0, match.start()) + 1
            if b"#" not in data[line_start : match.start()]:  # not in a comment
                self._note_use(_text(match[1]), _text(match[2]), path)
        if b"type:" in data or b"$schema" in data:
            fields = {_text(key): _text(value) for key, value in reversed(_NAME.findall(data))}
            if name := fields.get("name"):
                self._names[full] = name, fields.get("version", "")
                self._named_files.setdefault(name, []).append(full)

    def _note_use(self, how: str, written: str, path: str) -> None:
        if registered := _REGISTERED.fullmatch(written):
            self._uses.setdefault(registered[1], {})[how, registered[2] or "", path] = None
        elif reference := local_reference(written, path):
            self._uses.setdefault(reference, {})[how, "", path] = None

    def _note_code(self, path: str, data: bytes) -> None:
        if not any(word in data for word in (b"omponent", b"from_yaml")):
            return
        files = {_text(name) for name in _CODE_FILE.findall(data)}
        self._files_in_code |= files
        if b"load_component" in data and (not files or any(map(_MADE_NAME.fullmatch, files))):
            self._open_folders.add(os.path.dirname(folder_of(path)) + os.sep)
        for call in _CODE_CALL.finditer(data):
            for name in _CODE_NAME.findall(call[1]):
                name, _, version = _text(name).removeprefix("azureml:").partition(":")
                self._uses.setdefault(name, {})["python", version, ""] = None

    def given_path(self, path: str) -> str:
        """The path by which a file, by its full path, is among those of the run."""
        return self._given.get(path, path)

    def is_given(self, path: str) -> bool:
        """Whether a file, by its full path, is among those of the run."""
        return path in self._given

    def uses(self, path: str) -> set[str]:
        """How other files use this one: component, trial, python, or another version; empty where
        nothing does.
        """
        full = full_path(path)
        uses = {how for how, _, _ in self._uses.get(full, ())}
        name, version = self._names.get(full, ("", ""))
        for how, wanted, _ in self._uses.get(name, ()):
            uses.add(how if _fits(wanted, version) else "another version")
        if os.path.basename(full) in self._files_in_code:
            uses.add("python")
        if not uses and any(full.startswith(folder) for folder in self._open_folders):
            uses.add("python")
        return uses

    def users(self, path: str, family: Family) -> Iterator[tuple[SourceFile, Target]]:
        """The v2 sweeps with this file as their trial, or the steps with this pipeline, and the
        files they are in.
        """
        full = full_path(path)
        name, _ = self._names.get(full, ("", ""))
        uses = (*self._uses.get(full, ()), *self._uses.get(name, ()))
        for user in dict.fromkeys(user for _, _, user in uses if user):
            try:
                file = self.parse(user, self.read(full_path(user)))
            except (OSError, Unreadable):
                continue
            for target in (target for document in file.documents for target in document.targets):
                kind = target.kind
                if kind.family == family and kind.role != Role.SPEC and target.reference == full:
                    yield file, target

    # --- other files ------------------------------------------------------------------------------

    def find(self, written: str | None, path: str, snapshot: str = "") -> str | None:
        """The file that a reference in `path` means: by its path, or by the name of a component
        that is given too.

        In a v1.5 spec paths start from the snapshot folder (`code`).
        """
        if written is None:
            return None
        if registered := _REGISTERED.fullmatch(written):
            return self._registered(registered[1], registered[2] or "", path)
        reference = local_reference(written, path)
        if reference is not None and snapshot:
            return self.in_snapshot(folder_of(path), snapshot, written)
        return reference

    def _registered(self, name: str, version: str, user: str) -> str | None:
        """The given file with the name and version of a registered component, if there is just one."""
        named = self._named_files.get(name, ())
        files = [full for full in named if _fits(version, self._names[full][1])]
        if len(files) != 1 or files[0] == full_path(user):
            return None
        kind = self.kind_of(files[0])
        return files[0] if kind is not None and kind.role in (Role.COMPONENT, Role.SPEC) else None

    def in_snapshot(self, folder: str, snapshot: str, written: str) -> str:
        """The full path of a file that a v1.5 spec names: below its snapshot folder, else beside
        the spec.
        """
        written = written.removeprefix("file:")
        beside = os.path.normpath(os.path.join(folder, written))
        below = os.path.normpath(os.path.join(folder, snapshot.removeprefix("file:"), written))
        return beside if below == beside or self.missing(below) else below

    def parse(self, path: str, data: bytes) -> SourceFile:
        """Parse a file and remember it for those that refer to it."""
        name = full_path(path)
        kept = self._files.get(name)
        if kept is not None and kept.data == data:
            # `load` parses by the full path: findings name the path that was given.
            return kept if kept.path == path else replace(kept, path=path)
        self._loading.add(name)
        try:
            parsed = parse(path, data, self)
        finally:
            self._loading.discard(name)
        # Nothing refers to a job or a pipeline job; keeping them would push out what is referred
        # to.
        if any(document.root.kind.role != Role.JOB for document in parsed.documents):
            self._keep(name, parsed)
        return parsed

    def load(self, path: str) -> Document | None:
        """The document of a component file, by its full path; None where there is none that can be
        used.
        """
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
        """Whether there is nothing at a full path."""
        try:
            self.read(path)
        except FileNotFoundError:
            return True
        except (OSError, ValueError):  # there, and not readable; a null byte in the name
            pass
        return False

    def missing_folder(self, path: str) -> bool:
        """Whether there is neither a folder nor a file at a full path."""
        below = path.rstrip(os.sep) + os.sep
        return self.missing(path) and not any(name.startswith(below) for name in self._given)

    def kind_of(self, path: str) -> TargetKind | None:
        document = self.load(path)
        return document.root.kind if document else None

    def referenced(self, target: Target) -> Document | None:
        """The component (or trial) file that a target names."""
        return self.load(target.reference) if target.reference else None

    def _keep(self, name: str, file: SourceFile | None) -> None:
        self._files[name] = file
        self._files.move_to_end(name)
        if len(self._files) > _MAX_PARSED_FILES:
            self._files.popitem(last=False)

    def read_text(self, path: str) -> str | None:
        """A small file beside the documents (a Dockerfile); None where it cannot be read."""
        try:
            return self.read(path)[:MAX_BYTES].decode("utf-8", errors="replace")
        except (OSError, ValueError):
            return None


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", errors="replace").replace("\\", "/")


def _fits(wanted: str, version: str) -> bool:
    """Whether a file of this version may be what is wanted; without a version it may be any."""
    return not wanted or not version or wanted == version

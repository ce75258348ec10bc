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

from arc_toolkit.azureml.documents import (
    Document,
    SourceFile,
    Target,
    folder_of,
    full_path,
    local_reference,
    parse,
)
from arc_toolkit.azureml.evidence import EvidenceReader, FrameworkEvidence
from arc_toolkit.azureml.kinds import Family, Role, TargetKind
from arc_toolkit.edit.files.discover import CODE_ENDINGS
from arc_toolkit.edit.files.edits import Unreadable
from arc_toolkit.edit.yaml.nodes import MAX_BYTES

Read = Callable[[str], bytes]

_MAX_PARSED_FILES = 32

# One expression per key, each with its word in front, which is what `re` looks for first.
_YAML_USES = tuple(
    (
        how,
        re.compile(
            rb"""%s(?<![\w.]%s)["']?[ \t]*:[ \t]*["']?([^\s"'#{},]+)"""
            % (how.encode(), how.encode())
        ),
    )
    for how in ("component", "trial")
)
# The name and the version of a component file: plain keys at the start of a line.
_VALUE = re.compile(rb"""[ \t]*["']?([\w.+-]+)["']?[ \t]*(?:\#.*)?\r?$""", re.MULTILINE)
# "train.yml", f"{folder}/train.yml", join(folder, "components", "train.yml"),
# folder / "components" / "train.yml"
_PYTHON_FILE = re.compile(rb"""["']([^"'\n]*?)([^"'\n/\\]+\.ya?ml)\\?["']""")
_JOINED = re.compile(rb"""(?:["'][\w. /-]{1,200}\\?["']\s{0,40}[,/]\s{0,40}\\?){1,9}\Z""")
_JOINED_BYTES = 300
_QUOTED = re.compile(rb"""["']([\w. /-]+)\\?["']""")
# A file name that is put together while the code runs: f"{name}.yml", name + ".yml", glob("*.yml").
_MADE_NAME = re.compile(rb"""[}*"']\.ya?ml\\?["']|%s[\w.-]*\.ya?ml""")
# A component of the workspace that code asks for by its name.
_PYTHON_CALL = re.compile(
    rb"(?:components?\.get|load_component|Component\.load)\s*\(([^()]{1,300})"
)
_PYTHON_NAME = re.compile(rb"""["']((?:azureml:)?[\w.-]+(?::[\w.-]+)?)\\?["']""")
# azureml:train:1, azureml:train@latest, azureml://registries/r/components/train/versions/1
_REGISTERED = re.compile(
    r"azureml:(?://registries/[^/]+/components/)?([\w.-]+)"
    r"(?:(?::|/versions/)([\w.-]+)|@[\w-]+|/labels/[\w-]+)?"
)


class ProjectFiles:
    """The files around those that are patched.

    `is_missing` says whether there is nothing at a path; if it is not given, `read` is tried.
    """

    def __init__(self, read: Read, is_missing: Callable[[str], bool] | None = None) -> None:
        for remembered in (full_path, folder_of, local_reference):
            remembered.cache_clear()
        self.read = read
        self._is_missing = is_missing or self._cannot_be_found
        self._files: OrderedDict[str, SourceFile | None] = OrderedDict()
        self._loading: set[str] = set()
        self._evidence = EvidenceReader(self)
        self._missing: dict[str, bool] = {}
        # The files of the run: full path -> the path that was given.
        self._given: dict[str, str] = {}
        # path -> how it is used: component, trial or python
        self._uses: dict[str, set[str]] = {}
        # The same by the name of a registered component: (how, version or nothing)
        self._named_uses: dict[str, set[tuple[str, str]]] = {}
        # name -> the files of that name with their versions, and the other way around
        self._named_files: dict[str, list[tuple[str, str]]] = {}
        self._names: dict[str, tuple[str, str]] = {}
        # What code calls a file, which may be run from another folder: its last part -> (the parts
        # before, code file)
        self._python_files: dict[str, list[tuple[tuple[str, ...], str]]] = {}
        # The folders around code that loads components by names which are not known: it may use any
        # of them.
        self._open_folders: set[str] = set()
        # file, or name of a component -> the files whose sweeps and steps name it
        self._users: dict[str, list[str]] = {}

    # --- who uses what ----------------------------------------------------------------------------

    def note_uses(self, path: str, data: bytes) -> None:
        """Take in the references of one file, by their text alone: this runs before any file is
        parsed.

        Reading each YAML file here as well makes a run 15 % slower (228 files);
        tests/azureml/test_references.py compares.
        """
        self._given[full_path(path)] = path
        if not path.endswith(CODE_ENDINGS):
            self._note_yaml(path, data)
        elif (
            b"load_component" in data
            or b"from_yaml" in data
            or b"Component" in data
            or b"components" in data
        ):
            self._note_python(path, data)

    def _note_yaml(self, path: str, data: bytes) -> None:
        for how, expression in _YAML_USES:
            for match in expression.finditer(data):
                if b"#" in data[data.rfind(b"\n", 0, match.start()) + 1 : match.start()]:
                    continue  # in a comment
                written = _text(match[1])
                if registered := _REGISTERED.fullmatch(written):
                    self._named_uses.setdefault(registered[1], set()).add(
                        (how, registered[2] or "")
                    )
                    self._users.setdefault(registered[1], []).append(path)
                elif reference := local_reference(written, path):
                    self._uses.setdefault(reference, set()).add(how)
                    self._users.setdefault(reference, []).append(path)
        if (b"type:" in data or b"$schema" in data) and (name := _top_value(data, b"name:")):
            full, version = full_path(path), _top_value(data, b"version:")
            self._named_files.setdefault(name, []).append((version, full))
            self._names[full] = name, version

    def _note_python(self, path: str, data: bytes) -> None:
        has_files = b".yml" in data or b".yaml" in data
        if b"load_component" in data and (not has_files or _MADE_NAME.search(data)):
            self._open_folders.add(os.path.dirname(folder_of(path)) + os.sep)
        if has_files:
            for match in _PYTHON_FILE.finditer(data):
                parts_before = _JOINED.search(
                    data, max(0, match.start() - _JOINED_BYTES), match.start()
                )
                joined = (
                    [_text(part) for part in _QUOTED.findall(parts_before[0])]
                    if parts_before
                    else []
                )
                before, last = _text(match[1]), _text(match[2])
                if reference := local_reference(before + last, path):
                    self._uses.setdefault(reference, set()).add("python")
                whole = os.path.normpath("/".join([*joined, before])).split("/")
                parts = [part for part in whole if part not in ("", ".", "..")]
                # `{folder}/train.yml`: the value of a variable is not known.
                known = next((at for at in range(len(parts), 0, -1) if "{" in parts[at - 1]), 0)
                self._python_files.setdefault(last, []).append(
                    (tuple(parts[known:]), folder_of(path))
                )
        for call in _PYTHON_CALL.finditer(data):
            for match in _PYTHON_NAME.finditer(call[1]):
                name, _, version = _text(match[1]).removeprefix("azureml:").partition(":")
                self._named_uses.setdefault(name, set()).add(("python", version))

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
        uses = self._uses.get(full, set())
        name, version = self._names.get(full, ("", ""))
        named = self._named_uses.get(name, ())
        if named:
            uses = uses.union(
                how if _fits(asked, version) else "another version" for how, asked in named
            )
        if not uses and self._python_files:
            *before, last = full.split(os.sep)
            for parts, folder in self._python_files.get(last, ()):
                near = full.startswith(os.path.dirname(folder) + os.sep)
                if tuple(before[-len(parts) :]) == parts if parts else near:
                    return {"python"}
        if not uses and any(full.startswith(folder) for folder in self._open_folders):
            return {"python"}
        return uses

    def users(self, path: str, family: Family) -> Iterator[tuple[SourceFile, Target]]:
        """The v2 sweeps with this file as their trial, or the steps with this pipeline, and the
        files they are in.
        """
        full = full_path(path)
        name = self._names.get(full, ("", ""))[0]
        for user in dict.fromkeys((*self._users.get(full, ()), *self._users.get(name, ()))):
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
        files = [full for own, full in self._named_files.get(name, ()) if _fits(version, own)]
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
        """Whether there is no file at a full path."""
        if path not in self._missing:
            self._missing[path] = self._files.get(path) is None and self._is_missing(path)
        return self._missing[path]

    def _cannot_be_found(self, path: str) -> bool:
        try:
            self.read(path)
        except FileNotFoundError:
            return True
        except OSError:  # there, and not readable
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

    def evidence(self, target: Target, path: str) -> tuple[FrameworkEvidence, ...]:
        """What a target itself, then the component it names, says about frameworks and workers."""
        return self._evidence.of_target(target, path)

    def read_text(self, path: str) -> str | None:
        """A small file beside the documents (a Dockerfile); None where it cannot be read."""
        try:
            # Most of the places where an imported module could be are empty.
            if self._is_missing(path):
                return None
            return self.read(path)[:MAX_BYTES].decode("utf-8", errors="replace")
        except (OSError, ValueError):
            return None


def _top_value(data: bytes, key: bytes) -> str:
    """The plain value of a key at the start of a line, or nothing."""
    at = 0 if data.startswith(key) else data.find(b"\n" + key) + 1
    match = _VALUE.match(data, at + len(key)) if at or data.startswith(key) else None
    return match[1].decode(errors="replace") if match else ""


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", errors="replace").replace("\\", "/")


def _fits(asked: str, own: str) -> bool:
    """Whether a file of this version may be what is asked for; without a version it may be any."""
    return not asked or not own or asked == own

"""A run over paths: discover, read, dispatch by kind of file, write. The edge between the editors and the world.

Results come one by one, so that memory stays flat; nothing here prints.
"""

from __future__ import annotations

import gc
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path

from arc_toolkit.azureml.library import Library
from arc_toolkit.azureml.settings import Settings
from arc_toolkit.azureml.yaml_engine import patch_yaml
from arc_toolkit.edit.discover import Found, Problem, Skipped, discover
from arc_toolkit.edit.edits import SkipCause
from arc_toolkit.edit.ignores import find_ignores
from arc_toolkit.edit.yaml_nodes import MAX_BYTES
from arc_toolkit.errors import ArcError
from arc_toolkit.files import read_bytes, reason, write_atomic
from arc_toolkit.findings import FileResult, Finding, without_changes

Patch = Callable[[str, bytes, Settings], FileResult]

_HELD_BYTES = 8 * 1024 * 1024

# Standard input has no ending to go by: an import at the start of a line stands in no YAML mapping.
_PYTHON = re.compile(rb"^(?:from[ \t]+[\w.]+[ \t]+import|import[ \t]+[A-Za-z_])", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one path: a result, something skipped, or a problem."""

    result: FileResult | None = None
    skipped: Skipped | None = None
    problem: Problem | None = None
    # Whether the path was given itself: why it is skipped, or not all of it done, is always told.
    named: bool = False
    # What came from standard input, where there is no result to hold it.
    stdin: bytes = b""


def run(paths: Sequence[str], settings: Settings, progress: Callable[[str], None]) -> Iterator[Outcome]:
    """Every file of the given paths, patched in memory."""
    thresholds = gc.get_threshold()
    # Nodes come in thousands and hold no cycles: looking for garbage among them so often costs a tenth of the time.
    gc.set_threshold(50_000, 20, 20)
    try:
        yield from _run(paths, settings, progress)
    finally:
        gc.set_threshold(*thresholds)


def _run(paths: Sequence[str], settings: Settings, progress: Callable[[str], None]) -> Iterator[Outcome]:
    items = list(discover(paths))
    library = Library(_read)
    found = [item for item in items if isinstance(item, Found)]
    stdin = read_bytes("-") if any(item.path == "-" for item in found) else b""
    # What is read for its references is kept for its own turn, up to a bound.
    held: dict[str, bytes] = {"-": stdin}
    room = _HELD_BYTES
    for file in found:
        progress(f"looking for references: {file.path}")
        if file.path != "-" and (data := _quiet_read(file.path)) is not None:
            library.note_uses(file.path, data)
            room -= len(data)
            if room > 0:
                held[file.path] = data
    in_folder = any(item.folder is not None for item in found)
    useful: dict[str, bool] = {item.folder: False for item in found if item.folder is not None}
    useful |= {path: False for path in paths if os.path.isdir(path)}
    for item in items:
        if isinstance(item, Problem):
            yield Outcome(problem=item)
            continue
        if isinstance(item, Skipped):
            yield Outcome(skipped=item, named=item.path in paths)
            continue
        progress(item.path)
        outcome = _one(item, settings, library, held.pop(item.path, None), in_folder)
        if outcome.result is not None:
            _note_code(outcome.result, settings, library)
        if outcome.result is not None and item.folder is not None:
            useful[item.folder] = True
        yield outcome
    for folder, any_result in useful.items():
        if not any_result:
            yield Outcome(problem=Problem(folder, f"no AzureML jobs, components or pipelines in {folder}"))
    for option, names, known in (
        ("--step", settings.steps, library.steps),
        ("--kind", settings.kinds, library.families),
    ):
        for name in (name for name in names if name not in known):
            there = ", ".join(sorted(known)) or "none"
            yield Outcome(problem=Problem("", f"{option} {name} matches nothing; there are: {there}"))


def _note_code(result: FileResult, settings: Settings, library: Library) -> None:
    """Names of steps in Python are not listed: a name counts as known where it stands in the code."""
    if result.path.endswith((".py", ".ipynb")) or (result.path == "-" and _PYTHON.search(result.before)):
        library.steps |= {name for name in settings.steps if name.encode() in result.before}
        library.families |= set(settings.kinds)


def _one(item: Found, settings: Settings, library: Library, data: bytes | None, in_folder: bool) -> Outcome:
    path, named = item.path, item.folder is None
    try:
        if data is not None:
            pass
        elif os.path.getsize(path) > MAX_BYTES:
            return _left_out(
                Skipped(path, SkipCause.TOO_LARGE, f"larger than {MAX_BYTES // 1024 // 1024} MiB"), named
            )
        else:
            data = _read(path)
    except OSError as error:
        problem = Problem(path, f"cannot read {path}: {reason(error)}")
        return (
            Outcome(problem=problem)
            if named
            else Outcome(skipped=Skipped(path, SkipCause.UNREADABLE, f"cannot be read: {reason(error)}"))
        )
    result = _dispatch(path, data, settings, library, in_folder)
    if result.skipped is not None:
        return replace(_left_out(result.skipped, named), stdin=data if path == "-" else b"")
    if result.refused is not None:
        result = replace(result, findings=without_changes(result.findings))
    return Outcome(result=result, named=named)


def _left_out(skipped: Skipped, named: bool) -> Outcome:
    if named and not skipped.cause.harmless:
        problem = Problem(skipped.path, f"cannot use {skipped.place}: {skipped.reason}", skipped.line)
        return Outcome(problem=problem)
    return Outcome(skipped=skipped, named=named)


def _dispatch(path: str, data: bytes, settings: Settings, library: Library, in_folder: bool) -> FileResult:
    ending = path.rpartition(".")[2].lower()
    if ending == "py" or (path == "-" and _PYTHON.search(data)):
        patch: Patch = import_module("arc_toolkit.azureml.python").patch_source
        return _ignored(patch(path, data, settings))
    if ending == "ipynb" or (path == "-" and data.lstrip()[:1] == b"{" and b'"cells"' in data):
        patch = import_module("arc_toolkit.azureml.notebooks").patch_notebook
        return patch(path, data, settings)
    return patch_yaml(path, data, settings, library, _read, in_folder=in_folder)


def _ignored(result: FileResult) -> FileResult:
    """Inline ignores for findings of other editors, where nothing was changed for them."""
    if b"arc-toolkit:" not in result.before:
        return result
    ignores = find_ignores(result.before.decode("utf-8", errors="replace"))

    def stays(finding: Finding) -> bool:
        return finding.applied or not ignores.covers(finding.rule, finding.line)

    return replace(result, findings=tuple(filter(stays, result.findings)))


def _read(path: str) -> bytes:
    with open(path, "rb", buffering=0) as stream:
        return stream.read()


def _quiet_read(path: str) -> bytes | None:
    """The bytes of a file of a bearable size; None otherwise."""
    try:
        with open(path, "rb", buffering=0) as stream:
            return stream.read() if os.fstat(stream.fileno()).st_size <= MAX_BYTES else None
    except OSError:
        return None


# --- writing ---------------------------------------------------------------------------------------------------


def write(result: FileResult) -> list[Problem]:
    """Write a changed file and its new files; what could not be written comes back as problems."""
    problems = []
    try:
        for path, content in result.new_files:
            _write_new(path, content)
        if result.changed and result.after is not None:
            if read_bytes(result.path) != result.before:
                raise ArcError(f"{result.path} changed while it was worked on; it is left alone: run again")
            write_atomic(Path(result.path), result.after)
    except ArcError as error:
        problems.append(Problem(result.path, str(error)))
    return problems


def _write_new(path: str, content: bytes) -> None:
    if os.path.lexists(path):
        if read_bytes(path) != content:
            raise ArcError(f"cannot write {path}: it exists and differs; move it away and run again")
        return
    write_atomic(Path(path), content)


def pending(result: FileResult) -> list[tuple[str, bytes]]:
    """The new files of a result that do not stand there yet."""
    return [(path, content) for path, content in result.new_files if _quiet_read(path) != content]

"""A run over paths: discover, read, hand each file to an engine, write. The edge between the
editors and the world.

It knows neither AzureML nor Kubernetes: an `Engine` says what a file becomes. Results come one by
one, so that memory stays flat; nothing here prints.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from arc_toolkit.edit.files.discover import InputFile, Problem, Skipped, discover
from arc_toolkit.edit.files.edits import SkipCause
from arc_toolkit.edit.yaml.nodes import MAX_BYTES
from arc_toolkit.errors import ArcError
from arc_toolkit.file_io import collector_slowed, read_bytes, read_raw, reason, write_atomic
from arc_toolkit.findings import FileResult, without_changes

_MAX_HELD_BYTES = 8 * 1024 * 1024
_CLASH = "move it away and run again"


class Engine(Protocol):
    """What a command does with each file."""

    # What a folder should have: `AzureML jobs, components or pipelines`.
    subject: str
    # Of the files that it reads.
    endings: tuple[str, ...]

    def prepare(self, path: str, data: bytes) -> None:
        """See a file before any is processed, such as for its references to others."""

    def process(self, path: str, data: bytes, *, in_folder: bool, named: bool) -> FileResult:
        """What the file becomes; `in_folder` if any of the given paths is a folder, `named` if this
        one is given.
        """

    def finish(self) -> Iterable[Problem]:
        """What is wrong with the run as a whole."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one path: a result, something skipped, or a problem."""

    result: FileResult | None = None
    skipped: Skipped | None = None
    problem: Problem | None = None
    # Whether the path was given itself: why it is skipped, or not all of it done, is always
    # reported.
    named: bool = False
    # What came from standard input, if there is no result that has it.
    stdin: bytes = b""


def run(paths: Sequence[str], engine: Engine, progress: Callable[[str], None]) -> Iterator[Outcome]:
    """Every file of the given paths, processed in memory."""
    with collector_slowed():
        yield from _run(paths, engine, progress)


def _run(
    paths: Sequence[str], engine: Engine, progress: Callable[[str], None]
) -> Iterator[Outcome]:
    items = list(discover(paths, engine.endings))
    files = [item for item in items if isinstance(item, InputFile)]
    stdin = read_bytes("-") if any(item.path == "-" for item in files) else b""
    # What is read to prepare is kept for its own turn, up to a bound.
    held: dict[str, bytes] = {"-": stdin}
    room = _MAX_HELD_BYTES
    for file in files:
        progress(f"looking for references: {file.path}")
        if file.path != "-" and (data := _quiet_read(file.path)) is not None:
            engine.prepare(file.path, data)
            room -= len(data)
            if room > 0:
                held[file.path] = data
    in_folder = any(item.folder is not None for item in files)
    useful: dict[str, bool] = {item.folder: False for item in files if item.folder is not None}
    useful |= {path: False for path in paths if os.path.isdir(path)}
    for item in items:
        if isinstance(item, Problem):
            yield Outcome(problem=item)
            continue
        if isinstance(item, Skipped):
            yield Outcome(skipped=item, named=item.path in paths)
            continue
        progress(item.path)
        outcome = _process(item, engine, held.pop(item.path, None), in_folder)
        if outcome.result is not None and item.folder is not None:
            useful[item.folder] = True
        yield outcome
    for folder, any_result in useful.items():
        if not any_result:
            yield Outcome(problem=Problem(folder, f"no {engine.subject} in {folder}"))
    for problem in engine.finish():
        yield Outcome(problem=problem)


def _process(item: InputFile, engine: Engine, data: bytes | None, in_folder: bool) -> Outcome:
    path, named = item.path, item.folder is None
    try:
        if (os.path.getsize(path) if data is None else len(data)) > MAX_BYTES:
            too_large = f"larger than {MAX_BYTES // 1024 // 1024} MiB"
            return _skip(Skipped(path, SkipCause.TOO_LARGE, too_large), named, data)
        if data is None:
            data = read_raw(path)
    except OSError as error:
        if named:
            return Outcome(problem=Problem(path, f"cannot read {path}: {reason(error)}"))
        return Outcome(
            skipped=Skipped(path, SkipCause.UNREADABLE, f"cannot be read: {reason(error)}")
        )
    try:
        result = engine.process(path, data, in_folder=in_folder, named=named)
    except RecursionError:  # reading, editing and proving go down as deep as the file
        return _skip(Skipped(path, SkipCause.BROKEN, "nested too deeply"), named, data)
    if result.skipped is not None:
        return _skip(result.skipped, named, data)
    # The same without --write: a diff for a file that exists would not apply.
    if result.refused is None and (
        clash := next((path for path, _ in pending(result) if os.path.lexists(path)), "")
    ):
        result = replace(
            result, after=None, new_files=(), refused=f"{clash} exists and differs: {_CLASH}"
        )
    if result.refused is not None:
        result = replace(result, findings=without_changes(result.findings))
    return Outcome(result=result, named=named)


def _skip(skipped: Skipped, named: bool, data: bytes | None) -> Outcome:
    stdin = data if data is not None and skipped.path == "-" else b""
    if named and not skipped.cause.harmless:
        problem = Problem(
            skipped.path, f"cannot use {skipped.place}: {skipped.reason}", skipped.line
        )
        return Outcome(problem=problem, stdin=stdin)
    return Outcome(skipped=skipped, named=named, stdin=stdin)


def _quiet_read(path: str) -> bytes | None:
    """The bytes of a file of a usable size; None otherwise."""
    try:
        with open(path, "rb", buffering=0) as stream:
            return stream.read() if os.fstat(stream.fileno()).st_size <= MAX_BYTES else None
    except OSError:
        return None


# --- writing --------------------------------------------------------------------------------------


def write(result: FileResult) -> list[Problem]:
    """Write a changed file and its new files; what could not be written comes back as problems."""
    problems = []
    try:
        for path, content in result.new_files:
            _write_new(path, content)
        if result.changed and result.after is not None:
            if read_bytes(result.path) != result.before:
                raise ArcError(
                    f"{result.path} changed during the run and is not written: run again"
                )
            write_atomic(Path(result.path), result.after)
    except ArcError as error:
        problems.append(Problem(result.path, str(error)))
    return problems


def _write_new(path: str, content: bytes) -> None:
    if os.path.lexists(path):
        if read_bytes(path) != content:
            raise ArcError(f"cannot write {path}: it exists and differs: {_CLASH}")
        return
    write_atomic(Path(path), content)


def pending(result: FileResult) -> list[tuple[str, bytes]]:
    """The new files of a result that do not exist yet."""
    return [(path, content) for path, content in result.new_files if _quiet_read(path) != content]

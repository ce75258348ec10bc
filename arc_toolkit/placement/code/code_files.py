"""One Python file or notebook through reading, plan, edits and proof."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace

from arc_toolkit.edit.code.source import Source, decode, encode, parse, quiet
from arc_toolkit.edit.files.discover import Skipped
from arc_toolkit.edit.files.edits import Edit, Refused, SkipCause, Unreadable, apply_edits
from arc_toolkit.findings import FileResult, Finding, without_changes
from arc_toolkit.placement.code.code_plan import CodePlan, make_code_plan, proved_edits, read_code
from arc_toolkit.placement.place_plan import SPOT, PlaceSettings

# One of these is in all code that makes pods in a way that is known here.
_WORDS = (b"apiVersion", b"kfp", b"kubernetes", b"kubeflow")


def place_code(
    path: str, data: bytes, settings: PlaceSettings, note: Callable[[CodePlan], None]
) -> FileResult:
    """What the settings make of one file; `note` sees its plan."""
    if not any(word in data for word in _WORDS):
        return _foreign(path, data)
    try:
        with quiet():
            if path.lower().endswith(".ipynb"):
                return _place_notebook(path, data, settings, note)
            text, encoding = decode(data)
            result, edits = _place([Source(text, parse(text))], path, data, settings, note)
            return (
                _changed(result, data, encode(apply_edits(text, edits[0]), encoding, data))
                if edits
                else result
            )
    except Unreadable as error:
        return FileResult(path, data, skipped=Skipped.of(path, error))
    except UnicodeEncodeError as error:
        return FileResult(
            path, data, refused=f"its encoding has no {error.object[error.start : error.end]!r}"
        )


def _place_notebook(
    path: str, data: bytes, settings: PlaceSettings, note: Callable[[CodePlan], None]
) -> FileResult:
    from arc_toolkit.edit.code import notebook

    text = notebook.decode(data)
    parsed, broken = notebook.parse_cells(text, notebook.read_cells(text))
    result, edits = _place([source for _, source in parsed], path, data, settings, note)
    for cell, error in broken if result.skipped is None else ():
        line = (
            notebook.file_lines(text, cell)[max(error.line, 1) - 1 :][:1]
            or notebook.file_lines(text, cell)[:1]
        )
        message = f"cell {cell.number} line {error.line}: left as it is"
        finding = Finding(SPOT, "warning", message, path, line[0], 1, reason=error.reason)
        result = replace(result, findings=(finding, *result.findings))
    if not edits:
        return result
    try:
        after = notebook.change_cells(text, [cell for cell, _ in parsed], edits)
    except Refused as refusal:
        return FileResult(path, data, None, without_changes(result.findings), refusal.reason)
    return _changed(result, data, encode(after, "utf-8", data))


def _place(
    sources: Sequence[Source],
    path: str,
    data: bytes,
    settings: PlaceSettings,
    note: Callable[[CodePlan], None],
) -> tuple[FileResult, list[list[Edit]]]:
    """The result without its bytes, and the edits of each source; no edits if nothing changes."""
    with closing(read_code(sources)) as code:
        plan = make_code_plan(path, code, settings)
        if plan.is_foreign:
            return _foreign(path, data), []
        note(plan)
        try:
            edits = [] if plan.is_unchanged else proved_edits(plan)
        except Refused as refusal:
            return FileResult(path, data, None, without_changes(plan.findings), refusal.reason), []
        refused = next(iter(plan.refusals), None) if not edits else None
        return FileResult(path, data, None, tuple(plan.findings), refused), edits


def _changed(result: FileResult, data: bytes, after: bytes) -> FileResult:
    return FileResult(result.path, data, after, result.findings)


def _foreign(path: str, data: bytes) -> FileResult:
    return FileResult(
        path, data, skipped=Skipped(path, SkipCause.FOREIGN, "no Kubernetes workloads")
    )

"""Jupyter notebooks with AzureML code: the code cells as one Python module through settings, rules and proof."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from arc_toolkit.azureml.library import Library
from arc_toolkit.azureml.python.python_engine import is_candidate, rewrite
from arc_toolkit.azureml.settings import Settings
from arc_toolkit.edit.discover import Skipped
from arc_toolkit.edit.edits import Refused, SkipCause, Unreadable
from arc_toolkit.edit.notebook import Cell, change_cells, decode, encode, file_lines, parse_cells, read_cells
from arc_toolkit.edit.python_source import quiet
from arc_toolkit.findings import FileResult, Finding


def patch_notebook(path: str, data: bytes, settings: Settings, library: Library | None = None) -> FileResult:
    """What the settings and rules make of one notebook."""
    with quiet():
        return _patch(path, data, settings, library)


def _patch(path: str, data: bytes, settings: Settings, library: Library | None) -> FileResult:
    findings: list[Finding] = []
    try:
        text = decode(data)
        cells = read_cells(text)
        if not is_candidate(data):
            return FileResult(path, data, skipped=Skipped(path, SkipCause.FOREIGN, "no AzureML code"))
        parsed, broken = parse_cells(text, cells)
        findings += _about_broken(text, broken, settings, path)
        result = rewrite([source for _, source in parsed], settings, path, library)
        after = change_cells(text, [cell for cell, _ in parsed], result.edits)
    except Unreadable as error:
        return FileResult(path, data, skipped=Skipped.of(path, error))
    except Refused as error:
        return FileResult(path, data, findings=tuple(findings), refused=error.reason)
    findings += result.findings
    if result.refused is not None:
        return FileResult(path, data, findings=tuple(findings), refused=result.refused)
    raw = encode(after, data)
    return FileResult(path, data, None if raw == data else raw, tuple(findings), new_files=result.new_files)


def _about_broken(
    text: str, broken: Sequence[tuple[Cell, Unreadable]], settings: Settings, path: str
) -> Iterator[Finding]:
    """A warning for each cell that something may have been asked for in vain."""
    if not settings.places_anything:
        return
    for cell, error in broken:
        message = f"cell {cell.number} line {error.line}: left as it is"
        lines = file_lines(text, cell)
        line = lines[min(max(error.line, 1), len(lines)) - 1]
        yield Finding("instance-type", "warning", message, path, line, 1, reason=error.reason)

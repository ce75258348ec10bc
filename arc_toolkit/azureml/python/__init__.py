"""Python pipelines of the three AzureML SDKs: found with `ast`, changed by source span, proven before it counts.

`patch_source` takes bytes and gives a `FileResult`; it reads the component files that the code names, and writes
nothing. Files without the key words of the SDKs are not parsed.
"""

from __future__ import annotations

from arc_toolkit.azureml.library import Library
from arc_toolkit.azureml.settings import Settings
from arc_toolkit.edit.discover import Skipped
from arc_toolkit.edit.edits import SkipCause, Unreadable
from arc_toolkit.findings import FileResult

__all__ = ["patch_source"]


def patch_source(path: str, data: bytes, settings: Settings, library: Library | None = None) -> FileResult:
    """What the settings and rules make of one Python file; `library` has the files around it."""
    from arc_toolkit.azureml.python.python_engine import is_candidate
    from arc_toolkit.edit.python_source import quiet

    if not is_candidate(data):
        return FileResult(path, data, skipped=_unparsed(path, data))
    with quiet():
        return _patch(path, data, settings, library)


def _unparsed(path: str, data: bytes) -> Skipped:
    """Why a file without a step or job is left out: where it imports an SDK, what is wrong with it comes first."""
    from arc_toolkit.azureml.python.python_engine import imports_sdk
    from arc_toolkit.edit.python_source import decode, parse, quiet

    if imports_sdk(data):
        try:
            with quiet():
                parse(decode(data)[0])
        except Unreadable as error:
            return Skipped.of(path, error)
    return Skipped(path, SkipCause.FOREIGN, "no AzureML code")


def _patch(path: str, data: bytes, settings: Settings, library: Library | None) -> FileResult:
    from arc_toolkit.azureml.python.python_engine import rewrite
    from arc_toolkit.edit.edits import apply_edits
    from arc_toolkit.edit.python_source import Source, decode, encode, parse

    try:
        text, encoding = decode(data)
        source = Source(text, parse(text))
    except Unreadable as error:
        return FileResult(path, data, skipped=Skipped.of(path, error))
    result = rewrite([source], settings, path, library)
    if result.refused is not None:
        return FileResult(path, data, findings=result.findings, refused=result.refused)
    text = apply_edits(text, result.edits[0])
    try:
        after = encode(text, encoding, data)
    except UnicodeEncodeError as error:
        refused = f"its encoding, {encoding}, has no {error.object[error.start : error.end]!r}"
        return FileResult(path, data, findings=result.findings, refused=refused)
    return FileResult(
        path,
        data,
        None if after == data else after,
        result.findings,
        new_files=result.new_files,
        encoding=encoding,
    )

"""One Python file or notebook through settings, rules, edits and proof. Reads what the code names; writes nothing."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

from arc_toolkit.azureml.library import Library
from arc_toolkit.azureml.python import sdk_names as sdk
from arc_toolkit.azureml.python.names import Module
from arc_toolkit.azureml.python.python_plan import PythonPlan, make_plan
from arc_toolkit.azureml.python.read_names import read_module
from arc_toolkit.azureml.settings import Settings
from arc_toolkit.edit.code.proof import prove
from arc_toolkit.edit.code.source import Source, decode, encode, parse, quiet
from arc_toolkit.edit.files.discover import Skipped
from arc_toolkit.edit.files.edits import (
    Edit,
    Refused,
    SkipCause,
    Unreadable,
    apply_edits,
    compose_edits,
    old_offsets,
)
from arc_toolkit.file_io import read_raw
from arc_toolkit.findings import FileResult, Finding

_ACTIONS = tuple(word.decode() for word in sdk.ACTIONS)
# Module, library, settings, path and the plan of the run before -> plan.
MakePlan = Callable[[Module, Library, Settings, str, PythonPlan | None], PythonPlan]


def patch_source(
    path: str,
    data: bytes,
    settings: Settings,
    library: Library | None = None,
    convert: MakePlan | None = None,
) -> FileResult:
    """What the settings and rules make of one Python file; `library` has the files around it.

    `convert` plans the conversions (`migrate`) that come before the settings.
    """
    try:
        if not _is_candidate(data):
            # What is wrong with a file that imports an SDK comes first.
            if b"import" in data and sdk.IMPORT.search(data) is not None:
                with quiet():
                    parse(decode(data)[0])
            return _foreign(path, data)
        with quiet():
            text, encoding = decode(data)
            body = parse(text)
            if not _may_have_targets(data):
                return FileResult(path, data)
            result = _rewrite([Source(text, body)], settings, path, library, convert)
            after = encode(apply_edits(text, result.edits[0]), encoding, data)
    except Unreadable as error:
        return FileResult(path, data, skipped=Skipped.of(path, error))
    except UnicodeEncodeError as error:
        refused = f"its encoding, {encoding}, has no {error.object[error.start : error.end]!r}"
        return FileResult(path, data, findings=result.findings, refused=refused)
    return _file_result(path, data, after, result, encoding)


def patch_notebook(
    path: str,
    data: bytes,
    settings: Settings,
    library: Library | None = None,
    convert: MakePlan | None = None,
) -> FileResult:
    """What the settings and rules make of the code cells of one notebook, as one module."""
    from arc_toolkit.edit.code import notebook

    findings: list[Finding] = []
    try:
        with quiet():
            text = notebook.decode(data)
            cells = notebook.read_cells(text)
            if not _is_candidate(data):
                return _foreign(path, data)
            parsed, broken = notebook.parse_cells(text, cells)
            # A warning for each cell that something may have been asked for in vain.
            for cell, error in broken if settings.placed else ():
                if not any(word in cell.text for word in _ACTIONS):
                    continue
                message = f"cell {cell.number} line {error.line}: left as it is"
                lines = notebook.file_lines(text, cell)
                line = lines[min(max(error.line, 1), len(lines)) - 1]
                findings.append(
                    Finding("instance-type", "warning", message, path, line, 1, reason=error.reason)
                )
            result = _rewrite([source for _, source in parsed], settings, path, library, convert)
            after = notebook.change_cells(text, [cell for cell, _ in parsed], result.edits)
    except Unreadable as error:
        return FileResult(path, data, skipped=Skipped.of(path, error))
    except Refused as error:
        return FileResult(path, data, findings=tuple(findings), refused=error.reason)
    result = replace(result, findings=(*findings, *result.findings))
    return _file_result(path, data, encode(after, "utf-8", data), result, "utf-8")


def _is_candidate(data: bytes) -> bool:
    """Whether a file has to be parsed: the key words of the SDKs, or the misspelt variable."""
    if sdk.MISSPELT in data:
        return True
    if b"azure" not in data and b"mldesigner" not in data:
        return False
    return any(word in data for word in sdk.KEY_WORDS) and any(word in data for word in sdk.ACTIONS)


def _may_have_targets(data: bytes) -> bool:
    """Whether a file that is parsed can have a target or break a rule: most files that only name an SDK cannot."""
    words = (sdk.MISSPELT, b"arc-toolkit:")
    return any(word in data for word in words) or sdk.TARGET_WORDS.search(data) is not None


def _foreign(path: str, data: bytes) -> FileResult:
    return FileResult(path, data, skipped=Skipped(path, SkipCause.FOREIGN, "no AzureML code"))


@dataclass(frozen=True)
class Rewrite:
    """Proven edits for each source, in the order of the sources, and what was found."""

    edits: list[list[Edit]]
    findings: tuple[Finding, ...]
    new_files: tuple[tuple[str, bytes], ...]
    # Why no safe change was found although one was asked for; there are no edits then.
    refused: str | None = None


def _file_result(
    path: str, data: bytes, after: bytes, result: Rewrite, encoding: str
) -> FileResult:
    changed = None if after == data else after
    return FileResult(
        path,
        data,
        changed,
        result.findings,
        result.refused,
        new_files=result.new_files,
        encoding=encoding,
    )


def _rewrite(
    sources: Sequence[Source],
    settings: Settings,
    path: str,
    library: Library | None,
    convert: MakePlan | None,
) -> Rewrite:
    """All edits of a file, proven; none of them when one cannot be made or proven.

    Conversions come first, and the settings are placed into their results.
    """
    library = library or Library(read_raw)
    if convert is None:
        return _prove_plan(sources, library, settings, path, make_plan)[0]
    first, converted = _prove_plan(sources, library, settings, path, convert)
    if first.refused is not None:
        return first
    converted = [
        _with_old_lines(*texts) for texts in zip(sources, first.edits, converted, strict=True)
    ]
    second, _ = _prove_plan(converted, library, settings, path, make_plan)
    later = second.findings
    if any(first.edits):  # their fixes count in the converted text
        later = tuple(replace(finding, fix=None) for finding in later)
    findings = (*first.findings, *later)
    if second.refused is not None:
        return replace(second, findings=findings)
    new_files = (*first.new_files, *second.new_files)
    pairs = zip(sources, first.edits, second.edits, strict=True)
    return Rewrite(
        [compose_edits(source.text, *edits) for source, *edits in pairs], findings, new_files
    )


def _prove_plan(
    sources: Sequence[Source], library: Library, settings: Settings, path: str, make: MakePlan
) -> tuple[Rewrite, Sequence[Source]]:
    """The edits of one plan, and the sources after them."""
    with closing(read_module(sources)) as module:
        return _prove_edits(
            make(module, library, settings, path, None), sources, library, settings, path, make
        )


def _prove_edits(
    plan: PythonPlan,
    sources: Sequence[Source],
    library: Library,
    settings: Settings,
    path: str,
    make: MakePlan,
) -> tuple[Rewrite, Sequence[Source]]:
    changes = plan.writer.changes
    after = sources
    findings = tuple(
        sorted(dict.fromkeys(plan.findings), key=lambda finding: (finding.line, finding.column))
    )
    edits: list[list[Edit]] = [[] for _ in sources]
    if changes:
        try:
            for source, own in changes.edits().values():
                edits[next(i for i, item in enumerate(sources) if item is source)] = own
            after = prove(changes, sources, edits)
            with closing(read_module(after)) as module:
                if make(module, library, settings, path, plan).writer.changes:
                    raise Refused("a second run would change it again")
        except Refused as error:
            return Rewrite([[] for _ in sources], findings, (), error.reason), sources
    return Rewrite(edits, findings, tuple(plan.new_files)), after


def _with_old_lines(old: Source, edits: Sequence[Edit], new: Source) -> Source:
    """The source after its edits, whose lines are reported as those of the file before them."""
    offsets = old_offsets(old.text, edits)
    lines = (bisect_right(old.starts, offsets[start]) for start in new.starts)
    return replace(new, file_lines=tuple(old.file_line(line) for line in lines))

"""From parsed sources to proven edits: plan, write, prove. The same for a file and for the cells of a notebook."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from arc_toolkit.azureml.library import Library
from arc_toolkit.azureml.python import sdk_names as sdk
from arc_toolkit.azureml.python.names import Module, read_module
from arc_toolkit.azureml.python.python_plan import PythonPlan, make_plan
from arc_toolkit.azureml.settings import Settings
from arc_toolkit.edit.edits import Edit, Refused, compose_edits, old_offsets
from arc_toolkit.edit.python_proof import prove
from arc_toolkit.edit.python_source import Source
from arc_toolkit.findings import Finding

# Module, library, settings, path and the plan of the run before -> plan.
MakePlan = Callable[[Module, Library, Settings, str, PythonPlan | None], PythonPlan]


@dataclass(frozen=True)
class Rewrite:
    """Proven edits for each source, in the order of the sources, and what was found."""

    edits: list[list[Edit]]
    findings: tuple[Finding, ...]
    new_files: tuple[tuple[str, bytes], ...]
    # Why no safe change was found although one was asked for; there are no edits then.
    refused: str | None = None


def is_candidate(data: bytes) -> bool:
    """Whether a file has to be parsed: the key words of the SDKs, or the misspelt variable."""
    if b"azure" not in data and b"mldesigner" not in data:
        return sdk.MISSPELT in data
    known = any(word in data for word in sdk.KEY_WORDS) and any(word in data for word in sdk.ACTIONS)
    return known or sdk.MISSPELT in data


def imports_sdk(data: bytes) -> bool:
    """Whether a file says that it imports one of the SDKs; it may be no Python at all."""
    return b"import" in data and sdk.IMPORT.search(data) is not None


def _read_file(path: str) -> bytes:
    with open(path, "rb") as stream:
        return stream.read()


def rewrite(sources: Sequence[Source], settings: Settings, path: str, library: Library | None = None) -> Rewrite:
    """All edits of a file, proven; none of them when one cannot be made or proven.

    Sweeps are converted first, and the settings are placed into what they become.
    """
    library = library or Library(_read_file)
    if not (settings.sweep_to_v2 and settings.wants("sweep-to-v2")):
        return _rewrite(sources, library, settings, path, make_plan)[0]
    from arc_toolkit.azureml.migrate.python_sweep import plan_sweeps

    first, converted = _rewrite(sources, library, settings, path, plan_sweeps)
    if first.refused is not None:
        return first
    converted = [_with_old_lines(*texts) for texts in zip(sources, first.edits, converted, strict=True)]
    second, _ = _rewrite(converted, library, settings, path, make_plan)
    later = second.findings
    if any(first.edits):  # their fixes count in the converted text
        later = tuple(replace(finding, fix=None) for finding in later)
    findings = (*first.findings, *later)
    if second.refused is not None:
        return replace(second, findings=findings)
    pairs = zip(sources, first.edits, second.edits, strict=True)
    return Rewrite([compose_edits(source.text, *edits) for source, *edits in pairs], findings, second.new_files)


def _rewrite(
    sources: Sequence[Source], library: Library, settings: Settings, path: str, make: MakePlan
) -> tuple[Rewrite, Sequence[Source]]:
    """The edits of one plan, and the sources after them."""
    plan = make(read_module(sources), library, settings, path, None)
    changes = plan.writer.changes
    after = sources
    findings = tuple(sorted(dict.fromkeys(plan.findings), key=lambda finding: (finding.line, finding.column)))
    edits: list[list[Edit]] = [[] for _ in sources]
    if changes:
        try:
            for source, found in changes.edits().values():
                edits[next(i for i, item in enumerate(sources) if item is source)] = found
            after = prove(changes, sources, edits)
            if make(read_module(after), library, settings, path, plan).writer.changes:
                raise Refused("a second run would change it again")
        except Refused as error:
            return Rewrite([[] for _ in sources], findings, (), error.reason), sources
    return Rewrite(edits, findings, tuple(plan.new_files)), after


def _with_old_lines(old: Source, edits: Sequence[Edit], new: Source) -> Source:
    """The source after its edits, whose lines are reported as those of the file before them."""
    offsets = old_offsets(old.text, edits)
    lines = (bisect_right(old.starts, offsets[start]) for start in new.starts)
    return replace(new, file_lines=tuple(old.file_line(line) for line in lines))

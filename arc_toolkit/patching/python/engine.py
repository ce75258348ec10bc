"""From parsed sources to proven edits: plan, write, prove. The same for a file and for the cells of a notebook."""

from __future__ import annotations

import ast
import os.path
from collections.abc import Sequence
from dataclasses import dataclass, replace

from arc_toolkit.patching.model import Edit, Finding, OverlapError, Settings
from arc_toolkit.patching.python import library, proof
from arc_toolkit.patching.python.layout import Impossible
from arc_toolkit.patching.python.names import read_module
from arc_toolkit.patching.python.plan import Planner, make_plan
from arc_toolkit.patching.python.source import Source


class Refused(Exception):
    """A change was wanted, and no safe one was found."""

    def __init__(self, reason: str, findings: tuple[Finding, ...]) -> None:
        super().__init__(reason)
        self.reason, self.findings = reason, findings


@dataclass(frozen=True)
class Rewrite:
    """Proven edits for each source, in the order of the sources, and what was found."""

    edits: list[list[Edit]]
    findings: tuple[Finding, ...]
    new_files: tuple[tuple[str, bytes], ...]


def is_candidate(data: bytes) -> bool:
    """Whether a file has to be parsed: the key words of the SDKs, or the misspelt variable."""
    if b"azure" not in data and b"mldesigner" not in data:
        return library.MISSPELT in data
    known = any(word in data for word in library.KEY_WORDS) and any(word in data for word in library.ACTIONS)
    return known or library.MISSPELT in data


def rewrite(sources: Sequence[Source], settings: Settings, path: str) -> Rewrite:
    """All edits of a file, proven; `Refused` when one of them cannot be made or proven."""
    folder = os.path.dirname(os.path.abspath(path))
    planner = make_plan(read_module(sources), settings, path, folder)
    findings = tuple(sorted(planner.findings, key=lambda found: (found.line, found.column)))
    edits: list[list[Edit]] = [[] for _ in sources]
    if planner.changes:
        try:
            for source, found in planner.changes.edits().values():
                edits[next(i for i, item in enumerate(sources) if item is source)] = found
            _prove(sources, edits, planner, settings, path, folder)
        except (Impossible, OverlapError, proof.Unproven) as error:
            raise Refused(str(error), findings) from None
    return Rewrite(edits, findings, tuple(planner.new_files))


def converted_sweeps(source: Source, settings: Settings, path: str) -> tuple[list[Edit], tuple[Finding, ...]]:
    """`--sweep-to-v2`: sweep settings of SDK v1.5 and hyperdrive calls as `.sweep(...)`."""
    from arc_toolkit.patching.convert import python_sweep

    edits, findings = python_sweep.convert(ast.Module(source.body, []), source.text, settings)
    return list(edits), tuple(replace(found, path=path) for found in findings)


def _prove(
    sources: Sequence[Source],
    edits: Sequence[Sequence[Edit]],
    planner: Planner,
    settings: Settings,
    path: str,
    folder: str,
) -> None:
    """Parse what changed, compare it with the old tree as it should have become, and plan once more: nothing."""
    tops = planner.changes.tops()
    parts = [
        proof.segments(source, [top for owner, top in tops if owner is source]) if found else []
        for source, found in zip(sources, edits, strict=True)
    ]
    renewed = [
        proof.reparse(source, part, found) for source, part, found in zip(sources, parts, edits, strict=True)
    ]
    # Neighbours of each part, by identity: `apply` inserts statements into the same lists.
    bodies = [list(source.body) for source in sources]
    planner.changes.apply()
    again: list[Source] = []
    for source, body, part, new in zip(sources, bodies, parts, renewed, strict=True):
        at = 0
        for segment, fresh in zip(part, new, strict=True):
            again.append(_kept(source, body[at : segment.first]))
            following = body[segment.last + 1] if segment.last + 1 < len(body) else None
            previous = body[segment.first - 1] if segment.first else None
            if not proof.same(_between(source.body, previous, following), fresh.body):
                raise proof.Unproven("the new text says more than what was asked for")
            again.append(fresh)
            at = segment.last + 1
        again.append(_kept(source, body[at:]))
    again = [source for source in again if source.body]
    if make_plan(read_module(again), settings, path, folder).changes:
        raise proof.Unproven("a second run would change it again")


def _between(body: list[ast.stmt], previous: ast.stmt | None, following: ast.stmt | None) -> list[ast.stmt]:
    start = next(i for i, stmt in enumerate(body) if stmt is previous) + 1 if previous is not None else 0
    end = next(i for i, stmt in enumerate(body) if stmt is following) if following is not None else len(body)
    return body[start:end]


def _kept(source: Source, body: list[ast.stmt]) -> Source:
    """The same text with some of its statements."""
    part = Source(source.text, body, source.label, source.file_lines)
    part.__dict__["starts"] = source.starts
    return part

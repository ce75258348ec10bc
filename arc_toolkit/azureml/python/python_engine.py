"""From parsed sources to proven edits: plan, write, prove. The same for a file and for the cells of a notebook."""

from __future__ import annotations

import ast
import os.path
from collections.abc import Sequence
from dataclasses import dataclass, replace

from arc_toolkit.azureml.python import sdk_names as sdk
from arc_toolkit.azureml.python.names import read_again, read_module
from arc_toolkit.azureml.python.planner import Planner, make_plan
from arc_toolkit.azureml.settings import Settings
from arc_toolkit.edit import python_proof as proof
from arc_toolkit.edit.edits import Edit, Refused
from arc_toolkit.edit.python_source import Source
from arc_toolkit.findings import Finding


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


def rewrite(sources: Sequence[Source], settings: Settings, path: str) -> Rewrite:
    """All edits of a file, proven; none of them when one cannot be made or proven."""
    folder = os.path.dirname(os.path.abspath(path))
    module = read_module(sources)
    planner = make_plan(module, settings, path, folder)
    findings = planner.findings
    edits: list[list[Edit]] = [[] for _ in sources]
    if planner.changes:
        try:
            for source, found in planner.changes.edits().values():
                edits[next(i for i, item in enumerate(sources) if item is source)] = found
            _prove(sources, edits, planner, settings, path, folder)
        except Refused as error:
            return Rewrite([[] for _ in sources], findings, (), error.reason)
    module.forget()
    return Rewrite(edits, findings, tuple(planner.new_files))


def converted_sweeps(source: Source, settings: Settings, path: str) -> tuple[list[Edit], tuple[Finding, ...]]:
    """`--sweep-to-v2`: sweep settings of SDK v1.5 and hyperdrive calls as `.sweep(...)`."""
    from arc_toolkit.azureml.migrate import python_sweep

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
    places = planner.changes.places()
    parts = proof.segments(places)
    by_source = {id(source): found for source, found in zip(sources, edits, strict=True)}
    if sum(map(len, edits)) != sum(len(part.inside(by_source[id(part.source)])) for part in parts):
        raise Refused("an edit lies outside of the statements it belongs to")
    renewed = [part.reparse(by_source[id(part.source)]) for part in parts]
    planner.changes.apply()
    fresh: dict[int, Source] = {}
    for part, new in zip(parts, renewed, strict=True):
        if not proof.same(part.statements(), new.body):
            raise Refused("the new text says more than what was asked for")
        fresh |= {id(stmt): new for stmt in new.body}
        part.replace(new.body)
    again = read_again(planner.module, fresh, places)
    if make_plan(again, settings, path, folder, planner).changes:
        raise Refused("a second run would change it again")
    again.forget()

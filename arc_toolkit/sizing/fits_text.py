"""Which types of a cluster fit on its nodes, as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterable

from arc_toolkit.kube.quantities import KI, cpu_text, memory_text
from arc_toolkit.output.json_document import document
from arc_toolkit.output.table import table
from arc_toolkit.sizing.fits import Fit
from arc_toolkit.sizing.schedulable import Schedulable
from arc_toolkit.sizing.waterfall import Style, schedulable_json

NO_TYPES = "the cluster has no InstanceTypes"


def drift_text(rows: list[Fit], style: Style) -> str:
    """A table of all types, and for each that drifted why, with the waterfall of the node that takes fewest."""
    if not rows:
        return NO_TYPES
    reasons = [reason_text(fit) for fit in rows if fit.reason]
    # Several types may fail on the same node; its waterfall is shown once.
    tightest = {fit.tightest.name: fit.tightest for fit in rows if fit.drifted and fit.tightest}
    parts = [
        types_table(rows, style),
        "\n".join(reasons),
        *map(waterfall_text, tightest.values()),
    ]
    return "\n\n".join(part for part in parts if part)


def reason_text(fit: Fit) -> str:
    return f"{fit.name}: {fit.state}, {fit.reason}" if fit.drifted else f"{fit.name}: {fit.reason}"


def types_table(fits: list[Fit], style: Style) -> str:
    """One row per type: what it asks, how many nodes it selects, how many of it each was meant to take, and takes."""
    rows = []
    for fit in fits:
        spec = fit.spec
        color = "red" if fit.drifted else "yellow" if fit.state == "no node" else "green"
        requests = (
            [cpu_text(spec.cpu_m), memory_text(spec.memory), str(spec.gpus or "")]
            if spec
            else ["", "", ""]
        )
        numbers = [
            str(len(fit.counts)),
            str(fit.meant) if spec else "",
            str(min(fit.counts, default="")),
        ]
        rows.append([fit.name, *requests, *numbers, style(fit.state, color)])
    headers = ["NAME", "CPU", "MEMORY", "GPUS", "NODES", "MEANT", "FITS", "STATE"]
    return table(headers, rows, right=(1, 2, 3, 4, 5, 6))


def waterfall_text(schedulable: Schedulable) -> str:
    """One node's way from nominal to schedulable."""
    rows = [
        [line.title, f"{line.cpu_m}m", f"{line.memory // KI}Ki", line.rule]
        for line in schedulable.lines
    ]
    return table([schedulable.name, "CPU", "MEMORY", "RULE"], rows, right=(1, 2))


def fits_json(command: str, fits: Iterable[Fit]) -> str:
    rows = [
        {
            "name": fit.name,
            "state": fit.state,
            "drifted": fit.drifted,
            "reason": fit.reason,
            "nodes": len(fit.counts),
            "meant": fit.meant if fit.spec else None,
            "fits": min(fit.counts, default=None),
            "tightest": schedulable_json(fit.tightest) if fit.tightest else None,
        }
        for fit in fits
    ]
    return document(command, {"instance_types": rows})

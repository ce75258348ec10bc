"""The waterfall as a table with bars and as JSON, and which types of a cluster fit its nodes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from arc_toolkit.kube.quantities import KI, MI, cpu_text, devices_text, memory_text
from arc_toolkit.output.json_document import document
from arc_toolkit.output.table import Style, table
from arc_toolkit.sizing.fits import Fit
from arc_toolkit.sizing.instance_types import InstanceType
from arc_toolkit.sizing.schedulable import LineKind, Schedulable, WaterfallLine
from arc_toolkit.sizing.shares import Share

BAR = 32


def explain(entry: InstanceType, style: Style) -> str:
    """Everything about one type, for a person."""
    group, portion = entry.group, entry.portion
    tightest = {"memory": group.tightest_memory, "cpu": group.tightest_cpu}
    sources = list(
        dict.fromkeys(
            line.source for node in tightest.values() for line in node.lines if line.source
        )
    )
    parts = [style(f"{entry.name}: {entry.description}", "bold")]
    for resource, node in tightest.items():
        named = f" on {node.name}, the tightest node" if len(group.nodes) > 1 else ""
        parts.append(
            f"{resource}{named}\n{_block(node.lines, resource == 'memory', entry, sources, style)}"
        )
    gpu = f", {devices_text(entry.devices)}" if entry.devices else ""
    fits = f"{portion.per_node} fit{'s' if portion.per_node == 1 else ''} on a node"
    if not isinstance(entry.request, Share):
        fits += f" (the limit is {portion.limit})"
    leftover = f"left over: {portion.left_memory // KI:,}Ki and {portion.left_cpu_m}m"
    leftover += f" and {portion.left_gpus} GPU" if portion.left_gpus else ""
    parts.append(
        f"request = limit: cpu {entry.cpu}, memory {entry.memory}{gpu}. {fits}; {leftover}."
    )
    parts.append(
        "\n".join(style(f"[{index}] {source}", "dim") for index, source in enumerate(sources, 1))
    )
    return "\n\n".join(parts)


def _block(
    lines: Sequence[WaterfallLine],
    memory: bool,
    entry: InstanceType,
    sources: list[str],
    style: Style,
) -> str:
    """The lines for memory, or for cpu, and below them the parts of the type."""

    def numbers(amount: int) -> tuple[str, str]:
        if memory:
            return f"{amount / MI:,.1f}", f"{amount // KI:,}"
        return f"{amount / 1000:,.2f}", f"{amount:,}"

    amounts = [line.memory if memory else line.cpu_m for line in lines]
    top = level = amounts[0]
    rows = []
    for line, amount in zip(lines, amounts, strict=True):
        if not amount:
            continue
        if line.is_level:
            level = amount
            bar = style(
                _bar(0, amount, top, "█"), "green" if line.kind is LineKind.SCHEDULABLE else "blue"
            )
        else:
            level += amount
            bar = style(_bar(level, level - amount, top, "▒"), "yellow")
        mark = f" [{sources.index(line.source) + 1}]" if line.source else ""
        rows.append([line.title, *numbers(amount), bar, line.rule + mark])
    portion = entry.portion
    each = portion.memory if memory else portion.cpu_m
    drawn = "".join(
        _segment(index * each, (index + 1) * each, top, "▓" if index % 2 else "█")
        for index in range(min(portion.per_node, BAR))
    )
    drawn = style(drawn, "green", "bold")
    rows.append([entry.name, *numbers(each), drawn, f"{entry.share_rule}, rounded down"])
    return table(["", *(("Mi", "Ki") if memory else ("cores", "m")), "", ""], rows, right=(1, 2))


def _bar(start: int, end: int, top: int, glyph: str) -> str:
    """The part from start to end of a bar that is BAR wide at top; at least a sliver."""
    return " " * round(start * BAR / top) + (_segment(start, end, top, glyph) or "▏")


def _segment(start: int, end: int, top: int, glyph: str) -> str:
    return glyph * (round(end * BAR / top) - round(start * BAR / top))


def schedulable_json(schedulable: Schedulable) -> dict[str, Any]:
    """One node's waterfall; memory in bytes and cpu in milli-cores, exact."""
    return {
        "name": schedulable.name,
        "lines": [
            {
                "name": line.name,
                "kind": "level" if line.is_level else "taken",
                "memory_bytes": line.memory,
                "cpu_m": line.cpu_m,
                "rule": line.rule,
                "source": line.source,
            }
            for line in schedulable.lines
        ],
        "schedulable": {
            "cpu_m": schedulable.cpu_m,
            "memory_bytes": schedulable.memory,
            "gpus": schedulable.gpus,
            "devices": dict(schedulable.devices),
        },
        "max_pods": schedulable.max_pods,
    }


def type_json(entry: InstanceType) -> dict[str, Any]:
    """One type with its manifest and the waterfall of the tightest nodes."""
    group, portion = entry.group, entry.portion
    return {
        "name": entry.name,
        "wanted": str(entry.request or ""),
        "what": entry.description,
        "nodes": group.title,
        "cpu_m": portion.cpu_m,
        "memory_bytes": portion.memory,
        "gpus": portion.gpus,
        "devices": dict(portion.devices),
        "per_node": portion.per_node,
        "limit": portion.limit,
        "left_over": {
            "cpu_m": portion.left_cpu_m,
            "memory_bytes": portion.left_memory,
            "gpus": portion.left_gpus,
        },
        "memory_waterfall": schedulable_json(group.tightest_memory),
        "cpu_waterfall": schedulable_json(group.tightest_cpu),
        "manifest": entry.manifest(),
    }


def drift_text(rows: list[Fit], style: Style) -> str:
    """A table of all types, and why each drifted, with the waterfall of the tightest node."""
    if not rows:
        return "the cluster has no InstanceTypes"
    reasons = [
        f"{fit.name}: {f'{fit.state}, ' if fit.has_drifted else ''}{fit.reason}"
        for fit in rows
        if fit.reason
    ]
    # Several types may fail on the same node; its waterfall is shown once.
    tightest = {fit.tightest.name: fit.tightest for fit in rows if fit.has_drifted and fit.tightest}
    parts = [
        types_table(rows, style),
        "\n".join(reasons),
        *map(waterfall_text, tightest.values()),
    ]
    return "\n\n".join(part for part in parts if part)


def types_table(fits: list[Fit], style: Style) -> str:
    """One row per type: its request, the selected nodes, and how many fit, expected and real."""
    rows = []
    for fit in fits:
        spec = fit.spec
        color = "red" if fit.has_drifted else "yellow" if fit.state == "no node" else "green"
        requests = (
            [cpu_text(spec.cpu_m), memory_text(spec.memory), str(spec.gpus or "")]
            if spec
            else ["", "", ""]
        )
        numbers = [
            str(len(fit.counts)),
            str(fit.expected_per_node) if spec else "",
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
            "drifted": fit.has_drifted,
            "reason": fit.reason,
            "nodes": len(fit.counts),
            "meant": fit.expected_per_node if fit.spec else None,
            "fits": min(fit.counts, default=None),
            "tightest": schedulable_json(fit.tightest) if fit.tightest else None,
        }
        for fit in fits
    ]
    return document(command, {"instance_types": rows})

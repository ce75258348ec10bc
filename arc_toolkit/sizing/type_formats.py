"""Generated InstanceTypes in the formats of `gen-instance-types`, and what to know about them."""

from __future__ import annotations

from arc_toolkit.kube.default_tolerations import annotate_command
from arc_toolkit.kube.taints import SPOT_TAINT
from arc_toolkit.output.jsonout import document
from arc_toolkit.output.table import table
from arc_toolkit.sizing.instance_types import InstanceType, documents, files, type_list
from arc_toolkit.sizing.node_group import NodeGroup
from arc_toolkit.sizing.node_selection import Selection
from arc_toolkit.sizing.waterfall import type_json


def spot_notes(selection: Selection, namespace: str | None) -> list[str]:
    """That job pods stay Pending on spot nodes, and what helps; the command where types are made for such nodes."""
    text = "an InstanceType has no tolerations, so job pods stay Pending on spot nodes"
    sized = any(SPOT_TAINT in node.taints for group in selection.groups for node in group.members)
    if sized or namespace is not None:
        command = annotate_command(namespace or "NAMESPACE")
        other = "; the extension's setting workLoadToleration does it too, but is undocumented"
        manifest = "" if namespace else ", or the manifest of --spot-namespace NAME"
        return [f"{text} until their namespace gives them one: {command}{manifest}{other}"]
    if any(SPOT_TAINT in node.taints for node in selection.nodes):
        return [f"{text}: --spot-namespace NAME makes types for these, and what their pods need"]
    return []


def type_notes(types: list[InstanceType], groups: list[NodeGroup], node_selector: str) -> list[str]:
    """What to know about the types: that they may land on other nodes, or leave GPUs unused."""
    notes = []
    if node_selector != "auto" and groups[0].source == "sku":
        more = f" and {len(groups) - 1} more groups" if len(groups) > 1 else ""
        notes.append(
            f"--node-selector {node_selector}: the types fit only on {groups[0].title}{more}: "
            "make sure that the selector matches no other node"
        )
    return notes + [
        f"{entry.name} takes no GPU, though {entry.group.title} has {entry.group.gpus}"
        for entry in types
        if entry.group.gpus and not entry.gpus
    ]


def types_text(types: list[InstanceType], namespace: str, selection: Selection, form: str) -> str:
    """The result in one of the formats; `namespace` is the manifest of `--spot-namespace`."""
    if form == "yaml":
        return documents(types) + (f"---\n{namespace}" if namespace else "")
    if form == "list":
        return type_list(types)
    if form == "json":
        payload = {
            "instance_types": [type_json(entry) for entry in types],
            "left_out": [{"node": row.node.name, "reason": str(row)} for row in selection.unusable],
            "notes": selection.notes,
        }
        return document("gen-instance-types", payload) + "\n"
    rows = [
        [
            entry.name,
            entry.cpu,
            entry.memory,
            str(entry.gpus or ""),
            str(entry.portion.per_node),
            str(entry.request or "merged"),
            entry.group.title,
        ]
        for entry in types
    ]
    headers = ["NAME", "CPU", "MEMORY", "GPUS", "PER NODE", "SHARE", "NODES"]
    return table(headers, rows, right=(1, 2, 3, 4)) + "\n"


def folder_files(types: list[InstanceType], namespace: str) -> dict[str, str]:
    """File name -> text."""
    return files(types) | ({"spot-namespace.yaml": namespace} if namespace else {})

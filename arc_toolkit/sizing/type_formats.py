"""Generated InstanceTypes in the formats of `gen-instance-types`, and what to know about them."""

from __future__ import annotations

import difflib
from pathlib import Path

from arc_toolkit.errors import ArcError
from arc_toolkit.file_io import read_bytes, read_text
from arc_toolkit.kube.instance_type_spec import MANAGED_BY
from arc_toolkit.kube.taints import SPOT_TAINT, annotate_command
from arc_toolkit.output.json_document import document
from arc_toolkit.output.table import table
from arc_toolkit.sizing.instance_types import InstanceType, documents, type_list
from arc_toolkit.sizing.instance_types import files as type_files
from arc_toolkit.sizing.node_selection import Selection
from arc_toolkit.sizing.shares import NodeGroup
from arc_toolkit.sizing.waterfall import type_json


def spot_notes(selection: Selection, namespace: str | None) -> list[str]:
    """Job pods stay Pending on spot nodes: what helps, as a command for types of such nodes."""
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
        others_text = f" and {len(groups) - 1} more groups" if len(groups) > 1 else ""
        notes.append(
            f"--node-selector {node_selector}: "
            f"the types fit only on {groups[0].title}{others_text}: "
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
    return type_files(types) | ({"spot-namespace.yaml": namespace} if namespace else {})


def output_files(
    types: list[InstanceType], namespace: str, selection: Selection, output: str, form: str
) -> dict[Path, str]:
    """The files of `-o`: one per type in a folder, or one whose name ends in .yaml or .json."""
    if not output:
        raise ArcError("-o: use a folder, a file or -")
    target = Path(output)
    if target.suffix in (".yaml", ".yml", ".json") and not target.is_dir():
        is_json = target.suffix == ".json"
        form = "json" if is_json and form == "yaml" else form
        if form == "table" or (form == "json") != is_json:
            raise ArcError(
                f"-o {target}: a .json file gets --format json; a .yaml file yaml or list"
            )
        return {target: types_text(types, namespace, selection, form)}
    if form != "yaml":
        suffix = "json" if form == "json" else "yaml"
        raise ArcError(f"--format {form} makes one file: use -o types.{suffix}")
    return {target / name: text for name, text in folder_files(types, namespace).items()}


def folder_diffs(files: dict[str, str], folder: Path) -> list[str]:
    """How the files of a folder that arc-toolkit made differ from these, one diff per file."""
    if not folder.is_dir():
        raise ArcError(
            f"--check {folder}: not a folder with one file per type, as -o FOLDER writes it"
        )
    mark = f'{MANAGED_BY}: "arc-toolkit"'
    present = {}
    for path in sorted(folder.glob("*.y*ml")):
        if path.is_file() and (path.name in files or mark.encode() in read_bytes(path)):
            present[path.name] = read_text(path)
    diffs = []
    for name in sorted(files.keys() | present.keys()):
        old, new = present.get(name), files.get(name)
        if old != new:
            diff = difflib.unified_diff(
                (old or "").splitlines(keepends=True),
                (new or "").splitlines(keepends=True),
                str(folder / name) if old is not None else "/dev/null",
                str(folder / name) if new is not None else "/dev/null",
            )
            diffs.append("".join(diff))
    return diffs

"""InstanceTypes as YAML text: one document each, several in one file, or an InstanceTypeList."""

from __future__ import annotations

from collections.abc import Sequence

from arc_toolkit.edit.yaml_writer import quoted
from arc_toolkit.kube.instance_type_spec import API_VERSION, LIST_KIND
from arc_toolkit.resources import render
from arc_toolkit.sizing.instance_types import InstanceType


def document(entry: InstanceType) -> str:
    """One manifest with the arithmetic as comments."""
    return render("instance_type.yaml.j2", manifest=entry.manifest(), comments=entry.comments, quoted=quoted)


def documents(types: Sequence[InstanceType]) -> str:
    """Several manifests in one stream."""
    return "---\n".join(document(entry) for entry in types)


def type_list(types: Sequence[InstanceType]) -> str:
    """The list form, whose items leave out apiVersion and kind."""
    lines = [f"apiVersion: {API_VERSION}", f"kind: {LIST_KIND}", "items:"]
    for entry in types:
        text = document(entry).splitlines()
        comments = [line for line in text if line.startswith("#")]
        body = [line for line in text if not line.startswith(("#", "apiVersion:", "kind:"))]
        lines += [f"  {line}" for line in comments]
        lines += [f"  {'- ' if index == 0 else '  '}{line}" for index, line in enumerate(body)]
    return "\n".join(lines) + "\n"


def files(types: Sequence[InstanceType]) -> dict[str, str]:
    """File name -> text, for a folder with one file per type."""
    return {f"{entry.name}.yaml": document(entry) for entry in types}

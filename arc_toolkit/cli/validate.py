"""`validate`: hand-written InstanceTypes against the rules, and against nodes where given."""

from __future__ import annotations

import argparse

from arc_toolkit.cli import supplies
from arc_toolkit.console import Console
from arc_toolkit.errors import FOUND, OK, ArcError
from arc_toolkit.files import read_text
from arc_toolkit.inputs import yaml_files
from arc_toolkit.sizing.supply import supply_of_node
from arc_toolkit.sizing.validation import Candidate, validate

EPILOG = """\
examples:
  arc-toolkit gen-instance-types -q --sku D64s_v5 | arc-toolkit validate - --sku D64s_v5
  arc-toolkit validate mytypes.yaml --sku Standard_D64s_v5
  kubectl get nodes -o json > nodes.json; arc-toolkit validate mytypes.yaml --nodes nodes.json
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    parser.add_argument(
        "paths", nargs="+", metavar="PATH", help="YAML files or folders of them, - for standard input"
    )
    supplies.add_options(parser)
    parser.add_argument("--format", choices=["text", "json"], default="text")


def run(args: argparse.Namespace, console: Console) -> int:
    paths = [file for path in args.paths for file in yaml_files(path)]
    files = [("standard input" if path == "-" else path, read_text(path)) for path in paths]
    findings, count = validate(files, candidates(args, console))
    if not count:
        raise ArcError(
            f"no InstanceType in {', '.join(args.paths)}: expected kind InstanceType or InstanceTypeList"
        )
    if args.format == "json":
        from arc_toolkit.output.jsonout import document

        fields = ("rule", "severity", "message", "path", "line", "column")
        rows = [{field: getattr(finding, field) for field in fields} for finding in findings]
        payload = {"types": count, "findings": rows}
        console.out(document("validate", payload))
    for finding in findings if args.format == "text" else ():
        color = "red" if finding.severity == "error" else "yellow"
        place = f"{finding.path}:{finding.line}:{finding.column}:"
        console.out(f"{place} {console.style(finding.severity, color)}: {finding.message} [{finding.rule}]")
    console.note(
        f"{count} instance type{'s' if count > 1 else ''}, {len(findings) or 'no'} finding{'s' * (len(findings) != 1)}"
    )
    return FOUND if findings else OK


def candidates(args: argparse.Namespace, console: Console) -> list[Candidate]:
    """The nodes that the types may land on, with what each can give; empty where none are given."""
    selection = supplies.collect(args)
    if selection is None:
        return []
    supplies.say(selection, console)
    labels = {node.name: node.labels for node in selection.nodes}
    found = [
        Candidate(labels.get(supply.name, dict(group.selector)), supply, complete=supply.name in labels)
        for group in selection.groups
        for supply in group.supplies
    ]
    for unusable in selection.unusable:
        node = unusable.node
        supply = supply_of_node(node, selection.assumptions, [])
        found.append(Candidate(node.labels, supply, unusable=f"{node.name}: {unusable}"))
    return found

"""`validate`: hand-written InstanceTypes against the rules, and against nodes where given."""

from __future__ import annotations

import argparse

from arc_toolkit.cli import node_options
from arc_toolkit.console import Console
from arc_toolkit.errors import FOUND, OK, ArcError
from arc_toolkit.files import read_text
from arc_toolkit.inputs import yaml_files
from arc_toolkit.sizing.validation import candidates_of, validate

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
    node_options.add_options(parser)
    parser.add_argument("--format", choices=["text", "json"], default="text")


def run(args: argparse.Namespace, console: Console) -> int:
    paths = [file for path in args.paths for file in yaml_files(path)]
    files = [("standard input" if path == "-" else path, read_text(path)) for path in paths]
    selection = node_options.collect(args)
    if selection is not None:
        node_options.say(selection, console)
    candidates = candidates_of(selection) if selection is not None else []
    findings, count = validate(files, candidates)
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

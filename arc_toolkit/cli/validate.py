"""`validate`: hand-written InstanceTypes against the rules, and against nodes if any are given."""

from __future__ import annotations

import argparse
from dataclasses import replace

from arc_toolkit.cli import node_options
from arc_toolkit.cli.console import Console
from arc_toolkit.cli.option_table import add_options
from arc_toolkit.cli.reporter import Reporter, add_report_options, rule_names
from arc_toolkit.errors import ArcError
from arc_toolkit.file_io import read_text
from arc_toolkit.inputs import yaml_files
from arc_toolkit.output.run_report import RunReport
from arc_toolkit.sizing.validation import RULES, validate

EPILOG = """\
examples:
  arc-toolkit gen-instance-types -q --sku D64s_v5 | arc-toolkit validate - --sku D64s_v5
  arc-toolkit validate mytypes.yaml --sku Standard_D64s_v5
  kubectl get nodes -o json > nodes.json; arc-toolkit validate mytypes.yaml --nodes nodes.json
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    add_options(parser, "  paths PATH +    YAML files or folders of them; - for standard input")
    node_options.add_node_options(parser)
    add_report_options(parser)
    add_options(parser, "  --strict    notes count as findings: exit 1")


def run(args: argparse.Namespace, console: Console) -> int:
    only, skip = rule_names("--only", args.only, RULES), rule_names("--skip", args.skip, RULES)
    paths = [file for path in args.paths for file in yaml_files(path)]
    files = [("standard input" if path == "-" else path, read_text(path)) for path in paths]
    selection = node_options.collect(args)
    if selection is not None:
        node_options.say(selection, console)
    candidates = selection.candidates if selection is not None else None
    results = list(validate(files, candidates))
    count = sum(types for _, types in results)
    if not count:
        raise ArcError(
            f"no InstanceType in {', '.join(args.paths)}: use kind InstanceType or InstanceTypeList"
        )
    report = RunReport(
        "validate",
        args.format,
        RULES,
        exit_zero=args.exit_zero,
        strict=args.strict,
        subject="instance type",
    )
    report.extra["types"] = count
    reporter = Reporter(report, console)
    for result, types in results:
        findings = [
            finding
            for finding in result.findings
            if finding.rule not in skip and (not only or finding.rule in only)
        ]
        result = replace(result, findings=tuple(findings))
        reporter.findings(report.file(result, count=types)[1])
    return reporter.finish()

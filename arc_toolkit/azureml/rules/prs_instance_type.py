"""ParallelRunStep of SDK v1, which cannot name an instance type, and its fields for a v2 `parallel` step."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, cast

from arc_toolkit.azureml.plan import Plan
from arc_toolkit.findings import Rule

if TYPE_CHECKING:
    from arc_toolkit.azureml.migrate.parallel_run_source import PrsFields
    from arc_toolkit.azureml.python.python_plan import PythonPlan
    from arc_toolkit.edit.yaml.nodes import YamlNode

# v1 (ParallelRunConfig, ParallelRunStep) -> v2 `parallel` step, for the finding.
# Source: Microsoft Learn, "Upgrade parallel run step to SDK v2"; `parallel_run_function` of azure-ai-ml 1.35.2.
EQUIVALENTS = {
    "environment": "task.environment",
    "source_directory": "task.code",
    "entry_script": "task.entry_script",
    "arguments": "task.program_arguments",
    "inputs": "input_data and inputs",
    "side_inputs": "inputs",
    "output": "outputs",
    "output_action": "task.append_row_to",
    "append_row_file_name": "the path of task.append_row_to",
    "compute_target": "compute",
    "node_count": "resources.instance_count",
    "process_count_per_node": "max_concurrency_per_instance",
    "mini_batch_size": "mini_batch_size",
    "error_threshold": "error_threshold",
    "allowed_failed_count": "mini_batch_error_threshold",
    "allowed_failed_percent": "task.program_arguments --allowed_failed_percent",
    "run_invocation_timeout": "retry_settings.timeout",
    "run_max_try": "retry_settings.max_retries, minus one",
    "logging_level": "logging_level",
    "partition_keys": "partition_keys",
    "environment_variables": "environment_variables",
    "allow_reuse": "is_deterministic",
}


def _check(any_plan: Plan) -> None:
    """A finding for each ParallelRunStep; with `--prs-to-v2` a YAML file for each."""
    from arc_toolkit.azureml.migrate.parallel_run_source import parallel_runs, read_fields

    plan = cast("PythonPlan", any_plan)
    for step, config in parallel_runs(plan.module, plan.meanings):
        fields = read_fields(step, config, plan.meanings)
        there = [name for name in (*fields.values, *fields.unknown) if name in EQUIVALENTS]
        mapped = ", ".join(f"{name} -> {EQUIVALENTS[name]}" for name in dict.fromkeys(there))
        at = plan.at(step.statement, step.call)
        convert = (
            plan.settings.prs_to_v2
            and plan.settings.wants("prs-to-v2")
            and not plan.covers("prs-to-v2", at)
        )
        plan.report(
            RULE,
            "ParallelRunStep of SDK v1 cannot name an instance type, so on Kubernetes it always gets the default one:"
            " a v2 parallel step can",
            at,
            reason=(f"v2: {mapped}" if mapped else "")
            + ("" if convert else "; --prs-to-v2 writes it as YAML"),
        )
        if convert:
            _convert(plan, at, fields)


def _convert(plan: PythonPlan, at: YamlNode, fields: PrsFields) -> None:
    from arc_toolkit.azureml.migrate import parallel_run
    from arc_toolkit.azureml.migrate.new_jobs import add_job

    settings, values = plan.settings, fields.values
    for name, asked in (
        ("instance_type", settings.instance_type),
        ("compute_target", settings.compute),
        ("node_count", settings.instance_count),
    ):
        if asked is not None:
            values[name] = asked
            fields.unknown.pop(name, None)
    text, notes = parallel_run.to_yaml(values, fields.unknown)
    stem = re.sub(r"[^a-z0-9]+", "_", str(values.get("name") or "parallel").lower()).strip("_")
    add_job(plan, stem, "parallel", text)
    if fields.unknown:
        words = ", ".join(f"{field} ({text})" for field, text in fields.unknown.items())
        message = f"these values are not in this file, write them in by hand: {words}"
        plan.add_finding("prs-to-v2", "warning", message, at, applied=True)
    for note in (*fields.notes, *notes):
        plan.add_finding("prs-to-v2", "note", note, at)


RULE = Rule(
    id="prs-instance-type",
    severity="warning",
    fix="none",
    summary="a v1 ParallelRunStep cannot name an instance type",
    why="""\
`ParallelRunConfig` has no field for it, and `ParallelRunStep` takes no run configuration: on Kubernetes it always runs
on the default instance type. The v2 `parallel` step takes one; `patch --prs-to-v2` writes it.""",
    before="""\
config = ParallelRunConfig(entry_script="score.py", node_count=2, mini_batch_size="5", ...)
""",
    after="""\
type: parallel
resources:
  instance_type: 32cpu128g
  instance_count: 2
mini_batch_size: "5"
""",
    language="python",
    check=_check,
    needs=("ParallelRun",),
)

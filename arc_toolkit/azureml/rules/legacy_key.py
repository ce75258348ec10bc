"""Keys of the SDK v1 in v2 files, where they have another name."""

from __future__ import annotations

from arc_toolkit.azureml.kinds import Family, Role
from arc_toolkit.azureml.plan import Plan
from arc_toolkit.azureml.schema_keys import known_keys
from arc_toolkit.edit.yaml_nodes import pairs
from arc_toolkit.findings import Rule

# The name in v1, and where it is in v2.
_NAMES = {
    "node_count": "resources.instance_count",
    "process_count_per_node": "distribution.process_count_per_instance",
    "compute_target": "compute",
    "source_directory": "code",
    "arguments": "command",
    "run_invocation_timeout": "retry_settings.timeout",
    "run_max_try": "retry_settings.max_retries",
    "vm_size": "resources.instance_type",
}


def _check(plan: Plan) -> None:
    for target in plan.known_targets():
        if target.kind.role == Role.SPEC:
            continue
        for below in ("", "resources", "distribution"):
            known = known_keys(target.kind, below)
            own = pairs(target.get(below)) if below else target.own
            for name in () if known is None else own.keys() & _NAMES.keys() - known:
                right = _NAMES[name]
                if name == "process_count_per_node" and target.kind.family == Family.PARALLEL:
                    right = "max_concurrency_per_instance"
                plan.report(RULE, f"`{name}` is a key of the SDK v1: in v2 it is `{right}`", own[name][0])


RULE = Rule(
    id="legacy-key",
    severity="error",
    fix="none",
    summary="a key of the SDK v1 in a v2 file",
    why="""\
A run configuration of the SDK v1 has `node_count` and `process_count_per_node`. In a v2 job they are rejected, and in a
v2 component they load and do nothing.""",
    before="""\
type: command
resources:
  node_count: 2
""",
    after="""\
type: command
resources:
  instance_count: 2
""",
    check=_check,
    needs=(
        "node_count",
        "process_count_per_node",
        "compute_target",
        "source_directory",
        "arguments",
        "run_invocation",
        "run_max_try",
        "vm_size",
    ),
)

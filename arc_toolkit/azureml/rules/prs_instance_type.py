"""ParallelRunConfig (v1), which cannot name an instance type: found by `azureml.python`."""

from __future__ import annotations

from arc_toolkit.findings import Rule

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
)

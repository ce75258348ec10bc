"""`.sweep(instance_type=...)`, which raises TypeError: found and mended by `azureml.python`."""

from __future__ import annotations

from arc_toolkit.findings import Rule

RULE = Rule(
    id="sweep-instance-type",
    severity="error",
    fix="safe",
    summary="sweep() has no instance_type",
    why="""\
The migration note of AzureML on Kubernetes shows `command(...).sweep(instance_type=...)`, which does not exist: it
raises `TypeError: unexpected keyword 'instance_type'`. The resources of a sweep are an attribute of its node.""",
    before="""\
node = trial.sweep(primary_metric="rmse", goal="minimize", sampling_algorithm="random", instance_type="32cpu128g")
""",
    after="""\
node = trial.sweep(primary_metric="rmse", goal="minimize", sampling_algorithm="random")
node.resources = JobResourceConfiguration(instance_type="32cpu128g")
""",
    language="python",
)

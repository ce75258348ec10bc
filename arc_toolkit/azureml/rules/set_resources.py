"""`node.set_resources(...)` in SDK v2: found and mended by `azureml.python`."""

from __future__ import annotations

from arc_toolkit.findings import Rule

RULE = Rule(
    id="set-resources",
    severity="warning",
    fix="safe",
    summary="set_resources writes into the shared component",
    why="""\
`node.set_resources(...)` in SDK v2 writes into the component object that all nodes made from the same function share:
a second node inherits the values, and a bound `instance_count` then fails to serialize. Assigning
`node.resources = JobResourceConfiguration(...)` is clean.""",
    before="""\
node = train(data=data)
node.set_resources(instance_type="32cpu128g", instance_count=2)
""",
    after="""\
node = train(data=data)
node.resources = JobResourceConfiguration(instance_type="32cpu128g", instance_count=2)
""",
    language="python",
)

"""A `$schema` of another kind of file than `type`."""

from __future__ import annotations

from arc_toolkit.azureml.kinds import Role, asset_schema, schema_family, type_family
from arc_toolkit.azureml.plan import Plan
from arc_toolkit.findings import Rule


def _check(plan: Plan) -> None:
    for document in plan.documents:
        root = document.root
        declared, schema = type_family(root.text("type") or ""), root.text("$schema") or ""
        other = schema_family(schema) or asset_schema(schema)
        if declared and other and declared != other:
            message = f"`$schema` names the kind {other}, and `type` says {declared}"
            plan.report(RULE, message, root.own["$schema"][0])
        elif root.kind.role == Role.COMPONENT and other and "job" in schema.lower():
            message = f"`$schema` names a job, and this is a {root.kind.name}"
            plan.report(RULE, message, root.own["$schema"][0])


RULE = Rule("wrong-schema", "warning", check=_check, needs=("$schema",))

"""`.sweep(instance_type=...)`, which raises TypeError."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from arc_toolkit.azureml.plan import Plan
from arc_toolkit.findings import Rule

if TYPE_CHECKING:
    import ast

    from arc_toolkit.azureml.python.python_plan import PythonPlan
    from arc_toolkit.azureml.python.python_targets import PythonTarget
    from arc_toolkit.azureml.python.python_writer import PythonWriter

_RESOURCES = ("instance_type", "instance_count")


def _check(plan: Plan) -> None:
    code = cast("PythonPlan", plan)
    for target in code.python_targets:
        keywords = target.call.keywords if target.is_sweep else ()
        arguments = {item.arg: item for item in keywords if item.arg in _RESOURCES}
        for name, keyword in arguments.items():
            _report(code, target, str(name), list(arguments.values()), keyword)


def _report(
    plan: PythonPlan,
    target: PythonTarget,
    name: str,
    arguments: list[ast.keyword],
    keyword: ast.keyword,
) -> None:
    def fix(writer: PythonWriter) -> None:
        """All of the arguments at once: each alone would leave a call that raises."""
        for item in arguments:
            writer.changes.drop_argument(target.statement, target.call, str(item.arg))
            # What was asked for in the same run wins.
            writer.add_resource(
                target, str(item.arg), target.statement.source.slice(item.value), keep=True
            )

    problem = target.refusal or (
        "" if target.name else "the sweep has no name to set its resources by"
    )
    plan.report(
        RULE,
        f"sweep() has no argument {name} (TypeError): it belongs in the resources of the sweep",
        plan.at(target.statement, keyword),
        reason=problem,
        fix=None if problem else fix,
        title=f"Assign {target.name}.resources",
    )


RULE = Rule(
    "sweep-instance-type", "error", fix="safe", language="python", check=_check, needs=("sweep",)
)

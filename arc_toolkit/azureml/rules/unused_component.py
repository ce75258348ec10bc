"""A v2 component that no pipeline in the given folders uses."""

from __future__ import annotations

from arc_toolkit.azureml.documents import Document
from arc_toolkit.azureml.kinds import Role
from arc_toolkit.azureml.work import Work
from arc_toolkit.findings import Rule


def _check(work: Work, document: Document) -> None:
    root = document.root
    if root.kind.role != Role.COMPONENT or not work.in_folder or work.library.uses(work.file.path):
        return
    message = f"nothing in the given paths uses {root.kind.name} `{root.name}`"
    reason = "settings that a component cannot hold (environment variables, compute) have no step to go to"
    work.report(RULE, message, root.at, reason=reason)


RULE = Rule(
    id="unused-component",
    severity="note",
    fix="none",
    summary="a component that no given pipeline uses",
    why="""\
Environment variables and the compute of a v2 component belong to the steps that use it. If no pipeline in the given
paths uses it, there is no such step: add the folder with the pipelines, or set them where the component is used.""",
    before="""\
$ arc-toolkit check components/
""",
    after="""\
$ arc-toolkit check components/ pipelines/
""",
    check=_check,
)

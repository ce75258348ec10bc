"""An inline ignore that gives no reason."""

from __future__ import annotations

import yaml

from arc_toolkit.azureml.documents import Document
from arc_toolkit.azureml.work import Work
from arc_toolkit.findings import Rule


def _check(work: Work, document: Document) -> None:
    if document is not work.file.documents[0]:
        return
    for line in work.ignores.without_reason:
        mark = yaml.Mark("", 0, line - 1, 0, None, 0)
        message = "an ignore without a reason does not count: `# arc-toolkit: ignore[rule] reason`"
        work.report(RULE, message, yaml.ScalarNode("", "", mark, mark))


RULE = Rule(
    id="ignore-without-reason",
    severity="warning",
    fix="none",
    summary="an inline ignore without a reason",
    why="""\
Whoever reads the file later wants to know why a finding was set aside. An ignore without a reason is not obeyed.""",
    before="""\
command: python train.py  # arc-toolkit: ignore[lightgbm-threads]
""",
    after="""\
command: python train.py  # arc-toolkit: ignore[lightgbm-threads] one thread is wanted here
""",
    language="yaml, python",
    check=_check,
    needs=("arc-toolkit:",),
)

"""A v1.5 SweepComponent, which cannot name an instance type."""

from __future__ import annotations

from arc_toolkit.azureml.documents import Document
from arc_toolkit.azureml.kinds import Family, Role
from arc_toolkit.azureml.work import Work
from arc_toolkit.findings import Rule


def _check(work: Work, document: Document) -> None:
    kind = document.root.kind
    if kind.family == Family.SWEEP and kind.role == Role.SPEC:
        message = "a SweepComponent (v1.5) cannot name an instance type: it has to become a v2 sweep"
        reason = "`patch --sweep-to-v2` writes the v2 sweep beside it"
        work.report(RULE, message, document.root.at, reason=reason)


RULE = Rule(
    id="legacy-sweep",
    severity="warning",
    fix="none",
    summary="a legacy SweepComponent",
    why="""\
On Kubernetes a v1.5 SweepComponent always runs on the default instance type. A v2 sweep over a command takes one.
`patch --sweep-to-v2` writes it beside the old files.""",
    before="""\
type: SweepComponent
trial: file:./spec.yaml
algorithm: random
""",
    after="""\
type: sweep
trial: ./spec.v2.yml
sampling_algorithm: random
resources:
  instance_type: 32cpu128g
""",
    language="yaml, python",
    check=_check,
    needs=("SweepComponent",),
)

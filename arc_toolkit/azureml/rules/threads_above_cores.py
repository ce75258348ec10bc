"""A literal number of threads that is larger than the instance type."""

from __future__ import annotations

from arc_toolkit.azureml.documents import Document
from arc_toolkit.azureml.threads import LIGHTGBM_NAMES, cores_of
from arc_toolkit.azureml.work import Work
from arc_toolkit.edit.yaml_nodes import pairs, text_of
from arc_toolkit.findings import Rule


def _check(work: Work, document: Document) -> None:
    for target in document.targets:
        if not target.kind.variables:
            continue
        own = pairs(target.get("environment_variables"))
        for name, (key, value) in own.items():
            if not name.endswith("_NUM_THREADS") and name not in LIGHTGBM_NAMES:
                continue
            number = work.planned(target, "environment_variables", name) or text_of(value) or ""
            cores, source = cores_of(work.instance_type(target), work.settings)
            if number.isdigit() and cores is not None and int(number) > cores:
                message = f"{name} is {number}, but {target.shown} has {cores} cores"
                work.report(RULE, message, key, reason=source)


RULE = Rule(
    id="threads-above-cores",
    severity="warning",
    fix="none",
    summary="more threads than the instance type has cores",
    why="""\
Threads beyond the cores of the instance type wait for each other: the container is throttled at its limit. The cores
come from the manifest (`--instance-types DIR`), the name (32cpu128g) or `--cores`.""",
    before="""\
resources:
  instance_type: 8cpu32g
environment_variables:
  OMP_NUM_THREADS: "64"
""",
    after="""\
resources:
  instance_type: 8cpu32g
environment_variables:
  OMP_NUM_THREADS: "8"
""",
    check=_check,
    needs=("_NUM_THREADS",),
)

"""SDK v1.5: `step.runsettings.resource_layout.configure(...)`, merged into what the pipeline already says."""

from __future__ import annotations

import ast

from arc_toolkit.azureml.kinds import Family
from arc_toolkit.azureml.python import place_compute as compute
from arc_toolkit.azureml.python import variables as environment
from arc_toolkit.azureml.python.expose_python import Exposure
from arc_toolkit.azureml.python.names import Use
from arc_toolkit.azureml.python.planner import Planner, Wanted, given
from arc_toolkit.azureml.python.targets import Target

_LAYOUT = ("runsettings", "resource_layout")
# Older spellings of the count, still in use (azure-sdk-for-python, tests/internal/_utils.py).
_OLD_COUNTS = (
    ("runsettings", "configure"),
    ("runsettings", "parallel", "configure"),
)
_COUNT_NAMES = ("instance_count", "node_count")


def place(planner: Planner, target: Target, exposure: Exposure) -> None:
    """Give a step what was asked for."""
    if target.swept:
        return  # a v2 sweep is made of it, which has the settings
    if target.legacy_sweep:
        how = "it is not converted, see there" if planner.settings.sweep_to_v2 else "convert it with --sweep-to-v2"
        for item in exposure.wanted(target):
            planner.left(target, item, f"a SweepComponent takes no instance type: {how}")
        if target.family == Family.SWEEP:
            return
    else:
        for item in _resources(planner, target, exposure.wanted(target)):
            exposure.use(target, item)
    environment.place_v15(planner, target)
    compute.place_v15(planner, target)


def _resources(planner: Planner, target: Target, wanted: list[Wanted]) -> list[Wanted]:
    written: list[Wanted] = []
    rest: list[Wanted] = []
    for item in wanted:
        use = _assigned(target, item)
        if use is None:
            rest.append(item)
        elif planner.decide(target, use.value, item, use.spot):
            planner.changes.replace(use.spot, use.value, item.text)
            written.append(item)
    configured = [use for use in target.named((*_LAYOUT, "configure")) if isinstance(use.value, ast.Call)]
    elsewhere = _count_elsewhere(target)
    if elsewhere is not None and isinstance(elsewhere.value, ast.Call):
        counts = [item for item in rest if item.name == "instance_count"]
        written += planner.fill(target, elsewhere.spot, elsewhere.value, counts, alias="node_count")
        rest = [item for item in rest if item not in counts]
    if not rest:
        return written
    if configured and isinstance(configured[-1].value, ast.Call):
        return written + planner.fill(target, configured[-1].spot, configured[-1].value, rest, alias="node_count")
    arguments = ", ".join(f"{item.name}={item.text}" for item in rest)
    planner.changes.insert_after(target.spot, f"{target.name}.{'.'.join(_LAYOUT)}.configure({arguments})")
    return written + rest


def _assigned(target: Target, item: Wanted) -> Use | None:
    """`step.runsettings.resource_layout.instance_type = ...` and the older spellings of the count."""
    names = _COUNT_NAMES if item.name == "instance_count" else (item.name,)
    paths: list[tuple[str, ...]] = [(*_LAYOUT, name) for name in names]
    if item.name == "instance_count":
        paths += [("runsettings", "node_count"), ("runsettings", "parallel", "node_count")]
    found = [use for use in target.named(*paths) if use.how == "assign"]
    return found[-1] if found else None


def _count_elsewhere(target: Target) -> Use | None:
    """A `configure` call that says the count, where it is one of the older kind."""
    for use in target.named((*_LAYOUT, "configure"), *_OLD_COUNTS):
        if isinstance(use.value, ast.Call) and set(given(use.value) or ()) & set(_COUNT_NAMES):
            return use if use.path in _OLD_COUNTS else None
    return None

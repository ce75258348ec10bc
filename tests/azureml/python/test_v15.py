"""SDK v1.5: `runsettings`."""

from __future__ import annotations

import pytest

from arc_toolkit.azureml.settings import Settings
from arc_toolkit.azureml.threads import LIGHTGBM_NAMES
from tests.azureml.python.support import BOTH, TYPE, V15, check_left, check_noop, check_transformed

STEP = V15 + "\n@dsl.pipeline(name='p')\ndef p(data):\n    step = train(data=data)\n"
CONFIGURE = "    step.runsettings.resource_layout.configure("


def test_a_step_is_configured_after_it() -> None:
    check_transformed(
        STEP + "    return step.outputs\n",
        STEP
        + CONFIGURE
        + 'instance_type="32cpu128g", instance_count=2)\n    return step.outputs\n',
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("instance_type='small'", 'instance_type="32cpu128g", instance_count=2'),
        ("node_count=1", 'node_count=2, instance_type="32cpu128g"'),
        (
            "instance_count=1, process_count_per_node=4",
            'instance_count=2, process_count_per_node=4, instance_type="32cpu128g"',
        ),
        (
            "\n        node_count=2,\n    ",
            '\n        node_count=2,\n        instance_type="32cpu128g",\n    ',
        ),
        ("", 'instance_type="32cpu128g", instance_count=2'),
    ],
)
def test_an_existing_call_is_merged(before: str, after: str) -> None:
    check_transformed(STEP + CONFIGURE + before + ")\n", STEP + CONFIGURE + after + ")\n")


def test_attributes_that_are_assigned_are_replaced() -> None:
    layout = "    step.runsettings.resource_layout."
    check_transformed(
        STEP + layout + "instance_type = 'a'\n" + layout + "node_count = 1\n",
        STEP + layout + 'instance_type = "32cpu128g"\n' + layout + "node_count = 2\n",
    )


def test_the_older_place_of_the_count_is_kept() -> None:
    check_transformed(
        STEP + "    step.runsettings.configure(target='c', node_count=1)\n",
        STEP
        + CONFIGURE
        + "instance_type=\"32cpu128g\")\n    step.runsettings.configure(target='c', node_count=2)\n",
    )


def test_bound_values_and_double_stars_are_left() -> None:
    check_left(STEP + CONFIGURE + "instance_type=size)\n", "it is bound to size", TYPE)
    check_left(STEP + CONFIGURE + "**layout)\n", "come from **", TYPE)


def test_a_component_of_a_workspace_is_left_unless_its_layout_is_configured_here() -> None:
    loaded = "from azure.ml.component import Component, dsl\n\ntrain = Component.load(ws, name='train')\n"
    body = "\n@dsl.pipeline\ndef p(data):\n    step = train(data=data)\n"
    check_left(loaded + body, "loaded from a workspace (Component.load)", TYPE, line=7)
    check_transformed(
        loaded + body + CONFIGURE + "node_count=2)\n",
        loaded + body + CONFIGURE + 'node_count=2, instance_type="32cpu128g")\n',
        TYPE,
    )


def test_a_sweep_spec_is_pointed_to_its_conversion(tmp_path: object) -> None:
    from pathlib import Path

    folder = Path(str(tmp_path))
    (folder / "train.yaml").write_text("$schema: x\ntype: SweepComponent\n")
    finding = next(
        found
        for found in check_noop(STEP, TYPE, path=str(folder / "p.py"))
        if "--sweep-to-v2" in found.reason
    )
    assert finding.rule == "instance-type"


def test_environment_variables_for_threads() -> None:
    value = "export MKL_NUM_THREADS=` get_cores ` NUMEXPR_NUM_THREADS=` get_cores ` OMP_NUM_THREADS=` get_cores `"
    findings = check_transformed(
        STEP,
        STEP + f'    step.runsettings.environment_variables = {{"AMLARC_PRESTEP": "{value}"}}\n',
        Settings(threads="lightgbm"),
    )
    assert findings[0].applied


def test_environment_variables_are_merged() -> None:
    assigned = "    step.runsettings.environment_variables = "
    check_transformed(
        STEP + assigned + "{'A': '1', 'AMLARC_PRESTEP': 'export OMP_NUM_THREADS=4'}\n",
        STEP
        + assigned
        + "{'A': '1', 'AMLARC_PRESTEP': 'export OMP_NUM_THREADS=4 MKL_NUM_THREADS=` get_cores `"
        + " NUMEXPR_NUM_THREADS=` get_cores `'}\n",
        Settings(threads="lightgbm"),
    )


def test_a_helper_that_applies_settings_is_named() -> None:
    text = STEP + "    self.apply_smart_runsettings(step, gpu=True)\n"
    check_left(text, "its settings go through a helper, self.apply_smart_runsettings()", BOTH)


def test_prs_steps_share_the_processes() -> None:
    text = STEP.replace("train.yaml", "missing.yaml")
    text += "    step.runsettings.parallel.configure(node_count=2, process_count_per_node=4)\n"
    check_transformed(
        text,
        text.replace(
            "train(data=data)\n", "train(data=data)\n" + CONFIGURE + 'instance_type="32cpu128g")\n'
        ),
        Settings(
            instance_type="32cpu128g", instance_count=2, kinds=("parallel",), assume="parallel"
        ),
    )


SWEPT = STEP + "    step.runsettings.sweep.algorithm = 'random'\n"


def test_a_sweep_step_gets_no_resources_but_the_reason() -> None:
    left = [
        (finding.rule, finding.reason)
        for finding in check_noop(SWEPT, BOTH)
        if finding.rule != "legacy-sweep"
    ]
    reason = "a SweepComponent takes no instance type: convert it with --sweep-to-v2"
    assert left == [("instance-type", reason), ("instance-count", reason)]


def test_the_compute_of_a_sweep_step_is_set() -> None:
    target = '    step.runsettings.target = "k8s"\n'
    check_transformed(
        SWEPT, SWEPT.replace("data=data)\n", "data=data)\n" + target), Settings(compute="k8s")
    )


@pytest.mark.parametrize(
    "said",
    [
        "resource_layout.configure(process_count_per_node=4)",
        "resource_layout.process_count_per_node = 4",
        "configure(process_count_per_node=4)",
        "process_count_per_node = 4",
        "parallel.configure(process_count_per_node=4)",
    ],
)
def test_processes_on_a_node_share_its_cores(said: str) -> None:
    text = STEP + f"    step.runsettings.{said}\n"
    variables = ", ".join(f'"{name}": "8"' for name in LIGHTGBM_NAMES)
    line = f"    step.runsettings.environment_variables = {{{variables}}}\n"
    check_transformed(
        text,
        text.replace("data=data)\n", "data=data)\n" + line),
        Settings(threads="lightgbm", cores=32),
    )


def test_processes_that_are_not_literals_are_reported() -> None:
    text = STEP + "    step.runsettings.resource_layout.configure(process_count_per_node=n)\n"
    check_left(
        text,
        "its processes per node are n, which is not a literal",
        Settings(threads="lightgbm", cores=32),
    )

"""What is reported and not rewritten: one test for each reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from arc_toolkit.azureml.settings import Settings
from tests.azureml.python.support import TYPE, V2, check_left, check_noop, patch

HEAD = V2 + "\n@dsl.pipeline\ndef p(x):\n"  # the step is on line 8

REASONS = [
    (
        "    if x:\n        node = train(x=x)\n    else:\n        node = train(x=2)\n    node.compute = 'c'\n",
        "several branches make it",
        9,
    ),
    ("    node = train(x=x) if x else train(x=2)\n", "chosen at run time", 8),
    ("    func = train if x else other\n    node = func(x=x)\n", "chosen at run time", 9),
    (
        "    node = steps[x](x=x)\n    node.compute = 'c'\n",
        "picked from a collection at run time",
        8,
    ),
    (
        "    for i in range(3):\n        node = train(x=i)\n    node.compute = 'c'\n",
        "made in a loop",
        9,
    ),
    ("    while x:\n        node = train(x=x)\n    node.compute = 'c'\n", "made in a loop", 9),
    (
        "    from azure.ai.ml import command\n    node = command(**x)\n",
        "its arguments come from **x",
        9,
    ),
    (
        "    from azure.ai.ml import command\n    node = command(*x)\n",
        "its arguments come from **",
        9,
    ),
    (
        "    node = train(x=x)\n    configure(node)\n",
        "its settings go through a helper, configure()",
        8,
    ),
    (
        "    node = train(x=x)\n    node.resources = CONFIG\n",
        "its resources are CONFIG, made elsewhere",
        8,
    ),
    (
        "    node = train(x=x)\n    node.resources = make(1)\n",
        "its resources are make(1), made elsewhere",
        8,
    ),
    (
        "    node = train(x=x)\n    node.resources = JobResourceConfiguration(**x)\n",
        "the values come from ** in line 9",
        8,
    ),
    (
        "    node = train(x=x)\n    if x:\n        node.resources = JobResourceConfiguration()\n",
        "set under a condition (line 10)",
        8,
    ),
    ("    train(x=x)\n", "no name of its own holds it", 8),
    ("    nodes = []\n    nodes.append(train(x=x))\n", "no name of its own holds it", 9),
    ("    return {'a': train(x=x).outputs.a}\n", "no name of its own holds it", 8),
    ("    nodes = [train(x=i) for i in x]\n", "no name of its own holds it", 8),
    ("    a, *b = train(x=x), 1\n", "no name of its own holds it", 8),
    ("    self.node = train(x=x)\n", "no name of its own holds it", 8),
    ("    node = train(x=x); print(1)\n", "it shares its line with another statement", 8),
    ("    if x: node = train(x=x)\n", "it shares its line with another statement", 8),
    ("    node = make_step(x)\n    node.compute = 'c'\n", "made by make_step()", 8),
    ("    node = x(1)\n    y = node.outputs.z\n", "x is a parameter", 8),
    (
        "    node = client.components.get('train')(x=x)\n",
        "loaded from a workspace (client.components.get)",
        8,
    ),
]


@pytest.mark.parametrize(
    ("body", "reason", "line"), REASONS, ids=[reason for _, reason, _ in REASONS]
)
def test_reported_and_left(body: str, reason: str, line: int) -> None:
    assert check_left(HEAD + body, reason, TYPE, line).rule == "instance-type"


OUTSIDE = [
    (
        "train = client.components.get('train', version='1')",
        "loaded from a workspace (client.components.get)",
    ),
    (
        "train = load_component(client=client, name='train')",
        "loaded from a workspace (load_component",
    ),
    ("from components import train", "train is imported from components"),
    ("from .components import train", "train is imported from .components"),
    ("def train(x):\n    return other(x)", "train is a helper function"),
    (
        "if x:\n    train = load_component('a.yml')\nelse:\n    train = load_component('b.yml')",
        "chosen at run time",
    ),
    ("for train in load_all():\n    pass", "train is a loop variable"),
    ("train, score = load_both()", "train is unpacked from several values"),
]


@pytest.mark.parametrize(("made", "reason"), OUTSIDE, ids=[reason for _, reason in OUTSIDE])
def test_a_component_of_unknown_origin_is_left(made: str, reason: str) -> None:
    text = f"from azure.ai.ml import dsl, load_component\n{made}\n\n@dsl.pipeline\ndef p(x):\n"
    check_left(text + "    node = train(x=x)\n    y = score(z=node.outputs.y)\n", reason, TYPE)


@pytest.mark.parametrize(
    ("kind", "reasons"),
    [
        ("pipeline", [("warning", "its steps are in train.yml: give that file too")]),
        ("spark", [("note", "Spark takes a fixed list of VM sizes, not an instance type")]),
        ("data_transfer", [("note", "this kind does not run on Kubernetes")]),
        ("import", [("note", "this kind does not run on Kubernetes")]),
    ],
)
def test_kinds_that_take_no_instance_type(
    kind: str, reasons: list[tuple[str, str]], tmp_path: Path
) -> None:
    (tmp_path / "train.yml").write_text(f"$schema: s\ntype: {kind}\n")
    findings = check_noop(HEAD + "    node = train(x=x)\n", TYPE, path=str(tmp_path / "p.py"))
    assert [(finding.severity, finding.reason) for finding in findings] == reasons


@pytest.mark.parametrize(
    "source",
    [
        'FOLDER + "/train.yml"',
        'f"{FOLDER}/train.yml"',
        'os.path.join(FOLDER, "train.yml")',
        'Path(FOLDER) / "train.yml"',
    ],
)
def test_the_kind_is_read_from_files_named_by_simple_expressions(
    source: str, tmp_path: Path
) -> None:
    (tmp_path / "specs").mkdir()
    (tmp_path / "specs" / "train.yml").write_text("type: spark\ncode: .\nentry: {file: a.py}\n")
    text = f"from azure.ai.ml import dsl, load_component\nFOLDER = './specs'\ntrain = load_component({source})\n"
    text += "\n@dsl.pipeline\ndef p(x):\n    node = train(x=x)\n"
    findings = check_noop(text, TYPE, path=str(tmp_path / "p.py"))
    assert "VM sizes" in findings[0].reason


def test_a_pipeline_in_a_pipeline_is_not_a_candidate() -> None:
    text = (
        V2
        + "\n@dsl.pipeline\ndef inner(x):\n    pass\n\n@dsl.pipeline\ndef p(x):\n    node = inner(x=x)\n"
    )
    assert check_noop(text + "    y = node.outputs.z\n", TYPE) == ()


def test_command_with_double_stars_is_left_and_so_are_its_steps() -> None:
    text = "from azure.ai.ml import command\n\njob = command(**config)\n"
    check_left(text, "its arguments come from **config", TYPE, line=3)


def test_ordinary_calls_in_a_pipeline_are_not_candidates() -> None:
    body = "    name = str(x)\n    now = datetime.now()\n    data = Input(path=name)\n    print(now, data)\n"
    text = "from datetime import datetime\nfrom azure.ai.ml import Input\n" + HEAD + body
    assert check_noop(text, TYPE) == ()


def test_steps_that_were_not_chosen_are_not_reported() -> None:
    text = HEAD + "    node = train(x=x) if x else None\n"
    assert check_noop(text, Settings(instance_type="t", steps=("other",))) == ()


def test_nothing_asked_nothing_said() -> None:
    result = patch(HEAD + "    node = train(x=x) if x else None\n", Settings())
    assert (result.after, result.findings, result.refused, result.skipped) == (None, (), None, None)

"""What a job runs: the script of its command, what that imports, and the packages around it."""

from __future__ import annotations

import pytest

from tests.azureml.support import PIPELINE, patch

JOB = """\
type: command
command: python train.py --lr 0.1
code: ./src
environment:
  image: mcr.microsoft.com/azureml/openmpi4.1.0-ubuntu22.04
  conda_file: ./conda.yml
compute: azureml:aks
resources:
  instance_type: 8cpu32g
"""
CONDA = "dependencies:\n- python=3.11\n- pip:\n  - lightgbm==4.5\n"
PLAIN = "dependencies:\n- python=3.11\n"


def threads(text: str, conda: str, script: str | None = None) -> list[str]:
    """The severities of the findings about threads."""
    files = {"conda.yml": conda} | ({} if script is None else {"src/train.py": script})
    return [
        item.severity
        for item in patch(text, files=files).findings
        if item.rule.endswith("-threads")
    ]


@pytest.mark.parametrize(
    ("scripts", "found"),
    [
        ({"src/train.py": "import lightgbm as lgb\n"}, True),
        ({"src/train.py": "from mlflow import lightgbm\n"}, True),
        (
            {
                "src/train.py": "import models\n",
                "src/models.py": "from lightgbm import LGBMClassifier\n",
            },
            True,
        ),
        ({"src/train.py": "from lib import fit\n", "src/lib/fit.py": "from . import gbm\n"}, False),
        (
            {
                "src/train.py": "from lib import (\n    fit,\n)\n",
                "src/lib/fit.py": "from .core import gbm\n",
                "src/lib/core/gbm.py": "import faiss\n",
            },
            True,
        ),
        ({"src/train.py": "import os\n", "src/other.py": "import lightgbm\n"}, False),
        ({"src/train.py": "# import lightgbm\n"}, False),
        ({"src/other.py": "import lightgbm\n"}, False),
    ],
)
def test_only_code_that_the_command_runs_counts(scripts: dict[str, str], found: bool) -> None:
    result = patch(JOB, files={"conda.yml": PLAIN} | scripts)
    assert any(finding.rule.endswith("-threads") for finding in result.findings) == found


def test_a_module_and_a_shell_script_are_followed() -> None:
    module = JOB.replace("train.py", "-m package.main")
    shell = JOB.replace("python train.py", "bash run.sh")
    files = {"conda.yml": PLAIN, "src/run.sh": "python package/main.py $@\n"}
    files["src/package/main.py"] = "import lightgbm\n"
    for text in (module, shell):
        assert [finding.rule for finding in patch(text, files=files).findings] == [
            "lightgbm-threads"
        ]


def test_the_packages_of_a_shared_environment_count_unless_the_code_shows_that_it_uses_none() -> (
    None
):
    assert threads(JOB, CONDA) == ["warning"], "the code is not here"
    assert threads(JOB, CONDA, "import joblib\nmodel = joblib.load('m')\n") == ["warning"]
    assert threads(JOB, CONDA, "import pandas\n") == []


@pytest.mark.parametrize(
    ("compute", "severities"),
    [
        ("azureml:aks", ["warning"]),
        ("azureml:cpu-cluster", []),
        ("azureml:gpu_cluster", []),
        ("serverless", []),
        ("azureml:training", ["note"]),
    ],
)
def test_a_cluster_of_vms_needs_no_threads(compute: str, severities: list[str]) -> None:
    text = JOB.replace("azureml:aks", compute).replace("resources:\n  instance_type: 8cpu32g\n", "")
    assert threads(text, CONDA) == severities


def test_an_instance_type_says_what_the_compute_is() -> None:
    text = JOB.replace("azureml:aks", "azureml:training")
    assert threads(text, CONDA) == ["warning"]
    assert threads(text.replace("8cpu32g", "Standard_D8s_v3"), CONDA) == []


def test_a_v15_spec_names_files_below_its_snapshot_folder() -> None:
    spec = """\
type: CommandComponent
name: train
code: ../..
command: python jobs/train.py
environment:
  conda:
    conda_dependencies_file: envs/conda.yml
  docker:
    build:
      dockerfile: file:envs/Dockerfile
"""
    files = {
        "envs/conda.yml": CONDA,
        "envs/Dockerfile": "FROM ubuntu:18.04\n",
        "a/b/spec.yaml": spec,
    }
    rules = {finding.rule for finding in patch(spec, path="a/b/spec.yaml", files=files).findings}
    assert rules == {"lightgbm-threads", "old-base-image"}
    lost = patch(spec.replace("code: ../..\n", ""), path="a/b/spec.yaml", files=files).findings
    assert [finding.rule for finding in lost] == ["missing-reference"]


def test_files_that_are_included_into_the_snapshot_are_not_missed() -> None:
    spec = "type: CommandComponent\ncommand: x\nenvironment: {conda: {conda_dependencies_file: conda.yml}}\n"
    files = {"spec.additional_includes": "../conda.yml\n", "spec.yaml": spec}
    assert patch(spec, path="spec.yaml", files=files).findings == ()


COMPONENT = """\
type: command
name: train
version: 3
command: python train.py
environment: azureml:lightgbm@latest
"""


@pytest.mark.parametrize(
    ("written", "is_used", "is_the_same"),
    [
        ("./train.yml", True, True),
        ("azureml:train:3", True, True),
        ("azureml:train@latest", True, True),
        ("azureml:train", True, True),
        ("azureml://registries/mine/components/train/versions/3", True, True),
        ("azureml://registries/mine/components/train/labels/latest", True, True),
        ("azureml:train:2", True, False),
        ("azureml:trainer:3", False, False),
    ],
)
def test_a_registered_component_and_the_given_file_of_its_name_belong_together(
    written: str, is_used: bool, is_the_same: bool
) -> None:
    pipeline = PIPELINE.replace("./train.yml", written) + "    compute: azureml:aks\n"
    files = {"p.yml": pipeline, "train.yml": COMPONENT}
    rules = {
        item.rule
        for item in patch(COMPONENT, path="train.yml", files=files, in_folder=True).findings
    }
    assert ("unused-component" in rules) != is_used
    step = patch(pipeline, path="p.yml", files=files).findings
    assert ("lightgbm-threads" in {finding.rule for finding in step}) == is_the_same


def test_two_files_of_one_name_are_not_chosen_from() -> None:
    pipeline = (
        PIPELINE.replace("./train.yml", "azureml:train@latest") + "    compute: azureml:aks\n"
    )
    files = {"p.yml": pipeline, "a/train.yml": COMPONENT, "b/train.yml": COMPONENT}
    assert "lightgbm-threads" not in {
        finding.rule for finding in patch(pipeline, path="p.yml", files=files).findings
    }


@pytest.mark.parametrize(
    "code",
    [
        'train = load_component("./components/train.yml")',
        'train = load_component(source=f"{ROOT}/components/train.yml")',
        'train = load_component(source=ROOT / "train.yml")',
        'train = load_component(source=os.path.join(ROOT, "..", "components", "train.yml"))',
        'train = load_component(source=ROOT / "other" / ".." / "components" / "train.yml")',
        'train = ml_client.components.get("train", version="3")',
        'train = load_component(client=ml_client, name="train", version="3")',
        'train = Component.load(workspace, name="train")',
        'steps.component = "azureml:train:3"; load_component("azureml:train:3")',
    ],
)
def test_code_uses_a_component_by_its_file_or_its_name(code: str) -> None:
    files = {"pipeline.py": code, "components/train.yml": COMPONENT}
    result = patch(COMPONENT, path="components/train.yml", files=files, in_folder=True)
    assert result.findings == ()
    other = patch(
        COMPONENT,
        path="components/train.yml",
        files={"components/train.yml": COMPONENT},
        in_folder=True,
    )
    assert [finding.rule for finding in other.findings] == ["unused-component"]


@pytest.mark.parametrize(
    "code",
    [
        'for name in names:\n    steps.append(load_component(source=f"{folder}/{name}.yml"))',
        'steps = [load_component(folder + "/" + name + ".yaml") for name in names]',
        'steps = [load_component(path) for path in folder.glob("*.yml")]',
        'step = load_component("%s-train.yml" % prefix)',
        "step = load_component(arguments.component)",
    ],
)
def test_code_that_loads_components_of_unknown_names_may_use_any_around_it(code: str) -> None:
    files = {
        "a/src/pipeline.py": code,
        "a/components/train.yml": COMPONENT,
        "b/train.yml": COMPONENT,
    }
    near, far = (
        patch(COMPONENT, path=path, files=files, in_folder=True).findings
        for path in ("a/components/train.yml", "b/train.yml")
    )
    assert near == ()
    assert [finding.rule for finding in far] == ["unused-component"]


@pytest.mark.parametrize("key", ["component", "trial"])
def test_a_file_that_a_step_names_is_a_component(key: str) -> None:
    text = "command: python train.py\nenvironment: e\ncode: .\n"
    pipeline = f"type: pipeline\njobs:\n  s:\n    {key}: ./train.yml\n"
    assert patch(text, path="train.yml", compute="aks").after is not None, "by itself it is a job"
    used = patch(text, path="train.yml", files={"p.yml": pipeline}, compute="aks")
    assert used.after is None
    typed = patch(
        "type: command\n" + text, path="train.yml", files={"p.yml": pipeline}, compute="aks"
    )
    assert typed.after is None
    misplaced = patch(
        "type: command\ncompute: azureml:c\n" + text, path="train.yml", files={"p.yml": pipeline}
    )
    assert [finding.rule for finding in misplaced.findings] == ["misplaced-key"]

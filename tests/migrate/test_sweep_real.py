"""What the sweep converter writes, loaded with azure-ai-ml: valid, and sending what the v1.5 source says."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from arc_toolkit.azureml.settings import Settings, SweepForm
from arc_toolkit.migrate import sweep as converter
from tests.migrate.support import SWEEP, TRIAL, azure, convert, loaded, messages, read, spec
from tests.support import CORPUS, needs_corpus

pytestmark = [pytest.mark.real, pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

FORMS = ("step", "job", "python")
# azure-ai-ml's names on the wire for the policies of a v1.5 spec.
POLICY_NAMES = {
    "bandit": "Bandit",
    "median_stopping": "MedianStopping",
    "truncation_selection": "TruncationSelection",
}


def arguments(form: str, names: tuple[str, ...] = ("train",)) -> dict[str, Any]:
    """A pipeline function of the Python form is called with its data."""
    ml = azure()
    one = ml.Input(type="uri_folder", path="azureml:data@latest")
    return dict.fromkeys(names, one) if form == "python" else {}


def sent(form: str, rest: dict[str, Any]) -> dict[str, Any]:
    """What a REST body says about the sweep, in one shape for a pipeline step and a standalone job."""
    if form == "job":
        trial = rest["trial"]
        policy = dict(rest.get("earlyTermination") or {})
        return {
            "space": {
                name: [kind, flat(values)] for name, (kind, values) in rest["searchSpace"].items()
            },
            "algorithm": rest["samplingAlgorithm"]["samplingAlgorithmType"].lower(),
            "objective": (rest["objective"]["goal"], rest["objective"]["primaryMetric"]),
            "total": rest["limits"]["maxTotalTrials"],
            "concurrent": rest["limits"].get("maxConcurrentTrials"),
            "timeout": rest["limits"].get("timeout"),
            "policy": policy.get("policyType"),
            "evaluation_interval": policy.get("evaluationInterval"),
            "delay_evaluation": policy.get("delayEvaluation"),
            "slack_factor": policy.get("slackFactor") or None,
            "slack_amount": policy.get("slackAmount") or None,
            "truncation_percentage": policy.get("truncationPercentage"),
            "resources": (rest["resources"]["instanceType"], rest["resources"]["instanceCount"]),
            "variables": trial.get("environmentVariables") or {},
            "command": trial["command"],
            "distribution": (trial.get("distribution") or {}).get("distributionType", "").lower(),
        }
    node = rest["jobs"]["sweep"]
    component = node["trial"]["properties"]["componentSpec"]
    policy = node.get("early_termination") or {}
    bound = [node["resources"][key] for key in ("instance_type", "instance_count")]
    assert bound == ["${{parent.inputs.instance_type}}", "${{parent.inputs.instance_count}}"]
    return {
        "space": {
            name: [d["type"], flat([d[key] for key in KEYS[d["type"]]])]
            for name, d in node["search_space"].items()
        },
        "algorithm": node["sampling_algorithm"],
        "objective": (node["objective"]["goal"], node["objective"]["primary_metric"]),
        "total": node["limits"]["max_total_trials"],
        "concurrent": node["limits"].get("max_concurrent_trials"),
        "timeout": node["limits"].get("timeout"),
        "policy": policy.get("policy_type"),
        "evaluation_interval": policy.get("evaluation_interval"),
        "delay_evaluation": policy.get("delay_evaluation"),
        "slack_factor": policy.get("slack_factor") or None,
        "slack_amount": policy.get("slack_amount") or None,
        "truncation_percentage": policy.get("truncation_percentage"),
        "resources": (
            rest["inputs"]["instance_type"]["value"],
            int(rest["inputs"]["instance_count"]["value"]),
        ),
        "command": component["command"],
        "distribution": (component.get("distribution") or {}).get("type", ""),
    }


KEYS = {
    "choice": ("values",),
    "randint": ("upper",),
    "uniform": ("min_value", "max_value"),
    "loguniform": ("min_value", "max_value"),
    "quniform": ("min_value", "max_value", "q"),
    "qloguniform": ("min_value", "max_value", "q"),
    "normal": ("mu", "sigma"),
    "lognormal": ("mu", "sigma"),
    "qnormal": ("mu", "sigma", "q"),
    "qlognormal": ("mu", "sigma", "q"),
}


def flat(values: list[Any]) -> list[Any]:
    """The parameters of a distribution; REST wraps the values of a choice once more."""
    return values[0] if len(values) == 1 and isinstance(values[0], list) else values


def iso(seconds: int) -> str:
    """`PT40M`, as a standalone job sends its timeout."""
    from datetime import timedelta

    import isodate  # type: ignore[import-untyped]

    return str(isodate.duration_isoformat(timedelta(seconds=seconds)))


# --- generated sweeps ----------------------------------------------------------------------------------------------

names = st.from_regex(r"[a-z][a-z0-9_]{0,8}", fullmatch=True).filter(
    lambda name: name not in ("train", "model", "instance_type", "instance_count")
)
numbers = st.one_of(
    st.integers(-1000, 1000),
    st.floats(-1e6, 1e6, allow_nan=False, allow_infinity=False).map(lambda x: x + 0.0),
)
words = st.text(
    st.characters(codec="utf-8", categories=("L", "N", "P", "S", "Zs")), min_size=0, max_size=12
)
values = st.lists(st.one_of(numbers, words, st.booleans()), min_size=1, max_size=4)


@st.composite
def distributions(draw: st.DrawFn) -> dict[str, Any]:
    kind = draw(st.sampled_from(sorted(KEYS)))
    if kind == "choice":
        return {"type": kind, "values": draw(values)}
    if kind == "randint":
        return {"type": kind, "upper": draw(st.integers(1, 10**6))}
    return {"type": kind, **{key: draw(numbers) for key in KEYS[kind]}}


@st.composite
def policies(draw: st.DrawFn) -> dict[str, Any]:
    kind = draw(
        st.sampled_from(
            ["bandit", "median_stopping", "medianStopping", "truncation_selection", "default"]
        )
    )
    policy: dict[str, Any] = {"policy_type": kind}
    if kind == "bandit":
        policy[draw(st.sampled_from(["slack_factor", "slack_amount"]))] = draw(
            st.sampled_from([0.1, 0.25, 2])
        )
    if kind == "truncation_selection":
        policy["truncation_percentage"] = draw(st.integers(1, 99))
    for key in ("evaluation_interval", "delay_evaluation"):
        if draw(st.booleans()):
            policy[key] = draw(st.integers(1, 20))
    return policy


@st.composite
def sweeps(draw: st.DrawFn) -> dict[str, Any]:
    metric = draw(st.sampled_from(["loss", "node_0/valid_0.rmse", "AUC weighted"]))
    limits: dict[str, Any] = {"max_total_trials": draw(st.integers(1, 1000))}
    if draw(st.booleans()):
        limits["max_concurrent_trials"] = draw(st.integers(1, 100))
    if draw(st.booleans()):
        limits["timeout_minutes"] = draw(st.integers(1, 10000))
    return spec(
        SWEEP,
        algorithm=draw(st.sampled_from(["random", "Grid", "bayesian"])),
        objective={
            "primary_metric": draw(
                st.sampled_from([metric, {"default": metric, "enum": [metric, "other"]}])
            ),
            "goal": draw(st.sampled_from(["minimize", "Maximize"])),
        },
        search_space=draw(st.dictionaries(names, distributions(), min_size=1, max_size=4)),
        limits=limits,
        early_termination=draw(st.none() | policies()),
        environment_variables=draw(
            st.dictionaries(st.sampled_from(["A", "OMP_NUM_THREADS"]), words, max_size=2)
        )
        or None,
    )


def wanted(source: dict[str, Any], form: str) -> dict[str, Any]:
    """What the v1.5 source means, by the tables of the facts, for comparing with `sent`."""
    metric = source["objective"]["primary_metric"]
    policy = source.get("early_termination") or {"policy_type": "default"}
    kind = {"medianStopping": "median_stopping"}.get(policy["policy_type"], policy["policy_type"])
    none = kind == "default"
    minutes = source["limits"].get("timeout_minutes")
    timeout = None if minutes is None else iso(minutes * 60) if form == "job" else minutes * 60
    return {
        "space": {
            name: [
                d["type"],
                [
                    str(v) if isinstance(v, bool) else v
                    for v in flat([d[key] for key in KEYS[d["type"]]])
                ],
            ]
            for name, d in source["search_space"].items()
        },
        "algorithm": source["algorithm"].lower(),
        "objective": (
            source["objective"]["goal"].lower(),
            metric["default"] if isinstance(metric, dict) else metric,
        ),
        "total": source["limits"]["max_total_trials"],
        "concurrent": source["limits"].get("max_concurrent_trials"),
        "timeout": timeout,
        "policy": None if none else POLICY_NAMES[kind],
        "evaluation_interval": None if none else policy.get("evaluation_interval", 1),
        "delay_evaluation": None if none else policy.get("delay_evaluation", 0),
        "slack_factor": policy.get("slack_factor"),
        "slack_amount": policy.get("slack_amount"),
        "truncation_percentage": policy.get("truncation_percentage"),
        "resources": ("32cpu128g", 3),
    }


@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(source=sweeps())
def test_a_generated_sweep_sends_what_its_source_says(form: str, source: dict[str, Any]) -> None:
    swept = " ".join(f"--{name} {{inputs.{name}}}" for name in source["search_space"])
    trial = spec(
        TRIAL,
        inputs={"train": {"type": "path"}},
        command=f"python t.py {{inputs.train}} {swept}",
        outputs=None,
    )
    with tempfile.TemporaryDirectory() as folder:
        result = convert(
            Path(folder),
            source,
            trial,
            sweep_as=form,
            instance_type="32cpu128g",
            instance_count=3,
            compute="k8s",
        )
        rest, _ = loaded(result, **arguments(form))
    seen = sent(form, rest)
    expected = wanted(source, form)
    assert {key: seen[key] for key in expected} == expected
    variables = source.get("environment_variables") or {}
    if form == "job":
        assert seen["variables"] == variables
    elif variables:
        assert seen["command"].startswith("export ")
        assert all(f"{name}=" in seen["command"] for name in variables)
    kind = "search_space" if form == "job" else "inputs"
    assert all(f"${{{{{kind}.{name}}}}}" in seen["command"] for name in source["search_space"])


# --- by hand -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("launcher", "kind"), [("mpi", "mpi"), ("torch.distributed", "pytorch")])
def test_a_launcher_becomes_a_distribution(
    tmp_path: Path, form: str, launcher: str, kind: str
) -> None:
    trial = spec(
        TRIAL,
        type="DistributedComponent",
        launcher={"type": launcher, "additional_arguments": TRIAL["command"]},
        command=None,
    )
    rest, _ = loaded(convert(tmp_path, trial_spec=trial, sweep_as=form), **arguments(form))
    assert sent(form, rest)["distribution"] == kind
    assert "python train.py" in sent(form, rest)["command"]


@pytest.mark.parametrize("form", FORMS)
def test_every_environment_shape_loads(tmp_path: Path, form: str) -> None:
    conda = "name: e\ndependencies: [python=3.10, {pip: [lightgbm]}]\n"
    for index, section in enumerate(
        [
            {"name": "curated", "version": "7"},
            {
                "docker": {"image": "ubuntu:22.04"},
                "conda": {"conda_dependencies_file": "env/conda.yaml"},
            },
            {
                "docker": {"image": "ubuntu:22.04"},
                "conda": {"conda_dependencies": {"dependencies": ["python=3.10"]}},
            },
            {
                "docker": {"image": "ubuntu:22.04"},
                "conda": {"pip_requirements_file": "env/requirements.txt"},
            },
            {
                "docker": {"build": {"dockerfile": "file:./env/Dockerfile"}},
                "conda": {"userManagedDependencies": True},
            },
            {"docker": {"build": {"dockerfile": "FROM ubuntu:22.04\nRUN true\n"}}},
            {"conda": {"conda_dependencies_file": "file:env/conda.yaml"}, "os": "Linux"},
        ]
    ):
        folder = tmp_path / str(index)
        files = {
            "env/conda.yaml": conda,
            "env/requirements.txt": "lightgbm==4.5 # pinned\n\n# c\nnumpy\n",
            "env/Dockerfile": "FROM x\n",
        }
        result = convert(
            folder, trial_spec=spec(TRIAL, environment=section), files=files, sweep_as=form
        )
        loaded(result, **arguments(form))


@pytest.mark.parametrize("form", FORMS)
def test_a_trial_in_another_folder_keeps_its_paths(tmp_path: Path, form: str) -> None:
    trial = spec(
        TRIAL,
        code="../code",
        environment={"docker": {"image": "u"}, "conda": {"conda_dependencies_file": "conda.yaml"}},
    )
    files = {"code/train.py": "", "specs/conda.yaml": "dependencies: [python=3.10]\n"}
    import yaml

    files["specs/train.yaml"] = yaml.safe_dump(trial)
    result = convert(
        tmp_path, spec(SWEEP, trial="file:./specs/train.yaml"), None, files, sweep_as=form
    )
    rest, component = loaded(result, **arguments(form))
    assert component["componentSpec"]["code"] == str(tmp_path / "code")
    if form == "job":
        job = azure().load_job(tmp_path / "sweep.v2.yaml")
        assert Path(tmp_path, job.trial.code).resolve() == tmp_path / "code"
        assert "python=3.10" in str(job.trial.environment.conda_file)
    else:
        code = rest["jobs"]["sweep"]["trial"]["properties"]["componentSpec"]["code"]
        assert code == str(tmp_path / "code")


@pytest.mark.parametrize("form", FORMS)
def test_conditional_choices_keep_their_distributions(tmp_path: Path, form: str) -> None:
    space = {
        "opt": {
            "type": "choice",
            "values": [
                {"name": "sgd", "lr": {"type": "uniform", "min_value": 0, "max_value": 1}},
                {"name": "adam"},
            ],
        }
    }
    trial = spec(
        TRIAL,
        inputs={"train": {"type": "path"}},
        command="x {inputs.train} {search_space.opt}",
        outputs=None,
    )
    rest, _ = loaded(
        convert(tmp_path, spec(SWEEP, search_space=space), trial, sweep_as=form), **arguments(form)
    )
    drawn = sent(form, rest)["space"]["opt"][1]
    assert [item["name"] for item in drawn] == ["sgd", "adam"]
    assert str(drawn[0]["lr"]).count("uniform") == 1


@pytest.mark.parametrize("form", FORMS)
def test_illegal_names_load_once_they_are_made_legal(tmp_path: Path, form: str) -> None:
    space = {"learning-rate": {"type": "uniform", "min_value": 0, "max_value": 1}}
    trial = spec(
        TRIAL,
        name="My.Train-v2",
        inputs={
            "learning-rate": {"type": "Float"},
            "learning_rate": {"type": "Float", "default": 1.5},
            "2nd": {"type": "String", "default": "x"},
            "lambda": {"type": "Float", "default": 0.5},
            "instance_type": {"type": "String", "default": "of the trial"},
        },
        command="x {inputs.learning-rate} {inputs.learning_rate} {inputs.2nd} {inputs.lambda} {inputs.instance_type}",
        outputs=None,
    )
    result = convert(
        tmp_path, spec(SWEEP, search_space=space), trial, sweep_as=form, instance_type="big"
    )
    ml = azure()
    assert ml is not None
    if form == "job":
        rest, _ = loaded(result)
        assert set(rest["searchSpace"]) == {"learning_rate"}
        assert rest["inputs"]["instance_type"]["value"] == "of the trial"
    else:
        rest, _ = loaded(result)
        node = rest["jobs"]["sweep"]
        assert node["resources"]["instance_type"] == "${{parent.inputs.sweep_instance_type}}"
        assert rest["inputs"]["sweep_instance_type"]["value"] == "big"
        assert set(node["search_space"]) == {"learning_rate"}


@needs_corpus
@pytest.mark.parametrize("form", FORMS)
def test_the_real_lightgbm_sweep_with_its_mpi_trial_converts_and_validates(
    tmp_path: Path, form: str
) -> None:
    original = CORPUS / "lightgbm-benchmark/src/scripts/training/lightgbm_python"
    folder = tmp_path / "lightgbm_python"
    shutil.copytree(original, folder)
    path = folder / "sweep_spec.yaml"
    result = converter.convert(
        str(path),
        path.read_bytes(),
        Settings(instance_type="32cpu128g", instance_count=2, sweep_as=cast(SweepForm, form)),
        read,
    )
    rest, component = loaded(result, **arguments(form, ("train", "test")))
    seen = sent(form, rest)
    assert seen["space"] == {
        "num_iterations": ["choice", [50]],
        "num_leaves": ["choice", [30]],
        "min_data_in_leaf": ["choice", [20]],
        "learning_rate": ["choice", [0.1]],
        "max_bin": ["choice", [255]],
        "feature_fraction": ["choice", [1.0]],
    }
    assert seen["objective"] == ("minimize", "node_0/valid_0.rmse")
    assert (seen["total"], seen["concurrent"]) == (4, 4)
    assert seen["timeout"] == ("PT40M" if form == "job" else 2400)
    assert seen["resources"] == ("32cpu128g", 2)
    assert seen["distribution"] == "mpi"
    assert len(component["componentSpec"]["inputs"]) == 25
    assert component["componentSpec"]["command"].count("$[[") == 6
    assert "22 more of its enum have no place" in messages(result)

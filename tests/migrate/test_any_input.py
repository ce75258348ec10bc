"""Whatever is in a spec: it is converted or refused in one sentence, and never an unexpected error."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from arc_toolkit.azureml.python.parallel_runs import CONFIG_ORDER, STEP_ORDER
from arc_toolkit.azureml.settings import Settings
from arc_toolkit.migrate.ledger import signature
from tests.migrate.support import SWEEP, TRIAL, convert, patch_file, spec

FORMS = ("step", "job", "python")
anything = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.floats()
    | st.sampled_from(["", "x", "file:./spec.yaml", "{a}", "[b"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "type",
                    "values",
                    "default",
                    "enum",
                    "docker",
                    "build",
                    "conda",
                    "name",
                    "lr",
                    "image",
                ]
            ),
            inner,
            max_size=3,
        )
    ),
    max_leaves=8,
)


def places(data: dict[str, Any], at: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    out = []
    for key, value in data.items():
        out.append((*at, key))
        if isinstance(value, dict):
            out += places(value, (*at, key))
    return out


def put(data: dict[str, Any], at: tuple[str, ...], value: Any) -> dict[str, Any]:
    data = spec(data)
    inner = data
    for key in at[:-1]:
        inner = inner[key]
    inner[at[-1]] = value
    return data


RICH_SWEEP = spec(
    SWEEP,
    inputs={"lr": {"type": "Float", "description": "d"}},
    outputs={"model": {"type": "path"}},
    tags={"a": "b"},
    environment_variables={"A": "b"},
    early_termination={"policy_type": "bandit", "slack_factor": 0.1, "evaluation_interval": 1},
)
RICH_TRIAL = spec(
    TRIAL,
    launcher={"type": "mpi", "additional_arguments": "python x.py"},
    environment={
        "docker": {"image": "u", "build": {"dockerfile": "FROM x"}},
        "conda": {"conda_dependencies": {}, "pip_requirements_file": "r"},
        "os": "Linux",
    },
    environment_variables={"A": "b"},
    tags={"a": "b"},
    code=".",
)


@settings(max_examples=60, deadline=None)
@given(
    form=st.sampled_from(FORMS),
    in_sweep=st.none() | st.tuples(st.sampled_from(places(RICH_SWEEP)), anything),
    in_trial=st.none() | st.tuples(st.sampled_from(places(RICH_TRIAL)), anything),
    distributed=st.booleans(),
)
def test_a_spec_with_anything_anywhere_is_converted_or_refused(
    form: str, in_sweep: Any, in_trial: Any, distributed: bool
) -> None:
    sweep_spec = put(RICH_SWEEP, *in_sweep) if in_sweep else RICH_SWEEP
    trial = spec(RICH_TRIAL, type="DistributedComponent" if distributed else "CommandComponent")
    trial_spec = put(trial, *in_trial) if in_trial else trial
    with tempfile.TemporaryDirectory() as folder:
        result = convert(Path(folder), sweep_spec, trial_spec, sweep_as=form)
    if result.refused is not None:
        assert "\n" not in result.refused
        assert not result.new_files
    for name, data in result.new_files:
        if name.endswith(".py"):
            compile(data, name, "exec")
        elif name.endswith(".yaml"):
            assert isinstance(yaml.safe_load(data), dict)


EXPRESSIONS = (
    *("None", "0", "-1", "True", "1.5", "'x'", "'5'", "'10KB'", "[1, 'a']", "(d, o)", "{}", "[[]]"),
    *(
        "{'a': 1, 2: [None]}",
        "unknown",
        "unknown()",
        "{**unknown}",
        "[*unknown]",
        "d",
        "o",
        "p",
        "e",
    ),
    *(
        "d.as_mount()",
        "o.as_mount()",
        "[d.as_named_input('n').as_download()]",
        "e.clone('c')",
        "'' * 3",
    ),
    *(
        "ws.compute_targets['k']",
        "ComputeTarget(ws, 'k')",
        "choice(d)",
        "choice(1, [2])",
        "uniform(0, p)",
    ),
    *(
        "RandomParameterSampling({'a': choice(1)})",
        "RandomParameterSampling(space)",
        "BanditPolicy(d, 1)",
    ),
    *(
        "MpiConfiguration(p, 0)",
        "PyTorchConfiguration('x', -1)",
        "PrimaryMetricGoal.MINIMIZE",
        "src",
    ),
)
CODE = """\
from azureml.core import ComputeTarget, Dataset, Environment, ScriptRunConfig
from azureml.core.runconfig import MpiConfiguration, PyTorchConfiguration
from azureml.pipeline.core import PipelineData, PipelineParameter
from azureml.pipeline.steps import ParallelRunConfig, ParallelRunStep
from azureml.train.hyperdrive import *
d = Dataset.get_by_name(ws, "n")
o = PipelineData("o")
p = PipelineParameter("p", 3)
e = Environment("e")
e.environment_variables = {{}}
space = {{"a": choice(1, 2), "-b": uniform(0, 1)}}
config = ParallelRunConfig({config})
{change}
step = ParallelRunStep(parallel_run_config=config, {step})
src = ScriptRunConfig({script})
{change}
hd = HyperDriveConfig(run_config=src, hyperparameter_sampling=RandomParameterSampling(space),
    primary_metric_name="m", primary_metric_goal=PrimaryMetricGoal.MAXIMIZE, max_total_runs=3)
hd = HyperDriveConfig({hyperdrive})
"""
CHANGES = (
    *("config.{0} = {1}", "config.environment_variables['A'] = {1}", "src.run_config.{0} = {1}"),
    *(
        "src.arguments = {1}",
        "e.environment_variables = {1}",
        "e.environment_variables[{1}] = 1",
        "pass",
    ),
)


def calls(names: tuple[str, ...], **defaults: str) -> st.SearchStrategy[str]:
    """The arguments of a call: some names, each with any expression."""
    return st.dictionaries(st.sampled_from(names), st.sampled_from(EXPRESSIONS), max_size=5).map(
        lambda values: ", ".join(f"{name}={value}" for name, value in (defaults | values).items())
    )


@settings(max_examples=150, deadline=None)
@given(
    config=calls(CONFIG_ORDER, environment="e"),
    step=calls(tuple(name for name in STEP_ORDER if name != "parallel_run_config")),
    script=calls(signature("ScriptRunConfig"), environment="e", script="'t.py'"),
    sweep=calls(signature("HyperDriveConfig")),
    change=st.sampled_from(CHANGES),
    name=st.sampled_from((*CONFIG_ORDER, "target", "node_count")),
    value=st.sampled_from(EXPRESSIONS),
)
def test_code_with_anything_anywhere_is_converted_or_reported(
    config: str, step: str, script: str, sweep: str, change: str, name: str, value: str
) -> None:
    line = change.format(name, value)
    text = CODE.format(config=config, step=step, script=script, hyperdrive=sweep, change=line)
    result = patch_file("p.py", text.encode(), Settings(sweep_to_v2=True, prs_to_v2=True))
    assert result.after is None
    assert any(path.endswith(".parallel.yml") for path, _ in result.new_files)
    for _, data in result.new_files:
        assert isinstance(yaml.safe_load(data), dict)

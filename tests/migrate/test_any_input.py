"""Whatever is in a spec: it is converted or refused in one sentence, and never an unexpected error."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.migrate.support import SWEEP, TRIAL, convert, spec

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

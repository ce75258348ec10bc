"""The effect for real: the written value runs in bash with a `get_cores`, then LightGBM and FAISS say what they use."""

from __future__ import annotations

import subprocess
import sys

import pytest
import yaml

from tests.azureml.support import COMMAND_JOB, patch
from tests.support import unavailable

pytestmark = [pytest.mark.real]

# LightGBM has no call for it: train, then ask the OpenMP library that it loaded.
LIGHTGBM = """\
import ctypes, os
import lightgbm, numpy
data = lightgbm.Dataset(numpy.arange(64.0).reshape(32, 2), numpy.arange(32) % 2)
lightgbm.train({'verbose': -1, 'num_leaves': 3, 'min_data_in_leaf': 1}, data, 1)
[project, *_] = [line.split()[-1] for line in open('/proc/self/maps') if 'omp' in line]
print(ctypes.CDLL(project).omp_get_max_threads(), len(os.listdir('/proc/self/task')))
"""
FAISS = "import faiss; print(faiss.omp_get_max_threads())"


def run_in_bash(variables: dict[str, str], cores: int, code: str) -> list[int]:
    """What a node does: run AMLARC_PRESTEP, then the job. `get_cores` is ours; the real one asks the node."""
    script = f'get_cores() {{ echo {cores}; }}\neval "$AMLARC_PRESTEP"\nexec "$0" -c "$1"'
    environment = {"PATH": "/usr/bin:/bin", **variables}
    done = subprocess.run(
        ["bash", "-c", script, sys.executable, code],
        capture_output=True,
        text=True,
        env=environment,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return [int(number) for number in done.stdout.split()]


def written(**settings: object) -> dict[str, str]:
    result = patch(COMMAND_JOB, **settings)  # type: ignore[arg-type]
    variables: dict[str, str] = yaml.safe_load(result.after or b"")["environment_variables"]
    return variables


def needs(module: str) -> None:
    if subprocess.run([sys.executable, "-c", f"import {module}"], capture_output=True).returncode:
        unavailable(f"{module} is not installed")


@pytest.mark.parametrize("cores", [1, 3])
def test_lightgbm_uses_what_get_cores_says(cores: int) -> None:
    needs("lightgbm")
    threads, tasks = run_in_bash(written(threads="lightgbm"), cores, LIGHTGBM)
    assert threads == cores
    assert tasks >= cores


def test_lightgbm_with_literal_numbers() -> None:
    needs("lightgbm")
    assert run_in_bash(written(threads="lightgbm", manual=True, cores=5), 99, LIGHTGBM)[0] == 5


def test_faiss_with_a_dataloader_uses_its_share() -> None:
    needs("faiss")
    variables = written(threads="faiss", cores=32, dataloader_workers=8)
    assert run_in_bash(variables, 32, FAISS) == [4]


def test_faiss_without_a_dataloader_uses_what_get_cores_says() -> None:
    needs("faiss")
    assert run_in_bash(written(threads="faiss"), 6, FAISS) == [6]


def test_a_merged_prestep_still_does_what_it_did() -> None:
    text = COMMAND_JOB + "environment_variables:\n  AMLARC_PRESTEP: 'X=1; export Y=$((X + 1))'\n"
    value = yaml.safe_load(patch(text, threads="lightgbm").after or b"")["environment_variables"]
    code = "import os; print(os.environ['Y'], os.environ['OMP_NUM_THREADS'], os.environ['MKL_NUM_THREADS'])"
    assert run_in_bash(value, 7, code) == [2, 7, 7]

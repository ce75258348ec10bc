"""Adapters on the real frameworks: killed and evicted at random steps and resumed, the end is that of a whole run."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from arc_toolkit.checkpoints import Store
from tests.support import ROOT, unavailable

pytestmark = [pytest.mark.slow, pytest.mark.real]


def run_script(
    frameworks: str, name: str, *words: object, prefix: Sequence[str] = (), **environment: str
) -> Any:
    """What a script of `frameworks/` prints last, as JSON."""
    done = subprocess.run(
        [*prefix, frameworks, "-m", f"tests.checkpoints.frameworks.{name}", *map(str, words)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=600,
        env={**os.environ, "PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": "", **environment},
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def interrupted(frameworks: str, name: str, folder: Path, **environment: str) -> dict[str, Any]:
    result: dict[str, Any] = run_script(frameworks, "interruptions", name, folder, **environment)
    # A whole run; then killed, evicted, killed, evicted, and resumed until it was done.
    assert result["codes"] == [0, -9, 143, -9, 143, 0], result
    assert result["whole"] is not None
    return result


def assert_exact(frameworks: str, name: str, folder: Path, **environment: str) -> None:
    """The end is that of the whole run, bit for bit."""
    result = interrupted(frameworks, name, folder, **environment)
    assert result["parts"] == result["whole"], result


EXACT = ["pytorch", "lightning", "keras", "transformers", "lightgbm", "xgboost", "sklearn", "orbax"]


@pytest.mark.parametrize("name", EXACT)
def test_the_final_weights_are_those_of_an_uninterrupted_run(
    frameworks: str, name: str, tmp_path: Path
) -> None:
    """Bit for bit: weights, optimizer, other callbacks and random numbers, as far as the framework has them."""
    assert_exact(frameworks, f"{name}_run", tmp_path)


def test_lightgbm_draws_rows_for_several_rounds_together(frameworks: str, tmp_path: Path) -> None:
    assert_exact(frameworks, "lightgbm_run", tmp_path, MORE_PARAMS='{"bagging_freq": 3}')


@pytest.mark.parametrize(
    "options",
    [{"accumulate_grad_batches": 3}, {"val_check_interval": 3}, {"val_check_interval": 1}],
    ids=str,
)
def test_lightning_with_gradients_or_validation_in_between(
    frameworks: str, tmp_path: Path, options: dict[str, Any]
) -> None:
    assert_exact(frameworks, "lightning_run", tmp_path, MORE_OPTIONS=json.dumps(options))


@pytest.mark.parametrize("name", ["lightning", "keras"])
def test_epochs_of_one_batch_are_saved_too(frameworks: str, name: str, tmp_path: Path) -> None:
    assert_exact(frameworks, f"{name}_run", tmp_path, BATCH_SIZE="100")


def test_keras_with_several_batches_at_once(frameworks: str, tmp_path: Path) -> None:
    assert_exact(frameworks, "keras_run", tmp_path, MORE_OPTIONS='{"steps_per_execution": 3}')


@pytest.mark.parametrize("kind", ["generator", "arrays"])
def test_keras_with_an_input_that_cannot_be_positioned_resumes_at_the_epoch(
    frameworks: str, tmp_path: Path, kind: str
) -> None:
    """The input is the same in every epoch here, so that the end is exact."""
    assert_exact(frameworks, "keras_run", tmp_path, INPUT=kind)


def test_keras_with_a_schedule_that_goes_by_the_rate_before(
    frameworks: str, tmp_path: Path
) -> None:
    """Keras begins an interrupted epoch again, and would apply the factor twice."""
    assert_exact(frameworks, "keras_run", tmp_path, RATE_FACTOR="0.8")


@pytest.mark.parametrize("name", ["lightgbm", "xgboost"])
def test_a_run_that_begins_with_a_model_has_as_many_rounds(
    frameworks: str, name: str, tmp_path: Path
) -> None:
    assert_exact(frameworks, f"{name}_run", tmp_path, BASE_ROUNDS="5")


def test_lightgbm_with_dart_trains_the_same_with_the_callback(
    frameworks: str, tmp_path: Path
) -> None:
    """LightGBM 4.7 forgets the weights of its trees when a parameter is set, and then drops all of them."""
    result = run_script(frameworks, "lightgbm_dart", tmp_path)
    assert result["callback"] == 0 < result["rate"]


@pytest.mark.parametrize("name", ["lightgbm", "xgboost"])
@pytest.mark.parametrize("schedule", ["list", "function"])
def test_a_schedule_of_learning_rates_goes_on_at_its_place(
    frameworks: str, name: str, schedule: str, tmp_path: Path
) -> None:
    assert_exact(frameworks, f"{name}_run", tmp_path, SCHEDULE=schedule)


@pytest.mark.parametrize(
    "params",
    [
        {
            "objective": "binary",
            "bagging_fraction": 1,
            "pos_bagging_fraction": 0.5,
            "neg_bagging_fraction": 0.9,
        },
        {"objective": "rank_xendcg"},
        {"extra_trees": True, "subsample_freq": None},
    ],
    ids=str,
)
def test_lightgbm_draws_the_same_in_other_ways(
    frameworks: str, tmp_path: Path, params: dict[str, Any]
) -> None:
    assert_exact(frameworks, "lightgbm_run", tmp_path, MORE_PARAMS=json.dumps(params))


@pytest.mark.parametrize(
    "params",
    [
        {"data_sample_strategy": "goss", "bagging_freq": 0, "learning_rate": 0.3},
        {"use_quantized_grad": True},
        {"boosting": "dart"},
    ],
    ids=str,
)
def test_lightgbm_is_not_exact_with_what_it_counts_from_its_start(
    frameworks: str, tmp_path: Path, params: dict[str, Any]
) -> None:
    """If this fails because of a newer LightGBM than 4.7, docs/adapters.md has to say so."""
    result = interrupted(frameworks, "lightgbm_run", tmp_path, MORE_PARAMS=json.dumps(params))
    assert result["parts"] != result["whole"], result


def test_lightgbm_refuses_what_it_could_not_continue(frameworks: str, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="LightGBM cannot go on with a random forest"):
        run_script(
            frameworks, "interruptions", "lightgbm_run", tmp_path, MORE_PARAMS='{"boosting": "rf"}'
        )


def test_lightgbm_stops_early_at_the_same_round(frameworks: str, tmp_path: Path) -> None:
    """With this seed it is killed and evicted between the best round and the one after which it stops."""
    variables = {"EARLY_STOPPING": "8", "MORE_PARAMS": '{"learning_rate": 0.6}', "SEED": "4"}
    assert_exact(frameworks, "lightgbm_run", tmp_path, **variables)


def test_xgboost_stops_early_at_the_same_round(frameworks: str, tmp_path: Path) -> None:
    """With this seed it is killed and evicted between the best round and the one after which it stops."""
    variables = {"EARLY_STOPPING": "12", "MORE_PARAMS": '{"eta": 0.5}', "SEED": "3"}
    result = run_script(frameworks, "interruptions", "xgboost_run", tmp_path, **variables)
    assert result["codes"] == [0, -9, 143, -9, 0, 0], result
    assert result["parts"] == result["whole"], result


@pytest.mark.parametrize(
    "params",
    [
        {"subsample": 0.6},
        {"colsample_bytree": 0.7, "colsample_bylevel": 0.7, "colsample_bynode": 0.7},
        {"subsample": 0.6, "colsample_bynode": 0.5, "seed": 5, "num_parallel_tree": 2},
        {"subsample": 0.6, "booster": "dart", "rate_drop": 0.3},
        {"colsample_bytree": 0.6, "tree_method": "approx"},
        {"subsample": 0.6, "tree_method": "exact"},
    ],
    ids=str,
)
def test_xgboost_draws_the_same_rows_and_columns(
    frameworks: str, tmp_path: Path, params: dict[str, Any]
) -> None:
    assert_exact(frameworks, "xgboost_run", tmp_path, MORE_PARAMS=json.dumps(params))


def test_xgboost_with_random_rows_and_approx_is_not_exact(frameworks: str, tmp_path: Path) -> None:
    """If this fails because of a newer XGBoost than 3.2, docs/adapters.md has to say so."""
    params = {"subsample": 0.6, "tree_method": "approx"}
    result = interrupted(frameworks, "xgboost_run", tmp_path, MORE_PARAMS=json.dumps(params))
    assert 0 < result["difference"] < result["spread"], result


@pytest.mark.parametrize("way", ["train", "validate"])
def test_lightning_saves_at_sigterm_and_ends_with_143(
    frameworks: str, tmp_path: Path, way: str
) -> None:
    """Its own handler ends the process with 0, without a save: Kubernetes would see a finished job."""
    steps = [-1]
    for number in range(3):
        process = subprocess.Popen(
            [
                frameworks,
                "-m",
                "tests.checkpoints.frameworks.lightning_sigterm",
                str(tmp_path),
                way,
            ],
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": ""},
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        time.sleep(0.03 * number)
        process.terminate()
        assert "finished" not in process.communicate(timeout=120)[0]
        assert process.returncode == 143
        newest = Store(tmp_path).latest()
        assert newest is not None
        assert newest.step > steps[-1]
        assert newest.manifest["reason"] == "notice"
        steps.append(newest.step)


def test_a_full_disk_does_not_end_a_run_of_the_trainer(frameworks: str, tmp_path: Path) -> None:
    """Its own save would raise; that it has no room is known before."""
    mount = 'mount -t tmpfs -o size=40m none "$0" && exec "$@"'
    prefix = [
        shutil.which("unshare") or "false",
        "--user",
        "--map-root-user",
        "--mount",
        "sh",
        "-c",
        mount,
        str(tmp_path),
    ]
    if subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode:
        unavailable("no file system can be mounted here")
    result = run_script(frameworks, "transformers_full_disk", tmp_path, prefix=prefix)
    assert result["step"] == 20, result
    assert result["problems"], result
    assert all("No space left on device" in problem for problem in result["problems"]), result


# What each framework's own way to resume does with a damaged newest checkpoint; docs/adapters.md has this table.
PEERS = {
    "torch.load": ("crash", "wrong"),
    "safetensors": ("crash", "wrong"),
    "Lightning, ckpt_path=last": ("crash", "wrong"),
    "Keras BackupAndRestore": ("crash", "wrong"),
    "transformers get_last_checkpoint": ("crash", "wrong"),
    "Orbax CheckpointManager": ("crash", "wrong"),
    "LightGBM init_model": ("crash", "wrong"),
    "XGBoost xgb_model": ("crash", "wrong"),
    "pickle": ("crash", "wrong"),
    "this store": ("previous", "previous"),
}


def test_what_frameworks_do_with_a_damaged_newest_checkpoint(
    frameworks: str, tmp_path: Path
) -> None:
    result = run_script(frameworks, "damage", tmp_path)
    assert {name: tuple(row) for name, row in result.items()} == PEERS

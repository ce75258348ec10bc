"""What a script finds in its environment.

torchrun: https://docs.pytorch.org/docs/stable/elastic/run.html#environment-variables
AdaptDL: adaptdl/env.py of 0.2.11
"""

from __future__ import annotations

from arc_toolkit.elastic.rank_placement import Placement
from arc_toolkit.elastic.run_config import RunConfig, rank_job

TORCHRUN = {
    "LOCAL_RANK": "1",
    "RANK": "2",
    "GROUP_RANK": "1",
    "ROLE_NAME": "default",
    "ROLE_RANK": "2",
    "LOCAL_WORLD_SIZE": "2",
    "WORLD_SIZE": "3",
    "ROLE_WORLD_SIZE": "3",
    "MASTER_ADDR": "10.0.0.1",
    "MASTER_PORT": "4711",
    "TORCHELASTIC_RESTART_COUNT": "5",
    "TORCHELASTIC_MAX_RESTARTS": "3",
    "TORCHELASTIC_RUN_ID": "fig",
}
ADAPTDL = {
    "ADAPTDL_CHECKPOINT_PATH": "/share/run",
    "ADAPTDL_JOB_ID": "arc-toolkit/fig",
    "ADAPTDL_MASTER_ADDR": "10.0.0.1",
    "ADAPTDL_MASTER_PORT": "4711",
    "ADAPTDL_REPLICA_RANK": "2",
    "ADAPTDL_NUM_NODES": "2",
    "ADAPTDL_NUM_REPLICAS": "3",
    "ADAPTDL_NUM_RESTARTS": "5",
}


def test_the_variables_of_torchrun_and_of_adaptdl_are_set() -> None:
    config = RunConfig(
        "fig", "train.py", ["--epochs", "2"], "", [], most=4, checkpoints="/share/run"
    )
    job = rank_job(config, Placement(("a", "b", "b")), 2, ("10.0.0.1", 4711), 5)
    variables = job["environment"]
    assert {name: variables.get(name) for name in TORCHRUN} == TORCHRUN
    assert {name: variables.get(name) for name in ADAPTDL} == ADAPTDL
    assert variables["ARC_TOOLKIT_CHECKPOINTS"] == "/share/run"
    assert (job["rank"], job["script"], job["arguments"]) == (2, "train.py", ["--epochs", "2"])
    first = rank_job(config, Placement(("a", "b", "b")), 0, ("10.0.0.1", 4711), 0)["environment"]
    assert (first["LOCAL_RANK"], first["LOCAL_WORLD_SIZE"], first["GROUP_RANK"]) == ("0", "1", "0")


def test_without_shared_storage_no_folder_is_named() -> None:
    config = RunConfig("fig", "train.py", [], "", [], most=1)
    variables = rank_job(config, Placement(("a",)), 0, ("10.0.0.1", 4711), 0)["environment"]
    assert "ARC_TOOLKIT_CHECKPOINTS" not in variables
    assert "ADAPTDL_CHECKPOINT_PATH" not in variables

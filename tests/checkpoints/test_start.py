"""A run starts at step 0 only if it is new: what cannot be read is not empty, and all ranks start at the same step."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fsspec
import pytest

from arc_toolkit.checkpoints import (
    Store,
    StoreDamaged,
    StoreUnavailable,
    StoreUnreadable,
    StoreUnusable,
)
from arc_toolkit.checkpoints.rank_agreement import find_rank
from arc_toolkit.checkpoints.remote import RemoteFolder
from arc_toolkit.checkpoints.unavailable import patience_seconds
from tests.checkpoints.stores import quiet, save
from tests.support import ROOT, frameworks_python, wait_until

# --- unreadable is not empty -----------------------------------------------------------------------------------


def refuse(error: OSError) -> Callable[..., Any]:
    def call(*words: object, **options: object) -> None:
        raise error

    return call


def fail_listing(
    monkeypatch: pytest.MonkeyPatch, place: str, error: OSError, *, times: int = 10**6
) -> None:
    """The folder or the URL cannot be listed, so many times."""
    name, owner = ("listdir", os) if place == "folder" else ("_sizes", RemoteFolder)
    real, left = getattr(owner, name), [times]

    def listing(*words: Any, **options: Any) -> Any:
        if left[0] > 0 and (place == "url" or "store" in str(words[0])):
            left[0] -= 1
            raise error
        return real(*words, **options)

    monkeypatch.setattr(owner, name, listing)


@pytest.mark.parametrize("place", ["folder", "url"])
@pytest.mark.parametrize(
    "error",
    [
        ConnectionRefusedError(111, "Connection refused"),
        PermissionError(13, "permission denied"),
        OSError("HttpResponseError: 503 server busy"),
        OSError(116, "Stale file handle"),
    ],
    ids=["down", "403", "503", "stale"],
)
@pytest.mark.parametrize("strict", [False, True])
def test_a_place_that_cannot_be_read_ends_the_process_instead_of_starting_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, error: OSError, strict: bool
) -> None:
    options = {"remote": f"file://{tmp_path}/blobs"} if place == "url" else {}
    save(quiet(tmp_path / "store", **options), 4)
    fail_listing(monkeypatch, place, error)
    said: list[str] = []
    store = Store(tmp_path / "store", strict=strict, report=said.append, **options)  # type: ignore[arg-type]
    with pytest.raises(SystemExit) as end:
        next(iter(store.steps(10)))
    assert isinstance(end.value, StoreUnreadable)
    assert end.value.code == 75
    assert "cannot read" in said[-1]
    assert "ending with 75 instead of starting at step 0" in said[-1]


@pytest.mark.parametrize("place", ["folder", "url"])
def test_it_waits_with_a_line_per_attempt_and_goes_on_when_the_place_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    options = {"remote": f"file://{tmp_path}/blobs"} if place == "url" else {}
    before = quiet(tmp_path / "store", **options)
    save(before, 4)
    assert before.wait(60)
    fail_listing(monkeypatch, place, OSError("not now"), times=3)
    slept: list[float] = []
    monkeypatch.setattr(
        "arc_toolkit.checkpoints.unavailable.Patience.sleep",
        lambda patience, seconds: slept.append(seconds),
    )
    said: list[str] = []
    store = Store(tmp_path / "store", patience="1m", report=said.append, **options)  # type: ignore[arg-type]
    assert next(iter(store.steps(10))) == 5
    assert slept == [1.0, 2.0, 4.0]
    assert [f"attempt {number}" in line for number, line in enumerate(said, 1)] == [True] * 3


def test_a_notice_ends_the_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(quiet(tmp_path / "store"), 4)
    fail_listing(monkeypatch, "folder", OSError("not now"))
    store = quiet(tmp_path / "store", patience=600)
    store.announce(30)
    with pytest.raises(SystemExit) as end:
        store.latest()
    assert end.value.code == 143


def test_the_time_to_wait_comes_from_the_argument_or_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ARC_TOOLKIT_CHECKPOINT_PATIENCE", "90s")
    assert [patience_seconds(value) for value in (None, "2m", 5)] == [90, 120, 5]
    monkeypatch.delenv("ARC_TOOLKIT_CHECKPOINT_PATIENCE")
    assert patience_seconds(None) == 600


def test_a_checkpoint_that_cannot_be_read_is_waited_for_and_then_the_one_before_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = quiet(tmp_path / "store")
    save(store, 1)
    save(store, 2)
    newest, older = (entry.folder for entry in store.listing())
    real = Path.read_bytes

    def read(path: Path) -> bytes:
        if path.parent == newest:
            raise OSError(5, "Input/output error")
        return real(path)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "read_bytes", read)
        again = quiet(tmp_path / "store")
        assert (again.latest() or save).folder == older  # type: ignore[union-attr]
        patch.setattr(Path, "read_bytes", refuse(OSError(5, "Input/output error")))
        with pytest.raises(StoreUnreadable):
            quiet(tmp_path / "store").latest()
    assert newest.is_dir()


def test_if_all_are_damaged_a_new_start_needs_fresh(tmp_path: Path) -> None:
    store = quiet(tmp_path / "store")
    save(store, 1)
    save(store, 2)
    for entry in store.listing():
        (entry.folder / "model.bin").write_bytes(b"x")
    for _ in range(2):  # also after they were moved aside
        with pytest.raises(StoreDamaged) as end:
            quiet(tmp_path / "store").latest()
        assert end.value.code == 65
    assert list(quiet(tmp_path / "store", fresh=True).steps(2)) == [0, 1]
    with pytest.raises(StoreDamaged):  # the folder `damaged` says that there was a run
        quiet(tmp_path / "store").latest()


def test_a_checkpoint_that_lost_its_manifest_is_not_a_new_run(tmp_path: Path) -> None:
    store = quiet(tmp_path / "store")
    save(store, 1)
    (store.listing()[0].folder / "checkpoint.json").unlink()
    with pytest.raises(StoreDamaged):
        quiet(tmp_path / "store").latest()


@pytest.mark.parametrize("name", ["step-by-step", "notes"])
def test_other_folders_do_not_stop_a_new_run(tmp_path: Path, name: str) -> None:
    (tmp_path / "store" / name).mkdir(parents=True)
    assert quiet(tmp_path / "store").latest() is None


def test_a_save_that_was_killed_before_its_commit_does_not_stop_a_new_run(tmp_path: Path) -> None:
    store = quiet(tmp_path / "store")
    with pytest.raises(KeyboardInterrupt), store.save(1):
        raise KeyboardInterrupt
    (tmp_path / "store" / ".saving-000000000001-000001-dead").mkdir()
    assert list(quiet(tmp_path / "store").steps(2)) == [0, 1]


def test_a_mistake_is_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    began = time.monotonic()
    for store in (
        quiet(tmp_path / "file", patience=600),
        quiet(tmp_path / "c", remote="nosuchscheme://x", patience=600),
    ):
        with pytest.raises(StoreUnusable) as end:
            store.latest()
        assert end.value.code == 2
    assert time.monotonic() - began < 60


def test_a_container_that_does_not_exist_is_not_an_empty_one(tmp_path: Path) -> None:
    class Blobs(fsspec.AbstractFileSystem):  # type: ignore[misc]
        protocol = "blobs"

        def ls(self, path: str, detail: bool = True, **options: object) -> list[object]:
            if path.strip("/") == "here":
                return []
            raise FileNotFoundError(path)

        def info(self, path: str, **options: object) -> dict[str, object]:
            self.ls(path)
            return {"name": path, "type": "directory", "size": 0}

    fsspec.register_implementation("blobs", Blobs, clobber=True)
    assert quiet(tmp_path / "a", remote="blobs://here/run").latest() is None
    with pytest.raises(StoreUnreadable, match="elsewhere does not exist"):
        quiet(tmp_path / "a", remote="blobs://elsewhere/run").latest()


def test_code_that_catches_every_exception_does_not_start_anew(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    code = """
        import sys
        from arc_toolkit.checkpoints import Store
        try:
            checkpoint = Store(sys.argv[1]).latest()
        except Exception:
            checkpoint = None
        print("start")
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code), str(tmp_path / "file")],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1


# --- all ranks, one step ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({}, (0, 1)),
        ({"RANK": "3", "WORLD_SIZE": "8"}, (3, 8)),
        ({"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"}, (1, 2)),
        ({"PMI_RANK": "2", "PMI_SIZE": "4"}, (2, 4)),
        ({"SLURM_PROCID": "5", "SLURM_NTASKS": "6"}, (5, 6)),
        ({"RANK": "0", "WORLD_SIZE": "2", "SLURM_PROCID": "1", "SLURM_NTASKS": "2"}, (0, 2)),
        ({"RANK": "x", "OMPI_COMM_WORLD_RANK": "1"}, (1, 1)),
    ],
    ids=str,
)
def test_the_rank_is_that_of_the_launcher(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], expected: tuple[int, int]
) -> None:
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert find_rank() == expected


def first_steps(stores: list[Store]) -> list[object]:
    """The first step of each rank, all at the same time; the reason for one that does not begin."""
    results: list[object] = [None] * len(stores)

    def begin(number: int) -> None:
        try:
            results[number] = stores[number].begin()
        except StoreUnavailable as problem:
            results[number] = str(problem)

    threads = [threading.Thread(target=begin, args=(number,)) for number in range(len(stores))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return results


def rank_stores(root: Path, count: int, patience: float = 20, **options: Any) -> list[Store]:
    return [
        quiet(root, rank=rank, world_size=count, patience=patience, **options)
        for rank in range(count)
    ]


@pytest.mark.parametrize("count", [2, 4])
def test_all_ranks_begin_after_the_checkpoint_of_the_first(tmp_path: Path, count: int) -> None:
    assert first_steps(rank_stores(tmp_path / "new", count)) == [0] * count
    save(quiet(tmp_path / "store"), 20)
    assert first_steps(rank_stores(tmp_path / "store", count)) == [21] * count
    save(quiet(tmp_path / "store"), 30)
    (tmp_path / "store" / ".ranks" / "1-2-dead.question").touch()  # of a rank that was killed
    stores = rank_stores(tmp_path / "store", count)
    assert first_steps(stores) == [31] * count
    wait_until(lambda: not list((tmp_path / "store" / ".ranks").iterdir()))


def test_a_rank_that_sees_a_newer_one_uses_that_of_the_first(tmp_path: Path) -> None:
    save(quiet(tmp_path / "store"), 20)
    first, second = rank_stores(tmp_path / "store", 2)
    assert first.begin() == 21
    save(quiet(tmp_path / "store"), 25)
    assert second.begin() == 21


def test_retention_leaves_what_other_ranks_have_not_read(tmp_path: Path) -> None:
    other_threads = threading.enumerate()
    save(quiet(tmp_path / "store"), 20)
    first, second = rank_stores(tmp_path / "store", 2, keep=2)
    for step in range(first.begin(), 30):
        save(first, step)
    assert second.begin() == 21
    wait_until(lambda: not list((tmp_path / "store" / ".ranks").iterdir()))
    wait_until(lambda: not [row for row in threading.enumerate() if row not in other_threads])
    save(first, 30)
    assert [entry.order[0] for entry in first.listing()] == [30, 29]


def test_ranks_on_other_machines_find_it_at_the_url(tmp_path: Path) -> None:
    url = f"file://{tmp_path}/blobs"
    writer = quiet(tmp_path / "a", remote=url)
    save(writer, 20)
    assert writer.wait(60)
    first = quiet(tmp_path / "a", remote=url, rank=0, world_size=2, patience=20)
    second = quiet(tmp_path / "b", remote=url, rank=1, world_size=2, patience=20)
    assert first_steps([first, second]) == [21, 21]


def test_a_rank_with_a_folder_of_its_own_does_not_begin(tmp_path: Path) -> None:
    save(quiet(tmp_path / "a"), 20)
    first = quiet(tmp_path / "a", rank=0, world_size=2, patience=1)
    second = quiet(tmp_path / "b", rank=1, world_size=2, patience=1)
    begun, problem = first_steps([first, second])
    assert begun == 21
    assert str(problem).startswith("rank 1 of 2 got no answer from rank 0")


def test_a_rank_that_cannot_see_the_agreed_checkpoint_waits_and_then_fails(tmp_path: Path) -> None:
    save(quiet(tmp_path / "store"), 20)
    first, second = rank_stores(tmp_path / "store", 2, patience=2)
    newest = first.latest()
    assert newest is not None
    hidden = newest.folder.rename(tmp_path / "hidden")
    (problem,) = first_steps([second])
    assert "rank 1 of 2 cannot use step-000000000020-" in str(problem)
    again, late = rank_stores(tmp_path / "store", 2, patience=20)
    hidden.rename(newest.folder)
    again.latest()
    newest.folder.rename(hidden)
    threading.Timer(1.0, lambda: hidden.rename(newest.folder)).start()
    assert first_steps([late]) == [21]


def test_under_mpi_only_the_first_rank_writes(tmp_path: Path) -> None:
    """AzureML's `distribution: mpi` sets no other variables."""
    code = """
        import os, sys, time
        from arc_toolkit.checkpoints import Store
        store = Store(sys.argv[1], patience="60s")
        steps = []
        for step in store.steps(int(sys.argv[2]), every=1):
            time.sleep(1)
            steps.append(step)
            if store.due(step):
                with store.save(step) as folder:
                    (folder / "x").write_text(os.environ["OMPI_COMM_WORLD_RANK"])
        print(steps[0], len(store.problems))
    """
    for total, first in ((3, 0), (6, 3)):
        processes = []
        for rank in range(3):
            variables = {"OMPI_COMM_WORLD_RANK": str(rank), "OMPI_COMM_WORLD_SIZE": "3"}
            processes.append(
                subprocess.Popen(
                    [sys.executable, "-c", textwrap.dedent(code), str(tmp_path), str(total)],
                    stdout=subprocess.PIPE,
                    text=True,
                    env={**os.environ, "PYTHONPATH": str(ROOT), **variables},
                )
            )
            time.sleep(0.3 * (rank == 0))
        outputs = [process.communicate(timeout=120)[0].split() for process in processes]
        assert outputs == [[str(first), "0"]] * 3
    newest = quiet(tmp_path).latest()
    assert newest is not None
    assert (newest.step, (newest / "x").read_text()) == (5, "0")


TWO_LOOPS = """
    import json, os, sys, time
    {before}
    from arc_toolkit.checkpoints import Store
    time.sleep(float(os.environ.get("LATE", 0)))
    store, begun = Store(sys.argv[1], patience=60), []
    for total in 3, 6:
        steps = list(store.steps(total))
        begun.append(steps[0] if steps else None)
        if steps and os.environ["RANK"] == "0":
            with store.save(total - 1) as folder:
                (folder / "x").write_text("x")
        {after}
    print(json.dumps(begun))
"""


def two_loops(
    root: Path, python: str, before: str = "", after: str = "", **environment: str
) -> list[Any]:
    """What two ranks in processes of their own print, and how they end; the second is late."""
    script = textwrap.dedent(TWO_LOOPS).format(before=before, after=after)
    processes = [
        subprocess.Popen(
            [python, "-c", script, str(root)],
            env={
                **os.environ,
                "PYTHONPATH": str(ROOT),
                "RANK": str(rank),
                "WORLD_SIZE": "2",
                "LATE": str(rank),
                **environment,
            },
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    results: list[Any] = []
    for process in processes:
        out, err = process.communicate(timeout=120)
        results.append((process.returncode, json.loads(out) if out else err))
    return results


@pytest.mark.parametrize("place", ["folder", "url"])
def test_ranks_agree_in_every_loop_and_at_the_start_of_a_finished_run(
    tmp_path: Path, place: str
) -> None:
    root = tmp_path if place == "folder" else f"file://{tmp_path}/blobs"
    options = {"ARC_TOOLKIT_CHECKPOINT_CACHE": str(tmp_path / "cache")}
    assert two_loops(root, sys.executable, **options) == [(0, [0, 3])] * 2  # type: ignore[arg-type]
    # Nothing is left to do: the first rank does not end before the second has asked.
    assert two_loops(root, sys.executable, **options) == [(0, [None, None])] * 2  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.real
def test_ranks_agree_through_torch_distributed(tmp_path: Path) -> None:
    before = (
        "import torch.distributed as ranks; "
        f"ranks.init_process_group('gloo', init_method='file://{tmp_path}/{{}}', "
        "rank=int(os.environ['RANK']), world_size=2)"
    )
    for start, begun in enumerate(([0, 3], [None, None])):
        results = two_loops(
            tmp_path / "store", frameworks_python(), before.format(start), "ranks.barrier()"
        )
        assert results == [(0, begun)] * 2
    assert not (tmp_path / "store" / ".ranks").exists()


@pytest.mark.slow
@pytest.mark.real
def test_the_rank_is_that_of_torch_distributed_without_a_launcher(tmp_path: Path) -> None:
    script = """
        import sys
        import torch.distributed as ranks
        from arc_toolkit.checkpoints.rank_agreement import find_rank
        rank, place = int(sys.argv[1]), f"file://{sys.argv[2]}/ranks"
        ranks.init_process_group("gloo", init_method=place, rank=rank, world_size=2)
        assert find_rank() == (rank, 2), find_rank()
        ranks.barrier()
    """
    environment = {name: word for name, word in os.environ.items() if "RANK" not in name}
    processes = [
        subprocess.Popen(
            [frameworks_python(), "-c", textwrap.dedent(script), str(rank), str(tmp_path)],
            env={**environment, "PYTHONPATH": str(ROOT)},
        )
        for rank in range(2)
    ]
    assert [process.wait(120) for process in processes] == [0, 0]


def test_a_late_rank_gets_the_choice_of_its_own_loop(tmp_path: Path) -> None:
    save(quiet(tmp_path / "store"), 20)
    first, second, third = rank_stores(tmp_path / "store", 3)
    assert (first.begin(), second.begin()) == (21, 21)
    save(first, 25)
    assert (first.begin(), second.begin()) == (26, 26)
    assert (third.begin(), third.begin()) == (21, 26)


def test_a_save_before_the_first_step_does_not_part_the_ranks(tmp_path: Path) -> None:
    first, second = rank_stores(tmp_path / "store", 2)
    reader = threading.Thread(target=second.latest)
    reader.start()
    assert first.latest() is None
    reader.join(20)
    save(first, 0)
    assert (first.begin(), second.begin()) == (0, 0)


def test_a_rank_says_that_it_waits_for_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("arc_toolkit.checkpoints.unavailable._FIRST_REPORT_SECONDS", 0.2)
    monkeypatch.setattr("arc_toolkit.checkpoints.unavailable._REPORT_SECONDS", 0.3)
    said: list[str] = []
    with pytest.raises(StoreUnreadable):
        Store(tmp_path, rank=1, world_size=2, patience=1, report=said.append).latest()
    assert len(said) > 2
    assert all("got no answer from rank 0" in line for line in said)


def test_a_read_only_store_asks_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save(quiet(tmp_path), 3)
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    newest = quiet(tmp_path, read_only=True).latest()
    assert newest is not None
    assert newest.step == 3
    assert json.loads((newest / "checkpoint.json").read_text())["world_size"] == 1

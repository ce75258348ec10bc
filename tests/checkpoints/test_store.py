"""Checkpoints are never wrong: what was promised is stated in the names of the tests, and then attacked."""

from __future__ import annotations

import errno
import json
import math
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from arc_toolkit.checkpoints import Checkpoint, CheckpointError, Store, local_checkpoints
from arc_toolkit.checkpoints.interval import best_interval, mean_seconds
from arc_toolkit.checkpoints.manifest import NAME, verify
from arc_toolkit.checkpoints.remote import RemoteFolder
from arc_toolkit.checkpoints.streams import DigestedFile
from tests.checkpoints.killed_writer import newest_after_kills
from tests.support import ROOT

CONTENT = bytes(range(256)) * 40


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path / "checkpoints", report=lambda text: None)


def save(store: Store, step: int, content: bytes = CONTENT, **fields: object) -> None:
    with store.save(step, **fields) as folder:  # type: ignore[arg-type]
        (folder / "model.bin").write_bytes(content)
        (folder / "optimizer").mkdir()
        (folder / "optimizer" / "state.bin").write_bytes(content[:100])


def committed(store: Store) -> list[int]:
    return [entry.step for entry in store.listing() if isinstance(entry, Checkpoint)]


# --- saving and finding ----------------------------------------------------------------------------------------


def test_the_folder_is_that_of_the_start_although_the_training_code_goes_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    store = Store("checkpoints")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    save(store, 1)
    monkeypatch.chdir(tmp_path)
    assert Store("checkpoints").latest() is not None


def test_what_cannot_be_read_now_stays_where_it_is(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A network file system may answer again a minute later, and then nothing must be lost."""
    save(store, 1)
    save(store, 2)
    with monkeypatch.context() as patch:
        patch.setattr(
            "os.preadv", lambda *words: raise_error(OSError(errno.EIO, "input/output error"))
        )
        other = Store(store.root, report=lambda text: None, fresh=True)
        assert other.latest() is None
        assert ["input/output error" in damage.reason for damage in other.skipped] == [True, True]
        patch.setattr(
            Path, "read_bytes", lambda path: raise_error(OSError(errno.EIO, "input/output error"))
        )
        assert other.latest() is None
        patch.setattr(
            "os.stat",
            lambda *words, **options: raise_error(OSError(errno.EIO, "input/output error")),
        )
        assert other.latest() is None
    assert (Store(store.root).latest() or save).step == 2  # type: ignore[union-attr]


def raise_error(error: Exception) -> None:
    raise error


def test_the_newest_is_found_by_its_number_not_by_its_name_or_time(store: Store) -> None:
    for step in (9, 100, 20):
        save(store, step)
    newest = store.latest()
    assert newest is not None
    assert newest.step == 100
    assert (newest / "model.bin").read_bytes() == CONTENT


def test_the_manifest_says_who_saved_what_when_and_why(store: Store) -> None:
    save(store, 7, epoch=2, metrics={"loss": 0.5}, reason="notice")
    newest = store.latest()
    assert newest is not None
    manifest = newest.manifest
    assert (manifest["step"], manifest["epoch"], manifest["reason"]) == (7, 2, "notice")
    assert manifest["metrics"] == {"loss": 0.5}
    assert manifest["world_size"] == 1
    assert manifest["versions"]["python"] == sys.version.split()[0]
    assert {entry["path"] for entry in manifest["files"]} == {"model.bin", "optimizer/state.bin"}
    assert newest.size == len(CONTENT) + 100


def test_an_empty_store_has_none(store: Store) -> None:
    assert store.latest() is None
    assert store.listing() == []


def test_an_exception_of_the_training_code_leaves_nothing_and_goes_on(store: Store) -> None:
    with pytest.raises(ZeroDivisionError), store.save(1) as folder:
        (folder / "x").write_bytes(bytes(1 // 0))
    assert [name for name in os.listdir(store.root) if not name.startswith(".writers")] == []


# --- damage ----------------------------------------------------------------------------------------------------


def newest_folder(store: Store) -> Path:
    return next(entry.folder for entry in store.listing())


@pytest.mark.parametrize("name", ["model.bin", "optimizer/state.bin", NAME])
@pytest.mark.parametrize("damage", ["truncated", "empty", "missing", "flipped", "longer"])
def test_a_damaged_checkpoint_is_skipped_reported_and_kept_aside(
    store: Store, name: str, damage: str
) -> None:
    save(store, 1)
    save(store, 2)
    path = newest_folder(store) / name
    data = path.read_bytes()
    if damage == "missing":
        path.unlink()
    else:
        changed = {
            "truncated": data[: len(data) // 2],
            "empty": b"",
            "flipped": data[:50] + bytes([data[50] ^ 1]) + data[51:],
            "longer": data + b"\0",
        }
        path.write_bytes(changed[damage])
    newest = store.latest()
    assert newest is not None
    assert newest.step == 1
    if name != NAME or damage != "missing":
        (problem,) = store.problems
        assert damage != "missing" or f"{name} is missing" in problem
        (aside,) = (store.root / "damaged").iterdir()
        assert aside.name.startswith("step-000000000002")


def test_a_foreign_file_is_ignored_with_a_note(store: Store) -> None:
    save(store, 1)
    save(store, 2)
    (newest_folder(store) / ".DS_Store").write_bytes(b"x")
    (newest_folder(store) / "optimizer" / "link").symlink_to("/etc/passwd")
    newest = store.latest()
    assert newest is not None
    assert newest.step == 2
    assert store.problems == [
        f"{newest.folder.name} has files that are ignored: .DS_Store, optimizer/link"
    ]


@pytest.mark.parametrize("place", ["folder", "part", "file"])
def test_links_are_refused(store: Store, tmp_path: Path, place: str) -> None:
    """What they point to may be of another run, or change later."""
    save(store, 1)
    save(store, 2)
    folder = newest_folder(store)
    target = {"folder": folder, "part": folder / "optimizer", "file": folder / "model.bin"}[place]
    target.rename(tmp_path / "elsewhere")
    target.symlink_to(tmp_path / "elsewhere")
    newest = store.latest()
    assert newest is not None
    assert newest.step == 1
    assert "link" in store.problems[0]
    assert (tmp_path / "elsewhere").exists()


def test_the_names_of_new_folders_above_the_store_are_durable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    fsync = os.fsync

    def sync(handle: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{handle}"))
        fsync(handle)

    monkeypatch.setattr(os, "fsync", sync)
    save(Store(tmp_path / "a" / "b" / "c", report=lambda text: None), 1)
    assert synced[:3] == [str(tmp_path), str(tmp_path / "a"), str(tmp_path / "a" / "b")]


def test_every_flipped_byte_of_every_file_is_found(store: Store) -> None:
    """The manifest too: 1,500 random places."""
    save(store, 1)
    (checkpoint,) = store.listing()
    assert isinstance(checkpoint, Checkpoint)
    chance = random.Random(5)
    paths = [checkpoint.folder / name for name in ("model.bin", "optimizer/state.bin", NAME)]
    for _ in range(1500):
        path = chance.choice(paths)
        data = path.read_bytes()
        place, bit = chance.randrange(len(data)), 1 << chance.randrange(8)
        path.write_bytes(data[:place] + bytes([data[place] ^ bit]) + data[place + 1 :])
        (entry,) = store.listing()
        assert not isinstance(entry, Checkpoint) or verify(entry) is not None, (
            path.name,
            place,
            bit,
        )
        path.write_bytes(data)


def test_of_two_saves_of_a_step_the_later_one_is_newer(tmp_path: Path) -> None:
    for text in map(str, range(12)):
        store = Store(tmp_path / text, keep=2, report=lambda text: None)
        for content in ("first", "second", "third"):
            with store.save(7) as folder:
                (folder / "x").write_text(content)
        assert len(store.listing()) == 2
        newest = Store(tmp_path / text).latest()
        assert newest is not None
        assert (newest / "x").read_text() == "third"


def test_a_save_without_files_is_reported_once(tmp_path: Path) -> None:
    store = Store(tmp_path, report=lambda text: None)
    for step in (1, 2, 3):
        with store.save(step):
            pass
    assert store.problems == [
        "step 1 is saved without a file: write into the folder that `save` gives"
    ]
    newest = store.latest()
    assert newest is not None
    assert newest.step == 3


def test_reading_twice_changes_nothing(store: Store) -> None:
    save(store, 1)
    before = sorted(str(path) for path in store.root.rglob("*"))
    assert store.latest() is not None
    assert sorted(str(path) for path in store.root.rglob("*")) == before


# --- two writers, full disks, killed processes -----------------------------------------------------------------


def test_a_writer_that_was_replaced_may_not_commit_any_more(tmp_path: Path) -> None:
    evicted = Store(tmp_path, report=lambda text: None)
    save(evicted, 1)
    replacement = Store(tmp_path, report=lambda text: None)
    save(replacement, 2)
    save(evicted, 3)
    assert "another process has taken over" in evicted.problems[0]
    newest = replacement.latest()
    assert newest is not None
    assert newest.step == 2


def test_a_writer_that_was_replaced_says_so_once_and_is_never_due_again(tmp_path: Path) -> None:
    evicted = Store(tmp_path, report=lambda text: None)
    tries = []
    for step in evicted.steps(20, every=1):
        if step == 5:
            save(Store(tmp_path, report=lambda text: None), 100)
        if evicted.due(step):
            tries.append(step)
            with evicted.save(step) as folder:
                (folder / "x").write_text("x")
                if step == 5:
                    shutil.rmtree(folder)  # as the sweep of the new writer does
    assert tries == list(range(6))
    assert len(evicted.problems) == 1
    assert "step 5 could not be saved: another process has taken over" in evicted.problems[0]


def test_what_could_not_be_saved_is_not_tried_again_at_every_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(handle: int) -> None:
        raise OSError(28, "No space left on device")

    store = Store(tmp_path, report=lambda text: None)
    monkeypatch.setattr(os, "fsync", fail)
    tries = []
    for step in store.steps(20, every=5):
        if store.due(step):
            tries.append(step)
            save(store, step)
    assert tries == [4, 9, 14, 19]
    assert len(store.problems) == 4


def test_writers_that_look_at_the_same_moment_take_different_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local_checkpoints, "newest_fence", lambda root: 0)
    assert [local_checkpoints.take_fence(tmp_path, name) for name in "abc"] == [1, 2, 3]


def test_writers_never_share_a_folder(tmp_path: Path) -> None:
    first, second = (Store(tmp_path, report=lambda text: None) for _ in range(2))
    with first.save(5) as folder, second.save(5) as other:
        assert folder != other


def test_a_full_disk_loses_the_new_checkpoint_and_nothing_else(store: Store) -> None:
    save(store, 1)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    previous = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
    try:
        save(store, 2)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, previous)
    assert "step 2 could not be saved" in store.problems[0]
    assert committed(store) == [1]
    assert not any(name.startswith(".saving") for name in os.listdir(store.root))


def test_a_strict_store_raises(tmp_path: Path) -> None:
    store = Store(tmp_path, strict=True, report=lambda text: None)
    with pytest.raises(CheckpointError, match="step 1 could not be saved"), store.save(1):
        raise OSError("the disk is gone")


@pytest.mark.slow
def test_killed_at_any_moment_the_newest_committed_checkpoint_loads(tmp_path: Path) -> None:
    save = '(folder / "model.bin").write_bytes(content * 20000)'
    for checkpoint in newest_after_kills(tmp_path, save, kills=60):
        assert (checkpoint / "model.bin").read_bytes() == bytes([checkpoint.step % 256]) * 20000


# --- keeping ---------------------------------------------------------------------------------------------------


def test_only_the_last_are_kept(store: Store) -> None:
    for step in range(6):
        save(store, step)
    assert committed(store) == [5, 4, 3]


@pytest.mark.parametrize(("highest", "expected"), [(False, 1), (True, 2)])
def test_the_best_by_a_metric_is_kept_too(tmp_path: Path, highest: bool, expected: int) -> None:
    url = f"file://{tmp_path}/blobs"
    options = {"keep": 2, "best": "loss", "highest": highest, "remote": url}
    store = Store(tmp_path / "c", report=lambda text: None, **options)  # type: ignore[arg-type]
    losses = [0.5, 0.1, 0.9, math.nan, 0.4, 0.3]
    for step, loss in enumerate(losses):
        save(store, step, metrics={"loss": loss})
        assert store.wait(60)
    assert committed(store) == [5, 4, expected]
    best = store.best()
    assert best is not None
    assert best.step == expected
    remote = [entry.order[0] for entry in RemoteFolder(url).listing()]
    assert sorted(remote) == [expected, 4, 5]
    (best / "model.bin").write_bytes(b"x")
    second = store.best()
    assert second is not None
    assert second.step == (4 if highest else 5)


def test_what_is_older_is_not_deleted_while_a_newer_one_is_damaged(tmp_path: Path) -> None:
    first = Store(tmp_path, keep=2, report=lambda text: None)
    for step in (1, 2):
        save(first, step)
    damaged = newest_folder(first) / "model.bin"
    damaged.write_bytes(b"x")
    again = Store(tmp_path, keep=2, report=lambda text: None)
    save(again, 3)
    assert committed(again) == [3, 2, 1]


@pytest.mark.parametrize("damage", ["truncated", "flipped", "missing"])
def test_retention_looks_again_before_it_deletes(tmp_path: Path, damage: str) -> None:
    """In the same process: what was verified when it was saved may be damaged since."""
    store = Store(tmp_path, keep=3, report=lambda text: None)
    for step in (1, 2, 3):
        save(store, step)
    for entry in store.listing()[:2]:
        path = entry.folder / "model.bin"
        times = path.stat()
        if damage == "missing":
            path.unlink()
            continue
        path.write_bytes(CONTENT[:-1] if damage == "truncated" else b"\1" + CONTENT[1:])
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    save(store, 4)
    assert committed(store) == [4, 3, 2, 1]
    newest_folder(store).rename(tmp_path / "lost")
    newest = Store(tmp_path, report=lambda text: None).latest()
    assert newest is not None
    assert newest.step == 1


def test_what_a_writer_before_did_not_finish_is_deleted_and_what_another_writes_is_not(
    tmp_path: Path,
) -> None:
    save(Store(tmp_path, report=lambda text: None), 1)
    left = tmp_path / ".saving-000000000002-000001-dead"
    left.mkdir()
    (left / "model.bin").write_bytes(b"half")
    store = Store(tmp_path, report=lambda text: None)
    save(store, 3)
    assert not left.exists()
    # The next writer is there, and has begun; this one has not seen it yet.
    assert local_checkpoints.take_fence(tmp_path, "next") == 3
    begun = tmp_path / ".saving-000000000004-000003-beef"
    begun.mkdir()
    store._shelf.retain(2, 2)
    assert begun.is_dir()


def test_fewer_than_two_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="keep at least 2"):
        Store(tmp_path, keep=1)


# --- where -----------------------------------------------------------------------------------------------------


def test_a_store_without_a_folder_is_where_the_job_keeps_its_checkpoints(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ARC_TOOLKIT_CHECKPOINTS", raising=False)
    assert Store().root == Path("outputs/checkpoints").absolute()
    monkeypatch.setenv("AZURE_ML_OUTPUT_checkpoints", str(tmp_path / "mounted"))
    assert Store().root == tmp_path / "mounted"
    monkeypatch.setenv("ARC_TOOLKIT_CHECKPOINTS", str(tmp_path / "told"))
    assert Store().root == tmp_path / "told"


def test_what_azureml_moved_at_a_retry_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, step in (("retry_001", 4), ("retry_002", 9)):
        save(Store(tmp_path / "outputs" / name / "checkpoints", report=lambda text: None), step)
    store = Store("outputs/checkpoints", report=lambda text: None)
    newest = store.latest()
    assert newest is not None
    assert newest.step == 9
    damaged = newest / "model.bin"
    damaged.write_bytes(b"x")
    again = Store("outputs/checkpoints", report=lambda text: None)
    assert list(again.steps(6)) == [5], "a damaged one of another try is skipped"
    assert damaged.is_file(), "and not changed"
    for step in (5, 6, 7, 8):
        save(again, step)
    assert [
        path.name
        for path in sorted((tmp_path / "outputs").glob("retry_*/checkpoints/step*/checkpoint.json"))
    ] == [
        NAME,
        NAME,
    ], "only the own folder is cleaned up"


# --- when ------------------------------------------------------------------------------------------------------


def test_steps_go_on_after_the_newest_valid_checkpoint(store: Store) -> None:
    assert list(store.steps(3)) == [0, 1, 2]
    save(store, 1)
    assert list(store.steps(5)) == [2, 3, 4]


def test_every_n_steps(store: Store) -> None:
    saved = []
    for step in store.steps(10, every=3):
        if store.due(step):
            save(store, step)
            saved.append(step)
    assert saved == [2, 5, 8]


def test_after_an_announcement_only_what_fits_is_begun(store: Store) -> None:
    save(store, 1)
    list(store.steps(5, every=1000))
    assert not store.due(2)
    store.announce(30)
    assert store.due(2)
    store.announce(0)
    assert not store.due(2)


def test_a_save_for_an_announcement_is_made_once(store: Store) -> None:
    list(store.steps(0, every=1))
    store.announce(60)
    assert store.due(1)
    save(store, 1)
    assert not store.due(2)
    store.announce(90)  # another one
    assert store.due(3)


def test_of_several_ranks_only_the_first_saves_and_changes_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = Store(tmp_path, report=lambda text: None)
    for step in (1, 2):
        save(first, step)
    (newest_folder(first) / "model.bin").write_bytes(b"x")
    monkeypatch.setenv("RANK", "1")
    second = Store(tmp_path, world_size=1, report=lambda text: None)
    assert [step for step in second.steps(6, every=1) if second.due(step)] == []
    second.announce(30)
    assert not second.due(3)
    save(second, 9)
    assert "rank 1 does not save, only rank 0 does" in second.problems[-1]
    assert not (tmp_path / "damaged").exists(), "the first rank does that"
    monkeypatch.setenv("RANK", "0")
    third = Store(tmp_path, report=lambda text: None)
    assert [step for step in third.steps(4, every=1) if third.due(step)] == [2, 3]
    assert (tmp_path / "damaged").is_dir()


@pytest.mark.parametrize("every", [0, -1, "soon", "10x", ""])
def test_an_interval_that_makes_no_sense_is_refused(store: Store, every: int | str) -> None:
    with pytest.raises(ValueError, match="every="):
        list(store.steps(1, every=every))


def test_youngs_interval() -> None:
    """Computed by hand: 15 s at 5 % per hour on 8 nodes is 8.6 minutes; 5 s at 5 % on one node is 14.0 minutes."""
    assert best_interval(15, mean_seconds(0.05, 8)) / 60 == pytest.approx(8.6, abs=0.05)
    assert best_interval(5, mean_seconds(0.05)) / 60 == pytest.approx(14.0, abs=0.05)


# --- in the background -----------------------------------------------------------------------------------------


def test_a_later_save_has_the_bytes_of_the_moment(store: Store) -> None:
    buffer = bytearray(b"old" * 1000)
    store.save_later(4, {"model.bin": buffer, "sub/x.bin": b"x"})
    buffer[:] = b"new" * 1000
    assert store.wait(10)
    newest = store.latest()
    assert newest is not None
    assert (newest / "model.bin").read_bytes() == b"old" * 1000
    assert (newest / "sub" / "x.bin").read_bytes() == b"x"


@pytest.mark.parametrize(("left", "is_finished"), [(60.0, True), (3.0, True), (0.5, False)])
def test_on_a_notice_a_later_save_finishes_or_is_abandoned(
    store: Store, monkeypatch: pytest.MonkeyPatch, left: float, is_finished: bool
) -> None:
    """Saves take 10 s here: the rest of one that has taken 9 s fits into 60 s and 3 s, and not into half a second."""
    held, begun = threading.Event(), threading.Event()
    write = DigestedFile.write

    def slow(stream: DigestedFile, data: bytes) -> int:
        begun.set()
        held.wait(60)
        return write(stream, data)

    save(store, 1)
    store._schedule._durations = [10.0]
    monkeypatch.setattr(DigestedFile, "write", slow)
    store.save_later(2, {"a.bin": b"a", "b.bin": b"b"})
    begun.wait(60)
    store._background._began -= 9.0
    list(store.steps(0, every=1000))
    store.announce(left)
    assert not store.due(3), "one at a time"
    held.set()
    assert store.wait(60)
    assert committed(store)[0] == (2 if is_finished else 1)
    assert any("abandoned" in problem for problem in store.problems) is not is_finished


def test_a_later_save_that_is_nearly_done_is_not_abandoned(store: Store) -> None:
    """14 s of 15 are over: 3 s are enough for the rest, though not for a new one."""
    store._schedule.note_save(1, 10.0)
    release = threading.Event()

    def hold() -> None:
        release.wait(60)

    store._background.start(hold)
    store._background._began -= 14.0
    store.announce(3.0)
    assert not store.due(3)
    assert not store._background._stop.is_set()
    release.set()
    assert store.wait(60)
    assert not store.due(4)


def test_with_notices_the_interval_is_that_of_cost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """q = 90 % of the evictions leave time for a save, if one fits into 30 s: sqrt(2 C M / (1 - q))."""

    def interval(save_seconds: float) -> float:
        store = Store(tmp_path, evictions_per_hour=0.05)
        store._schedule.note_save(1, save_seconds)
        return store._schedule.interval

    mean = 3600 / -math.log(0.95)
    assert interval(5.0) == pytest.approx(math.sqrt(2 * 5 * mean))
    monkeypatch.setenv("ARC_TOOLKIT_NOTICE", str(tmp_path / "notice"))
    assert interval(5.0) == pytest.approx(math.sqrt(2 * 5 * mean / 0.1))
    assert interval(25.0) == pytest.approx(math.sqrt(2 * 25 * mean)), (
        "25 s and a margin do not fit into 30"
    )


# --- inside of other people's jobs -----------------------------------------------------------------------------


def test_nothing_but_the_standard_library_is_imported() -> None:
    code = (
        "import sys; import arc_toolkit.checkpoints;"
        "print([m for m in sys.modules if m.split('.')[0] not in {*sys.stdlib_module_names, 'arc_toolkit'}"
        " and not m.startswith(('_', 'sitecustomize', 'usercustomize'))])"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", code], capture_output=True, text=True, cwd=ROOT, check=True
    )
    assert json.loads(done.stdout.replace("'", '"')) == []


@pytest.mark.parametrize("call", ["shutil.rmtree", "os.replace"])
def test_what_a_process_left_that_died_while_it_deleted_or_committed_is_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    def die(*words: object, **options: object) -> None:
        raise KeyboardInterrupt

    store = Store(tmp_path, keep=2)
    for step in (1, 2):
        save(store, step)
    with monkeypatch.context() as patch:
        patch.setattr(call, die)
        with pytest.raises(KeyboardInterrupt):
            save(store, 3)
    heir = Store(tmp_path, keep=2)
    save(heir, 4)
    save(heir, 5)
    assert sorted(os.listdir(tmp_path)) == sorted(
        [".writers", *(entry.folder.name for entry in heir.listing())]
    )
    assert committed(heir) == [5, 4]


def test_a_checkpoint_that_has_lost_its_manifest_is_kept(store: Store) -> None:
    for step in (1, 2):
        save(store, step)
    damaged = store.listing()[0].folder
    (damaged / NAME).unlink()
    heir = Store(store.root, keep=2)
    for step in (3, 4, 5):
        save(heir, step)
    assert (damaged / "model.bin").read_bytes() == CONTENT

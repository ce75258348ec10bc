"""What a store must survive without ending the run that uses it, and without ever giving a wrong checkpoint."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from arc_toolkit.checkpoints import Checkpoint, CheckpointError, Store, StoreUnusable
from arc_toolkit.checkpoints.manifest import NAME, digest_files, verify
from tests.checkpoints.stores import newest_step, quiet, save
from tests.support import ROOT, unavailable

# --- killed at every step of a save --------------------------------------------------------------------------

# What a save does to the disk, in the order in which it does it. The process dies at the n-th of them.
DYING = """
import itertools, os, sys
from arc_toolkit.checkpoints import Store
at, calls, size = int(sys.argv[2]), itertools.count(1), int(sys.argv[4])
def dying(real, after):
    def call(*words, **options):
        number = next(calls)
        if number == at and not after:
            os._exit(9)
        try:
            return real(*words, **options)
        finally:
            if number == at and after:
                os._exit(9)
    return call
store = Store(sys.argv[1], keep=2)
for step in (1, 2):
    with store.save(step) as folder:
        (folder / "model.bin").write_bytes(bytes([step]) * size)
for name in ("fsync", "fdatasync", "rename", "replace", "mkdir", "unlink", "rmdir", "pwrite", "utime"):
    setattr(os, name, dying(getattr(os, name), bool(int(sys.argv[3]))))
with store.save(3) as folder:
    if size > 5000:
        with folder.stream("model.bin") as stream:
            stream.write(bytes([3]) * size)
    else:
        (folder / "model.bin").write_bytes(bytes([3]) * size)
    (folder / "sub").mkdir()
    (folder / "sub" / "x").write_bytes(b"x")
print("saved", flush=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("after", [0, 1])
@pytest.mark.parametrize("size", [5000, 9_000_000], ids=["path", "stream"])
def test_a_process_that_dies_at_any_call_of_a_save_leaves_a_valid_newest(
    tmp_path: Path, after: int, size: int
) -> None:
    deaths = 0
    for at in range(1, 60):
        root = tmp_path / str(at)
        done = subprocess.run(
            [sys.executable, "-c", DYING, str(root), str(at), str(after), str(size)],
            capture_output=True,
            text=True,
            cwd=ROOT,
            check=False,
        )
        newest = quiet(root).latest()
        assert newest is not None, at
        assert newest.step in ((3,) if done.stdout else (2, 3)), at
        assert (newest / "model.bin").read_bytes() == bytes([newest.step]) * size
        # The next process goes on, and cleans up what was not finished.
        store = quiet(root, keep=2)
        save(store, 4)
        assert newest_step(root) == 4
        assert not [name for name in os.listdir(root) if name.startswith(".saving")]
        if done.stdout:
            break
        assert done.returncode == 9, done.stderr
        deaths += 1
    else:
        pytest.fail("the save never ended")
    assert deaths >= 8


# --- disks ---------------------------------------------------------------------------------------------------


@pytest.fixture
def small_disk(tmp_path: Path) -> list[str]:
    """A command that runs another one with a file system of 3 MB at `tmp_path/disk`."""
    folder = tmp_path / "disk"
    folder.mkdir()
    unshare = shutil.which("unshare") or "false"
    mount = 'mount -t tmpfs -o size=3m none "$0" && exec "$@"'
    prefix = [unshare, "--user", "--map-root-user", "--mount", "sh", "-c", mount, str(folder)]
    if subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode:
        unavailable("no file system can be mounted here")
    return prefix


FULL = """
import os, sys
from pathlib import Path
from arc_toolkit.checkpoints import Store
problems = []
store = Store(sys.argv[1], keep=2, report=problems.append)
with store.save(1) as folder:
    (folder / "model.bin").write_bytes(bytes(1_000_000))
for step in (2, 3):
    with store.save(step) as folder:
        if sys.argv[2] == "runtime":  # as PyTorch reports it
            try:
                (folder / "model.bin").write_bytes(bytes(4_000_000))
            except OSError:
                raise RuntimeError("unexpected pos")
        (folder / "model.bin").write_bytes(bytes(4_000_000))
store.save_later(4, {"model.bin": bytes(4_000_000)})
store.wait()
with store.save(5) as folder:
    (folder / "model.bin").write_bytes(bytes(1_000_000))
print(len(problems), store.latest().step, sorted(os.listdir(sys.argv[1]))[-2:])
"""


@pytest.mark.parametrize("way", ["os", "runtime"])
def test_a_disk_that_is_really_full_loses_only_the_new_checkpoint(
    small_disk: list[str], tmp_path: Path, way: str
) -> None:
    done = subprocess.run(
        [*small_disk, sys.executable, "-c", FULL, str(tmp_path / "disk"), way],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    problems, step, *names = done.stdout.split(maxsplit=2)
    assert (problems, step) == ("3", "5")
    assert "step-000000000001" in names[0]
    assert "step-000000000005" in names[0]


def test_an_error_of_the_training_code_is_not_taken_for_a_full_disk(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="a bug"), quiet(tmp_path).save(1):
        raise RuntimeError("a bug")


@pytest.mark.parametrize("strict", [False, True])
def test_a_folder_that_cannot_be_written_does_not_end_the_run(tmp_path: Path, strict: bool) -> None:
    """A file is where the folder should be: also root cannot write there."""
    root = tmp_path / "checkpoints"
    root.write_text("not a folder")
    with pytest.raises(StoreUnusable):
        quiet(root).latest()
    store = quiet(root, strict=strict, fresh=True)
    assert store.latest() is None
    if strict:
        with pytest.raises(CheckpointError, match="step 1 could not be saved"):
            save(store, 1)
        return
    for step in store.steps(3, every=1):
        store.due(step)
        save(store, step)
        store.save_later(step, {"x": b"x"})
    store.wait()
    assert root.read_text() == "not a folder"
    assert any("step 0 could not be saved" in problem for problem in store.problems)


def test_a_strict_store_reports_a_failed_later_save_in_the_training_thread(tmp_path: Path) -> None:
    root = tmp_path / "checkpoints"
    root.write_text("not a folder")
    store = quiet(root, strict=True)
    store.save_later(1, {"x": b"x"})
    with pytest.raises(CheckpointError, match="step 1 could not be saved"):
        store.wait()
    assert store.wait()


def test_a_failing_commit_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = quiet(tmp_path)
    save(store, 1)

    def fail(source: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    save(store, 2)
    assert [name for name in os.listdir(tmp_path) if "000000000002" in name] == []
    assert newest_step(tmp_path) == 1


def test_everything_is_durable_before_the_commit_and_the_commit_before_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    sync, fill, replace = os.fsync, os.fdatasync, os.replace

    def fsync(handle: int) -> None:
        path = os.readlink(f"/proc/self/fd/{handle}")
        calls.append(os.path.basename(path) if ".saving" in path else os.path.basename(path)[:5])
        sync(handle)

    def fdatasync(handle: int) -> None:
        manifest = json.loads(Path(f"/proc/self/fd/{handle}").read_bytes())
        digests = [digest for entry in manifest["files"] for digest in entry["crc32"]]
        assert "0" * 8 not in digests
        assert manifest["digest"] != "0" * 64
        calls.append("filled in")
        fill(handle)

    def commit(source: Path, target: Path) -> None:
        calls.append("commit")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "fdatasync", fdatasync)
    monkeypatch.setattr(os, "replace", commit)
    (tmp_path / "store").mkdir()
    with quiet(tmp_path / "store", strict=True).save(1) as folder:
        (folder / "plain.bin").write_bytes(b"x")
        (folder / "outer" / "inner").mkdir(parents=True)
        (folder / "outer" / "inner" / "deep.bin").write_bytes(b"x")
        with folder.stream("streamed.bin") as stream:
            stream.write(b"x")
    at = calls.index("commit")
    assert set(calls[:at]) == {
        "plain.bin",
        "deep.bin",
        "streamed.bin",
        "outer",
        "inner",
        f".{NAME}.tmp",
        "filled in",
    }
    assert calls[at + 1 :] == ["step-", "store"]


@pytest.mark.parametrize("name", ["plain.bin", "streamed.bin", "sub", "draft", "manifest"])
def test_what_cannot_be_made_durable_is_not_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """A disk may report only at the sync that it could not write."""
    real = os.fdatasync if name == "manifest" else os.fsync

    def fail(handle: int) -> None:
        if os.readlink(f"/proc/self/fd/{handle}").endswith(
            {"draft": ".tmp", "manifest": ".tmp"}.get(name, name)
        ):
            raise OSError(5, "Input/output error")
        real(handle)

    store = quiet(tmp_path)
    save(store, 1)
    monkeypatch.setattr(os, "fdatasync" if name == "manifest" else "fsync", fail)
    with store.save(2) as folder:
        (folder / "plain.bin").write_bytes(b"x")
        (folder / "sub").mkdir()
        (folder / "sub" / "x").write_bytes(b"x")
        with folder.stream("streamed.bin") as stream:
            stream.write(b"x")
    assert "step 2 could not be saved: [Errno 5]" in store.problems[0]
    assert [entry.order[0] for entry in store.listing()] == [1]


def test_a_file_that_gets_shorter_at_the_end_of_a_save_is_saved_as_it_is_then(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The draft of the manifest, with more digits and digests, is longer than the manifest."""

    def shorten(folder: Path, names: list[str], **options: Any) -> Any:
        os.truncate(folder / "model.bin", 5)
        return digest_files(folder, names, **options)

    with monkeypatch.context() as patch:
        patch.setattr("arc_toolkit.checkpoints.manifest.digest_files", shorten)
        with quiet(tmp_path, strict=True).save(1) as folder:
            (folder / "model.bin").write_bytes(bytes(9_000_000))
    assert newest_step(tmp_path) == 1


def test_a_save_is_not_lost_because_older_ones_cannot_be_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = quiet(tmp_path, keep=2, strict=True)

    def fail(*words: object) -> None:
        raise OSError("not permitted")

    monkeypatch.setattr("arc_toolkit.checkpoints.local_checkpoints.remove", fail)
    for step in range(4):
        save(store, step)
    assert newest_step(tmp_path) == 3
    assert "older checkpoints could not be deleted" in store.problems[0]


@pytest.mark.parametrize(
    "variables", [{"RANK": "none", "WORLD_SIZE": "x"}, {"RANK": "", "WORLD_SIZE": ""}]
)
def test_variables_that_are_not_numbers_do_not_end_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    save(quiet(tmp_path), 1)
    assert newest_step(tmp_path) == 1


@pytest.mark.parametrize("stderr", ["closed", None])
def test_without_standard_error_trouble_is_still_no_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stderr: str | None
) -> None:
    (tmp_path / "file").write_text("not a folder")
    stream = open(tmp_path / "stderr", "w") if stderr else None  # noqa: SIM115  (closed in the next line)
    if stream is not None:
        stream.close()
    monkeypatch.setattr(sys, "stderr", stream)
    store = Store(tmp_path / "file")
    save(store, 1)
    assert "step 1 could not be saved" in store.problems[0]


def test_numbers_of_numpy_are_saved_as_numbers_and_others_as_text(tmp_path: Path) -> None:
    numpy = pytest.importorskip("numpy")
    metrics = {
        "loss": numpy.float32(0.5),
        "count": numpy.int64(3),
        "array": numpy.array(2.0),
        "nan": float("nan"),
        "name": "x",
        "vector": numpy.ones(2),
    }
    store = quiet(tmp_path, strict=True)
    with store.save(numpy.int64(7), epoch=numpy.int32(2), metrics=metrics):
        pass
    newest = quiet(tmp_path).latest()
    assert newest is not None
    assert (newest.step, newest.manifest["epoch"]) == (7, 2)
    saved = newest.manifest["metrics"]
    assert saved["nan"] != saved["nan"]
    assert {name: saved[name] for name in metrics if name != "nan"} == {
        "loss": 0.5,
        "count": 3,
        "array": 2.0,
        "name": "x",
        "vector": "[1. 1.]",
    }


def test_the_current_folder_is_a_store_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    save(quiet(Path()), 3)
    assert newest_step(Path()) == 3


def test_latest_says_what_it_did_not_use_and_why(tmp_path: Path) -> None:
    store = quiet(tmp_path)
    for step in (1, 2, 3):
        save(store, step)
    third, second, _ = (entry.folder for entry in store.listing())
    (third / NAME).unlink()
    (second / "model.bin").write_bytes(b"x")
    newest = store.latest()
    assert newest is not None
    assert newest.step == 1
    assert [(damage.folder.name, damage.committed) for damage in store.skipped] == [
        (third.name, False),
        (second.name, True),
    ]
    assert "no manifest" in store.skipped[0].reason
    assert "1 bytes instead of" in store.skipped[1].reason
    assert third.is_dir(), "it may still be being written"
    store.latest()
    assert [damage.folder.name for damage in store.skipped] == [third.name]


# --- time and resuming ---------------------------------------------------------------------------------------


def test_a_clock_that_goes_backwards_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = quiet(tmp_path)
    save(store, 1)
    monkeypatch.setattr(time, "time", lambda: 0.0)
    monkeypatch.setattr(time, "gmtime", lambda: time.struct_time((1970, 1, 1, 0, 0, 0, 3, 1, 0)))
    save(store, 2)
    for entry in store.listing():
        os.utime(entry.folder, (0, 1_000_000 - entry.order[0] * 1000))
    assert newest_step(tmp_path) == 2
    list(store.steps(3, every=10.0))
    assert not store.due(3)


def test_steps_go_on_after_what_was_loaded(tmp_path: Path) -> None:
    """Another writer may commit between `latest`, whose files the caller loads, and `steps`."""
    save(quiet(tmp_path), 4)
    store = quiet(tmp_path)
    loaded = store.latest()
    save(quiet(tmp_path), 8)
    assert loaded is not None
    assert next(iter(store.steps(20))) == loaded.step + 1


def test_an_interrupt_inside_of_the_block_is_not_swallowed(tmp_path: Path) -> None:
    for error in (KeyboardInterrupt, SystemExit, GeneratorExit, StopIteration, MemoryError):
        with pytest.raises((error, RuntimeError)), quiet(tmp_path).save(1):
            raise error
    assert newest_step(tmp_path) is None
    assert not [name for name in os.listdir(tmp_path) if name.startswith((".saving", "step"))]


def save_forever(store: Store) -> None:
    for step in range(10_000):
        save(store, step)


def test_a_signal_during_a_save_leaves_nothing_half_done(tmp_path: Path) -> None:
    def stop(*words: object) -> None:
        raise SystemExit(143)

    previous = signal.signal(signal.SIGALRM, stop)
    try:
        for number in range(20):
            # Again after a while: Python ignores what is raised while it clears a weak reference, as to a thread.
            signal.setitimer(signal.ITIMER_REAL, 0.0005 * (number + 1), 3.0)
            with pytest.raises(SystemExit):
                save_forever(quiet(tmp_path / str(number)))
            signal.setitimer(signal.ITIMER_REAL, 0)
            entries = quiet(tmp_path / str(number)).listing()
            assert all(verify(entry) is None for entry in entries if isinstance(entry, Checkpoint))
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)


# --- the import ----------------------------------------------------------------------------------------------


def test_the_import_takes_less_than_20_ms(tmp_path: Path) -> None:
    """CPU time beyond what every Python imports, with compiled files; the best of several processes."""
    code = (
        "import time; begin = time.process_time(); import arc_toolkit.checkpoints;"
        "print((time.process_time() - begin) * 1000)"
    )
    environment = {
        name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"
    }
    environment["PYTHONPYCACHEPREFIX"] = str(tmp_path)
    times = []
    for _ in range(30):
        done = subprocess.run(
            [sys.executable, "-c", code],
            capture_output=True,
            text=True,
            cwd=ROOT,
            env=environment,
            check=True,
        )
        times.append(float(done.stdout))
        if min(times) < 20:
            return
    pytest.fail(f"{min(times):.1f} ms")

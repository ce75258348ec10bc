"""Files that are digested while they are written: the same bytes and the same digests as of any other file."""

from __future__ import annotations

import _thread
import contextlib
import errno
import fcntl
import io
import os
import pickle
import random
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
import zipfile
from pathlib import Path
from typing import Any

import pytest

from arc_toolkit.checkpoints import Checkpoint, CheckpointError, Store
from arc_toolkit.checkpoints import streams as module
from arc_toolkit.checkpoints.manifest import BLOCK, digest_files, verify
from arc_toolkit.checkpoints.streams import DigestedFile
from tests.checkpoints.killed_writer import newest_after_kills
from tests.checkpoints.stores import quiet
from tests.support import ROOT, unavailable

SMALL = 8192  # a block in most tests


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BLOCK", SMALL)


def read_back(path: Path, block_size: int = SMALL) -> list[str]:
    """The digests that reading the file gives."""
    (entry,) = digest_files(path.parent, [path.name], block_size)
    digests: list[str] = entry["crc32"]
    return digests


def helpers(before: int = 0) -> int:
    """Threads that run beside those of Python's own `threading`."""
    end = time.monotonic() + 20
    while (
        count := _thread._count() + 1 - threading.active_count()
    ) > before and time.monotonic() < end:
        time.sleep(0.01)
    return max(0, count)


def completed(stream: DigestedFile) -> list[str]:
    """Its digests, with those that it leaves to be read back."""
    path = Path(stream.path)
    (entry,) = digest_files(path.parent, [path.name], SMALL, {path.name: stream.digests})
    digests: list[str] = entry["crc32"]
    return digests


# --- the bytes -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, SMALL - 1, SMALL, SMALL + 1, 3 * SMALL, 20 * SMALL + 17])
@pytest.mark.parametrize("piece", [1000, SMALL, 5 * SMALL])
@pytest.mark.usefixtures("small_blocks")
def test_the_bytes_and_digests_are_those_of_any_other_file(
    tmp_path: Path, size: int, piece: int
) -> None:
    content = random.Random(size).randbytes(size)
    with DigestedFile(tmp_path / "x") as stream:
        for start in range(0, size, piece):
            assert stream.write(content[start : start + piece]) == len(
                content[start : start + piece]
            )
        assert stream.tell() == size
    assert (tmp_path / "x").read_bytes() == content
    assert stream.digests == read_back(tmp_path / "x")
    assert stream.is_unchanged()
    assert helpers() == 0


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("seed", range(40))
def test_any_order_of_writes_and_seeks_gives_the_file_that_memory_would_have(
    tmp_path: Path, seed: int
) -> None:
    chance, model = random.Random(seed), io.BytesIO()
    with DigestedFile(tmp_path / "x") as stream:
        for _ in range(30):
            if chance.random() < 0.4:
                offset = chance.randrange(len(model.getvalue()) + 3 * SMALL + 1)
                assert stream.seek(offset) == model.seek(offset)
            elif chance.random() < 0.2:
                assert stream.seek(0, os.SEEK_END) == model.seek(0, os.SEEK_END)
            data = chance.randbytes(chance.choice([0, 1, 30, SMALL, 3 * SMALL + 5]))
            assert stream.write(data) == model.write(data)
            assert stream.tell() == model.tell()
    assert (tmp_path / "x").read_bytes() == model.getvalue()
    assert completed(stream) == read_back(tmp_path / "x")


def test_blocks_of_the_real_size_in_order_are_never_read_back(tmp_path: Path) -> None:
    content = random.Random(1).randbytes(1 << 20) * 21 + b"rest"
    with DigestedFile(tmp_path / "x") as stream:
        stream.write(memoryview(content))
    assert None not in stream.digests
    assert stream.digests == read_back(tmp_path / "x", BLOCK)
    assert (tmp_path / "x").read_bytes() == content


@pytest.mark.usefixtures("small_blocks")
def test_what_is_not_bytes_is_written_as_its_bytes(tmp_path: Path) -> None:
    import array

    numbers = array.array("d", range(3000))
    with DigestedFile(tmp_path / "x") as stream:
        assert stream.write(numbers) == 8 * 3000
        assert stream.write(array.array("d")) == 0
        with pytest.raises(TypeError):
            stream.write("text")
        with pytest.raises(ValueError, match="from 0 on"):
            stream.seek(-1)
    assert (tmp_path / "x").read_bytes() == numbers.tobytes()
    with pytest.raises(ValueError, match="is closed"):
        stream.write(b"x")


# --- what libraries write ------------------------------------------------------------------------------------


@pytest.mark.usefixtures("small_blocks")
def test_pickle_zip_and_numpy_write_into_it(tmp_path: Path) -> None:
    import numpy

    arrays = {"a": numpy.arange(50_000.0), "b": numpy.ones((3, 70), dtype="float32")}
    with DigestedFile(tmp_path / "pickle") as stream:
        pickle.dump(arrays, stream, protocol=5)
    with DigestedFile(tmp_path / "npz") as stream:
        numpy.savez(stream, a=arrays["a"], b=arrays["b"])
    assert completed(stream) == read_back(tmp_path / "npz")
    with DigestedFile(tmp_path / "npy") as stream:
        numpy.save(stream, arrays["a"])
    with DigestedFile(tmp_path / "zip") as stream, zipfile.ZipFile(stream, "w") as archive:
        for number in range(20):
            archive.writestr(f"part-{number}", bytes([number]) * 3000)
    assert pickle.loads((tmp_path / "pickle").read_bytes())["b"].sum() == 210
    with numpy.load(tmp_path / "npz") as loaded:
        assert all((loaded[name] == arrays[name]).all() for name in arrays)
    assert (numpy.load(tmp_path / "npy") == arrays["a"]).all()
    with zipfile.ZipFile(tmp_path / "zip") as archive:
        assert archive.testzip() is None
        assert archive.read("part-19") == bytes([19]) * 3000


# --- in a store ----------------------------------------------------------------------------------------------


def newest(root: Path) -> Checkpoint:
    checkpoint = quiet(root).latest()
    assert checkpoint is not None
    return checkpoint


@pytest.mark.parametrize("closes", [True, False])
def test_a_save_with_streams_and_other_files(tmp_path: Path, closes: bool) -> None:
    store = quiet(tmp_path, strict=True)
    content = bytes(range(256)) * 40_000
    with store.save(1) as folder:
        stream = folder.stream("parts/model.bin")
        stream.write(content)
        if closes:
            stream.close()
        (folder / "plain.bin").write_bytes(b"plain")
    assert (newest(tmp_path) / "parts" / "model.bin").read_bytes() == content
    assert (newest(tmp_path) / "plain.bin").read_bytes() == b"plain"
    assert stream.closed
    assert helpers() == 0


@pytest.mark.parametrize("change", ["same size", "longer", "replaced", "deleted", "mapped"])
def test_a_file_that_changes_after_its_stream_was_closed_is_read_back(
    tmp_path: Path, change: str
) -> None:
    """Else the manifest would describe other bytes than are there, and the checkpoint would be lost."""
    import mmap

    store = quiet(tmp_path, strict=True)
    with store.save(1) as folder:
        with folder.stream("model.bin") as stream:
            stream.write(b"first" * 100)
        if change == "same size":
            with open(folder / "model.bin", "r+b") as file:
                file.write(b"second")
        elif change == "longer":
            with open(folder / "model.bin", "ab") as end:
                end.write(b"x")
        elif change == "replaced":
            (folder / "other").write_bytes(b"other" * 100)
            os.replace(folder / "other", folder / "model.bin")
        elif change == "deleted":
            (folder / "model.bin").unlink()
        else:
            with open(folder / "model.bin", "r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
                memory[:6] = b"second"
        is_there = change != "deleted"
        expected = (folder / "model.bin").read_bytes() if is_there else b""
    assert [entry["path"] for entry in newest(tmp_path).manifest["files"]] == [
        "model.bin"
    ] * is_there
    assert not is_there or (newest(tmp_path) / "model.bin").read_bytes() == expected


def test_a_name_that_is_streamed_twice_has_the_last_content(tmp_path: Path) -> None:
    with quiet(tmp_path, strict=True).save(1) as folder:
        first = folder.stream("x")
        first.write(b"first")
        with folder.stream("x") as second:
            second.write(b"second")
        (folder / "y").write_bytes(b"plain")
        with folder.stream("y") as third:
            third.write(b"third")
    assert first.closed
    assert (newest(tmp_path) / "x").read_bytes() == b"second"
    assert (newest(tmp_path) / "y").read_bytes() == b"third"


@pytest.mark.parametrize(
    "name", ["../x", "/etc/x", "", "a/../../x", "checkpoint.json", ".checkpoint.json.tmp", "a//b"]
)
def test_a_stream_stays_in_its_folder(tmp_path: Path, name: str) -> None:
    with (
        pytest.raises(ValueError, match="is not the name of a file in a checkpoint"),
        quiet(tmp_path).save(1) as folder,
    ):
        folder.stream(name)
    assert quiet(tmp_path).latest() is None


def test_only_the_folder_of_a_save_has_streams(tmp_path: Path) -> None:
    with (
        pytest.raises(ValueError, match="of the folder that save"),
        quiet(tmp_path).save(1) as folder,
    ):
        (folder / "sub").stream("x")


def test_the_folder_is_a_path_in_every_other_way(tmp_path: Path) -> None:
    with quiet(tmp_path, strict=True).save(1) as folder:
        assert isinstance(folder, Path)
        assert os.path.isdir(folder)
        copied = pickle.loads(pickle.dumps(folder))  # as ranks send it to each other
        (copied / "x").write_bytes(b"x")
        shutil.copy(folder / "x", folder / "y")
    assert {entry["path"] for entry in newest(tmp_path).manifest["files"]} == {"x", "y"}


# --- disks ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["flag", "write", "short"])
@pytest.mark.usefixtures("small_blocks")
def test_a_file_system_without_direct_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    """It refuses the flag; takes the flag and refuses the blocks; or takes a part of a block."""
    real_fcntl, real_pwrite = fcntl.fcntl, os.pwrite

    def flagless(handle: int, command: int, flags: int = 0) -> Any:
        if command == fcntl.F_SETFL and flags & os.O_DIRECT:
            raise OSError(errno.EINVAL, "Invalid argument")
        return real_fcntl(handle, command, flags)

    def unwilling(handle: int, data: memoryview, offset: int) -> int:
        is_direct = real_fcntl(handle, fcntl.F_GETFL) & os.O_DIRECT
        if is_direct and (way == "write" or offset % 512):
            raise OSError(errno.EINVAL, "Invalid argument")
        return real_pwrite(handle, data[:4096] if way == "short" else data, offset)

    if way == "flag":
        monkeypatch.setattr(fcntl, "fcntl", flagless)
    else:
        monkeypatch.setattr(os, "pwrite", unwilling)
    content = random.Random(3).randbytes(9 * SMALL + 5)
    with DigestedFile(tmp_path / "x") as stream:
        stream.write(content)
    assert (tmp_path / "x").read_bytes() == content
    assert stream.digests == read_back(tmp_path / "x")


@pytest.mark.parametrize("strict", [False, True])
def test_a_full_disk_is_an_error_of_the_stream_and_loses_only_the_new_checkpoint(
    tmp_path: Path, strict: bool
) -> None:
    store = quiet(tmp_path, strict=strict)
    with store.save(1) as folder, folder.stream("model.bin") as stream:
        stream.write(b"one")
    before = len(os.listdir("/proc/self/fd"))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    previous = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (6 << 20, limits[1]))
    try:
        for step in (2, 3):
            try:
                with store.save(step) as folder, folder.stream("model.bin") as stream:
                    for _ in range(40):
                        stream.write(bytes(1 << 20))
            except CheckpointError:
                assert strict
        store.save_later(4, {"model.bin": bytes(20 << 20)})
        if strict:
            with pytest.raises(CheckpointError):
                store.wait()
        store.wait()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, previous)
    assert [problem.partition(":")[0] for problem in store.problems] == [
        f"step {step} could not be saved" for step in (2, 3, 4)
    ]
    assert newest(tmp_path).step == 1
    assert not [name for name in os.listdir(tmp_path) if name.startswith(".saving")]
    assert helpers() == 0
    assert len(os.listdir("/proc/self/fd")) == before


FULL = """
import os, sys
from arc_toolkit.checkpoints import Store
problems = []
store = Store(sys.argv[1], keep=2, report=problems.append)
def save(step, size):
    with store.save(step) as folder:
        with folder.stream("model.bin") as stream:
            try:
                stream.write(bytes(size))
            except OSError:
                if step == 3:  # as a library that has errors of its own
                    raise RuntimeError("unexpected pos")
                raise
save(1, 9_000_000)
save(2, 40_000_000)
save(3, 40_000_000)
store.save_later(4, {"model.bin": bytes(40_000_000)})
store.wait()
save(5, 9_000_000)
print(len(problems), store.latest().step, sum(name.startswith("step") for name in os.listdir(sys.argv[1])))
"""


def test_a_disk_that_is_really_full(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    mount = 'mount -t tmpfs -o size=24m none "$0" && exec "$@"'
    prefix = [
        shutil.which("unshare") or "false",
        "--user",
        "--map-root-user",
        "--mount",
        "sh",
        "-c",
        mount,
    ]
    prefix.append(str(tmp_path / "disk"))
    if subprocess.run([*prefix, "true"], capture_output=True, check=False).returncode:
        unavailable("no file system can be mounted here")
    done = subprocess.run(
        [*prefix, sys.executable, "-c", FULL, str(tmp_path / "disk")],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
        timeout=120,
    )
    assert done.stdout.split() == ["3", "5", "2"], done.stderr


# --- ends ----------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("small_blocks")
def test_without_threads_the_caller_does_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*words: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(module, "start_new_thread", refuse)
    content = random.Random(4).randbytes(30 * SMALL + 9)
    with DigestedFile(tmp_path / "x") as stream:
        stream.write(content)
    assert (tmp_path / "x").read_bytes() == content
    assert stream.digests == read_back(tmp_path / "x")


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt, SystemExit])
def test_an_exception_in_the_block_leaves_no_thread_and_no_file(
    tmp_path: Path, error: type[BaseException]
) -> None:
    store = quiet(tmp_path)
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(error), store.save(1) as folder:  # noqa: PT012
        stream = folder.stream("x")
        stream.write(bytes(30 << 20))
        raise error
    assert stream.closed
    assert helpers() == 0
    assert len(os.listdir("/proc/self/fd")) == before
    assert [name for name in os.listdir(tmp_path) if name != ".writers"] == []


def test_a_forked_child_neither_waits_nor_damages_the_file(tmp_path: Path) -> None:
    content = random.Random(6).randbytes(1 << 20) * 20
    with quiet(tmp_path, strict=True).save(1) as folder:
        stream = folder.stream("x")
        stream.write(content[: 13 << 20])
        if (pid := os.fork()) == 0:
            signal.alarm(60)
            stream.close()
            os._exit(0)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
        stream.write(content[13 << 20 :])
    assert (newest(tmp_path) / "x").read_bytes() == content


ENDS = """
import sys
from arc_toolkit.checkpoints import Store
folder = Store(sys.argv[1], report=print).save(1).__enter__()
stream = folder.stream("x")
stream.write(bytes(40 << 20))
print("written", flush=True)
{end}
"""


@pytest.mark.parametrize("end", ["", "raise SystemExit(3)", "import os; os.kill(os.getpid(), 15)"])
def test_a_process_that_ends_with_an_open_stream_ends(tmp_path: Path, end: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", ENDS.format(end=end), str(tmp_path)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=120,
        check=False,
    )
    assert done.stdout == "written\n"
    assert done.returncode == {"": 0, "raise SystemExit(3)": 3}.get(end, -15), done.stderr
    assert done.stderr == ""
    assert quiet(tmp_path).latest() is None


def test_a_signal_at_any_moment_of_a_stream(tmp_path: Path) -> None:
    """Its handler raises, as that of a grace period may do. Nothing hangs, and what was committed is whole."""

    def stop(*words: object) -> None:
        raise SystemExit(143)

    def save_many(store: Store) -> None:
        for step in range(60):
            with store.save(step) as folder, folder.stream("x") as stream:
                for _ in range(9):
                    stream.write(bytes([step % 256]) * (1 << 20))

    previous = signal.signal(signal.SIGALRM, stop)
    chance = random.Random(8)
    try:
        for number in range(25):
            root = tmp_path / str(number)
            signal.setitimer(signal.ITIMER_REAL, 0.002 + chance.random() * 0.06)
            # Python itself drops what a handler raises while an object is deleted: then all of them are saved.
            with contextlib.suppress(SystemExit):
                save_many(quiet(root))
            signal.setitimer(signal.ITIMER_REAL, 0)
            for entry in quiet(root).listing():
                assert not isinstance(entry, Checkpoint) or verify(entry) is None
            shutil.rmtree(root, ignore_errors=True)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
    assert helpers() == 0


@pytest.mark.slow
def test_killed_at_any_moment_of_a_stream_the_newest_committed_checkpoint_loads(
    tmp_path: Path,
) -> None:
    save = """
        with folder.stream("model.bin") as stream:
            for _ in range(9):
                stream.write(content * 1_000_000)"""
    for checkpoint in newest_after_kills(tmp_path, save, kills=40):
        assert (checkpoint / "model.bin").read_bytes() == bytes([checkpoint.step % 256]) * 9_000_000


def test_a_stream_takes_a_bounded_amount_of_memory(tmp_path: Path) -> None:
    code = """
import resource, sys
from arc_toolkit.checkpoints import Store
store, piece, kept = Store(sys.argv[1], strict=True), bytes(1 << 20), []
with store.save(0) as folder, folder.stream("x") as stream:
    stream.write(piece)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for step in (1, 2):
    with store.save(step) as folder:
        for name in "abc":
            with folder.stream(name) as stream:
                kept.append(stream)
                for _ in range(50):
                    stream.write(piece)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=True,
    )
    assert int(done.stdout) <= 40

"""Checkpoints at a URL: a real Azurite, and a folder as the fast stand-in for a blob store."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from arc_toolkit.checkpoints import Store, StoreUnreadable, StoreUnusable
from arc_toolkit.checkpoints.manifest import NAME
from arc_toolkit.checkpoints.remote import RemoteFolder, UploadRate
from tests.support import ROOT, Result


@pytest.fixture
def url(tmp_path: Path) -> str:
    pytest.importorskip("fsspec")
    (tmp_path / "blobs").mkdir()
    return f"file://{tmp_path / 'blobs'}/run"


def save(store: Store, step: int, size: int = 100, **fields: Any) -> None:
    with store.save(step, **fields) as folder:
        (folder / "model.bin").write_bytes(bytes([step]) * size)
        (folder / "part").mkdir()
        (folder / "part" / "optimizer.bin").write_bytes(b"o" * step)
    assert store.wait(60)


def quiet(root: object, **options: Any) -> Store:
    return Store(root, report=lambda text: None, **options)  # type: ignore[arg-type]


def uploaded(url: str) -> list[int]:
    entries = RemoteFolder(url).listing()
    return sorted(entry.step for entry in entries if hasattr(entry, "step"))


def test_another_machine_resumes_from_the_url(tmp_path: Path, url: str) -> None:
    save(quiet(tmp_path / "a", remote=url), 7)
    other = quiet(tmp_path / "b", remote=url)
    found = other.latest()
    assert found is not None
    assert (found.step, (found / "model.bin").read_bytes()) == (7, b"\7" * 100)
    assert (found / "part/optimizer.bin").read_bytes() == b"o" * 7
    assert found.folder.parent == tmp_path / "b"
    assert list(other.steps(10)) == [8, 9]


def test_a_url_alone_has_a_local_folder(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARC_TOOLKIT_CHECKPOINT_CACHE", str(tmp_path / "here"))
    store = quiet(url)
    save(store, 1)
    assert store.root.parent == tmp_path / "here"
    assert uploaded(url) == [1]
    assert quiet(f"{url}-2").latest() is None  # another job with the same folder for local copies


def test_the_newest_of_both_places_counts(tmp_path: Path, url: str) -> None:
    local, far = quiet(tmp_path / "a", remote=url), quiet(tmp_path / "b", remote=url)
    save(local, 3)
    save(far, 9)
    assert (quiet(tmp_path / "a", remote=url).latest() or save).step == 9  # type: ignore[union-attr]
    save(quiet(tmp_path / "a"), 11)  # not uploaded
    assert (quiet(tmp_path / "a", remote=url).latest() or save).step == 11  # type: ignore[union-attr]


def test_retention_at_the_url(tmp_path: Path, url: str) -> None:
    store = quiet(tmp_path / "a", remote=url, keep=2)
    for step in range(5):
        save(store, step)
    assert uploaded(url) == [3, 4]


@pytest.mark.parametrize("damage", ["flip", "truncate", "missing", "manifest"])
def test_a_damaged_checkpoint_at_the_url_is_skipped_and_kept(
    tmp_path: Path, url: str, damage: str
) -> None:
    store = quiet(tmp_path / "a", remote=url)
    save(store, 1)
    save(store, 2)
    (folder,) = (tmp_path / "blobs" / "run").glob("step-000000000002-*")
    path = folder / ("model.bin" if damage != "manifest" else NAME)
    content = bytearray(path.read_bytes())
    if damage == "missing":
        path.unlink()
    else:
        content[len(content) // 2] ^= 1
        path.write_bytes(bytes(content) if damage != "truncate" else bytes(content[:-1]))
    said: list[str] = []
    other = Store(tmp_path / "b", remote=url, report=said.append)
    found = other.latest()
    assert found is not None
    assert found.step == 1
    assert any("is skipped" in text for text in said)
    assert folder.is_dir()  # never deleted while in doubt
    assert not list((tmp_path / "b").glob("step-000000000002*"))


def test_an_upload_without_a_manifest_does_not_count(tmp_path: Path, url: str) -> None:
    store = quiet(tmp_path / "a", remote=url)
    save(store, 1)
    save(store, 2)
    (manifest,) = (tmp_path / "blobs" / "run").glob(f"step-000000000002-*/{NAME}")
    manifest.unlink()
    found = quiet(tmp_path / "b", remote=url).latest()
    assert found is not None
    assert found.step == 1


def test_an_interrupted_upload_goes_on_with_what_is_missing(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    puts: list[str] = []
    real = RemoteFolder._put

    def put(self: RemoteFolder, source: Path, path: str) -> None:
        puts.append(path.partition("/")[2])
        if len(puts) == 2:
            raise OSError("connection lost")
        real(self, source, path)

    monkeypatch.setattr(RemoteFolder, "_put", put)
    store = quiet(tmp_path / "a", remote=url)
    save(store, 1)
    (problem,) = store.problems
    assert "is not uploaded yet" in problem
    assert "connection lost" in problem
    assert puts == ["model.bin", "part/optimizer.bin", "part/optimizer.bin", NAME]
    assert uploaded(url) == [1]


def test_an_upload_that_keeps_failing_is_given_up_and_goes_on_in_the_next_process(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: RemoteFolder, source: Path, path: str) -> None:
        raise OSError("no network")

    with monkeypatch.context() as without_network:
        without_network.setattr(RemoteFolder, "_put", fail)
        without_network.setattr("arc_toolkit.checkpoints.remote._PAUSES", (0.01, 0.01))
        first = quiet(tmp_path / "a", remote=url)
        save(first, 4)
        assert [text.count("yet") for text in first.problems] == [1, 0]
    assert uploaded(url) == []
    again = quiet(tmp_path / "a", remote=url)
    assert next(iter(again.steps(10))) == 5
    assert again.wait(60)
    assert uploaded(url) == [4]
    assert again.problems == []
    reader = quiet(tmp_path / "a", remote=url)  # there is nothing to upload any more
    reader.begin()
    assert reader._fence == 0


def test_an_evicted_writer_may_not_upload_after_its_replacement(tmp_path: Path, url: str) -> None:
    old, new = quiet(tmp_path / "a", remote=url), quiet(tmp_path / "b", remote=url)
    save(old, 1)
    save(new, 2)
    save(old, 3)
    assert uploaded(url) == [1, 2]
    assert any("another process has taken over" in text for text in old.problems)
    assert old.listing()[0].order[0] == 3  # here it is kept


def test_a_url_that_does_not_answer_does_not_end_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("arc_toolkit.checkpoints.remote._PAUSES", (0.01,))
    with pytest.raises(StoreUnusable):
        quiet(tmp_path / "a", remote="nosuchscheme://x/y").latest()
    store = quiet(tmp_path / "a", remote="nosuchscheme://x/y", fresh=True)
    assert store.latest() is None
    save(store, 1)
    assert (store.latest() or save).step == 1  # type: ignore[union-attr]
    assert any("nosuchscheme" in text for text in store.problems)


def test_earlier_tries_of_an_azureml_job_are_known(tmp_path: Path) -> None:
    save(quiet(tmp_path / "outputs" / "retry_001" / "checkpoints"), 5)
    save(quiet(tmp_path / "outputs" / "checkpoints"), 3)
    store = quiet(tmp_path / "outputs" / "checkpoints", keep=2)
    assert (store.latest() or save).step == 5  # type: ignore[union-attr]
    for step in (6, 7, 8):
        save(store, step)
    assert len(list((tmp_path / "outputs" / "retry_001" / "checkpoints").glob("step-*"))) == 1


# --- a real blob store ----------------------------------------------------------------------------------------


@pytest.mark.real
def test_azurite_resumes_on_another_machine(container: Any, tmp_path: Path) -> None:
    url = f"az://{container.container_name}/jobs/one"
    store = quiet(tmp_path / "a", remote=url, keep=2)
    for step in (1, 2, 3):
        save(store, step, size=300_000)
    assert store.problems == []
    names = sorted(blob.name for blob in container.list_blobs())
    assert sum(name.endswith(NAME) for name in names) == 2
    found = quiet(tmp_path / "b", remote=url).latest()
    assert found is not None
    assert (found.step, (found / "model.bin").read_bytes()) == (3, b"\3" * 300_000)


@pytest.mark.real
def test_azurite_without_the_container_is_not_a_new_run(container: Any, tmp_path: Path) -> None:
    here = quiet(tmp_path / "a", remote=f"az://{container.container_name}/new")
    assert here.latest() is None
    wrong = quiet(tmp_path / "a", remote=f"az://{container.container_name}-2/new")
    with pytest.raises(StoreUnreadable, match="does not exist"):
        wrong.latest()


@pytest.mark.real
def test_azurite_has_the_last_checkpoint_of_a_process_that_ends_at_once(
    container: Any, tmp_path: Path
) -> None:
    """Storage libraries need thread pools of Python, which end before its threads do."""
    url = f"az://{container.container_name}/ended"
    code = """
        import sys
        from arc_toolkit.checkpoints import Store
        with Store(sys.argv[1], remote=sys.argv[2]).save(7) as folder:
            (folder / "model.bin").write_bytes(bytes(3_000_000))
    """
    words = [sys.executable, "-c", textwrap.dedent(code), str(tmp_path / "a"), url]
    subprocess.run(words, check=True, timeout=300, env={**os.environ, "PYTHONPATH": str(ROOT)})
    assert uploaded(url) == [7]


@pytest.mark.real
@pytest.mark.slow
def test_azurite_kill_during_uploads_never_leaves_a_wrong_checkpoint(
    container: Any, tmp_path: Path
) -> None:
    url = f"az://{container.container_name}/killed"
    code = """
        import sys
        from arc_toolkit.checkpoints import Store
        store = Store(sys.argv[1], remote=sys.argv[2], keep=3)
        newest = store.latest()
        for step in range(newest.step + 1 if newest else 0, 100000):
            with store.save(step) as folder:
                for name in "abc":
                    (folder / name).write_bytes(bytes([step % 251]) * 200_000)
            store.wait()
            print(step, flush=True)
    """
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(code))
    acknowledged = -1
    for number in range(12):
        words = [sys.executable, str(script), str(tmp_path / f"machine{number}"), url]
        process = subprocess.Popen(
            words, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(ROOT)}
        )
        assert process.stdout is not None
        for _ in range(number % 4 + 1):
            line = process.stdout.readline()
            acknowledged = int(line) if line else acknowledged
        process.kill()
        process.wait()
        found = quiet(tmp_path / f"reader{number}", remote=url).latest()
        assert found is not None
        assert found.step >= acknowledged
        assert (found / "b").read_bytes() == bytes([found.step % 251]) * 200_000


def test_the_command_on_a_url(
    tmp_path: Path, url: str, arc: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = quiet(tmp_path / "a", remote=url)
    for step in (1, 2, 3):
        save(store, step)
    assert [line.split()[0] for line in arc("checkpoints", "list", url).out.splitlines()] == [
        "STEP",
        "3",
        "2",
        "1",
    ]
    assert arc("checkpoints", "verify", url).code == 0
    (path,) = (tmp_path / "blobs" / "run").glob("step-000000000003-*/model.bin")
    path.write_bytes(b"x" * 100)
    result = arc("checkpoints", "verify", url)
    assert (result.code, "2 valid, 1 damaged" in result.err) == (1, True)
    monkeypatch.setenv("ARC_TOOLKIT_CHECKPOINT_CACHE", str(tmp_path / "c"))
    result = arc("checkpoints", "resume", url)
    assert result.code == 0
    assert Path(result.out.strip()).name.startswith("step-000000000002")
    assert (Path(result.out.strip()) / "model.bin").read_bytes() == b"\2" * 100
    save(quiet(tmp_path / "d", remote=url), 4)
    assert arc("checkpoints", "prune", url, "--keep", "2", "--yes").code == 0
    assert uploaded(url) == [2, 3, 4]  # the damaged one is kept


def test_the_command_on_a_url_that_cannot_be_read(arc: Callable[..., Result]) -> None:
    result = arc("checkpoints", "list", "nosuchscheme://x")
    assert result.code == 2
    assert result.err.count("\n") == 1


def test_the_copy_at_the_url_is_used_if_the_one_here_is_damaged(tmp_path: Path, url: str) -> None:
    store = quiet(tmp_path / "a", remote=url)
    save(store, 1)
    save(store, 2)
    newest = store.latest()
    assert newest is not None
    (newest / "model.bin").write_bytes(b"x" * 100)
    other = quiet(tmp_path / "a", remote=url)
    found = other.latest()
    assert found is not None
    assert (found.step, (found / "model.bin").read_bytes()) == (2, b"\2" * 100)
    assert [damage.reason for damage in other.skipped] == [
        "model.bin has other bytes than were saved"
    ]
    assert len(list((tmp_path / "a" / "damaged").iterdir())) == 1


def test_without_a_thread_the_upload_is_done_at_once(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    store = quiet(tmp_path / "a", remote=url)
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        save(store, 1)
    assert uploaded(url) == [1]
    assert store.problems == []


def test_a_checkpoint_that_is_deleted_during_the_listing_does_not_hide_the_others(
    tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = quiet(tmp_path / "a", remote=url)
    save(store, 1)
    save(store, 2)
    read = RemoteFolder.read

    def read_late(folder: RemoteFolder, path: str) -> bytes:
        if path.startswith("step-000000000001-"):
            raise FileNotFoundError(path)
        return read(folder, path)

    monkeypatch.setattr(RemoteFolder, "read", read_late)
    assert uploaded(url) == [2]


@pytest.fixture
def may_upload(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Uploads of files wait for it."""
    put, event = RemoteFolder._put, threading.Event()

    def put_late(folder: RemoteFolder, source: Path, path: str) -> None:
        assert event.wait(60)
        put(folder, source, path)

    monkeypatch.setattr(RemoteFolder, "_put", put_late)
    return event


def test_saves_that_are_faster_than_uploads_do_not_keep_them_from_being_finished(
    tmp_path: Path, url: str, may_upload: threading.Event
) -> None:
    store = quiet(tmp_path / "a", remote=url, keep=2)
    for step in range(1, 6):
        with store.save(step) as folder:
            (folder / "model.bin").write_bytes(b"x")
            (folder / "more.bin").write_bytes(b"x")
    may_upload.set()
    assert store.wait(60)
    first, last = uploaded(url)
    assert first < last == 5
    assert store.problems == []


# The size of a checkpoint of two equal files, of which the first is being uploaded when the notice comes, that of the
# newer one, the seconds that are left at 100 bytes per second; and which ones are completed, in this order.
DEADLINES = [
    pytest.param(1000, 1000, 60, [1, 2], id="both fit"),
    pytest.param(1000, 1000, 14, [2], id="only the newer one fits"),
    pytest.param(1000, 5000, 14, [1, 2], id="the newer one does not fit"),
]


@pytest.mark.parametrize(("size", "newer_size", "seconds_left", "expected"), DEADLINES)
def test_before_an_end_the_best_that_can_be_complete_is_uploaded(
    tmp_path: Path,
    url: str,
    may_upload: threading.Event,
    monkeypatch: pytest.MonkeyPatch,
    size: int,
    newer_size: int,
    seconds_left: float,
    expected: list[int],
) -> None:
    monkeypatch.setattr(UploadRate, "seconds_for", lambda self, number: number / 100)
    completed: list[int] = []
    put = RemoteFolder._put

    def put_and_note(folder: RemoteFolder, source: Path, path: str) -> None:
        put(folder, source, path)
        if path.endswith(NAME):
            completed.append(int(path.split("-")[1]))

    monkeypatch.setattr(RemoteFolder, "_put", put_and_note)
    store = quiet(tmp_path / "a", remote=url)
    for step, number in ((1, size), (2, newer_size)):
        if step == 2:
            store.announce(seconds_left)
        with store.save(step) as folder:
            (folder / "model.bin").write_bytes(bytes(number // 2))
            (folder / "more.bin").write_bytes(bytes(number // 2))
    may_upload.set()
    assert store.wait(60)
    assert completed == expected


def test_a_manifest_whose_files_are_there_is_always_uploaded(
    tmp_path: Path, url: str, may_upload: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is the one that makes the checkpoint; a newer one may not fit."""
    monkeypatch.setattr(UploadRate, "seconds_for", lambda self, number: 50.0)
    store = quiet(tmp_path / "a", remote=url)
    for step in (1, 2):
        if step == 2:
            store.announce(60)
        with store.save(step) as folder:
            (folder / "model.bin").write_bytes(b"x")
    may_upload.set()
    assert store.wait(60)
    assert uploaded(url) == [1, 2]


def test_the_rate_of_uploads_is_measured() -> None:
    rate = UploadRate()
    assert rate.seconds_for(10**9) == 0
    rate.note(1000, 1.0)
    assert rate.seconds_for(5000) == pytest.approx(5.0)
    for _ in range(10):
        rate.note(1000, 10.0)  # it has become slower
    assert rate.seconds_for(1000) == pytest.approx(10.0, rel=0.01)

"""Several processes or threads with one store."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from arc_toolkit.checkpoints import Checkpoint
from arc_toolkit.checkpoints.manifest import NAME, verify
from arc_toolkit.checkpoints.remote import RemoteFolder
from tests.checkpoints.stores import CONTENT, newest_step, quiet, save
from tests.support import ROOT


def test_a_save_within_a_save(tmp_path: Path) -> None:
    store = quiet(tmp_path)
    with store.save(1) as outer:
        save(store, 2)
        (outer / "x").write_bytes(b"outer")
    assert [entry.order[0] for entry in store.listing()] == [2, 1]
    assert all(isinstance(entry, Checkpoint) and verify(entry) is None for entry in store.listing())


def test_threads_that_save_at_the_same_time(tmp_path: Path) -> None:
    store = quiet(tmp_path, keep=20)
    threads = [
        threading.Thread(target=save, args=(store, step, bytes([step]) * 9000))
        for step in range(12)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    entries = store.listing()
    assert [entry.order[0] for entry in entries] == list(range(11, -1, -1))
    for entry in entries:
        assert isinstance(entry, Checkpoint)
        assert verify(entry) is None


def test_a_forked_child_may_save_too(tmp_path: Path) -> None:
    store = quiet(tmp_path, keep=4)
    save(store, 1)
    store.save_later(2, {"x": b"x" * 1000})
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            save(store, 3)
            code = 0
        finally:
            os._exit(code)
    save(store, 4)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert [entry.order[0] for entry in store.listing()] == [4, 3, 2, 1]
    assert all(isinstance(entry, Checkpoint) and verify(entry) is None for entry in store.listing())


def test_without_another_thread_a_save_is_done_in_this_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    store = quiet(tmp_path)
    save(store, 1)
    store.save_later(2, {"x": b"x"})
    assert newest_step(tmp_path) == 2


RIVAL = """
import sys
from arc_toolkit.checkpoints import Store
store = Store(sys.argv[1], keep=3, report=lambda text: None)
for step in range(int(sys.argv[2]), int(sys.argv[2]) + 40):
    with store.save(step) as folder:
        (folder / "model.bin").write_bytes(bytes([step % 256]) * 3000)
"""


@pytest.mark.slow
def test_rivals_never_damage_each_other(tmp_path: Path) -> None:
    """Four processes that all believe to be the writer, while another one reads."""
    rivals = [
        subprocess.Popen([sys.executable, "-c", RIVAL, str(tmp_path), str(number * 1000)], cwd=ROOT)
        for number in range(4)
    ]
    reader = quiet(tmp_path)
    while any(rival.poll() is None for rival in rivals):
        for entry in reader.listing():
            # Deleted while it is read, or whole: nothing else.
            if isinstance(entry, Checkpoint) and (damage := verify(entry)) is not None:
                assert not (entry.folder / NAME).exists(), damage
    assert [rival.returncode for rival in rivals] == [0] * 4
    newest = quiet(tmp_path).latest()
    assert newest is not None
    assert (newest / "model.bin").read_bytes() == bytes([newest.step % 256]) * 3000
    assert not (tmp_path / "damaged").exists()


def test_several_ranks_of_a_node_download_at_the_same_time(tmp_path: Path) -> None:
    save(quiet(tmp_path / "first", remote=f"file://{tmp_path}/there"), 5, CONTENT * 50)
    for _ in range(100):
        if RemoteFolder(f"file://{tmp_path}/there").listing():
            break
        time.sleep(0.1)
    code = (
        "import sys; from arc_toolkit.checkpoints import Store;"
        "print(Store(sys.argv[1], remote=sys.argv[2], report=print).latest())"
    )
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path / "node"), f"file://{tmp_path}/there"],
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        for _ in range(4)
    ]
    answers = {rank.communicate()[0] for rank in ranks}
    assert len(answers) == 1
    assert "Checkpoint(step=5" in answers.pop()

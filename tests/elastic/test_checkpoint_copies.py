"""Checkpoints without shared storage: on the head and on another node, compared byte by byte."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from arc_toolkit.checkpoints import Store
from arc_toolkit.elastic.checkpoint_copies import CopyKeeper, CopyServer, get, newest, put


def saved(root: Path, step: int, content: bytes = b"weights") -> Path:
    store = Store(root, keep=9)
    with store.save(step) as folder:
        (folder / "model.bin").write_bytes(content)
    checkpoint = store.latest()
    assert checkpoint is not None
    return checkpoint.folder


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[CopyServer]:
    server = CopyServer(tmp_path / "head", "127.0.0.1")
    yield server
    server.close()


def step_of(root: Path) -> int | None:
    checkpoint = newest(root)
    return checkpoint.step if checkpoint is not None else None


def test_a_new_checkpoint_is_on_the_head_and_on_one_other_node(
    tmp_path: Path, server: CopyServer
) -> None:
    peer, notes = CopyServer(tmp_path / "peer", "127.0.0.1"), list[str]()
    keeper = CopyKeeper(tmp_path / "own", ("127.0.0.1", server.port), notes.append)
    keeper.peer = ("127.0.0.1", peer.port)
    try:
        for step in (3, 8, 9):
            saved(tmp_path / "own", step)
            for name in ("head", "peer"):
                until(lambda name=name, step=step: step_of(tmp_path / name) == step)  # type: ignore[misc]
        assert (Store(tmp_path / "peer").latest() or Path()) != Path()
        assert len(list((tmp_path / "head").glob("step-*"))) == 2, "only the newest are kept"
        assert notes == []
        peer.close()
        with socket.create_server(("127.0.0.1", 0)) as unused:
            keeper.peer = ("127.0.0.1", unused.getsockname()[1])
        saved(tmp_path / "own", 12)
        until(lambda: step_of(tmp_path / "head") == 12)
        until(lambda: bool(notes))
        assert "is not copied to 127.0.0.1" in notes[0]
        late = CopyServer(tmp_path / "late", "127.0.0.1")
        keeper.peer = ("127.0.0.1", late.port)
        until(lambda: step_of(tmp_path / "late") == 12)  # tried again, although the head has it
        late.close()
        assert len(notes) == 1, "said once"
    finally:
        keeper.stop()


def test_a_copy_that_differs_does_not_count(tmp_path: Path, server: CopyServer) -> None:
    folder = saved(tmp_path / "own", 3, b"x" * 5000)
    (folder / "model.bin").write_bytes(b"x" * 2000 + b"y" + b"x" * 2999)
    assert not put(("127.0.0.1", server.port), folder)
    assert step_of(tmp_path / "head") is None
    assert list((tmp_path / "head").iterdir()) == []


def test_a_checkpoint_is_fetched_once(tmp_path: Path, server: CopyServer) -> None:
    folder = saved(tmp_path / "head", 3)
    address = ("127.0.0.1", server.port)
    assert get(address, folder.name, tmp_path / "own")
    assert (tmp_path / "own" / folder.name / "model.bin").read_bytes() == b"weights"
    server.close()
    assert get(address, folder.name, tmp_path / "own"), "it is here, nobody is asked"
    assert not (tmp_path / "own" / "step-000000000009-000001-00000000").exists()


def test_what_is_not_there_is_not_fetched(tmp_path: Path, server: CopyServer) -> None:
    assert not get(
        ("127.0.0.1", server.port), "step-000000000009-000001-00000000", tmp_path / "own"
    )


def test_a_sender_cannot_write_outside_of_the_folder(tmp_path: Path, server: CopyServer) -> None:
    with (
        socket.create_connection(("127.0.0.1", server.port), timeout=30) as sock,
        sock.makefile("rwb") as stream,
    ):
        stream.write(
            b'{"put": "step-1"}\n' + json.dumps({"path": "../../evil", "size": 1}).encode() + b"\nx"
        )
        stream.write(b'{"end": true}\n')
        stream.flush()
        assert json.loads(stream.readline()) == {"valid": False}
    assert not (tmp_path / "evil").exists()
    assert not (tmp_path.parent / "evil").exists()

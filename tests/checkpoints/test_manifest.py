"""What a manifest must say, and which files a checkpoint may have."""

from __future__ import annotations

import hashlib
import os
import random
from pathlib import Path
from typing import Any

import pytest

from arc_toolkit.checkpoints import Checkpoint, InvalidCheckpoint
from arc_toolkit.checkpoints import manifest as manifests
from arc_toolkit.checkpoints.manifest import NAME, parse_manifest, verify
from tests.checkpoints.stores import newest_step, quiet, save


def signed(**changes: Any) -> bytes:
    """A manifest whose own digest is right."""
    entry = {"path": "model.bin", "size": 1, "crc32": ["0" * 8]}
    manifest: dict[str, Any] = {
        "schema": manifests.SCHEMA,
        "step": 1,
        "writer": {"id": "x", "fence": 1},
        "block_size": 1024,
        "files": [entry],
        **changes,
    }
    manifest = {key: value for key, value in manifest.items() if value is not None}
    manifest["digest"] = manifests._own_digest(manifest)
    return manifests.manifest_bytes(manifest)


def entry_of(**changes: Any) -> list[dict[str, Any]]:
    return [{"path": "model.bin", "size": 1, "crc32": ["0" * 8], **changes}]


@pytest.mark.parametrize(
    "changes",
    [
        {"step": -1},
        {"step": "1"},
        {"step": True},
        {"step": None},
        {"writer": {"id": "x"}},
        {"writer": "x"},
        {"block_size": 0},
        {"block_size": -5},
        {"files": None},
        {"files": 5},
        {"files": entry_of(path="../outside")},
        {"files": entry_of(path="/etc/passwd")},
        {"files": entry_of(path="a/../../outside")},
        {"files": entry_of(path="")},
        {"files": entry_of(path="a//b")},
        {"files": entry_of(path="a\0b")},
        {"files": entry_of(path=NAME)},
        {"files": entry_of(path=5)},
        {"files": entry_of(size=-1)},
        {"files": entry_of(size=5000)},
        {"files": entry_of(crc32="0" * 8)},
        {"files": entry_of() * 2},
    ],
)
def test_a_manifest_that_makes_no_sense_is_damage_even_if_its_digest_is_right(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    assert isinstance(parse_manifest(tmp_path, signed()), Checkpoint)
    assert isinstance(parse_manifest(tmp_path, signed(**changes)), InvalidCheckpoint)


@pytest.mark.parametrize(
    "content",
    [
        signed() + b" ",
        b"\n" + signed(),
        b"",
        b"null",
        b"[]",
        b"5",
        b'"x"',
        b"{}",
        b"\xff\xfe",
        b"[" * 100_000,
    ],
)
def test_text_that_is_not_a_manifest_is_damage(tmp_path: Path, content: bytes) -> None:
    assert isinstance(parse_manifest(tmp_path, content), InvalidCheckpoint)


def test_a_manifest_at_a_url_cannot_write_outside_of_the_store(tmp_path: Path) -> None:
    there = tmp_path / "there" / "step-000000000001-000001-ab"
    there.mkdir(parents=True)
    (there / NAME).write_bytes(signed(files=entry_of(path="../../outside", size=1)))
    (tmp_path / "there" / "outside").write_bytes(b"x")
    store = quiet(tmp_path / "here" / "deep", remote=f"file://{tmp_path}/there", fresh=True)
    assert store.latest() is None
    assert [path.name for path in tmp_path.rglob("outside")] == ["outside"]


def test_a_checkpoint_of_an_earlier_version_with_sha256_digests_is_valid_and_its_damage_is_found(
    tmp_path: Path,
) -> None:
    content = random.Random(5).randbytes(5000)
    folder = tmp_path / "step-000000000001-000001-abcd"
    folder.mkdir()
    (folder / "model.bin").write_bytes(content)
    blocks = [content[start : start + 1024] for start in range(0, len(content), 1024)]
    digests = [hashlib.sha256(block).hexdigest() for block in blocks]
    (folder / NAME).write_bytes(
        signed(files=[{"path": "model.bin", "size": len(content), "sha256": digests}])
    )
    newest = quiet(tmp_path).latest()
    assert newest is not None
    assert newest.folder == folder
    (folder / "model.bin").write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    assert quiet(tmp_path, fresh=True).latest() is None


# --- files of all kinds --------------------------------------------------------------------------------------


def test_names_of_all_kinds_survive(tmp_path: Path) -> None:
    names = [
        "ä ö.bin",
        "模型/重み.bin",
        "e\u0301",
        "\u00e9",
        "a\nb",
        "-rf",
        "x" * 200,
        os.fsdecode(b"\xff\xfe"),
        " ",
    ]
    store = quiet(tmp_path)
    with store.save(1) as folder:
        for name in names:
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_bytes(name.encode("utf-8", "surrogateescape"))
    newest = quiet(tmp_path).latest()
    assert newest is not None
    assert {entry["path"] for entry in newest.manifest["files"]} == set(names)


@pytest.mark.parametrize("kind", ["file link", "folder link", "dangling link", "pipe"])
def test_links_and_pipes_are_refused(tmp_path: Path, kind: str) -> None:
    """What a link points to may change after the save."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "x").write_bytes(b"x")
    store = quiet(tmp_path / "store")
    save(store, 1)
    with store.save(2) as folder:
        if kind == "pipe":
            os.mkfifo(folder / "pipe")
        else:
            target = {
                "file link": outside / "x",
                "folder link": outside,
                "dangling link": outside / "no",
            }[kind]
            (folder / "link").symlink_to(target)
    assert "is not a file" in store.problems[0]
    assert newest_step(tmp_path / "store") == 1
    assert (outside / "x").read_bytes() == b"x"


def test_a_file_that_became_a_link_is_damage(tmp_path: Path) -> None:
    store = quiet(tmp_path / "store")
    save(store, 1)
    save(store, 2)
    folder = next(entry.folder for entry in store.listing())
    os.rename(folder / "model.bin", tmp_path / "elsewhere")
    (folder / "model.bin").symlink_to(tmp_path / "elsewhere")
    assert newest_step(tmp_path / "store") == 1


@pytest.mark.parametrize("name", [NAME, f".{NAME}.tmp"])
def test_a_file_with_the_name_of_the_manifest_is_refused_and_not_lost(
    tmp_path: Path, name: str
) -> None:
    store = quiet(tmp_path)
    with store.save(1) as folder:
        (folder / name).write_text("of the user")
    assert "the name of the manifest" in store.problems[0]


def test_thousands_of_files(tmp_path: Path) -> None:
    store = quiet(tmp_path, keep=2)
    for step in (1, 2, 3):
        with store.save(step) as folder:
            for number in range(1500):
                (folder / f"shard-{number}").write_bytes(b"%d" % number)
    (checkpoint, _) = store.listing()
    assert isinstance(checkpoint, Checkpoint)
    assert verify(checkpoint) is None
    (checkpoint / "shard-777").write_bytes(b"778")
    damage = verify(checkpoint)
    assert damage is not None
    assert damage.reason == "shard-777 has other bytes than were saved"


def test_a_checkpoint_without_files_is_one(tmp_path: Path) -> None:
    with quiet(tmp_path).save(0):
        pass
    assert newest_step(tmp_path) == 0

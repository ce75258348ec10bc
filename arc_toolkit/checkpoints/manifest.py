"""What a checkpoint is on disk: a folder of files and a manifest that is written last, and is the commit.

The manifest has the size and the SHA-256 digest of every file, and a digest of itself. A folder without it was never
committed; a folder that differs from it in any byte is damaged.
"""

from __future__ import annotations

# A training job imports this module first thing: what only some functions need is imported there.
import os
import threading
from pathlib import Path

TYPE_CHECKING = False  # `typing` alone takes as long to import as all the rest
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

NAME = "checkpoint.json"
SCHEMA = "arc-toolkit/checkpoint/v1"
_BLOCK = 8 * 1024 * 1024


class Damage:
    """Why a folder is not a valid checkpoint; without a manifest (not `committed`) it may still be being written."""

    __slots__ = ("committed", "folder", "reason")

    def __init__(self, folder: Path, reason: str, *, committed: bool = True) -> None:
        self.folder, self.reason, self.committed = folder, reason, committed

    def __repr__(self) -> str:
        return f"Damage({str(self.folder)!r}, {self.reason!r})"


class Checkpoint:
    """A committed checkpoint. Its files are as the manifest says only after `verify`."""

    __slots__ = ("fence", "folder", "manifest", "step")

    def __init__(self, folder: Path, manifest: dict[str, Any]) -> None:
        self.folder, self.manifest = folder, manifest
        self.step: int = manifest["step"]
        self.fence: int = manifest["writer"]["fence"]

    def __repr__(self) -> str:
        return f"Checkpoint(step={self.step}, folder={str(self.folder)!r})"

    def __truediv__(self, name: str) -> Path:
        return self.folder / name

    @property
    def size(self) -> int:
        return sum(entry["size"] for entry in self.manifest["files"])


def files_below(folder: Path) -> Iterator[str]:
    """The files of a checkpoint, without its manifest, relative to the folder and in order."""
    for top, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            path = os.path.relpath(os.path.join(top, name), folder)
            if path != NAME:
                yield path


def digest_file(path: Path) -> tuple[int, str]:
    """Size and SHA-256 of a file."""
    import hashlib

    digest = hashlib.sha256()
    size = 0
    buffer = bytearray(_BLOCK)
    view = memoryview(buffer)
    with open(path, "rb", buffering=0) as stream:
        while count := stream.readinto(view):
            digest.update(view[:count])
            size += count
    return size, digest.hexdigest()


def seal(folder: Path, fields: dict[str, Any]) -> dict[str, Any]:
    """Sync every file of a folder, and make the manifest with what was read back from each. Not written yet.

    Reading back and digesting one file goes on while the kernel writes it out: together they take about as long as the
    slower of the two.
    """
    entries = []
    for name in files_below(folder):
        failures: list[OSError] = []
        syncing = threading.Thread(target=_sync, args=(folder / name, failures))
        syncing.start()
        try:
            size, digest = digest_file(folder / name)
        finally:
            syncing.join()
        if failures:
            raise failures[0]
        entries.append({"path": name, "size": size, "sha256": digest})
    manifest = {"schema": SCHEMA, **fields, "files": entries}
    manifest["digest"] = _own_digest(manifest)
    return manifest


def write_manifest(folder: Path, manifest: dict[str, Any]) -> None:
    """The commit: whole or not at all."""
    import json

    temporary = folder / f".{NAME}.tmp"
    with open(temporary, "w", encoding="utf-8") as stream:
        json.dump(manifest, stream, indent=1)
        stream.flush()
        os.fsync(stream.fileno())
    os.replace(temporary, folder / NAME)
    sync_folder(folder)


def read_manifest(folder: Path) -> Checkpoint | Damage:
    """The checkpoint in a folder as its manifest describes it; no other file is looked at."""
    import json

    try:
        text = (folder / NAME).read_text(encoding="utf-8")
    except FileNotFoundError:
        return Damage(folder, "no manifest: it was not committed", committed=False)
    except (OSError, UnicodeDecodeError) as error:
        return Damage(folder, f"the manifest cannot be read: {error}")
    try:
        manifest = json.loads(text)
        if manifest["schema"] != SCHEMA or manifest["digest"] != _own_digest(manifest):
            return Damage(folder, "the manifest is damaged or from another program")
        return Checkpoint(folder, manifest)
    except (ValueError, KeyError, TypeError, AttributeError):
        return Damage(folder, "the manifest is damaged")


def verify(checkpoint: Checkpoint) -> Damage | None:
    """Compare every byte with the manifest; None if the checkpoint is valid."""
    folder = checkpoint.folder
    expected = {entry["path"]: entry for entry in checkpoint.manifest["files"]}
    try:
        present = [name for name in files_below(folder) if name != f".{NAME}.tmp"]
        for name in present:
            if name not in expected:
                return Damage(folder, f"{name} does not belong to it")
        for name, entry in expected.items():
            if name not in present:
                return Damage(folder, f"{name} is missing")
            if (size := (folder / name).stat().st_size) != entry["size"]:
                return Damage(folder, f"{name} has {size} bytes instead of {entry['size']}")
        for name, entry in expected.items():
            if digest_file(folder / name) != (entry["size"], entry["sha256"]):
                return Damage(folder, f"{name} has other bytes than were saved")
    except OSError as error:
        return Damage(folder, f"it cannot be read: {error}")
    return None


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _sync(path: Path, failures: list[OSError]) -> None:
    try:
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
    except OSError as error:
        failures.append(error)


def _own_digest(manifest: dict[str, Any]) -> str:
    import hashlib
    import json

    fields = {key: value for key, value in manifest.items() if key != "digest"}
    return hashlib.sha256(json.dumps(fields, sort_keys=True).encode()).hexdigest()

"""What a checkpoint is on disk: a folder of files and a manifest that is written last, and is the commit.

The manifest has the size and the SHA-256 digests of the blocks of every file, and a digest of itself. A folder without
it was never committed; a folder that differs from it in any byte is damaged.
"""

from __future__ import annotations

# A training job imports this module first thing: what only some functions need is imported there.
import os
import stat
import threading
from contextlib import suppress
from pathlib import Path

TYPE_CHECKING = False  # `typing` alone takes as long to import as all the rest
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

NAME = "checkpoint.json"
SCHEMA = "arc-toolkit/checkpoint/v1"
_TEMPORARY = f".{NAME}.tmp"
_BLOCK = 32 * 1024 * 1024  # has a digest of its own
_PIECE = 4 * 1024 * 1024  # is read at once, per thread


class Damage:
    """Why a folder is not a valid checkpoint; without a manifest (not `committed`) it may still be being written."""

    __slots__ = ("committed", "folder", "reason")

    def __init__(self, folder: Path, reason: str, *, committed: bool = True) -> None:
        self.folder, self.reason, self.committed = folder, reason, committed

    @property
    def order(self) -> tuple[int, int]:
        """By step, then by writer, as the name of the folder says."""
        parts = self.folder.name.split("-")
        known = len(parts) > 2 and parts[1].isdigit() and parts[2].isdigit()
        return (int(parts[1]), int(parts[2])) if known else (-1, 0)

    def __repr__(self) -> str:
        return f"Damage({str(self.folder)!r}, {self.reason!r})"


class Checkpoint:
    """A committed checkpoint. Its files are as the manifest says only after `verify`."""

    __slots__ = ("fence", "folder", "manifest", "step")

    def __init__(self, folder: Path, manifest: dict[str, Any]) -> None:
        self.folder, self.manifest = folder, manifest
        self.step: int = manifest["step"]
        self.fence: int = manifest["writer"]["fence"]

    @property
    def order(self) -> tuple[int, int]:
        """By step, then by writer."""
        return self.step, self.fence

    def __repr__(self) -> str:
        return f"Checkpoint(step={self.step}, folder={str(self.folder)!r})"

    def __truediv__(self, name: str) -> Path:
        return self.folder / name

    @property
    def size(self) -> int:
        return sum(entry["size"] for entry in self.manifest["files"])


def files_below(folder: Path) -> Iterator[str]:
    """The files of a checkpoint, without its manifest, relative to the folder and in order.

    OSError for what is not a file of its own: what a link points to may change later, and a pipe can never be read.
    """
    for top, folders, names in os.walk(folder, onerror=_raise):
        folders.sort()
        for name in sorted([*names, *(name for name in folders if os.path.islink(os.path.join(top, name)))]):
            full = os.path.join(top, name)
            path = os.path.relpath(full, folder)
            if not stat.S_ISREG(os.lstat(full).st_mode):
                raise OSError(f"{path} is not a file but a link, a pipe or a device")
            if path not in (NAME, _TEMPORARY):
                yield path


def _raise(error: OSError) -> None:
    raise error


def seal(folder: Path, fields: dict[str, Any]) -> dict[str, Any]:
    """Sync every file of a folder, and make the manifest with what was read back from each. Not written yet.

    Reading back and digesting goes on while the kernel writes the files out: together they take about as long as the
    slower of the two.
    """
    for name in (NAME, _TEMPORARY):
        if os.path.lexists(folder / name):
            raise OSError(f"{name} is the name of the manifest: use another one")
    names = list(files_below(folder))
    failures: list[OSError] = []
    # The names in subfolders have to be durable too; those in the folder itself are synced with the manifest.
    tops = sorted({folder / top for name in names for top in Path(name).parents} - {folder})
    join = _in_thread(lambda: _sync([*(folder / name for name in names), *tops], failures))
    try:
        entries = digest_files(folder, names)
    finally:
        join()
    if failures:
        raise failures[0]
    manifest = {"schema": SCHEMA, **fields, "block_size": _BLOCK, "files": entries}
    manifest["digest"] = _own_digest(manifest)
    return manifest


def digest_files(folder: Path, names: list[str], block_size: int = _BLOCK) -> list[dict[str, Any]]:
    """Size and the SHA-256 of every block of these files. Blocks are read by as many threads as there are cores,
    because one core digests less than a disk takes."""
    sizes = {name: os.stat(folder / name).st_size for name in names}
    blocks = {name: [""] * -(-sizes[name] // block_size) for name in names}
    work = [(name, number) for name in names for number in range(len(blocks[name]))]
    failures: list[OSError] = []

    def digest_some() -> None:
        import hashlib

        buffer = memoryview(bytearray(_PIECE))
        try:
            while work:
                try:
                    name, number = work.pop()
                except IndexError:  # another thread was faster
                    return
                digest, start = hashlib.sha256(), number * block_size
                end = min(start + block_size, sizes[name])
                with open(folder / name, "rb", buffering=0) as stream:
                    while start < end and (count := os.preadv(stream.fileno(), [buffer[: end - start]], start)):
                        digest.update(buffer[:count])
                        start += count
                blocks[name][number] = digest.hexdigest() if start == end else ""
        except OSError as error:
            failures.append(error)

    helpers = [_in_thread(digest_some) for _ in range(min(len(work), _threads()) - 1)]
    digest_some()
    for join in helpers:
        join()
    if failures:
        raise failures[0]
    return [{"path": name, "size": sizes[name], "sha256": blocks[name]} for name in names]


def _in_thread(call: Callable[[], None]) -> Callable[[], None]:
    """Begin a call; the result waits for its end. Without a thread (too many, or Python is ending) it is done here."""
    thread = threading.Thread(target=call)
    try:
        thread.start()
    except RuntimeError:
        call()
        return lambda: None
    return thread.join


def _threads() -> int:
    """At most four: a training job needs its cores for other things."""
    return min(4, len(os.sched_getaffinity(0)))


def write_manifest(folder: Path, manifest: dict[str, Any]) -> None:
    """The commit: whole or not at all."""
    temporary = folder / _TEMPORARY
    with open(temporary, "wb") as stream:
        stream.write(manifest_bytes(manifest))
        stream.flush()
        os.fsync(stream.fileno())
    os.replace(temporary, folder / NAME)
    sync_folder(folder)


def manifest_bytes(manifest: dict[str, Any]) -> bytes:
    """The one form of a manifest on disk."""
    import json

    return json.dumps(manifest, indent=1).encode()


def read_manifest(folder: Path) -> Checkpoint | Damage:
    """The checkpoint in a folder as its manifest describes it; no other file is looked at."""
    try:
        content = (folder / NAME).read_bytes()
    except FileNotFoundError:
        return Damage(folder, "no manifest: it was not committed", committed=False)
    except OSError as error:
        return Damage(folder, f"the manifest cannot be read: {error}")
    return parse_manifest(folder, content)


def parse_manifest(folder: Path, content: bytes) -> Checkpoint | Damage:
    """The checkpoint that a manifest describes."""
    import json

    try:
        manifest = json.loads(content)
        if manifest["schema"] != SCHEMA or manifest["digest"] != _own_digest(manifest):
            return Damage(folder, "the manifest is damaged or from another program")
        if content != manifest_bytes(manifest):  # the digest does not see a blank more or less
            return Damage(folder, "the manifest is damaged")
        if not _is_complete(manifest):
            return Damage(folder, "the manifest is incomplete, or names files outside of the checkpoint")
        return Checkpoint(folder, manifest)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return Damage(folder, "the manifest is damaged")


def _is_complete(manifest: dict[str, Any]) -> bool:
    """Whether all fields that this library uses are there, and no path leaves the folder: a manifest at a URL may be
    anyone's, and its digest only proves that it is whole."""
    numbers = [manifest["step"], manifest["writer"]["fence"], manifest["block_size"]]
    paths = [entry["path"] for entry in manifest["files"]]
    block_size = manifest["block_size"]
    return (
        all(type(number) is int and number >= 0 for number in numbers)
        and block_size > 0
        and len(set(paths)) == len(paths)
        and all(isinstance(path, str) and _is_inside(path) for path in paths)
        and all(
            type(entry["size"]) is int
            and isinstance(entry["sha256"], list)
            and len(entry["sha256"]) == -(-entry["size"] // block_size)
            for entry in manifest["files"]
        )
    )


def _is_inside(path: str) -> bool:
    parts = path.split("/")
    return "\0" not in path and not {"", ".", ".."} & set(parts) and path not in (NAME, _TEMPORARY)


def verify(checkpoint: Checkpoint) -> Damage | None:
    """Compare every byte with the manifest; None if the checkpoint is valid."""
    folder = checkpoint.folder
    try:
        expected = {entry["path"]: entry for entry in checkpoint.manifest["files"]}
        present = set(files_below(folder))
        for name in sorted(present - set(expected)):
            return Damage(folder, f"{name} does not belong to it")
        for name, entry in expected.items():
            if name not in present:
                return Damage(folder, f"{name} is missing")
            if (size := (folder / name).stat().st_size) != entry["size"]:
                return Damage(folder, f"{name} has {size} bytes instead of {entry['size']}")
        for entry in digest_files(folder, list(expected), checkpoint.manifest["block_size"]):
            if entry != expected[entry["path"]]:
                return Damage(folder, f"{entry['path']} has other bytes than were saved")
    except OSError as error:
        return Damage(folder, f"it cannot be read: {error}")
    return None


def remove(folder: Path | None) -> bool:
    """Delete a folder, its manifest first: what is left after a crash in between is not a checkpoint any more.

    Whether there is no checkpoint there now.
    """
    import shutil

    if folder is None:
        return True
    with suppress(OSError):
        (folder / NAME).unlink()
    if os.path.lexists(folder / NAME):
        return False
    shutil.rmtree(folder, ignore_errors=True)
    return True


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _sync(paths: list[Path], failures: list[OSError]) -> None:
    try:
        for path in paths:
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

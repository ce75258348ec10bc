"""A checkpoint on disk: a folder of files, and a manifest that is written last, as the commit.

The manifest has the size and the digests of the blocks of every file, and a digest of itself. A
folder without it was never committed; a folder that differs from it in any byte is damaged.

Digests are CRC-32, as in file systems and databases, because they are there to find damage: whoever
can change a file on purpose can change its manifest too. SHA-256 takes more than twice as long,
fourteen times on a processor without instructions for it, and a save would have to wait for it.
"""

from __future__ import annotations

import os
import stat
import sys
import threading
import time
from zlib import crc32

TYPE_CHECKING = False  # `typing` alone takes as long to import as all the rest
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path
    from typing import Any


BLOCK = 4 * 1024 * 1024  # has a digest of its own
_PIECE = 1024 * 1024  # is read at once, per thread; it stays in the cache of a core
# The key of the digests in a manifest, and that of earlier versions, which stay readable.
KIND, EARLIER_KIND = "crc32", "sha256"


class Crc32:
    """As the digests of `hashlib`."""

    __slots__ = ("_value",)

    def __init__(self, data: bytes | memoryview = b"") -> None:
        self._value = crc32(data)

    def update(self, data: bytes | memoryview) -> None:
        self._value = crc32(data, self._value)

    def hexdigest(self) -> str:
        return f"{self._value:08x}"


def digest_files(
    folder: Path,
    names: Sequence[str],
    block_size: int = BLOCK,
    ready: Mapping[str, Sequence[str | None]] | None = None,
    kind: str = KIND,
) -> list[dict[str, Any]]:
    """Path, size and block digests of these files. Blocks with a `ready` digest are not read."""
    if kind == KIND:
        new_digest: Callable[[], Any] = Crc32
    else:
        from hashlib import (
            sha256 as new_digest,  # not in a thread: a signal during an import would block it
        )

    sizes = {name: os.stat(folder / name).st_size for name in names}
    blocks: dict[str, list[str | None]] = {}
    for name in names:
        count = -(-sizes[name] // block_size)
        blocks[name] = [*((ready or {}).get(name, ())), *[None] * count][:count]
    work = [
        (name, number)
        for name in names
        for number, digest in enumerate(blocks[name])
        if digest is None
    ]
    failures: list[OSError] = []

    def digest_some() -> None:
        buffer = memoryview(bytearray(_PIECE))
        try:
            while work:
                try:
                    name, number = work.pop()
                except IndexError:  # another thread was faster
                    return
                digest, start = new_digest(), number * block_size
                end = min(start + block_size, sizes[name])
                with open(folder / name, "rb", buffering=0) as stream:
                    while start < end and (
                        count := os.preadv(stream.fileno(), [buffer[: end - start]], start)
                    ):
                        digest.update(buffer[:count])
                        start += count
                blocks[name][number] = digest.hexdigest() if start == end else ""
        except OSError as error:
            failures.append(error)

    helpers = [start_thread(digest_some) for _ in range(min(len(work), _threads()) - 1)]
    digest_some()
    for join in helpers:
        join()
    if failures:
        raise failures[0]
    return [{"path": name, "size": sizes[name], kind: blocks[name]} for name in names]


def start_thread(call: Callable[[], None]) -> Callable[[], None]:
    """Begin a call; the result waits for its end. Without a thread it is made here."""
    thread = threading.Thread(target=call)
    try:
        thread.start()
    except RuntimeError:
        call()
        return lambda: None
    return thread.join


def _threads() -> int:
    """At most four: a training job needs its cores for other things."""
    if sys.platform != "linux":
        return min(4, os.cpu_count() or 1)
    return min(4, len(os.sched_getaffinity(0)))


NAME = "checkpoint.json"
SCHEMA = "arc-toolkit/checkpoint/v1"
STAGING = ".saving-"  # in place of `step-`, until the folder gets its own name
_TEMPORARY = f".{NAME}.tmp"
_UNKNOWN, _UNKNOWN_BLOCK = "0" * 64, "0" * 8  # in place of digests
# Versions that a manifest records, of what is imported anyway.
_LIBRARIES = (
    "torch",
    "lightning",
    "keras",
    "tensorflow",
    "transformers",
    "lightgbm",
    "xgboost",
    "sklearn",
    "jax",
    "numpy",
)


class InvalidCheckpoint:
    """Why a folder is not a valid checkpoint; without a manifest it may still be being written.

    `is_transient`: it could not be read, which may be over soon, such as trouble with a network
    file system.
    """

    __slots__ = ("committed", "folder", "is_transient", "reason")

    def __init__(
        self, folder: Path, reason: str, *, committed: bool = True, is_transient: bool = False
    ) -> None:
        self.folder, self.reason, self.committed, self.is_transient = (
            folder,
            reason,
            committed,
            is_transient,
        )

    @property
    def order(self) -> tuple[int, int, str]:
        """By step, then by writer, then by save, as the name of the folder says."""
        parts = self.folder.name.split("-")
        numbers = (int(parts[1]), int(parts[2])) if self.is_numbered else (-1, 0)
        return (*numbers, self.folder.name)

    @property
    def is_numbered(self) -> bool:
        """Whether the folder has a name that a store gives."""
        parts = self.folder.name.split("-")
        return len(parts) > 2 and parts[1].isdigit() and parts[2].isdigit()

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
    def order(self) -> tuple[int, int, str]:
        """By step, then by writer, then by its saves, which the name of the folder counts."""
        return self.step, self.fence, self.folder.name

    def __repr__(self) -> str:
        return f"Checkpoint(step={self.step}, folder={str(self.folder)!r})"

    def __truediv__(self, name: str) -> Path:
        return self.folder / name

    @property
    def size(self) -> int:
        return sum(entry["size"] for entry in self.manifest["files"])


class BestMetric:
    """The metric by which the best checkpoint is kept; the lowest value is the best, or the highest
    one."""

    def __init__(self, name: str, *, is_highest: bool = False) -> None:
        self.name, self._sign = name, -1.0 if is_highest else 1.0

    def ranking(self, entries: Iterable[Checkpoint | InvalidCheckpoint]) -> list[Checkpoint]:
        """The best first; those without the metric, or with NaN, are left out."""
        ranked = []
        for entry in entries:
            if isinstance(entry, Checkpoint):
                value = entry.manifest["metrics"].get(self.name)
                if isinstance(value, int | float) and value == value:
                    ranked.append((self._sign * value, entry))
        return [entry for _, entry in sorted(ranked, key=lambda row: row[0])]


def files_below(folder: Path) -> Iterator[str]:
    """The files of a checkpoint, without its manifest, relative to the folder and in order.

    OSError for what is not a file of its own: what a link points to may change later, and a pipe
    can never be read.
    """
    for top, folders, names in os.walk(folder, onerror=_raise):
        folders.sort()
        for name in sorted(
            [*names, *(name for name in folders if os.path.islink(os.path.join(top, name)))]
        ):
            full = os.path.join(top, name)
            path = os.path.relpath(full, folder)
            if not stat.S_ISREG(os.lstat(full).st_mode):
                raise OSError(f"{path} is not a file but a link, a pipe or a device")
            if path not in (NAME, _TEMPORARY):
                yield path


def _raise(error: OSError) -> None:
    raise error


def save_fields(
    step: int,
    *,
    epoch: int | None,
    metrics: Mapping[str, float],
    world_size: int,
    writer: str,
    reason: str,
    notice: str | None,
) -> dict[str, Any]:
    """What a manifest says beside its files: who saved what, when, why, and with which versions."""
    versions = {name: getattr(sys.modules.get(name), "__version__", None) for name in _LIBRARIES}
    return {
        "step": step,
        "epoch": epoch if epoch is None else _plain(epoch),
        "world_size": world_size,
        "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "reason": reason,
        "notice": notice,
        "metrics": {str(name): _plain(value) for name, value in metrics.items()},
        "writer": {"id": writer, "fence": 0},
        "versions": {
            "python": sys.version.split()[0],
            **{k: str(v) for k, v in versions.items() if v},
        },
    }


def _plain(value: Any) -> Any:
    """A number of NumPy or PyTorch as one of Python; anything else as text."""
    if isinstance(value, int | float | str):
        return value
    try:
        number = float(value)
    except Exception:
        return str(value)
    return int(number) if hasattr(value, "__index__") and number.is_integer() else number


def seal(
    folder: Path, fields: dict[str, Any], ready: Mapping[str, Sequence[str | None]] | None = None
) -> dict[str, Any]:
    """Make the manifest of a folder from what is read back from its files, and everything durable.
    It is not a checkpoint before `publish`.

    Reading back and digesting goes on while the kernel writes the files out: together they take
    about as long as the slower of the two. Digests that are `ready`, because they were made while
    the file was written, spare that.
    """
    for name in (NAME, _TEMPORARY):
        if os.path.lexists(folder / name):
            raise OSError(f"{name} is the name of the manifest: use another one")
    names = list(files_below(folder))
    failures: list[OSError] = []
    # Names in subfolders must be durable too; those in the folder are synced with the manifest.
    tops: set[str] = set()
    for name in names:
        while (name := os.path.dirname(name)) and name not in tops:
            tops.add(name)
    # A draft of the same length is synced with the files: to fill it in changes nothing but content
    # and needs no commit of the file system's journal, which is most of the time of a small sync.
    sizes = [(name, os.stat(folder / name).st_size) for name in names]
    unknown = [
        {"path": name, "size": size, KIND: [_UNKNOWN_BLOCK] * -(-size // BLOCK)}
        for name, size in sizes
    ]
    (folder / _TEMPORARY).write_bytes(manifest_bytes(_describe(fields, unknown)))
    join = start_thread(
        lambda: _sync([folder / name for name in [*names, *sorted(tops), _TEMPORARY]], failures)
    )
    try:
        manifest = _describe(fields, digest_files(folder, names, ready=ready))
        manifest["digest"] = _own_digest(manifest)
        with open(folder / _TEMPORARY, "r+b") as stream:
            size = stream.write(manifest_bytes(manifest))
            stream.flush()
            if os.fstat(stream.fileno()).st_size != size:  # files have changed meanwhile
                stream.truncate()
            os.fdatasync(stream.fileno())
    finally:
        join()
    if failures:
        raise failures[0]
    return manifest


def _describe(fields: dict[str, Any], entries: list[dict[str, Any]]) -> dict[str, Any]:
    """A manifest whose own digest is not known yet."""
    return {"schema": SCHEMA, **fields, "block_size": BLOCK, "files": entries, "digest": _UNKNOWN}


def publish(folder: Path, final: Path) -> None:
    """The commit: the folder gets its own name, and then the manifest its own."""
    os.rename(folder, final)
    try:
        os.replace(final / _TEMPORARY, final / NAME)
        sync_folder(final)
        sync_folder(final.parent)
    except OSError:
        remove(final)
        raise


def manifest_bytes(manifest: dict[str, Any]) -> bytes:
    """The one form of a manifest on disk."""
    import json

    return json.dumps(manifest, indent=1).encode()


def read_manifest(folder: Path) -> Checkpoint | InvalidCheckpoint:
    """The checkpoint in a folder as its manifest describes it; no other file is looked at."""
    if os.path.islink(folder):
        return InvalidCheckpoint(folder, "it is a link: what it points to may be of another run")
    try:
        content = (folder / NAME).read_bytes()
    except FileNotFoundError:
        return InvalidCheckpoint(folder, "no manifest: it was not committed", committed=False)
    except OSError as error:
        return InvalidCheckpoint(folder, f"the manifest cannot be read: {error}", is_transient=True)
    return parse_manifest(folder, content)


def parse_manifest(folder: Path, content: bytes) -> Checkpoint | InvalidCheckpoint:
    """The checkpoint that a manifest describes."""
    import json

    try:
        manifest = json.loads(content)
        if manifest["schema"] != SCHEMA or manifest["digest"] != _own_digest(manifest):
            return InvalidCheckpoint(folder, "the manifest is damaged or from another program")
        if content != manifest_bytes(manifest):  # the digest does not see a blank more or less
            return InvalidCheckpoint(folder, "the manifest is damaged")
        if not _is_complete(manifest):
            return InvalidCheckpoint(
                folder, "the manifest is incomplete, or names files outside of the checkpoint"
            )
        return Checkpoint(folder, manifest)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return InvalidCheckpoint(folder, "the manifest is damaged")


def _is_complete(manifest: dict[str, Any]) -> bool:
    """Whether all fields that this library uses are there, and no path leaves the folder: a
    manifest at a URL may be anyone's, and its digest only proves that it is whole."""
    numbers = [manifest["step"], manifest["writer"]["fence"], manifest["block_size"]]
    paths = [entry["path"] for entry in manifest["files"]]
    block_size, kind = manifest["block_size"], _digest_kind(manifest)
    return (
        all(type(number) is int and number >= 0 for number in numbers)
        and block_size > 0
        and len(set(paths)) == len(paths)
        and all(isinstance(path, str) and is_inside(path) for path in paths)
        and all(
            type(entry["size"]) is int
            and isinstance(entry[kind], list)
            and len(entry[kind]) == -(-entry["size"] // block_size)
            for entry in manifest["files"]
        )
    )


def _digest_kind(manifest: dict[str, Any]) -> str:
    return EARLIER_KIND if any(EARLIER_KIND in entry for entry in manifest["files"]) else KIND


def is_inside(path: str) -> bool:
    """Whether this is the name of a file in a checkpoint, below its folder and not its manifest."""
    parts = path.split("/")
    return "\0" not in path and not {"", ".", ".."} & set(parts) and path not in (NAME, _TEMPORARY)


def verify(checkpoint: Checkpoint) -> InvalidCheckpoint | None:
    """Compare every byte with the manifest; None if the checkpoint is valid."""
    folder = checkpoint.folder
    try:
        if damage := compare_sizes(checkpoint):
            return damage
        expected = {entry["path"]: entry for entry in checkpoint.manifest["files"]}
        block_size, kind = checkpoint.manifest["block_size"], _digest_kind(checkpoint.manifest)
        for entry in digest_files(folder, list(expected), block_size, kind=kind):
            if entry != expected[entry["path"]]:
                return InvalidCheckpoint(folder, f"{entry['path']} has other bytes than were saved")
    except OSError as error:
        # Without a number it is not from the system: something that is not a file of its own.
        return InvalidCheckpoint(
            folder, f"it cannot be read: {error}", is_transient=error.errno is not None
        )
    return None


def compare_sizes(checkpoint: Checkpoint) -> InvalidCheckpoint | None:
    """Whether all files are there and have their size. OSError for what cannot be read."""
    folder = checkpoint.folder
    for entry in checkpoint.manifest["files"]:
        name = entry["path"]
        try:
            size = _own_file(folder, name).st_size
        except (FileNotFoundError, NotADirectoryError):
            return InvalidCheckpoint(folder, f"{name} is missing")
        if size != entry["size"]:
            return InvalidCheckpoint(folder, f"{name} has {size} bytes instead of {entry['size']}")
    return None


def file_versions(checkpoint: Checkpoint) -> list[tuple[int, ...]]:
    """What changes with any change of a file, for as long as the disk keeps what it has.

    Nobody can set `st_ctime_ns`.
    """
    states = [_own_file(checkpoint.folder, entry["path"]) for entry in checkpoint.manifest["files"]]
    return [(state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns) for state in states]


def extra_files(checkpoint: Checkpoint) -> list[str]:
    """What is in the folder and not in the manifest, such as `.DS_Store`. Nothing reads it."""
    expected = {entry["path"] for entry in checkpoint.manifest["files"]} | {NAME, _TEMPORARY}
    paths = (
        os.path.relpath(os.path.join(top, name), checkpoint.folder)
        for top, _, names in os.walk(checkpoint.folder)
        for name in names
    )
    return sorted(path for path in paths if path not in expected)


def _own_file(folder: Path, name: str) -> os.stat_result:
    """The state of a file in a checkpoint; OSError without a number if a link leads elsewhere."""
    path = os.fspath(folder)
    for part in name.split("/"):
        if stat.S_ISLNK(os.lstat(path).st_mode):
            raise OSError(f"{path} is a link")
        path = os.path.join(path, part)
    state = os.lstat(path)
    if not stat.S_ISREG(state.st_mode):
        raise OSError(f"{name} is not a file but a link, a pipe or a device")
    return state


def remove(folder: Path | None) -> bool:
    """Delete a folder. A checkpoint gets the name of an unfinished save first: what is left after a
    crash in between is not a checkpoint any more, and the next writer deletes it.

    Whether there is no checkpoint there now.
    """
    import shutil

    if folder is None:
        return True
    if os.path.lexists(folder / NAME):
        unfinished = folder.with_name(f"{STAGING}{folder.name.removeprefix('step-')}")
        try:
            os.rename(folder, unfinished)
        except OSError:
            return False
        folder = unfinished
    shutil.rmtree(folder, ignore_errors=True)
    return True


def is_unfinished(folder: Path) -> bool:
    """Whether a save ended before its commit. A checkpoint that lost its manifest is damaged."""
    return os.path.lexists(folder / _TEMPORARY) and not os.path.lexists(folder / NAME)


def make_folder(folder: Path) -> None:
    """Create a folder and the missing ones above it, and make their names durable."""
    if folder.is_dir():
        return
    make_folder(folder.parent)
    folder.mkdir(exist_ok=True)
    sync_folder(folder.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    if sys.platform == "win32":  # it cannot open a folder
        return
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

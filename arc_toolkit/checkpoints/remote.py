"""Checkpoints at any URL of fsspec (az://, abfs://, s3://, gs://): a copy of the local ones.

A checkpoint is committed locally first. Then its files are copied, and its manifest last: blob
stores have no rename, so the manifest alone says that a checkpoint is whole. An upload that was
interrupted goes on with the files that are missing. Names are never used twice, so that a retry of
a job collides with nothing.
"""

from __future__ import annotations

import os
import threading
import time
from contextlib import contextmanager
from pathlib import Path

from arc_toolkit.checkpoints.manifest import (
    NAME,
    BestMetric,
    Checkpoint,
    InvalidCheckpoint,
    manifest_bytes,
    parse_manifest,
    remove,
    verify,
)
from arc_toolkit.checkpoints.rank_agreement import before_exit
from arc_toolkit.checkpoints.unavailable import UnusablePlace

TYPE_CHECKING = False  # `typing` alone takes as long to import as all the rest
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from typing import Any


_WRITERS = ".writers"
_LOADING = ".loading-"
# seconds before an upload that failed goes on; a process that ends normally waits for them
_PAUSES = 1.0, 5.0


class NotTheWriter(OSError):
    """Another process is the writer, or this one could not become it: a retry is of no use."""


def url_problem(url: str, *, is_local: bool) -> str | None:
    """Why nothing can be saved at a URL, before it is opened. `is_local`: by this Python."""
    from importlib.util import find_spec

    try:
        from fsspec.registry import known_implementations, registry
    except ImportError:
        return "fsspec is needed for a URL" if is_local else None
    protocol = url.partition("://")[0].rpartition("::")[2]
    if protocol in registry:
        return None
    if protocol not in known_implementations:
        return f"fsspec does not know {protocol}://"
    package = known_implementations[protocol]["class"].partition(".")[0]
    is_missing = is_local and find_spec(package) is None
    return f"the package {package} is needed for {protocol}://" if is_missing else None


class UploadRate:
    """Bytes per second, of the last uploads that were long enough to tell."""

    def __init__(self) -> None:
        self._size, self._seconds = 0.0, 0.0

    def note(self, size: int, seconds: float) -> None:
        # older ones count half as much each time
        self._size, self._seconds = self._size / 2 + size, self._seconds / 2 + seconds

    def seconds_for(self, size: int) -> float:
        """How long an upload takes; 0 while nothing is known."""
        return size * self._seconds / self._size if self._size else 0.0


class RemoteFolder:
    """The checkpoints below one URL. Every method raises `OSError` for any trouble."""

    def __init__(self, url: str, storage_options: dict[str, Any] | None = None) -> None:
        self.url = url.rstrip("/")
        # Blob stores have no folders to make.
        self._options = {"auto_mkdir": True} if url.startswith("file://") else storage_options or {}
        self._opened: tuple[Any, str] | None = None
        self.rate = UploadRate()

    def listing(self) -> list[Checkpoint | InvalidCheckpoint]:
        """Every checkpoint whose manifest is there; `folder` is the name below the URL."""
        entries: list[Checkpoint | InvalidCheckpoint] = []
        for path in self._sizes():
            parts = path.split("/")
            if len(parts) == 2 and parts[1] == NAME and parts[0].startswith("step-"):
                try:
                    entries.append(parse_manifest(Path(parts[0]), self.read(path)))
                except FileNotFoundError:
                    continue  # the writer has just deleted it
        return entries

    # --- small files of all ranks -----------------------------------------------------------------

    def names(self, folder: str) -> list[str]:
        return [path.removeprefix(f"{folder}/") for path in self._sizes(folder)]

    def write(self, path: str, content: bytes) -> None:
        fs, base = self._open()
        with _raise_os_errors():
            fs.pipe_file(f"{base}/{path}", content)

    def delete(self, path: str) -> None:
        fs, base = self._open()
        with _raise_os_errors():
            fs.rm_file(f"{base}/{path}")

    # --- checkpoints ------------------------------------------------------------------------------

    def upload(self, checkpoint: Checkpoint, go_on: Callable[[int], bool]) -> bool:
        """Copy the missing files, and the manifest last.

        `go_on` is asked before each file, with the bytes that are missing; False if it said to
        stop. The manifest is never left out: with it a checkpoint is complete.
        """
        name = checkpoint.folder.name
        sizes = self._sizes(name)
        # A blob appears only when it is whole, and only this checkpoint uses the name.
        missing = [
            (entry["path"], entry["size"])
            for entry in checkpoint.manifest["files"]
            if sizes.get(f"{name}/{entry['path']}") != entry["size"]
        ]
        while missing:
            if not go_on(sum(size for _, size in missing)):
                return False
            path, size = missing.pop(0)
            began = time.monotonic()
            self._put(checkpoint.folder / path, f"{name}/{path}")
            self.rate.note(size, time.monotonic() - began)
        self._put(checkpoint.folder / NAME, f"{name}/{NAME}")
        return True

    def download(self, checkpoint: Checkpoint, root: Path) -> Checkpoint | InvalidCheckpoint:
        """The checkpoint as a local one, after every byte was compared."""
        with _one_at_a_time(root):  # the ranks of a node share the folder
            name = checkpoint.folder.name
            local = Checkpoint(root / name, checkpoint.manifest)
            if local.folder.is_dir() and verify(local) is None:
                return local
            return self._download(checkpoint, root)

    def _download(self, checkpoint: Checkpoint, root: Path) -> Checkpoint | InvalidCheckpoint:
        name = checkpoint.folder.name
        staging = root / f"{_LOADING}{name}"
        staging.mkdir(exist_ok=True)
        for entry in checkpoint.manifest["files"]:
            target = staging / entry["path"]
            target.parent.mkdir(parents=True, exist_ok=True)
            # What an interrupted download left is compared below like everything else.
            if not target.is_file() or target.stat().st_size != entry["size"]:
                self._get(f"{name}/{entry['path']}", target)
        (staging / NAME).write_bytes(manifest_bytes(checkpoint.manifest))
        local = Checkpoint(staging, checkpoint.manifest)
        if damage := verify(local):
            remove(staging)
            return InvalidCheckpoint(Path(name), f"at {self.url}: {damage.reason}")
        os.rename(staging, root / name)
        return Checkpoint(root / name, checkpoint.manifest)

    def verify_copy(self, checkpoint: Checkpoint) -> InvalidCheckpoint | None:
        """Download a checkpoint, compare every byte, and forget the copy."""
        import tempfile

        with tempfile.TemporaryDirectory(prefix="arc-toolkit-checkpoints-") as folder:
            try:
                result = self.download(checkpoint, Path(folder))
            except OSError as error:
                result = InvalidCheckpoint(checkpoint.folder, f"it cannot be downloaded: {error}")
        return result if isinstance(result, InvalidCheckpoint) else None

    def remove(self, name: str) -> None:
        """The manifest first: after a crash in between, the rest is not a checkpoint any more."""
        self.delete(f"{name}/{NAME}")
        fs, base = self._open()
        with _raise_os_errors():
            fs.rm(f"{base}/{name}", recursive=True)

    # --- writers ----------------------------------------------------------------------------------

    def take_fence(self, writer: str) -> int:
        """The next number. Two writers that take the same one at once differ for `owns`."""
        number = max((row[0] for row in self._writers()), default=0) + 1
        self.write(f"{_WRITERS}/{number:08d}-{writer}", b"")
        return number

    def owns(self, number: int, writer: str) -> bool:
        """Whether no other writer came later."""
        return max(self._writers(), default=(0, "")) <= (number, writer)

    def _writers(self) -> list[tuple[int, str]]:
        rows = [name.partition("-") for name in self.names(_WRITERS)]
        return [(int(number), writer) for number, _, writer in rows if number.isdigit()]

    # --- files ------------------------------------------------------------------------------------

    def _open(self) -> tuple[Any, str]:
        if self._opened is None:
            if problem := url_problem(self.url, is_local=True):
                raise UnusablePlace(problem)
            from fsspec.core import url_to_fs

            with _raise_os_errors():
                fs, base = url_to_fs(
                    self.url, use_listings_cache=False, skip_instance_cache=True, **self._options
                )
            self._opened = fs, base.rstrip("/")
        return self._opened

    def _sizes(self, below: str = "") -> dict[str, int]:
        """The files below the URL, or below one of its folders, relative to the URL."""
        fs, base = self._open()
        with _raise_os_errors():
            fs.invalidate_cache()
            try:
                place = f"{base}/{below}".rstrip("/")
                files = fs.find(place, detail=True)
                # `find` of some file systems says that of a server that does not answer
                if not files:
                    fs.ls(place)
            except FileNotFoundError:
                self._check_container(fs, base)
                return {}
        return {
            path.removeprefix(base).lstrip("/"): int(info.get("size") or 0)
            for path, info in files.items()
        }

    def _check_container(self, fs: Any, base: str) -> None:
        """A folder that is not there is an empty one; a container that is not there is a mistake,
        or not created yet."""
        container = base.partition("/")[0]
        if container and not fs.exists(container):
            raise OSError(f"{container} does not exist, or may not be read")

    def read(self, path: str) -> bytes:
        fs, base = self._open()
        with _raise_os_errors():
            content: bytes = fs.cat_file(f"{base}/{path}")
        return content

    def _put(self, source: Path, path: str) -> None:
        fs, base = self._open()
        with _raise_os_errors():
            fs.put_file(str(source), f"{base}/{path}")

    def _get(self, path: str, target: Path) -> None:
        fs, base = self._open()
        with _raise_os_errors():
            fs.get_file(f"{base}/{path}", str(target))


class Uploader:
    """Uploads in the background: the newest checkpoint, one at a time.

    What has begun is finished, or saves that are faster than uploads would leave nothing at the
    URL. Before an announced end it is finished too if its rest and the new one fit, or if the new
    one does not fit anyway: the best checkpoint that can be complete by then counts.
    """

    def __init__(
        self,
        remote: RemoteFolder,
        before: Callable[[], None],
        after: Callable[[Checkpoint], None],
        tell: Callable[[str], None],
    ) -> None:
        self._remote, self._before, self._after, self._tell = remote, before, after, tell
        self._next: Checkpoint | None = None
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._is_newer = threading.Event()
        self._deadline: float | None = None  # of the monotonic clock, once an end is announced
        self._uploading: Checkpoint | None = None
        self._waits_at_exit = False

    @property
    def folder(self) -> str | None:
        """Whose files are being read."""
        with self._lock:
            return self._uploading.folder.name if self._uploading is not None else None

    def add(self, checkpoint: Checkpoint, *, seconds_left: float | None = None) -> None:
        """`seconds_left`: until the announced end."""
        with self._lock:
            self._next = checkpoint
            self._is_newer.set()
            if seconds_left is not None:
                self._deadline = time.monotonic() + seconds_left
            if self._thread is not None:
                return
            # Not a daemon: a process that ends normally finishes its upload first.
            self._wait_at_exit()
            thread = threading.Thread(target=self._run, name="checkpoint-upload")
            try:
                thread.start()
                self._thread = thread
                return
            except RuntimeError:
                pass
        self._run()  # without a thread (too many, or Python is ending) it is done here

    def wait(self, timeout: float | None = None) -> bool:
        """Until nothing is being uploaded; whether that is so."""
        thread = self._thread
        if thread is not None:
            thread.join(timeout)
        return self._thread is None

    def _wait_at_exit(self) -> None:
        if not self._waits_at_exit:
            self._waits_at_exit = True
            before_exit(self.wait)

    def _run(self) -> None:
        while True:
            with self._lock:
                checkpoint, self._next = self._next, None
                self._uploading = checkpoint
                self._is_newer.clear()
                if checkpoint is None:
                    self._thread = None
                    return
            self._upload(checkpoint)

    def _is_worth_finishing(self, missing: int) -> bool:
        """Whether to go on with an upload that lacks so many bytes: not if only the newer one fits
        before the announced end."""
        with self._lock:
            newer, deadline = self._next, self._deadline
        if newer is None or deadline is None:
            return True
        seconds_left = deadline - time.monotonic()
        seconds_for = self._remote.rate.seconds_for
        older, newest = seconds_for(missing), seconds_for(newer.size)
        return newest > seconds_left or older + newest < seconds_left

    def _upload(self, checkpoint: Checkpoint) -> None:
        """After a failure it goes on with the missing files, unless a newer one is worth more."""
        for number, pause in enumerate((*_PAUSES, None)):
            try:
                self._before()
                if self._remote.upload(checkpoint, self._is_worth_finishing):
                    self._after(checkpoint)
                return
            except OSError as error:
                is_over = pause is None or isinstance(error, NotTheWriter)
                if is_over or not number:
                    text = "is not uploaded" if is_over else "is not uploaded yet"
                    self._tell(f"{checkpoint.folder.name} {text} to {self._remote.url}: {error}")
                if is_over or self._is_newer.wait(pause):
                    return


@contextmanager
def _one_at_a_time(root: Path) -> Iterator[None]:
    """Wait for the other processes of this machine that download into a folder."""
    import fcntl

    handle = os.open(root / f"{_LOADING}lock", os.O_RDWR | os.O_CREAT, 0o666)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


@contextmanager
def _raise_os_errors() -> Iterator[None]:
    """Whatever a storage library raises, as `OSError`."""
    try:
        yield
    except OSError:
        raise
    except Exception as error:
        text = str(error).partition("\n")[0]
        raise OSError(f"{type(error).__name__}: {text}") from error


class Mirror:
    """Trouble is reported and ends nothing: the checkpoints here are whole without it."""

    def __init__(
        self,
        url: str,
        options: dict[str, Any] | None,
        *,
        keep: int,
        writer: str,
        tell: Callable[[str], None],
        metric: BestMetric | None = None,
    ) -> None:
        self.folder = RemoteFolder(url, options)
        self._keep, self._writer, self._tell, self._metric = keep, writer, tell, metric
        self._number = 0  # of this writer there
        self._names: set[str] = set()
        self._uploader = Uploader(self.folder, self._check_writer, self._delete_old, tell)
        self.wait = self._uploader.wait

    def listing(self) -> list[Checkpoint | InvalidCheckpoint]:
        """Every checkpoint there; its `folder` is only a name."""
        entries = self.folder.listing()
        self._names = {entry.folder.name for entry in entries}
        return entries

    def download(self, entry: Checkpoint, root: Path) -> Checkpoint | InvalidCheckpoint:
        try:
            root.mkdir(parents=True, exist_ok=True)
            return self.folder.download(entry, root)
        except OSError as error:
            return InvalidCheckpoint(
                entry.folder, f"it cannot be downloaded: {error}", is_transient=True
            )

    def become_writer(self) -> int:
        """The next number there; 0 if that is not possible now."""
        try:
            self._number = self.folder.take_fence(self._writer)
        except OSError as error:
            self._tell(f"{self.folder.url} cannot be written to: {error}")
        return self._number

    def contains(self, checkpoint: Checkpoint) -> bool:
        """Whether it was there at the last `listing`."""
        return checkpoint.folder.name in self._names

    def add(self, checkpoint: Checkpoint, *, seconds_left: float | None = None) -> None:
        """Upload it in the background; `seconds_left`: until the announced end."""
        self._uploader.add(checkpoint, seconds_left=seconds_left)

    @property
    def uploading(self) -> str | None:
        """The checkpoint that is being uploaded."""
        return self._uploader.folder

    def _check_writer(self) -> None:
        if not self._number:
            raise NotTheWriter("this process has no number as a writer there")
        if not self.folder.owns(self._number, self._writer):
            raise NotTheWriter(
                "another process has taken over this store, "
                "so that this one may not upload any more"
            )

    def _delete_old(self, uploaded: Checkpoint) -> None:
        """Delete all but the newest `keep` and the best one, which were verified before they were
        copied."""
        entries = [entry for entry in self.folder.listing() if isinstance(entry, Checkpoint)]
        older = [entry for entry in entries if entry.order < uploaded.order]
        best = self._metric.ranking(entries)[:1] if self._metric is not None else []
        for entry in sorted(older, key=lambda entry: entry.order, reverse=True)[self._keep - 1 :]:
            if entry in best:
                continue
            self.folder.remove(entry.folder.name)

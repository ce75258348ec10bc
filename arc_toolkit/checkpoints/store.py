"""The store of a run: save, find the newest valid checkpoint, keep the last ones, decide when to save."""

from __future__ import annotations

import os
import sys
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path

from arc_toolkit.checkpoints.fencing import newest_fence, take_fence
from arc_toolkit.checkpoints.interval import EVICTIONS_PER_HOUR, best_interval, mean_seconds
from arc_toolkit.checkpoints.manifest import (
    Checkpoint,
    Damage,
    read_manifest,
    seal,
    sync_folder,
    verify,
    write_manifest,
)
from arc_toolkit.durations import parse_seconds
from arc_toolkit.notices.notice import Notice, NoticeKind
from arc_toolkit.notices.sources.notice_file import Progress, notice_file

TYPE_CHECKING = False  # `typing` alone takes as long to import as all the rest
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any, Protocol

    class NoticeReader(Protocol):
        """Whatever knows of an end of this process: a `notices.Watcher`, or the file of `arc-toolkit run`."""

        @property
        def notice(self) -> Notice | None: ...


_STAGING = ".saving-"
_ASIDE = "damaged"
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
# A save is only begun if it fits into the time that is left, with this much to spare.
_MARGIN = 1.5
_SHORTEST = 1.0  # seconds between saves with every="auto"
EVICTED = 143  # the exit code "evicted, resumable": 128 + SIGTERM


class CheckpointError(Exception):
    """A checkpoint could not be saved; raised only by a store with `strict=True`."""


class Store:
    """Checkpoints in one folder. Not for several threads; one process per store writes, any number reads."""

    def __init__(
        self,
        root: str | os.PathLike[str],
        *,
        keep: int = 3,
        strict: bool = False,
        world_size: int | None = None,
        evictions_per_hour: float = EVICTIONS_PER_HOUR,
        notices: NoticeReader | None = None,
        report: Callable[[str], None] | None = None,
    ) -> None:
        if keep < 2:
            raise ValueError(f"keep at least 2 checkpoints, not {keep}: the newest may turn out to be damaged")
        self.root = Path(root)
        self._keep, self._strict = keep, strict
        self._world_size = world_size if world_size is not None else int(os.environ.get("WORLD_SIZE") or 1)
        self._mean = mean_seconds(evictions_per_hour)
        self._report = report or _to_stderr
        self._fence = 0
        self._writer = f"{os.uname().nodename}-{os.getpid()}-{os.urandom(4).hex()}"
        # Checkpoints that this process has verified, so that they are not read again before older ones are deleted.
        self._verified: set[Path] = set()
        self._durations: list[float] = []
        self._last_save = time.monotonic()
        self._last_step: int | None = None
        self._every: int | float | str = "auto"
        # Under `arc-toolkit run` the supervisor tells of an end, and wants to know the step.
        supervised = notice_file()
        self._notices: NoticeReader | None = notices or supervised
        self._progress = Progress(supervised.path) if supervised is not None else None
        self._announced: Notice | None = None
        # The end for which a save was made, so that it is made once.
        self._saved_for: str | None = None
        self._pending: threading.Thread | None = None
        # What went wrong and did not end the run.
        self.problems: list[str] = []

    # --- reading -------------------------------------------------------------------------------------------

    def latest(self) -> Checkpoint | None:
        """The newest valid checkpoint, after every byte of it was compared; None if there is none.

        Damaged ones are reported and moved aside, never deleted; the one before is used.
        """
        for entry in self.listing():
            damage = entry if isinstance(entry, Damage) else verify(entry)
            if damage is None:
                assert isinstance(entry, Checkpoint)
                self._verified.add(entry.folder)
                return entry
            if damage.committed:
                self._set_aside(damage)
        return None

    def listing(self) -> list[Checkpoint | Damage]:
        """Every folder that is or was meant to be a checkpoint, the newest first; files are not compared."""
        try:
            names = os.listdir(self.root)
        except FileNotFoundError:
            return []
        folders = [self.root / name for name in names if name.startswith("step-")]
        entries = [read_manifest(folder) for folder in folders if folder.is_dir()]
        return sorted(entries, key=_order, reverse=True)

    def _set_aside(self, damage: Damage) -> None:
        self._tell(f"{damage.folder.name} is skipped: {damage.reason}")
        target = self.root / _ASIDE / f"{damage.folder.name}-{os.urandom(2).hex()}"
        try:
            target.parent.mkdir(exist_ok=True)
            os.rename(damage.folder, target)
        except OSError as error:
            self._tell(f"{damage.folder.name} could not be moved aside: {error}")

    # --- saving --------------------------------------------------------------------------------------------

    @contextmanager
    def save(
        self,
        step: int,
        *,
        epoch: int | None = None,
        metrics: Mapping[str, float] | None = None,
        reason: str | None = None,
    ) -> Iterator[Path]:
        """A folder for the files of a checkpoint; it is committed at the end of the block.

        If the disk is full or fails, the new checkpoint is lost and reported, and nothing else.
        """
        self.wait()
        began = time.monotonic()
        folder: Path | None = None
        try:
            folder = self._stage(step)
            yield folder
            self._commit(folder, self._fields(step, epoch, metrics, reason), began)
        except OSError as error:
            self._failed(step, folder, error)
        except BaseException:
            _remove(folder)
            raise

    def save_later(
        self,
        step: int,
        files: Mapping[str, bytes | bytearray | memoryview],
        *,
        epoch: int | None = None,
        metrics: Mapping[str, float] | None = None,
        reason: str | None = None,
    ) -> None:
        """Copy the contents now, write and commit them in the background. At most one such save is under way."""
        self.wait()
        copies = {name: bytes(content) for name, content in files.items()}
        fields = self._fields(step, epoch, metrics, reason)
        self._pending = threading.Thread(target=self._save_copies, args=(step, copies, fields), name="checkpoint")
        self._pending.start()

    def wait(self, timeout: float | None = None) -> bool:
        """Until no save is under way; whether that is so."""
        if self._pending is None:
            return True
        self._pending.join(timeout)
        if self._pending.is_alive():
            return False
        self._pending = None
        return True

    def _save_copies(self, step: int, files: Mapping[str, bytes], fields: dict[str, Any]) -> None:
        began = time.monotonic()
        folder: Path | None = None
        try:
            folder = self._stage(step)
            for name, content in files.items():
                path = folder / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
            self._commit(folder, fields, began)
        except OSError as error:
            self._failed(step, folder, error)

    def _stage(self, step: int) -> Path:
        if step < 0:
            raise ValueError(f"a step is a number from 0 on, not {step}")
        if not self._fence:
            self.root.mkdir(parents=True, exist_ok=True)
            self._fence = take_fence(self.root, self._writer)
        # A name is never used twice: a retry of the same step by another writer has another number.
        folder = self.root / f"{_STAGING}{step:012d}-{self._fence:06d}-{os.urandom(2).hex()}"
        folder.mkdir()
        return folder

    def _commit(self, folder: Path, fields: dict[str, Any], began: float) -> None:
        fields["writer"]["fence"] = self._fence
        manifest = seal(folder, fields)
        if newest_fence(self.root) > self._fence:
            raise OSError("another process has taken over this store, so that this one may not save any more")
        final = self.root / f"step-{folder.name.removeprefix(_STAGING)}"
        os.rename(folder, final)
        sync_folder(self.root)
        write_manifest(final, manifest)
        self._verified.add(final)
        self._durations = [*self._durations[-9:], time.monotonic() - began]
        self._last_save, self._last_step = time.monotonic(), fields["step"]
        self._saved_for = fields["notice"]
        self._retain()

    def _failed(self, step: int, folder: Path | None, error: OSError) -> None:
        _remove(folder)
        self._last_save = time.monotonic()  # not again at the very next step
        message = f"step {step} could not be saved: {error}"
        self._tell(message)
        if self._strict:
            raise CheckpointError(message) from error

    def _fields(
        self, step: int, epoch: int | None, metrics: Mapping[str, float] | None, reason: str | None
    ) -> dict[str, Any]:
        notice = self.notice
        versions = {name: getattr(sys.modules.get(name), "__version__", None) for name in _LIBRARIES}
        return {
            "step": step,
            "epoch": epoch,
            "world_size": self._world_size,
            "created": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "reason": reason or ("notice" if notice else "interval"),
            "notice": notice.id if notice else None,
            "metrics": dict(metrics or {}),
            "writer": {"id": self._writer, "fence": 0},
            "versions": {"python": sys.version.split()[0], **{k: str(v) for k, v in versions.items() if v}},
        }

    def _retain(self) -> None:
        """Delete what is older than the newest `keep`, all of which are verified first."""
        entries = [entry for entry in self.listing() if isinstance(entry, Checkpoint)]
        kept: list[Checkpoint] = []
        for entry in entries:
            if len(kept) < self._keep:
                if entry.folder in self._verified or verify(entry) is None:
                    self._verified.add(entry.folder)
                    kept.append(entry)
                continue
            _remove(entry.folder)

    # --- when ----------------------------------------------------------------------------------------------

    def steps(self, total: int, *, every: int | float | str = "auto") -> Iterator[int]:
        """The steps that are left, after that of the newest valid checkpoint: 0 to total - 1 in a new run.

        `every` is a number of steps, a time such as "10m", or "auto": the interval that wastes least, from the measured
        time of a save and the rate of evictions.
        """
        self._every = _parse_every(every)
        newest = self.latest()
        first = newest.step + 1 if newest is not None else 0
        self._last_step, self._last_save = first - 1, time.monotonic()
        for step in range(first, total):
            yield step
            self._end_if_evicted(step, total)

    def _end_if_evicted(self, step: int, total: int) -> None:
        """After the save for an announced end there is nothing more to do on this machine."""
        notice = self.notice
        if notice is None or step == total - 1 or not self.wait(notice.seconds_left()):
            return
        if self._saved_for == notice.id:
            self._report(f"checkpoints: step {step} is saved before {notice.kind.value}; ending with {EVICTED}")
            raise SystemExit(EVICTED)

    def due(self, step: int) -> bool:
        """Whether to save now: the interval is over, or an end was announced and a save still fits before it."""
        if self._progress is not None:
            self._progress.write(step)
        if self._pending is not None and not self.wait(0):
            return False
        if (notice := self.notice) is not None:
            left = notice.seconds_left()
            return self._saved_for != notice.id and (left is None or self.fits(left))
        passed = time.monotonic() - self._last_save
        if isinstance(self._every, int):
            return step - (self._last_step if self._last_step is not None else -1) >= self._every
        if isinstance(self._every, float):
            return passed >= self._every
        if not self._durations:
            return passed >= 60.0  # the first one tells how long a save takes
        return passed >= max(best_interval(self.save_seconds, self._mean), _SHORTEST)

    @property
    def notice(self) -> Notice | None:
        """What announces the end of this process: `announce`, `arc-toolkit run`, or the `notices` of the store."""
        return self._announced or (self._notices.notice if self._notices is not None else None)

    def announce(self, seconds: float) -> None:
        """The process will end in so many seconds: the next `due` is true if a save fits into them."""
        deadline = time.time() + seconds
        self._announced = Notice(NoticeKind.STOP, "announce", f"announced-{deadline}", deadline=deadline)

    def fits(self, seconds: float) -> bool:
        """Whether a save takes less than that, by the slowest of the last ten and a margin."""
        return seconds > max(self._durations, default=0.0) * _MARGIN

    @property
    def save_seconds(self) -> float:
        """The mean of the last ten saves; 0 before the first."""
        return sum(self._durations) / len(self._durations) if self._durations else 0.0

    def _tell(self, message: str) -> None:
        self.problems.append(message)
        self._report(f"checkpoints: {message}")


def _order(entry: Checkpoint | Damage) -> tuple[int, int]:
    """By step, then by writer; a damaged one by what its name says."""
    if isinstance(entry, Checkpoint):
        return entry.step, entry.fence
    parts = entry.folder.name.split("-")
    return (
        (int(parts[1]), int(parts[2])) if len(parts) > 2 and parts[1].isdigit() and parts[2].isdigit() else (-1, 0)
    )


def _parse_every(every: int | float | str) -> int | float | str:
    """A number of steps (int), seconds (float), or "auto"."""
    if every == "auto" or (isinstance(every, int | float) and every > 0):
        return every
    if isinstance(every, str) and not every.isdigit():
        with suppress(ValueError):
            return parse_seconds(every)
    raise ValueError(f'every={every!r}: use a number of steps, a time such as "10m", or "auto"')


def _remove(folder: Path | None) -> None:
    """Delete a folder, its manifest first: what is left after a crash in between is not a checkpoint any more."""
    import shutil

    if folder is not None:
        (folder / "checkpoint.json").unlink(missing_ok=True)
        shutil.rmtree(folder, ignore_errors=True)


def _to_stderr(text: str) -> None:
    with suppress(OSError):
        sys.stderr.write(text + "\n")

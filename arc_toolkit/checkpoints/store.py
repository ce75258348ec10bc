"""The store of a run: saves, finds the newest valid checkpoint, and decides when to save."""

from __future__ import annotations

import os
import threading
import time
from contextlib import contextmanager, suppress
from operator import index

from arc_toolkit.checkpoints.background import Abandoned, BackgroundSave
from arc_toolkit.checkpoints.eviction_state import EvictionState
from arc_toolkit.checkpoints.interval import EVICTIONS_PER_HOUR, SaveSchedule, mean_seconds
from arc_toolkit.checkpoints.local_checkpoints import (
    LocalCheckpoints,
    default_root,
    local_copy_of,
    newest_fence,
    take_fence,
)
from arc_toolkit.checkpoints.manifest import (
    STAGING,
    BestMetric,
    Checkpoint,
    InvalidCheckpoint,
    extra_files,
    is_unfinished,
    make_folder,
    publish,
    save_fields,
    seal,
    verify,
)
from arc_toolkit.checkpoints.rank_agreement import (
    AGREED_VARIABLE,
    RankAgreement,
    SharedFolder,
    before_exit,
    find_rank,
)
from arc_toolkit.checkpoints.unavailable import (
    Patience,
    StoreDamaged,
    StoreUnreadable,
    StoreUnusable,
    UnusablePlace,
    patience_seconds,
)
from arc_toolkit.notices.notice import EVICTED_EXIT_CODE
from arc_toolkit.stderr import say

TYPE_CHECKING = False  # `typing` alone takes as long to import as all the rest
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any

    from arc_toolkit.checkpoints.eviction_state import NoticeReader
    from arc_toolkit.checkpoints.remote import Mirror
    from arc_toolkit.checkpoints.save_folder import SaveFolder
    from arc_toolkit.notices.notice import Notice

_REPLACED = "another process has taken over this store, so that this one may not save any more"


_LATE_SECONDS = 1.0  # before the deadline, for the end itself
# What no wait can change.
_PERMANENT = (NotADirectoryError, UnusablePlace)


class CheckpointError(Exception):
    """A checkpoint could not be saved; raised only by a store with `strict=True`."""


class Store:
    """Checkpoints in one folder, with a copy at a URL if there is one.

    Not for several threads; one process per store writes, any number reads. `patience` is how long
    `latest` waits for a folder or URL that cannot be read. `fresh=True` allows a start at step 0
    although there are checkpoints that cannot be read or are damaged. `rank` and `world_size` are
    those of torchrun, MPI or Slurm unless they are given; `read_only=True` never writes, and asks
    no other rank. `best` names a metric of `save`: the checkpoint with its lowest value, or its
    `highest`, is never deleted.
    """

    def __init__(
        self,
        root: str | os.PathLike[str] | None = None,
        *,
        keep: int = 3,
        strict: bool = False,
        remote: str | None = None,
        storage_options: dict[str, Any] | None = None,
        rank: int | None = None,
        world_size: int | None = None,
        best: str | None = None,
        highest: bool = False,
        read_only: bool = False,
        fresh: bool = False,
        patience: float | str | None = None,
        evictions_per_hour: float = EVICTIONS_PER_HOUR,
        notices: NoticeReader | None = None,
        report: Callable[[str], None] | None = None,
    ) -> None:
        if keep < 2:
            raise ValueError(
                f"keep at least 2 checkpoints, not {keep}: the newest may turn out to be damaged"
            )
        root = default_root() if root is None else root
        if "://" in os.fspath(root):
            remote, root = os.fspath(root), local_copy_of(os.fspath(root))
        from pathlib import Path

        self.root = Path(os.path.abspath(root))  # the training code may change its folder
        self._keep, self._strict = keep, strict
        self._fresh, self._patience = fresh, patience_seconds(patience)
        found_rank, found_size = find_rank()
        self._rank = found_rank if rank is None else rank
        self._world_size = world_size if world_size is not None else found_size
        # The first process of a run saves; the others resume from the same checkpoint.
        self._saves = self._rank == 0 and not read_only
        self._report = report or say
        self._fence = self._local_fence = 0
        self._fence_lock = threading.Lock()
        self._is_replaced = False  # by another writer
        self._count = 0  # of saves
        self._writer = f"{os.uname().nodename}-{os.getpid()}-{os.urandom(4).hex()}"
        metric = BestMetric(best, is_highest=highest) if best is not None else None
        self._shelf = LocalCheckpoints(self.root, keep, self._tell, metric)
        self._eviction = EvictionState(notices)
        self._schedule = SaveSchedule(
            mean_seconds(evictions_per_hour), has_notices=self._eviction.is_watched
        )
        self._background = BackgroundSave()
        # The result of `latest` until the next save: `steps` goes on after the loaded state.
        self._loaded: tuple[Checkpoint | None] | None = None
        # the step of the last `due`, and what it went by
        self._judged: tuple[int, Notice | None] = -1, None
        self._mirror: Mirror | None = None
        if remote is not None:
            from arc_toolkit.checkpoints.remote import Mirror

            self._mirror = Mirror(
                remote,
                storage_options,
                keep=keep,
                writer=self._writer,
                tell=self._tell,
                metric=metric,
            )
        self._newest: int | None = None  # the step of the newest checkpoint
        self._agreement: RankAgreement | None = None
        if self._world_size > 1 and not read_only and not os.environ.get(AGREED_VARIABLE):
            place = remote or str(self.root)
            files = self._mirror.folder if self._mirror is not None else SharedFolder(self.root)
            self._agreement = RankAgreement(self._rank, self._world_size, place, files)
        # Trouble that did not end the run, and what the last `latest` did not use, with reasons.
        self.problems: list[str] = []
        self.skipped: list[InvalidCheckpoint] = []

    # --- reading ----------------------------------------------------------------------------------

    def latest(self) -> Checkpoint | None:
        """The newest valid checkpoint, after every byte of it was compared; None in a new run.

        What is newer and was not used is in `skipped`; damaged ones are reported and moved aside,
        never deleted. One that is only at the URL is downloaded. A place that cannot be read is
        asked again for as long as `patience` says, and then the process ends: `StoreUnreadable`,
        exit code 75. It also ends if there are checkpoints and none is valid: `StoreDamaged`, 65.

        Of several ranks the first one chooses, and all others use the same checkpoint.
        """
        patience = Patience(self._patience, self._report_attempt, self._end_if_evicted)
        if self._agreement is not None and self._rank > 0:
            newest = self._agreed_checkpoint(self._agreement, patience)
        else:
            newest = self._newest_checkpoint(patience)
            if self._agreement is not None:
                self._agreement.announce(newest)
                before_exit(self._wait_for_ranks)
        self._loaded = (newest,)
        return newest

    def best(self) -> Checkpoint | None:
        """The best valid checkpoint here by the metric `best`; None if there is none."""
        return self._shelf.best(self.listing())

    def listing(self) -> list[Checkpoint | InvalidCheckpoint]:
        """Every local folder that is or should be a checkpoint, newest first, not compared."""
        try:
            return self._shelf.listing()
        except OSError as error:
            self._tell(f"{self.root} cannot be read: {error}")
            return []

    def _newest_checkpoint(self, patience: Patience) -> Checkpoint | None:
        self.skipped = []
        while True:
            newest, skipped, unlisted = self._look()
            # What was damaged at an earlier look has been moved away since.
            looked_at = {entry.folder for entry in skipped}
            self.skipped = skipped + [
                entry
                for entry in self.skipped
                if not entry.is_transient and entry.folder not in looked_at
            ]
            unread = [entry for entry in self.skipped if entry.committed and entry.is_transient]
            problem = next(iter(unlisted), "") or next(
                (f"{entry.folder.name}: {entry.reason}" for entry in unread), ""
            )
            if not problem:
                break
            is_permanent = any(isinstance(error, _PERMANENT) for error in unlisted.values())
            if is_permanent or not patience.wait(problem):
                # An older one is a loss of some steps; an unknown place may be a loss of all.
                if self._fresh or (newest is not None and not unlisted):
                    break
                raise self._unavailable(StoreUnusable if is_permanent else StoreUnreadable, problem)
        for entry in self.skipped:
            if entry.committed:  # else it may still be being written
                self._tell(f"{entry.folder.name} is skipped: {entry.reason}")
        if newest is None and not self._fresh and self._has_damage():
            raise self._unavailable(StoreDamaged, f"{self.root} has no valid checkpoint left")
        if newest is not None:
            self._shelf.note_verified(newest)
            if extra := extra_files(newest):
                self._tell(f"{newest.folder.name} has files that are ignored: {', '.join(extra)}")
        return newest

    def _look(
        self,
    ) -> tuple[Checkpoint | None, list[InvalidCheckpoint], dict[str, OSError]]:
        """The newest valid checkpoint, what is newer and not valid, and the places that cannot be
        listed, with a sentence for each."""
        entries, unlisted = self._entries()
        skipped: list[InvalidCheckpoint] = []
        # Of two copies the one here comes first: the other one is for the case that it is damaged.
        for entry in sorted(entries, key=lambda entry: entry.order, reverse=True):
            checked = self._check_entry(entry)
            if isinstance(checked, Checkpoint):
                return checked, skipped, unlisted
            skipped.append(checked)
            # At once: a copy of it that is downloaded gets its name.
            if self._saves and checked.committed and not checked.is_transient:
                self._shelf.set_aside(checked)
        return None, skipped, unlisted

    def _entries(self) -> tuple[list[Checkpoint | InvalidCheckpoint], dict[str, OSError]]:
        entries: list[Checkpoint | InvalidCheckpoint] = []
        unlisted: dict[str, OSError] = {}
        places = [(str(self.root), self._shelf.listing)]
        if self._mirror is not None:
            places.append((self._mirror.folder.url, self._mirror.listing))
        for place, list_entries in places:
            try:
                entries += list_entries()
            except OSError as error:
                unlisted[f"cannot read {place}: {error}"] = error
        return entries, unlisted

    def _has_damage(self) -> bool:
        """Whether there was a checkpoint once: to start at step 0 would lose a run."""
        return self._shelf.has_damaged or any(
            entry.committed
            or (entry.is_numbered and entry.folder.exists() and not is_unfinished(entry.folder))
            for entry in self.skipped
        )

    def _agreed_checkpoint(self, agreement: RankAgreement, patience: Patience) -> Checkpoint | None:
        """The checkpoint that rank 0 begins with."""
        this_rank = f"rank {self._rank} of {self._world_size}"
        no_answer = (
            f"{this_rank} got no answer from rank 0: do all ranks use the same folder or URL?"
        )
        choice = None
        while choice is None:
            problem = no_answer
            try:
                choice = agreement.ask(
                    lambda seconds: patience.sleep(seconds, no_answer), patience.seconds_left
                )
            except OSError as error:
                problem = f"{this_rank} cannot ask rank 0: {error}"
            if choice is None and not patience.wait(problem):
                raise self._unavailable(StoreUnreadable, problem)
        while choice.folder:
            entries, _ = self._entries()
            reason = "it is not there"
            for entry in entries:
                if entry.folder.name != choice.folder:
                    continue
                checked = self._check_entry(entry)
                if isinstance(checked, InvalidCheckpoint):
                    reason = checked.reason
                elif checked.manifest["digest"] == choice.digest:
                    return checked
            problem = f"{this_rank} cannot use {choice.folder}, with which rank 0 begins: {reason}"
            if not patience.wait(problem):
                raise self._unavailable(StoreUnreadable, problem)
        return None

    def _wait_for_ranks(self) -> None:
        if self._agreement is not None and self._eviction.notice is None:
            self._agreement.wait_for_questions(self._report_attempt)

    def _unavailable(
        self, kind: type[StoreUnusable | StoreUnreadable | StoreDamaged], problem: str
    ) -> SystemExit:
        self._tell(f"{problem}; ending with {kind.exit_code} instead of starting at step 0")
        return kind(problem)

    def _report_attempt(self, text: str) -> None:
        self._report(f"checkpoints: {text}")

    def _end_if_evicted(self) -> None:
        """While `latest` waits there is nothing to save."""
        if (notice := self._eviction.notice) is not None:
            self._report(f"checkpoints: {notice.kind.value}; ending with {EVICTED_EXIT_CODE}")
            raise SystemExit(EVICTED_EXIT_CODE)

    def _check_entry(self, entry: Checkpoint | InvalidCheckpoint) -> Checkpoint | InvalidCheckpoint:
        if isinstance(entry, InvalidCheckpoint):
            return entry
        if entry.folder.is_absolute() or self._mirror is None:  # at a URL it is only a name
            return verify(entry) or entry
        return self._mirror.download(entry, self.root)

    # --- saving -----------------------------------------------------------------------------------

    @contextmanager
    def save(
        self,
        step: int,
        *,
        epoch: int | None = None,
        metrics: Mapping[str, float] | None = None,
        reason: str | None = None,
    ) -> Iterator[SaveFolder]:
        """A folder for the files of a checkpoint; it is committed at the end of the block.

        If the disk is full or fails, the new checkpoint is lost and reported, and nothing else.
        """
        self._background.wait()
        began, step = time.monotonic(), index(step)  # NumPy and PyTorch have integers of their own
        folder, failure = self._save_target(step)
        try:
            yield folder
            if failure is not None:
                raise failure
            self._commit(folder, self._fields(step, epoch, metrics, reason), began)
        except OSError as error:
            self._give_up(step, folder, failure or error)
        except Exception:
            # Not every library says with OSError that a disk is full.
            failure = failure or folder.disk_trouble()
            if failure is None:
                folder.discard()
                raise
            self._give_up(step, folder, failure)
        except BaseException:
            folder.discard()
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
        """Copy the contents now, write and commit them in the background, one save at a time."""
        self._background.wait()
        step = index(step)
        copies = {name: bytes(content) for name, content in files.items()}
        fields = self._fields(step, epoch, metrics, reason)
        self._background.start(lambda: self._save_copies(step, copies, fields))

    def wait(self, timeout: float | None = None) -> bool:
        """Until no save and no upload is under way; whether that is so."""
        end = None if timeout is None else time.monotonic() + timeout
        if not self._background.wait(timeout):
            return False
        seconds_left = None if end is None else max(0.0, end - time.monotonic())
        return self._mirror is None or self._mirror.wait(seconds_left)

    def _save_copies(self, step: int, files: Mapping[str, bytes], fields: dict[str, Any]) -> None:
        began = time.monotonic()
        folder: SaveFolder | None = None
        try:
            folder = self._stage(step)
            for name, content in files.items():
                self._background.write(folder, name, content)
            self._commit(folder, fields, began)
        except Abandoned:
            if folder is not None:
                folder.discard()
            self._tell(f"step {step} is abandoned: it would not be saved before the announced end")
        except OSError as error:
            self._give_up(step, folder, error)

    def _save_target(self, step: int) -> tuple[SaveFolder, OSError | None]:
        """A folder to write to. If there can be none in the store, one that is thrown away, and
        why: the block of a `with` cannot be left out."""
        try:
            return self._stage(step), None
        except OSError as error:
            import tempfile

            from arc_toolkit.checkpoints.save_folder import SaveFolder

            with suppress(OSError):
                return SaveFolder.create(tempfile.mkdtemp(prefix="arc-toolkit-not-saved-")), error
            return SaveFolder.create(self.root / f"{STAGING}not-possible"), error

    def _stage(self, step: int) -> SaveFolder:
        from arc_toolkit.checkpoints.save_folder import SaveFolder

        if step < 0:
            raise ValueError(f"a step is a number from 0 on, not {step}")
        if not self._saves:
            raise OSError(f"rank {self._rank} does not save, only rank 0 does: ask due() first")
        self._become_writer()
        # A name is never used twice: a retry of the same step by another writer has another number.
        # The count tells which of several saves of one step is the newest.
        self._count += 1
        name = f"{STAGING}{step:012d}-{self._fence:06d}-{self._count:06d}{os.urandom(3).hex()}"
        folder = SaveFolder.create(self.root / name)
        folder.mkdir()
        return folder

    def _become_writer(self) -> None:
        if not self._fence:
            with self._fence_lock:  # threads of one process are one writer
                if not self._fence:
                    self._take_fences()

    def _take_fences(self) -> None:
        make_folder(self.root)
        self._local_fence = take_fence(self.root, self._writer)
        # Without a number there it is asked for again at the next save.
        self._fence = self._local_fence if self._mirror is None else self._mirror.become_writer()

    def _check_replaced(self) -> bool:
        """Whether another process is the writer now, for good: nothing more can be saved."""
        self._is_replaced = self._is_replaced or newest_fence(self.root) > self._local_fence > 0
        return self._is_replaced

    def _commit(self, folder: SaveFolder, fields: dict[str, Any], began: float) -> None:
        fields["writer"]["fence"] = self._fence
        manifest = seal(folder, fields, folder.finish())
        if self._check_replaced():
            raise OSError(_REPLACED)
        final = self.root / f"step-{folder.name.removeprefix(STAGING)}"
        publish(folder, final)
        if not manifest["files"] and self._count == 1:  # likely a mistake, and the same every time
            self._tell(
                f"step {fields['step']} is saved without a file: "
                "write into the folder that `save` gives"
            )
        if self._agreement is None:  # other ranks, which know of no save, go on after theirs
            self._loaded = None
        self._shelf.note_verified(Checkpoint(final, manifest))
        self._schedule.note_save(fields["step"], time.monotonic() - began)
        self._eviction.saved_for = fields["notice"]
        self._newest = fields["step"]
        self._eviction.tell_saved(fields["step"])
        if self._mirror is not None:
            self._mirror.add(Checkpoint(final, manifest), seconds_left=self._seconds_left())
        try:
            self._shelf.retain(self._local_fence, self._fence, self._in_use())
        except OSError as error:
            self._tell(f"older checkpoints could not be deleted: {error}")

    def _seconds_left(self) -> float | None:
        """Until the announced end; None if there is none, or if it may come at any moment."""
        notice = self._eviction.notice
        return notice.seconds_left() if notice is not None else None

    def _in_use(self) -> set[str]:
        """The checkpoints that are being uploaded, or that other ranks begin with."""
        uploading = self._mirror.uploading if self._mirror is not None else None
        awaited = self._agreement.awaited if self._agreement is not None else set()
        return awaited | ({uploading} if uploading is not None else set())

    def _give_up(self, step: int, folder: SaveFolder | None, error: OSError) -> None:
        if folder is not None:
            folder.discard()
        self._schedule.note_failure(step)
        with suppress(OSError):
            if self._check_replaced():  # and the other one has deleted the files, perhaps
                error = OSError(_REPLACED)
        message = f"step {step} could not be saved: {error}"
        self._tell(message)
        if self._strict:
            raise CheckpointError(message) from error

    def _fields(
        self, step: int, epoch: int | None, metrics: Mapping[str, float] | None, reason: str | None
    ) -> dict[str, Any]:
        notice = self._eviction.final_notice(step)
        return save_fields(
            step,
            epoch=epoch,
            metrics=metrics or {},
            world_size=self._world_size,
            writer=self._writer,
            reason=reason or ("notice" if notice else "interval"),
            notice=notice.id if notice else None,
        )

    def _resume_upload(self, newest: Checkpoint) -> None:
        """The process before this one may have ended before its last checkpoint was at the URL."""
        if self._mirror is None or not self._saves or self._mirror.contains(newest):
            return
        try:
            self._become_writer()
            self._mirror.add(newest)
        except OSError as error:
            self._tell(f"{self.root} cannot be written to: {error}")

    # --- when -------------------------------------------------------------------------------------

    def steps(self, total: int, *, every: int | float | str = "auto") -> Iterator[int]:
        """The remaining steps, after that of the newest valid checkpoint: 0 to total - 1 at first.

        `every` is a number of steps, a time such as "10m", or "auto": the interval that wastes
        least, from the measured time of a save and the rate of evictions. After the save for an
        announced end the process ends with 143.
        """
        for step in range(self.begin(every), total):
            yield step
            if step < total - 1:
                self.exit_if_evicted(step)

    def begin(self, every: int | float | str = "auto") -> int:
        """For code with a loop of its own: the next step. `every` is as for `steps`."""
        newest = self._loaded[0] if self._loaded is not None else self.latest()
        self._loaded = None  # the next loop asks again, in every rank
        first = newest.step + 1 if newest is not None else 0
        if newest is not None:
            self._newest = newest.step
            self._eviction.tell_saved(newest.step)
            self._resume_upload(newest)
        self._schedule.start(every, first - 1)
        return first

    def exit_if_evicted(self, step: int) -> None:
        """After the save for an announced end nothing is left to do here: end with 143."""
        # What `due` went by in this step: nobody would save for a later notice before the next one.
        (judged, notice), self._judged = self._judged, (-1, None)
        if judged != step:
            notice = self._eviction.notice_after(step, self._schedule.fits)
        if notice is None or not self._background.wait(notice.seconds_left()):
            return
        if self._eviction.saved_for == notice.id or (notice.step is not None and not self._saves):
            self.wait(notice.seconds_left())
            self._report(
                f"checkpoints: step {step} is saved before {notice.kind.value}; "
                f"ending with {EVICTED_EXIT_CODE}"
            )
            raise SystemExit(EVICTED_EXIT_CODE)

    def exit_if_late(self) -> None:
        """Where nothing can be saved, as during validation: end with 143 when no save would fit
        any more, and say what is lost."""
        notice = self._eviction.notice
        if notice is None or notice.step is not None or self._eviction.saved_for == notice.id:
            return
        seconds_left = notice.seconds_left()
        if seconds_left is None or self._schedule.fits(seconds_left - _LATE_SECONDS):
            return
        newest = "no checkpoint" if self._newest is None else f"step {self._newest}"
        self._tell(
            f"{notice.kind.value} came where nothing can be saved: the newest is {newest}; "
            f"ending with {EVICTED_EXIT_CODE}"
        )
        raise SystemExit(EVICTED_EXIT_CODE)

    def report_inexact(self, reason: str) -> None:
        """For adapters: what will not be as in a run without interruption."""
        self._report(f"checkpoints: not exact after a restart: {reason}")

    def due(self, step: int, *, samples: int = 0) -> bool:
        """Whether to save now: the interval is over, or an end is announced and a save fits.

        Of several ranks ($RANK) only the first one saves. `samples` is what this rank has processed
        in this step: an elastic run measures by it whether more workers pay.
        """
        notice = self._eviction.notice_after(step, self._schedule.fits, samples)
        self._judged = step, notice
        if not self._saves or self._is_replaced:
            return False
        seconds_left = notice.seconds_left() if notice is not None else None
        if not self._background.wait(0):
            # No other save would fit either: it is given up only if it needs more than usual.
            if (
                seconds_left is not None
                and seconds_left + self._background.seconds < self.save_seconds
            ):
                self._background.abandon()
            return False
        if notice is not None:
            return self._eviction.saved_for != notice.id and (
                seconds_left is None or self._schedule.fits(seconds_left)
            )
        return self._schedule.due(step)

    @property
    def notice(self) -> Notice | None:
        """The announced end of this process: by `announce`, `arc-toolkit run`, or `notices`."""
        return self._eviction.notice

    def announce(self, seconds: float) -> None:
        """The process will end in so many seconds: the next `due` is true if a save fits."""
        self._eviction.announce(seconds)

    @property
    def save_seconds(self) -> float:
        """The mean of the last ten saves; 0 before the first."""
        return self._schedule.save_seconds

    def _tell(self, message: str) -> None:
        self.problems.append(message)
        self._report(f"checkpoints: {message}")

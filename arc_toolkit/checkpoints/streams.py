"""Files of a checkpoint that are digested while they are written.

Full blocks go past the page cache where the file system allows it, written and digested by a few
threads at the same time: together that takes about as long as the write alone, and nothing has to
be read back.
"""

from __future__ import annotations

import errno
import fcntl
import io
import mmap
import os
import sys
import time
from _thread import get_ident, start_new_thread
from contextlib import suppress
from queue import Empty, SimpleQueue

from arc_toolkit.checkpoints.manifest import BLOCK, Crc32

TYPE_CHECKING = False  # `typing` alone takes as long to import as all the rest
if TYPE_CHECKING:
    from typing import Any

_SLOTS = 4  # blocks in memory per open file: one is filled, the others are written and digested
_HELPERS = 3  # threads beside the caller's
_SECOND = 1_000_000_000


class DigestedFile(io.RawIOBase):
    """A new file, open for writing. Blocks that a `seek` changes later are read back."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        super().__init__()
        self._handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        self.path = os.fspath(path)
        # The digests of the blocks; None for one that has to be read back.
        self.digests: list[str | None] = []
        self._signature: tuple[int, int, int] | None = None
        self._process = os.getpid()
        self._position = self._end = 0
        self._start = 0  # of the block that is being filled; everything before it is handed on
        self._slot, self._slots = 0, list[memoryview]()
        # A signal handler may raise at any moment in the caller's thread. `threading` would then
        # leave locks that none releases; these queues and threads of the C level do not. Only the
        # caller's thread counts.
        self._tasks: SimpleQueue[tuple[bool, int, int] | None] = SimpleQueue()
        self._done: SimpleQueue[int] = SimpleQueue()  # the slots of tasks that are done
        self._running: set[int] = set()  # helpers
        self._uses = [0] * _SLOTS  # tasks per slot that are not done
        self._helpers = 0
        self._error: BaseException | None = None
        self._may_be_direct = True

    # --- what callers use -------------------------------------------------------------------------

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        self._check()
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._check()
        position = (
            offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._end}[whence]
        )
        if position < 0:
            raise ValueError(f"a position is a number from 0 on, not {position}")
        self._position = position
        return position

    def write(self, data: Any) -> int:
        """All of it, or an exception."""
        self._check()
        content = memoryview(data)
        # what is empty cannot be cast
        content = content.cast("B") if content.nbytes else memoryview(b"")
        # as in any file, the gap is filled with zeros
        while self._position > self._end and len(content):
            gap, self._position = self._position - self._end, self._end
            self._put(memoryview(bytes(min(gap, BLOCK))))
            self._position += gap - min(gap, BLOCK)
        self._put(content)
        return len(content)

    def close(self) -> None:
        """Write the rest. An exception if any write failed; the file is closed in any case."""
        if self.closed:
            return
        # threads do not survive a fork, and the file is the parent's
        if self._process != os.getpid():
            self._close_handle()
            return
        try:
            self._finish()
        except BaseException as error:
            self._error = self._error or error
        finally:
            self._end_helpers()
            self._close_handle()
        if self._error is not None:
            raise self._error

    def abandon(self) -> None:
        """Close without the rest: nobody wants the file any more."""
        self._error = self._error or OSError(errno.ECANCELED, "the save was abandoned")
        with suppress(BaseException):
            self.close()

    def __exit__(self, kind: object, *words: object) -> None:
        if kind is None:
            self.close()
        else:
            self.abandon()

    def __del__(self) -> None:
        with suppress(Exception):
            self.abandon()

    @property
    def trouble(self) -> OSError | None:
        """What the disk did not take."""
        return (
            self._error
            if isinstance(self._error, OSError) and self._error.errno != errno.ECANCELED
            else None
        )

    def is_unchanged(self) -> bool:
        """Whether the file is still what was written here, so that its digests hold."""
        try:
            return self._signature is not None and self._signature == _signature(os.stat(self.path))
        except OSError:
            return False

    # --- blocks -----------------------------------------------------------------------------------

    def _check(self) -> None:
        if self.closed:
            raise ValueError(f"{self.path} is closed")
        if self._error is not None:
            raise self._error

    def _put(self, data: memoryview) -> None:
        try:
            self._put_all(data)
        except BaseException as error:  # a signal's, too: nobody knows how much was put
            self._error = self._error or error
            raise

    def _put_all(self, data: memoryview) -> None:
        while len(data):
            place = self._position - self._start
            if place < 0:
                part = data[:-place]
                self._rewrite(part)
            else:
                part = data[: BLOCK - place]
                self._block()[place : place + len(part)] = part
            self._position += len(part)
            self._end = max(self._end, self._position)
            if self._end == self._start + BLOCK:
                self._hand_on()
            data = data[len(part) :]

    def _block(self) -> memoryview:
        """The one that is being filled."""
        if not self._slots:
            # Private and in huge pages: small pages cost the kernel more than the copies into them.
            arena = mmap.mmap(-1, _SLOTS * BLOCK, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
            with suppress(OSError, AttributeError):
                arena.madvise(mmap.MADV_HUGEPAGE)
            view = memoryview(arena)
            self._slots = [view[slot * BLOCK : (slot + 1) * BLOCK] for slot in range(_SLOTS)]
        return self._slots[self._slot]

    def _hand_on(self) -> None:
        """Let a full block be written and digested, and take a free one."""
        number = len(self.digests)
        self._set_direct(self._may_be_direct)
        self.digests.append(None)
        self._uses[self._slot] = 2
        # A task is (whether to write or to digest, slot, number of the block).
        self._tasks.put((True, self._slot, number))
        self._tasks.put((False, self._slot, number))
        if self._helpers < _HELPERS:
            self._start_helper()
        self._start += BLOCK
        while 0 not in self._uses:
            self._advance()
        self._slot = self._uses.index(0)

    def _start_helper(self) -> None:
        self._helpers += 1
        # too many threads, or Python is ending: the caller does all of it
        with suppress(RuntimeError):
            start_new_thread(self._help, ())

    def _help(self) -> None:
        self._running.add(get_ident())
        try:
            while (task := self._tasks.get()) is not None:
                self._do(task)
        finally:
            self._running.discard(get_ident())

    def _do(self, task: tuple[bool, int, int]) -> None:
        is_write, slot, number = task
        try:
            if self._error is None and is_write:
                self._write_at(self._slots[slot], number * BLOCK)
            elif self._error is None:
                size = min(BLOCK, self._end - number * BLOCK)
                self.digests[number] = Crc32(self._slots[slot][:size]).hexdigest()
        except BaseException as error:
            self._error = self._error or error
        self._done.put(slot)

    def _advance(self) -> None:
        """Do a task, or wait for one that is under way."""
        try:
            if (task := self._tasks.get_nowait()) is not None:
                self._do(task)
        except Empty:
            with suppress(Empty):
                self._uses[self._done.get(timeout=1.0)] -= 1
            if sys.is_finalizing():  # what a thread has begun is never done
                raise OSError(errno.ECANCELED, "the process is ending") from None

    def _drain(self) -> None:
        """Until everything that was handed on is written and digested."""
        while any(self._uses) and self._error is None:
            self._advance()
        self._check()

    def _end_helpers(self) -> None:
        """Close the file only after all threads: its number could be another file's by then.

        A helper that begins later has nothing to do any more. All of this may be interrupted and
        done again.
        """
        for _ in range(_HELPERS):
            self._tasks.put(None)
        while self._running and not sys.is_finalizing():
            time.sleep(0.0005)

    # --- the file ---------------------------------------------------------------------------------

    def _write_at(self, data: memoryview, offset: int) -> None:
        tries = 3  # the caller may turn it on again at the same moment, once
        while len(data):
            try:
                count = os.pwrite(self._handle, data, offset)
            except OSError as error:
                tries -= 1
                if error.errno != errno.EINVAL or not tries:
                    raise
                # The file system says that it can, and then does not take the block.
                self._may_be_direct = False
                self._set_direct(False)
                continue
            data, offset = data[count:], offset + count

    def _set_direct(self, is_direct: bool) -> None:
        """Past the page cache or not."""
        flags = fcntl.fcntl(self._handle, fcntl.F_GETFL)
        new_flags = flags | os.O_DIRECT if is_direct else flags & ~os.O_DIRECT
        if new_flags != flags:
            try:
                fcntl.fcntl(self._handle, fcntl.F_SETFL, new_flags)
            except OSError:
                self._may_be_direct = False

    def _rewrite(self, data: memoryview) -> None:
        """Change blocks that were handed on: they are read back later."""
        self._drain()
        self._set_direct(False)
        self._write_at(data, self._position)
        last = (self._position + len(data) - 1) // BLOCK
        for number in range(self._position // BLOCK, last + 1):
            self.digests[number] = None

    def _finish(self) -> None:
        if self._error is None and (size := self._end - self._start):
            self.digests.append(None)
            self._uses[self._slot] = 1
            self._tasks.put((False, self._slot, len(self.digests) - 1))
            self._drain()
            self._set_direct(False)
            self._write_at(self._block()[:size], self._start)
        self._drain()
        # A later change has another time, however coarse the clock of the file system is.
        now = time.time_ns()
        os.utime(self._handle, ns=(now, now - _SECOND))
        self._signature = _signature(os.fstat(self._handle))

    def _close_handle(self) -> None:
        super().close()
        self._slots = []
        with suppress(OSError):
            os.close(self._handle)


def _signature(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_ino, status.st_size, status.st_mtime_ns

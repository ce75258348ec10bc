"""Which rank this process is, and how the ranks of a run agree on the checkpoint to begin with.

Rank 0 is the writer: it chooses the newest valid checkpoint. Every other rank asks it, because its
own view of a folder or URL may be older, and then uses that checkpoint or none. With
`torch.distributed` the answer is in its key-value store. Without it, it is in files that all ranks
see:

    .ranks/1-2-9f86d081.question    by rank 1, the second time, with a new number at every start
    .ranks/1-2-9f86d081.answer      by rank 0: {"folder": "step-000000000021-...", "digest": "..."}

A question of an earlier start has another number, and so has its answer. Every rank counts how
often it asks in one start: the second question gets the second choice.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from contextlib import suppress

TYPE_CHECKING = False  # `typing` alone takes as long to import as all the rest
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, Protocol

    from arc_toolkit.checkpoints.manifest import Checkpoint

    class SharedFiles(Protocol):
        """Small files that every rank can read and write, in a folder or at a URL."""

        def names(self, folder: str) -> list[str]: ...
        def read(self, path: str) -> bytes: ...
        def write(self, path: str, content: bytes) -> None: ...
        def delete(self, path: str) -> None: ...


# The rank, and the number of ranks, as launchers tell them; the first that is set counts.
_VARIABLES = (
    ("RANK", "WORLD_SIZE"),  # torchrun, and the operators of Kubeflow
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),  # Open MPI, and `distribution: mpi`
    ("PMI_RANK", "PMI_SIZE"),  # MPICH and Intel MPI
    ("SLURM_PROCID", "SLURM_NTASKS"),
)
# Set by a launcher that brings the same checkpoint to every rank before it starts them.
AGREED_VARIABLE = "ARC_TOOLKIT_RANKS_AGREED"
_FOLDER = ".ranks"
_QUESTION, _ANSWER = ".question", ".answer"
_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.05, 2.0
# A run that has nothing left to do would end at once: others have this long to ask how it began.
_LATEST_QUESTION = 30.0
_counts: dict[tuple[str, int], int] = {}  # of the choices in this process, by place and rank


def find_rank() -> tuple[int, int]:
    """This process and the number of all: `(0, 1)` if no launcher says anything else."""
    if (distributed := _torch_distributed()) is not None:  # also without a launcher
        return distributed.get_rank(), distributed.get_world_size()
    for rank_variable, size_variable in _VARIABLES:
        if (rank := _number_in(rank_variable)) is not None:
            return rank, _number_in(size_variable) or 1
    return 0, _number_in("WORLD_SIZE") or 1


def _number_in(variable: str) -> int | None:
    word = os.environ.get(variable, "")
    return int(word) if word.isascii() and word.isdigit() else None


class Choice:
    """The checkpoint to begin with; `folder` is empty if there is none."""

    __slots__ = ("digest", "folder")

    def __init__(self, folder: str, digest: str) -> None:
        self.folder, self.digest = folder, digest

    @classmethod
    def of(cls, checkpoint: Checkpoint | None) -> Choice:
        if checkpoint is None:
            return cls("", "")
        return cls(checkpoint.folder.name, checkpoint.manifest["digest"])

    def to_bytes(self) -> bytes:
        import json

        return json.dumps({"folder": self.folder, "digest": self.digest}).encode()

    @classmethod
    def from_bytes(cls, content: bytes) -> Choice:
        import json

        fields = json.loads(content)
        return cls(fields["folder"], fields["digest"])


class RankAgreement:
    """Between the ranks of one run. `files` is opened when it is needed."""

    def __init__(self, rank: int, world_size: int, place: str, files: SharedFiles) -> None:
        self._rank, self._world_size, self._place = rank, world_size, place
        self._files = files
        # by their count: those that other ranks may not have read yet
        self._choices: dict[int, Choice] = {}
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()
        self._began = 0.0

    def announce(self, checkpoint: Checkpoint | None) -> None:
        """Rank 0: answer all others from now on, in the background."""
        choice, count = Choice.of(checkpoint), self._next_count()
        if (torch_store := _torch_store()) is not None:
            torch_store.set(self._key(count), choice.to_bytes())
            return
        with self._lock:
            self._choices[count] = choice
            self._began = time.monotonic()
            if self._thread is None:
                self._thread = threading.Thread(target=self._answer, name="ranks", daemon=True)
                self._thread.start()

    @property
    def awaited(self) -> set[str]:
        """The checkpoints that other ranks may not have read yet."""
        with self._lock:
            return {choice.folder for choice in self._choices.values()}

    def ask(self, sleep: Callable[[float], None], seconds: float) -> Choice | None:
        """Another rank: what rank 0 has chosen; None if it does not answer in this time.

        OSError if the question cannot be asked.
        """
        end, count = time.monotonic() + seconds, self._count() + 1
        choice: Choice | None
        if (torch_store := _torch_store()) is not None:
            while not torch_store.check([self._key(count)]):
                if time.monotonic() > end:
                    return None
                sleep(_SHORTEST_PAUSE)
            choice = Choice.from_bytes(torch_store.get(self._key(count)))
        else:
            choice = self._ask_by_file(count, sleep, end)
        if choice is not None:
            self._next_count()
        return choice

    def _ask_by_file(self, count: int, sleep: Callable[[float], None], end: float) -> Choice | None:
        question = f"{_FOLDER}/{self._rank}-{count}-{os.urandom(4).hex()}"
        self._files.write(question + _QUESTION, b"")
        began = time.monotonic()
        try:
            while time.monotonic() < end:
                with suppress(OSError, ValueError, KeyError):
                    return Choice.from_bytes(self._files.read(question + _ANSWER))
                sleep(_pause(began))
            return None
        finally:
            for kind in (_QUESTION, _ANSWER):
                with suppress(OSError):
                    self._files.delete(question + kind)

    def _count(self) -> int:
        return _counts.get((self._place, self._rank), 0)

    def _next_count(self) -> int:
        _counts[self._place, self._rank] = count = self._count() + 1
        return count

    def _key(self, count: int) -> str:
        return f"arc-toolkit/checkpoint/{count}/{self._place}"

    def wait_for_questions(self, report: Callable[[str], None]) -> None:
        """Rank 0, before this process ends."""
        seconds_left = self._began + _LATEST_QUESTION - time.monotonic()
        if (thread := self._thread) is not None and thread.is_alive() and seconds_left > 0:
            report(
                f"waiting for the questions of other ranks, {seconds_left:.0f} s at most; "
                "use rank=0, world_size=1 if they do not use this store"
            )
            thread.join(seconds_left)

    def _answer(self) -> None:
        """Until every other rank has taken its answer away. Those of ranks that were killed stay,
        and are deleted at the end."""
        began, answered, finished = time.monotonic(), set[str](), set[str]()
        while True:
            with suppress(OSError):
                names = set(self._files.names(_FOLDER))
                finished |= {
                    question.rpartition("-")[0]
                    for question in answered
                    if question + _ANSWER not in names
                }
                with self._lock:
                    choices = dict(self._choices)
                    if len(finished) >= (self._world_size - 1) * len(choices):
                        self._choices, self._thread = {}, None
                        break
                for name in names:
                    question = name.removesuffix(_QUESTION)
                    count = question.partition("-")[2].partition("-")[0]
                    choice = choices.get(int(count)) if count.isdecimal() else None
                    if question != name and question not in answered and choice is not None:
                        self._give(question, choice)
                        answered.add(question)
            time.sleep(_pause(began))
        for question in answered:
            with suppress(OSError):
                self._files.delete(f"{_FOLDER}/{question}{_ANSWER}")

    def _give(self, question: str, choice: Choice) -> None:
        self._files.write(f"{_FOLDER}/{question}{_ANSWER}", choice.to_bytes())
        self._files.delete(f"{_FOLDER}/{question}{_QUESTION}")


def before_exit(call: Callable[[], object]) -> None:
    """Call it at the end of this process, while storage libraries can still be used: they need
    Python's thread pools, which close before the last threads end, and long before `atexit`."""
    # Ends the pools at exit. What is registered after it is called before it.
    import concurrent.futures.thread  # noqa: F401

    if register := getattr(threading, "_register_atexit", None):
        with suppress(RuntimeError):  # Python is ending already
            register(call)


def _pause(began: float) -> float:
    """A rank that comes minutes later may wait for seconds; a shared folder is asked less often."""
    return min(_LONGEST_PAUSE, max(_SHORTEST_PAUSE, (time.monotonic() - began) / 20))


def _torch_distributed() -> Any:
    """`torch.distributed`, if the process has initialised it."""
    distributed: Any = sys.modules.get("torch.distributed")
    if distributed is None or not (distributed.is_available() and distributed.is_initialized()):
        return None
    return distributed


def _torch_store() -> Any:
    """The key-value store of `torch.distributed`, if the process has initialised it."""
    distributed = _torch_distributed()
    return None if distributed is None else distributed.distributed_c10d._get_default_store()


class SharedFolder:
    """`SharedFiles` below a folder. A file appears whole or not at all."""

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self._root = os.fspath(root)

    def names(self, folder: str) -> list[str]:
        try:
            return os.listdir(os.path.join(self._root, folder))
        except FileNotFoundError:
            return []

    def read(self, path: str) -> bytes:
        with open(os.path.join(self._root, path), "rb") as stream:
            return stream.read()

    def write(self, path: str, content: bytes) -> None:
        target = os.path.join(self._root, path)
        os.makedirs(os.path.dirname(target), exist_ok=True)
        temporary = f"{target}.{os.urandom(3).hex()}.tmp"
        with open(temporary, "wb") as stream:
            stream.write(content)
        os.replace(temporary, target)

    def delete(self, path: str) -> None:
        os.unlink(os.path.join(self._root, path))

"""A file as a notice: its existence announces the end. For tests, other schedulers, and
`arc-toolkit run`, which writes one for the process that it supervises (its path is in the variable
`ARC_TOOLKIT_NOTICE`)."""

from __future__ import annotations

import os
import time

from arc_toolkit.notices.notice import Notice, NoticeKind, earliest

VARIABLE = "ARC_TOOLKIT_NOTICE"
_NEVER = 253_402_300_800.0  # the year 10000


class NoticeFile:
    """Empty, seconds from the file's time on, or a notice as JSON. Cheap enough for every step."""

    name = "file"
    period = 1.0

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        self._read: tuple[int, int] | None = None
        self._notice: Notice | None = None

    def poll(self) -> list[Notice]:
        try:
            status = os.stat(self.path)
        except OSError:
            self._read = self._notice = None
            return []
        version = (status.st_mtime_ns, status.st_size)
        if version != self._read:
            self._notice, self._read = self._parse(status.st_mtime), version
        return [self._notice] if self._notice is not None else []

    @property
    def notice(self) -> Notice | None:
        """The notice, if it ends the process."""
        return earliest(self.poll())

    def write(self, notice: Notice) -> None:
        """Announce: whole or not at all."""
        import json

        temporary = f"{self.path}.{os.getpid()}.tmp"
        with open(temporary, "w", encoding="utf-8") as stream:
            json.dump(notice.to_json(), stream)
        # File systems have one time for writes within milliseconds; readers must see each.
        now = time.time_ns()
        os.utime(temporary, ns=(now, now))
        os.replace(temporary, self.path)

    def withdraw(self) -> None:
        try:
            os.unlink(self.path)
        except FileNotFoundError:
            return

    def _parse(self, modified_at: float) -> Notice:
        """Any content is a notice: text that cannot be read only has no deadline."""
        import json

        kind, deadline, source, description, step = NoticeKind.STOP, None, self.name, "", None
        agreed = True
        id = f"{self.path}-{modified_at}"
        try:
            with open(self.path, encoding="utf-8", errors="replace") as stream:
                text = stream.read(65536).strip()
            value = json.loads(text) if text else None
            if isinstance(value, int | float) and not isinstance(value, bool):
                deadline = _moment(modified_at, value)
            elif isinstance(value, dict):
                words = {item.value: item for item in NoticeKind}
                kind = words.get(str(value.get("kind")), kind)
                seconds = value.get("deadline")
                deadline = _moment(0.0, seconds) if isinstance(seconds, int | float) else None
                source, description = (
                    str(value.get("source") or source),
                    str(value.get("description") or ""),
                )
                id = str(value.get("id") or id)
                step = value["step"] if isinstance(value.get("step"), int) else None
                agreed = value.get("agreed") is not False
        except (OSError, ValueError, RecursionError):
            description = f"{self.path} cannot be read as a notice"
        return Notice(
            kind, source, id, deadline=deadline, description=description, step=step, agreed=agreed
        )


def _moment(start: float, seconds: float) -> float | None:
    """So many seconds after `start`; None for an infinite time or one after the year 9999."""
    try:
        moment = start + seconds
    except OverflowError:
        return None
    return moment if abs(moment) < _NEVER else None


def notice_file() -> NoticeFile | None:
    """The file that a supervisor named for this process; None if there is none."""
    path = os.environ.get(VARIABLE)
    return NoticeFile(path) if path else None


# A cooperative process writes its step beside the notice file.
_PROGRESS = ".step"
NONE = -2  # no step: -1 is the one before the first


class StepFile:
    """The step of this process, for its supervisor. A write costs a few microseconds."""

    def __init__(self, path: str) -> None:
        self._handle = os.open(path + _PROGRESS, os.O_WRONLY | os.O_CREAT, 0o600)
        self._first: int | None = None
        self._samples = 0
        self._saved = b""
        self._written = b""

    def write(self, step: int, proposal: int | None = None, samples: int = 0) -> None:
        """This step is done, with so many samples, and this proposal for the last step is known."""
        if self._first is None:
            self._first = step
        self._samples += samples
        proposed_step = NONE if proposal is None else proposal
        record = b"%-20d%-20d%-20s%-20d%-20d" % (
            step,
            self._first,
            self._saved,
            proposed_step,
            self._samples,
        )
        if record != self._written:
            self._written = record
            os.pwrite(self._handle, record, 0)

    def write_saved(self, step: int) -> None:
        """The newest checkpoint has this step."""
        self._saved = b"%d" % step
        os.pwrite(self._handle, b"%-20d" % step, 40)


class ProgressRecord:
    """How far a process is. `first` is the step that it began with: it shows what is done again."""

    __slots__ = ("first", "proposal", "samples", "saved", "step")

    def __init__(
        self, step: int, first: int, saved: int = NONE, proposal: int = NONE, samples: int = 0
    ) -> None:
        self.step, self.first, self.saved, self.proposal, self.samples = (
            step,
            first,
            saved,
            proposal,
            samples,
        )

    def fields(self) -> tuple[int, ...]:
        return self.step, self.first, self.saved, self.proposal, self.samples


def read_progress(path: str) -> ProgressRecord | None:
    """How far a process is; None if it does not take part, or has done no step."""
    step, first, *numbers = _fields(path)
    if step is None or first is None:
        return None
    saved, proposal, samples = (NONE if number is None else number for number in numbers)
    return ProgressRecord(step, first, saved, proposal, max(0, samples))


def read_saved(path: str) -> int | None:
    """The step of the newest checkpoint of a process, as it says itself; None if it has not."""
    return _fields(path)[2]


def _fields(path: str) -> list[int | None]:
    try:
        with open(path + _PROGRESS, "rb") as stream:
            text = stream.read(100)
    except OSError:
        text = b""
    words = [text[start : start + 20].strip(b" \0") for start in range(0, 100, 20)]
    return [int(word) if word.lstrip(b"-").isdigit() else None for word in words]


def takes_part(path: str) -> bool:
    """Whether a process reads this notice file and writes its step, even before the first."""
    return os.path.exists(path + _PROGRESS)


def clear_progress(path: str) -> None:
    """Forget the step of a process that has ended."""
    try:
        os.unlink(path + _PROGRESS)
    except FileNotFoundError:
        return

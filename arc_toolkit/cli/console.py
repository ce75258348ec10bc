"""What people see beside the result: notes, warnings, progress and colour, all on standard error.

Results go to standard output through `Console.out`; nothing else in the project prints.
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TextIO

from arc_toolkit.errors import ArcError

_CODES = {
    "bold": "1",
    "dim": "2",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "blue": "34",
    "cyan": "36",
}


def wants_color(choice: str, stream: TextIO) -> bool:
    """`always` and `never` win; `auto` is a terminal, unless NO_COLOR is set or TERM is dumb;
    FORCE_COLOR is for CI, whose logs show colours without a terminal."""
    if choice != "auto":
        return choice == "always"
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def _columns() -> int:
    """Of the terminal; some have none."""
    try:
        return min(os.get_terminal_size(sys.stderr.fileno()).columns or 80, 101)
    except (OSError, ValueError):
        return 80


@dataclass
class Console:
    """One per run, made by `cli.main` from `--quiet`, `--verbose` and `--color`."""

    quiet: bool = False
    verbose: bool = False
    color: str = "auto"
    _last_progress: float = field(default=0.0, repr=False)
    _started: float = field(default_factory=time.monotonic, repr=False)
    _progress_shown: bool = field(default=False, repr=False)

    def out(self, text: str, end: str = "\n") -> None:
        """A result, on standard output; characters that it cannot encode become question marks."""
        self.clear_progress()
        try:
            sys.stdout.write(text + end)
        except UnicodeEncodeError:
            encoding = sys.stdout.encoding
            sys.stdout.write((text + end).encode(encoding, "replace").decode(encoding))

    def out_bytes(self, data: bytes) -> None:
        """The bytes of a file on standard output; as text if it takes nothing else (Jupyter)."""
        self.clear_progress()
        sys.stdout.flush()
        buffer = getattr(sys.stdout, "buffer", None)
        if buffer is not None:
            buffer.write(data)
        else:
            sys.stdout.write(data.decode("utf-8", "replace"))

    def write(self, path: str, text: str, then: str = "") -> None:
        """A result to a file, with a note that may name the next step; `-` is standard output."""
        if path == "-":
            self.out(text, end="")
            return
        from pathlib import Path

        from arc_toolkit.file_io import write_atomic

        write_atomic(Path(path), text)
        self.note(f"wrote {path}{then}")

    def note(self, text: str) -> None:
        """Something good to know; not shown with --quiet."""
        if not self.quiet:
            self._err(text)

    def warn(self, text: str) -> None:
        """Something to act on; shown always."""
        self._err(self.style("warning:", "yellow", stream=sys.stderr) + " " + text)

    def detail(self, text: str) -> None:
        """Shown with --verbose only."""
        if self.verbose:
            self._err(self.style(text, "dim", stream=sys.stderr))

    @property
    def has_progress(self) -> bool:
        """Whether anybody would see it."""
        return not self.quiet and sys.stderr.isatty()

    def progress(self, text: str) -> None:
        """A line that overwrites itself, on a terminal, after the first second of a run."""
        now = time.monotonic()
        if now - self._started < 1 or now - self._last_progress < 0.1:
            return
        if self.has_progress:
            self._last_progress = now
            self._progress_shown = True
            sys.stderr.write(
                f"\r\x1b[2K{text[: _columns() - 1]}"
            )  # a line that wraps could not be overwritten
            sys.stderr.flush()

    def clear_progress(self) -> None:
        if self._progress_shown:
            sys.stderr.write("\r\x1b[2K")
            self._progress_shown = False

    def ask(self, question: str) -> bool:
        """Whether to go on. Without a terminal nobody can answer, so that is refused."""
        if not sys.stdin.isatty():
            raise ArcError(
                "this needs confirmation, and there is no terminal: add --yes (or --dry-run to look)"
            )
        self.clear_progress()
        sys.stderr.write(f"{question} [y/N] ")
        sys.stderr.flush()
        return sys.stdin.readline().strip().lower() in ("y", "yes")

    def style(self, text: str, *names: str, stream: TextIO | None = None) -> str:
        """The text in colour where the stream (standard output if not given) takes it."""
        if not wants_color(self.color, stream or sys.stdout):
            return text
        return f"\x1b[{';'.join(_CODES[name] for name in names)}m{text}\x1b[0m"

    def _err(self, text: str) -> None:
        self.clear_progress()
        with suppress(OSError):  # nobody may be listening
            sys.stderr.write(text + "\n")

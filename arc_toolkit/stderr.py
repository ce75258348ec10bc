"""Lines for people beside the result. If nobody reads them any more, what is running goes on."""

from __future__ import annotations

import sys
from collections.abc import Callable

# Reports a step of something long, as one line.
Progress = Callable[[str], None]


def say(text: str) -> None:
    """One line on standard error, at once."""
    try:
        sys.stderr.write(text + "\n")
        sys.stderr.flush()
    except (OSError, ValueError, AttributeError):
        return  # nobody reads it, it is closed, or it is None

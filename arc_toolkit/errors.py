"""The one class of expected errors, and the exit codes.

Whatever a user can cause or fix is an `ArcError`: one sentence that says what, where and what to do. Anything
else that reaches `cli.main` is a fault of the toolkit and ends with exit code 3 and a log file.
"""

from __future__ import annotations

OK = 0
FOUND = 1
USAGE = 2
FAULT = 3
INTERRUPTED = 130


class ArcError(Exception):
    """Input that cannot be used. Its text is shown as it is, as one sentence; the exit code is 2."""


def missing_extra(extra: str, what: str) -> ArcError:
    """The error for a command whose optional packages are not installed."""
    # The package is on no index yet (README, Install): the name alone would find nothing.
    command = f"pip install '.[{extra}]'"
    return ArcError(
        f"{what} needs packages that are not installed: run `{command}` in a clone of arc-toolkit"
    )

"""One writer at a time: an evicted pod may still be alive when its replacement starts.

Every writer takes the next number, with a file that only one of them can create. The highest number is the writer;
whoever has a lower one may not commit any more. Numbers are part of the names of checkpoints, so that two writers
never write into the same folder.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False  # `typing` alone takes as long to import as all the rest
if TYPE_CHECKING:
    from pathlib import Path

_FOLDER = ".writers"


def take_fence(root: Path, writer: str) -> int:
    """The next number, for this writer."""
    folder = root / _FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    number = newest_fence(root) + 1
    while True:
        try:
            handle = os.open(folder / f"{number:08d}", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        except FileExistsError:
            number += 1
            continue
        with os.fdopen(handle, "w") as stream:
            stream.write(writer)
        return number


def newest_fence(root: Path) -> int:
    """The number of the newest writer; 0 if there was none."""
    try:
        return max((int(name) for name in os.listdir(root / _FOLDER) if name.isdigit()), default=0)
    except FileNotFoundError:
        return 0

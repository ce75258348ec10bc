"""Reading input and writing files whole or not at all; every error is one sentence.

The rest of the project opens no file for writing by itself.
"""

from __future__ import annotations

import os
import stat
import sys
import time
from contextlib import suppress
from pathlib import Path

from arc_toolkit.errors import ArcError


def reason(error: OSError) -> str:
    """`No such file or directory` as `no such file or directory`."""
    text = error.strerror or str(error)
    return text[:1].lower() + text[1:]


def read_bytes(path: str | Path) -> bytes:
    """The bytes of a file, or of standard input for `-`."""
    try:
        if str(path) == "-":
            return sys.stdin.buffer.read()
        return Path(path).read_bytes()
    except OSError as error:
        raise ArcError(f"cannot read {path}: {reason(error)}") from None


def read_text(path: str | Path) -> str:
    """UTF-8 text with its newlines as they are; a BOM is dropped."""
    data = read_bytes(path)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ArcError(f"{path}:{line}: not UTF-8 text (byte {error.start}); save it as UTF-8") from None


def write_atomic(path: Path, data: bytes | str) -> None:
    """Write through a temporary file in the same folder, fsync and rename; the mode of an old file is kept.

    A symbolic link is followed, so that the link stays and its target changes.
    """
    raw = data.encode() if isinstance(data, str) else data
    target = os.fspath(path)
    temporary = None
    try:
        try:
            if os.path.islink(target):
                target = os.path.realpath(target)
            mode = stat.S_IMODE(os.stat(target).st_mode)
            if not os.access(target, os.W_OK):
                raise ArcError(f"cannot write {path}: the file is read-only")
        except FileNotFoundError:
            mode = None
        folder, name = os.path.split(target)
        wanted = os.path.join(folder, f".{name}.{os.getpid()}.{time.monotonic_ns()}.tmp")
        handle = os.open(wanted, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        temporary = wanted
        with os.fdopen(handle, "wb") as stream:
            stream.write(raw)
            stream.flush()
            if mode is not None:
                os.fchmod(handle, mode)
            os.fsync(handle)
        os.replace(temporary, target)
        temporary = None
    except OSError as error:
        raise ArcError(f"cannot write {path}: {reason(error)}") from None
    finally:
        if temporary is not None:
            with suppress(OSError):
                os.unlink(temporary)


def make_folder(path: Path) -> None:
    """Make an output folder and its parents."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ArcError(f"cannot make the folder {path}: {reason(error)}") from None

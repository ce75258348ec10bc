"""The members of a zip as streams. Nothing is unpacked to disk: a member's path is only shown.

A zip whose end is missing (an incomplete download) has no list of members; its members are found by
their own headers and read as far as possible.
"""

from __future__ import annotations

import io
import mmap
import os
import struct
import zlib
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from typing import IO, TYPE_CHECKING, BinaryIO, cast

from arc_toolkit.diagnosis.model import LogFile
from arc_toolkit.diagnosis.read.unpack import BOMB, BoundedStream, error_reason, limit

if TYPE_CHECKING:
    from zipfile import ZipFile

    from arc_toolkit.diagnosis.read.sources.inventory import Inventory

ARCHIVES = (".tar", ".tar.gz", ".tgz", ".7z", ".rar")
LOCAL_HEADER = struct.Struct("<4s5H3I2H")
STORED, DEFLATED = 0, 8


def clean(path: str) -> str:
    """A path that can be printed even if its bytes are not UTF-8."""
    return (
        path
        if path.isascii()
        else path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    )


def add_zip(path: str, inventory: Inventory) -> None:
    """Add every member to the inventory."""
    from zipfile import BadZipFile

    label = clean(path)
    try:
        members = archive(path).infolist()
    except OSError as error:
        return inventory.skip(path, "zip " + error_reason(error))
    except (BadZipFile, ValueError, RuntimeError, EOFError, struct.error):
        inventory.skip(path, "zip truncated or damaged: its members are read as far as possible")
        for name, opener in _salvage(path):
            _offer(f"{label}/{clean(name)}", name, opener, inventory)
        return None
    total, most = 0, limit(os.path.getsize(path))
    for index, member in enumerate(members):
        name, size = member.filename, member.file_size
        if name.endswith("/"):
            continue
        total += size
        problem = ""
        if member.flag_bits & 1:
            problem = "encrypted zip member"
        elif size > limit(member.compress_size):
            problem, total = BOMB, total - size
        elif total > most:  # more than all members together can have, unless they share their data
            problem = "zip member that overlaps others"
        if problem:
            inventory.file_count += 1
            inventory.skip(f"{label}/{clean(name)}", problem)
        else:
            _offer(f"{label}/{clean(name)}", name, partial(open_member, path, index), inventory)
    return None


def _offer(label: str, name: str, opener: Callable[[], BinaryIO], inventory: Inventory) -> None:
    inventory.file_count += 1
    parts = name.replace("\\", "/").split("/")
    label = label.replace("\\", "/")
    if not parts[0] or ".." in parts or parts[0].endswith(":"):
        inventory.skip(label, "zip member with a path outside the zip")
    elif inventory.offer(parts[-1], LogFile(label, opener)):
        return
    elif parts[-1].lower().endswith((".zip", *ARCHIVES)):
        inventory.skip(label, "archive inside a zip: unpack it first")
    else:
        inventory.skip_unrelated(label)


def archive(path: str) -> ZipFile:
    """An open zip, one per process: a forked one would share the file's position."""
    return _archive(path, os.getpid())


@lru_cache(maxsize=2)  # the members of a zip are read one after the other, so a few are enough
def _archive(path: str, process: int) -> ZipFile:
    import zipfile

    return zipfile.ZipFile(path)


def open_member(path: str, index: int) -> BinaryIO:
    from zipfile import BadZipFile

    opened = archive(path)
    member = opened.infolist()[index]
    try:
        return cast(BinaryIO, BoundedStream(opened.open(member), limit(member.compress_size)))
    except BadZipFile:
        raise EOFError from None


def _salvage(path: str) -> Iterator[tuple[str, Callable[[], BinaryIO]]]:
    """Name and opener of each member that has a header of its own."""
    try:
        with (
            open(path, "rb") as stream,
            mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data,
        ):
            at = data.find(b"PK\x03\x04")
            while 0 <= at <= len(data) - LOCAL_HEADER.size:
                _, _, flags, method, _, _, _, size, _, name_length, extra = (
                    LOCAL_HEADER.unpack_from(data, at)
                )
                begin = at + LOCAL_HEADER.size
                name = data[begin : begin + name_length].decode("utf-8", "replace")
                following = data.find(b"PK\x03\x04", at + 4)
                if (
                    method in (STORED, DEFLATED)
                    and not flags & 1
                    and name
                    and not name.endswith("/")
                ):
                    body = begin + name_length + extra
                    # If the size is after the data, the data ends at the next header.
                    remaining = max((following if following >= 0 else len(data)) - body, 0)
                    yield (
                        name,
                        partial(_open_part, path, body, method, min(size or remaining, remaining)),
                    )
                at = following
    except (OSError, ValueError):
        return


def _open_part(path: str, offset: int, method: int, size: int) -> BinaryIO:
    file = io.FileIO(path)
    file.seek(offset)
    return cast(BinaryIO, BoundedStream(cast(IO[bytes], _Part(file, method, size)), limit(size)))


class _Part:
    """The bytes of one member, up to its end or the end of the file."""

    def __init__(self, stream: io.FileIO, method: int, size: int) -> None:
        self._stream, self._left = stream, size
        self._inflate = zlib.decompressobj(-zlib.MAX_WBITS) if method == DEFLATED else None

    def read1(self, count: int) -> bytes:
        inflate = self._inflate
        while True:
            raw = (
                (inflate.unconsumed_tail if inflate else b"")
                or self._stream.read(min(count, self._left))
                or b""
            )
            if not (inflate and inflate.unconsumed_tail):
                self._left -= len(raw)
            if inflate is None:
                if not raw and self._left > 0:
                    raise EOFError
                return raw
            if inflate.eof:
                return b""
            if not raw:
                raise EOFError
            data = inflate.decompress(raw, count)
            if data:
                return data

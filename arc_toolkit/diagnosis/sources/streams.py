"""Compressed data as streams that the scanner can read, up to where they are damaged or grow like a zip bomb."""

from __future__ import annotations

import io
import os
from typing import IO, BinaryIO, cast

# A deflated log is 5 to 50 times larger unpacked; the format's limit is 1032. Above this it is a zip bomb.
BOMB_RATIO = 500
BOMB_FLOOR_BYTES = 64 << 20
BOMB = f"unpacks to more than {BOMB_RATIO} times its size"


def limit(compressed_size: int) -> int:
    """The number of bytes that compressed data of this size may expand to."""
    return max(BOMB_FLOOR_BYTES, BOMB_RATIO * compressed_size)


def open_gzip(path: str) -> BinaryIO:
    return unzip(io.FileIO(path), os.path.getsize(path))


def plain(stream: BinaryIO) -> BinaryIO:
    return cast(BinaryIO, BoundedStream(stream))


def unzip(stream: BinaryIO, size: int | None) -> BinaryIO:
    import gzip

    return cast(BinaryIO, BoundedStream(cast(IO[bytes], gzip.GzipFile(fileobj=stream, mode="rb")), size))


class BoundedStream(io.RawIOBase):
    """Decompressed bytes, up to where the data is damaged or grows like a zip bomb."""

    def __init__(self, inner: IO[bytes], compressed_size: int | None = None) -> None:
        self._inner = inner
        self._limit = None if compressed_size is None else limit(compressed_size)
        self._count = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        try:
            # read1 returns the data before a fault, and raises the fault only at the next call.
            data: bytes = self._inner.read1(len(buffer))  # type: ignore[attr-defined]
        except Exception as error:
            # zlib, lzma, bz2, gzip and zipfile each have errors of their own for the same thing: damaged data.
            if isinstance(error, OSError) and error.errno is not None:
                raise
            raise EOFError from None
        self._count += len(data)
        if self._limit is not None and self._count > self._limit:
            raise ValueError(BOMB)
        buffer[: len(data)] = data
        return len(data)

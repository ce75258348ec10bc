"""Data that may be gzip, as a stream or whole; the first bytes decide. All limits are here.

Whatever is read has the same limits, in a folder, in a zip, named by an option or from standard
input: compressed data that grows like a zip bomb is refused, and so is text above 1 GiB that must
be in memory as a whole.
"""

from __future__ import annotations

import io
import sys
import zlib
from typing import IO, BinaryIO, cast

from arc_toolkit.errors import ArcError
from arc_toolkit.file_io import reason

GZIP = b"\x1f\x8b"

# A log unpacks to 5 to 50 times its size, gzip's limit is 1032; above this it is a zip bomb.
BOMB_RATIO = 500
BOMB_FLOOR_BYTES = 64 << 20
BOMB = f"unpacks to more than {BOMB_RATIO} times its size"
MAX_WHOLE_BYTES = 1 << 30
OVERSIZE = "larger than 1 GiB"


class TooLarge(ValueError):
    """The data is above a limit."""


READ_ERRORS = (OSError, EOFError, ValueError, RuntimeError, zlib.error)


def limit(compressed_size: int) -> int:
    """The number of bytes that compressed data of this size may expand to."""
    return max(BOMB_FLOOR_BYTES, BOMB_RATIO * compressed_size)


def error_reason(error: Exception) -> str:
    """A reason that can be counted: the kind of error without details."""
    if isinstance(error, FileNotFoundError):
        return "deleted before it could be read"
    if isinstance(error, OSError) and error.errno is not None:
        return f"cannot be read: {reason(error)}"
    if isinstance(error, EOFError | zlib.error):
        return "truncated or damaged compressed data"
    return f"cannot be read: {str(error).splitlines()[0] if str(error) else type(error).__name__}"


class BoundedStream(io.RawIOBase):
    """Unpacked bytes, up to where the data is damaged or more than `most` bytes."""

    def __init__(self, inner: IO[bytes], most: int | None = None) -> None:
        self._inner = inner
        self.most = most
        self._count = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        try:
            # read1 returns the data before a fault, and raises the fault only at the next call.
            data: bytes = self._inner.read1(len(buffer))  # type: ignore[attr-defined]
        except Exception as error:
            # zlib, lzma, bz2, gzip and zipfile each have errors of their own for damaged data.
            if isinstance(error, TooLarge) or (
                isinstance(error, OSError) and error.errno is not None
            ):
                raise
            raise EOFError from None
        self._count += len(data)
        if self.most is not None and self._count > self.most:
            raise TooLarge(BOMB)
        buffer[: len(data)] = data
        return len(data)


class _GzipStream(BoundedStream):
    """The content of gzip data. Its limit grows with the compressed bytes read so far."""

    def __init__(self, stream: BinaryIO, head: bytes) -> None:
        import gzip

        self._source = _Counted(stream, head)
        # Data compressed twice (a gz in a zip) may not expand beyond the outer limit.
        self._outer = stream.most if isinstance(stream, BoundedStream) else None
        super().__init__(
            cast(IO[bytes], gzip.GzipFile(fileobj=cast(BinaryIO, self._source), mode="rb"))
        )

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        self.most = limit(self._source.count)
        if self._outer is not None:
            self.most = min(self.most, self._outer)
        return super().readinto(buffer)


class _Utf16Stream(io.RawIOBase):
    """UTF-16 text as UTF-8, which has at most three bytes for two."""

    def __init__(self, source: _Counted, encoding: str) -> None:
        import codecs

        self._source = source
        self._decoder = codecs.getincrementaldecoder(encoding)("replace")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        while data := self._source.read(max(len(buffer) // 2 - 4, 1)):
            text = self._decoder.decode(data).encode("utf-8", "replace")
            if text:  # a part of a character may have come
                buffer[: len(text)] = text
                return len(text)
        return 0


class _Counted:
    """A stream whose first bytes were read already, and how many bytes were taken from it."""

    def __init__(self, stream: BinaryIO, head: bytes) -> None:
        self._stream, self._head = stream, head
        self.count = 0

    def read(self, size: int) -> bytes:
        data, self._head = self._head[:size], self._head[size:]
        data = data or self._stream.read(size) or b""
        self.count += len(data)
        return data


def unzip(stream: BinaryIO, head: bytes = b"") -> BinaryIO:
    """The data in gzip; `head` was already read from the stream."""
    return cast(BinaryIO, _GzipStream(stream, head))


def decode_utf_16(stream: BinaryIO, head: bytes) -> BinaryIO:
    """UTF-16 text (Windows PowerShell's default) as UTF-8; `head` was already read."""
    little = head[1:1024:2].count(0) >= head[:1024:2].count(0)
    marked = head.startswith((b"\xff\xfe", b"\xfe\xff"))
    encoding = "utf-16" if marked else "utf-16-le" if little else "utf-16-be"
    return cast(BinaryIO, _Utf16Stream(_Counted(stream, head), encoding))


def unpack_stream(stream: BinaryIO) -> io.BufferedReader:
    """The stream, or the data in it if it is gzip."""
    buffered = _buffer(stream)
    return (
        _buffer(unzip(cast(BinaryIO, buffered))) if buffered.peek(2).startswith(GZIP) else buffered
    )


def _buffer(stream: BinaryIO) -> io.BufferedReader:
    return (
        stream
        if isinstance(stream, io.BufferedReader)
        else io.BufferedReader(cast(io.RawIOBase, stream))
    )


def read_whole(stream: BinaryIO) -> bytes:
    """All the data, unpacked. TooLarge if it is too much."""
    parts, size = [], 0
    reader = unpack_stream(stream)
    while piece := reader.read1(1 << 20):
        parts.append(piece)
        size += len(piece)
        if size > MAX_WHOLE_BYTES:
            raise TooLarge(OVERSIZE)
    return b"".join(parts)


def read_input(path: str) -> bytes:
    """A file that an option names, or standard input for `-`, unpacked."""
    try:
        if path == "-":
            return read_whole(sys.stdin.buffer)
        with io.FileIO(path) as stream:
            return read_whole(cast(BinaryIO, stream))
    except OSError as error:
        raise ArcError(f"cannot read {path}: {reason(error)}") from None
    except EOFError:
        raise ArcError(f"{path}: truncated or damaged compressed data: save it again") from None
    except TooLarge as error:
        raise ArcError(f"{path}: {error}") from None

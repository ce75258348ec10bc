"""Searching a buffer for a literal with the C library, which is where most of the time of a scan goes.

On 104 kB of the logs of scripts/bench glibc's `strstr` takes 2 to 4 µs for `Run on node:` and `job failed.` (with
AVX-512; 10 to 25 µs without), its `memmem` 5 to 33 µs and `bytearray.find` 29 to 156 µs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any, NamedTuple

Find = Callable[[bytes, int, int], int]
Among = Callable[[Iterable[bytes], int, int], list[bytes]]


class Search(NamedTuple):
    """Where a literal is in a range, and which of several are in it."""

    find: Find
    among: Among


class Finders(NamedTuple):
    """Two searches in the same data: `in_text` is the faster one, for a range without NUL."""

    in_text: Search
    anywhere: Search


def finders(data: bytearray) -> Finders:
    """`data.find` for a literal without NUL, and a start and an end inside the data, whose last byte is not searched.

    While the result exists, the size of the data cannot change. One thread at a time may use it.
    """
    library = _library()
    if library is None:
        return Finders(_search(data.find), _search(data.find))
    import ctypes

    strstr, memmem = library
    first = ctypes.c_char.from_buffer(data)
    base = ctypes.addressof(first)

    def in_text(literal: bytes, start: int, end: int, _pin: object = first) -> int:
        if start >= end:
            return -1
        after, data[end] = data[end], 0  # where strstr stops
        at = strstr(base + start, literal)
        data[end] = after
        return -1 if at is None else at - base

    def among(literals: Iterable[bytes], start: int, end: int, _pin: object = first) -> list[bytes]:
        # One pointer and one end for all of them: a log's end is searched for a dozen.
        if start >= end:
            return []
        after, data[end] = data[end], 0
        begin = ctypes.c_void_p(base + start)
        hits = [literal for literal in literals if strstr(begin, literal)]
        data[end] = after
        return hits

    def anywhere(literal: bytes, start: int, end: int, _pin: object = first) -> int:
        at = memmem(base + start, end - start, literal, len(literal)) if start < end else None
        return -1 if at is None else at - base

    return Finders(Search(in_text, among), _search(anywhere))


def _search(find: Find) -> Search:
    return Search(
        find,
        lambda literals, start, end: [
            literal for literal in literals if find(literal, start, end) >= 0
        ],
    )


@cache
def _library() -> tuple[Any, Any] | None:
    """The two functions. None on Windows, whose C library has no memmem, and for a Python without ctypes."""
    try:
        import ctypes

        library = ctypes.PyDLL(None)  # keeps the interpreter's lock: a search takes a few µs
        strstr, memmem = library.strstr, library.memmem
    except (ImportError, OSError, AttributeError, TypeError):
        return None
    strstr.argtypes = (ctypes.c_void_p, ctypes.c_char_p)
    memmem.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t)
    strstr.restype = memmem.restype = ctypes.c_void_p
    return strstr, memmem

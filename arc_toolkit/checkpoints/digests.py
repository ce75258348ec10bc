"""Digests of the blocks of files, by a thread per core: one is slower than a disk.

CRC-32, as in file systems and databases, because they are there to find damage: whoever can change
a file on purpose can change its manifest too. SHA-256 takes more than twice as long, fourteen times
on a processor without instructions for it, and a save would have to wait for it.
"""

from __future__ import annotations

import os
import threading
from zlib import crc32

TYPE_CHECKING = False  # `typing` alone takes as long to import as all the rest
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path
    from typing import Any

BLOCK = 4 * 1024 * 1024  # has a digest of its own
_PIECE = 1024 * 1024  # is read at once, per thread; it stays in the cache of a core
# The key of the digests in a manifest, and that of earlier versions, which stay readable.
KIND, EARLIER_KIND = "crc32", "sha256"


class Crc32:
    """As the digests of `hashlib`."""

    __slots__ = ("_value",)

    def __init__(self, data: bytes | memoryview = b"") -> None:
        self._value = crc32(data)

    def update(self, data: bytes | memoryview) -> None:
        self._value = crc32(data, self._value)

    def hexdigest(self) -> str:
        return f"{self._value:08x}"


def digest_files(
    folder: Path,
    names: Sequence[str],
    block_size: int = BLOCK,
    ready: Mapping[str, Sequence[str | None]] | None = None,
    kind: str = KIND,
) -> list[dict[str, Any]]:
    """Path, size and block digests of these files. Blocks with a `ready` digest are not read."""
    if kind == KIND:
        new_digest: Callable[[], Any] = Crc32
    else:
        from hashlib import (
            sha256 as new_digest,  # not in a thread: a signal during an import would block it
        )

    sizes = {name: os.stat(folder / name).st_size for name in names}
    blocks: dict[str, list[str | None]] = {}
    for name in names:
        count = -(-sizes[name] // block_size)
        blocks[name] = [*((ready or {}).get(name, ())), *[None] * count][:count]
    work = [
        (name, number)
        for name in names
        for number, digest in enumerate(blocks[name])
        if digest is None
    ]
    failures: list[OSError] = []

    def digest_some() -> None:
        buffer = memoryview(bytearray(_PIECE))
        try:
            while work:
                try:
                    name, number = work.pop()
                except IndexError:  # another thread was faster
                    return
                digest, start = new_digest(), number * block_size
                end = min(start + block_size, sizes[name])
                with open(folder / name, "rb", buffering=0) as stream:
                    while start < end and (
                        count := os.preadv(stream.fileno(), [buffer[: end - start]], start)
                    ):
                        digest.update(buffer[:count])
                        start += count
                blocks[name][number] = digest.hexdigest() if start == end else ""
        except OSError as error:
            failures.append(error)

    helpers = [start_thread(digest_some) for _ in range(min(len(work), _threads()) - 1)]
    digest_some()
    for join in helpers:
        join()
    if failures:
        raise failures[0]
    return [{"path": name, "size": sizes[name], kind: blocks[name]} for name in names]


def start_thread(call: Callable[[], None]) -> Callable[[], None]:
    """Begin a call; the result waits for its end. Without a thread it is made here."""
    thread = threading.Thread(target=call)
    try:
        thread.start()
    except RuntimeError:
        call()
        return lambda: None
    return thread.join


def _threads() -> int:
    """At most four: a training job needs its cores for other things."""
    return min(4, len(os.sched_getaffinity(0)))

"""Kinds of damage to a file, the same for every format: a function of the file's bytes and a random generator."""

from __future__ import annotations

import random
from collections.abc import Callable

KINDS: dict[str, Callable[[bytes, random.Random], bytes]] = {
    "empty": lambda data, chance: b"",
    "first byte only": lambda data, chance: data[:1],
    "cut in half": lambda data, chance: data[: len(data) // 2],
    "last byte missing": lambda data, chance: data[:-1],
    "cut anywhere": lambda data, chance: data[: chance.randrange(len(data))],
    "one byte more": lambda data, chance: data + bytes([chance.randrange(256)]),
    "a bit flipped": lambda data, chance: _changed(
        data, chance.randrange(len(data)), 1 << chance.randrange(8)
    ),
    "a byte changed": lambda data, chance: _changed(
        data, chance.randrange(len(data)), chance.randrange(1, 256)
    ),
    "a block of zeros": lambda data, chance: _zeros(data, chance.randrange(len(data))),
}


def _changed(data: bytes, place: int, mask: int) -> bytes:
    return data[:place] + bytes([data[place] ^ mask]) + data[place + 1 :]


def _zeros(data: bytes, place: int) -> bytes:
    """As after a crash of a machine whose disk had not written the block: it differs unless all were zeros."""
    return data[:place] + bytes(len(data[place : place + 512])) + data[place + 512 :]

"""Unified diffs that `git apply` takes: CRLF and missing final newlines as they are."""

from __future__ import annotations

import difflib
import os

_NO_NEWLINE = "\\ No newline at end of file\n"


def unified(path: str, before: bytes | None, after: bytes) -> str:
    """The diff of one file; `before` is None for a new one."""
    name = shown(path)
    old = _lines(before or b"")
    new = _lines(after)
    # Most of a file is the same: difflib sees only what lies between, with three lines around.
    head = 0
    while head < min(len(old), len(new)) and old[head] == new[head]:
        head += 1
    tail = 0
    while tail < min(len(old), len(new)) - head and old[-1 - tail] == new[-1 - tail]:
        tail += 1
    start, keep = max(0, head - 3), max(0, tail - 3)
    pieces = list(
        difflib.unified_diff(
            old[start : len(old) - keep],
            new[start : len(new) - keep],
            "/dev/null" if before is None else f"a/{name}",
            f"b/{name}",
        )
    )
    out = []
    for piece in pieces:
        if piece.startswith("@@"):
            piece = _shifted(piece, start if before is not None else 0)
        out.append(piece if piece.endswith("\n") else f"{piece}\n{_NO_NEWLINE}")
    return "".join(out)


def shown(path: str) -> str:
    """A path as a diff names it: relative where it lies below the current folder."""
    relative = os.path.relpath(path) if os.path.isabs(path) else os.path.normpath(path)
    name = path if relative.startswith("..") else relative
    return name.replace(os.sep, "/").lstrip("/")


def _lines(data: bytes) -> list[str]:
    lines = data.decode("utf-8", errors="replace").split("\n")
    return [line + "\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])


def _shifted(header: str, by: int) -> str:
    """`@@ -1,7 +1,10 @@` of a part of the file, as of the whole file."""
    if not by:
        return header

    def move(word: str) -> str:
        number, comma, length = word[1:].partition(",")
        return f"{word[0]}{int(number) + by}{comma}{length}"

    words = header.split(" ")
    return " ".join([words[0], move(words[1]), move(words[2]), *words[3:]])

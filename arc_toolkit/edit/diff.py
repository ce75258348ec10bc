"""Unified diffs that `git apply` takes: CRLF and missing final newlines as they are."""

from __future__ import annotations

import difflib
import os

_NO_NEWLINE = "\\ No newline at end of file\n"


def unified(path: str, before: bytes | None, after: bytes) -> str:
    """The diff of one file; `before` is None for a new one."""
    name = shown(path)
    old = "/dev/null" if before is None else f"a/{name}"
    pieces = difflib.unified_diff(_lines(before or b""), _lines(after), old, f"b/{name}")
    return "".join(piece if piece.endswith("\n") else f"{piece}\n{_NO_NEWLINE}" for piece in pieces)


def shown(path: str) -> str:
    """A path as a diff names it: relative where it lies below the current folder."""
    relative = os.path.relpath(path) if os.path.isabs(path) else os.path.normpath(path)
    name = path if relative.startswith("..") else relative
    return name.replace(os.sep, "/").lstrip("/")


def _lines(data: bytes) -> list[str]:
    lines = data.decode("utf-8", errors="replace").split("\n")
    return [line + "\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])

"""`.gitignore` files as git reads them: https://git-scm.com/docs/gitignore, "pattern format"."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from functools import cache


@dataclass(frozen=True, slots=True)
class Pattern:
    """One line of a .gitignore: its expression on paths relative to the folder of that file."""

    expression: re.Pattern[str]
    negated: bool
    folders_only: bool


@cache
def patterns_of(text: str) -> tuple[Pattern, ...]:
    """The patterns of a .gitignore, in order."""
    return tuple(pattern for line in text.splitlines() if (pattern := _pattern(line)) is not None)


def _pattern(line: str) -> Pattern | None:
    line = re.sub(r"(?<!\\)\s+$", "", line)
    if not line or line.startswith("#"):
        return None
    negated = line.startswith("!")
    line = line[1:] if negated else line
    line = line[1:] if line.startswith(("\\#", "\\!")) else line
    folders_only = line.endswith("/")
    line = line.rstrip("/")
    if not line:
        return None
    # A slash anywhere but at the end ties the pattern to this folder; without one it holds at any depth.
    anchored = "/" in line
    body = _expression(line.lstrip("/"))
    prefix = "" if anchored else "(?:.*/)?"
    try:
        return Pattern(re.compile(prefix + body), negated, folders_only)
    except re.error:
        return None


def _expression(glob: str) -> str:
    out, index = "", 0
    while index < len(glob):
        rest = glob[index:]
        if rest.startswith("**/"):
            out, index = out + "(?:.*/)?", index + 3
        elif rest == "**":
            out, index = out + ".*", index + 2
        elif rest[0] == "*":
            out, index = out + "[^/]*", index + 1
        elif rest[0] == "?":
            out, index = out + "[^/]", index + 1
        elif rest[0] == "[" and (end := glob.find("]", index + 2)) > 0:
            inside = glob[index + 1 : end].replace("\\", "\\\\")
            out += "[" + ("^" + inside[1:] if inside[:1] in "!^" else inside) + "]"
            index = end + 1
        elif rest[0] == "\\" and len(rest) > 1:
            out, index = out + re.escape(rest[1]), index + 2
        else:
            out, index = out + re.escape(rest[0]), index + 1
    return out


class Gitignore:
    """The ignore files that hold for a folder: from the repository's root down to it."""

    def __init__(self, levels: tuple[tuple[str, tuple[Pattern, ...]], ...] = ()) -> None:
        self._levels = levels

    @classmethod
    def around(cls, folder: str) -> Gitignore:
        """Those of the folders above, up to the one that holds `.git`; none outside of a repository."""
        above: list[str] = []
        current = os.path.abspath(folder)
        while not os.path.exists(os.path.join(current, ".git")):
            parent = os.path.dirname(current)
            if parent == current:
                return cls()
            above.append(parent)
            current = parent
        rules = cls()
        for level in reversed(above):
            rules = rules.within(level)
        return rules

    def within(self, folder: str) -> Gitignore:
        """The same with the folder's own .gitignore."""
        try:
            with open(
                os.path.join(folder, ".gitignore"), encoding="utf-8", errors="replace"
            ) as stream:
                patterns = patterns_of(stream.read())
        except OSError:
            return self
        return (
            Gitignore((*self._levels, (os.path.abspath(folder) + os.sep, patterns)))
            if patterns
            else self
        )

    def ignores(self, path: str, is_folder: bool) -> bool:
        """Whether git ignores this path; the last pattern that matches decides."""
        if not self._levels:
            return False
        full = os.path.abspath(path)
        for folder, patterns in reversed(self._levels):
            relative = full.removeprefix(folder).replace(os.sep, "/")
            for pattern in reversed(patterns):
                if (is_folder or not pattern.folders_only) and pattern.expression.fullmatch(
                    relative
                ):
                    return not pattern.negated
        return False

"""Which files a run is about: the given files always, and below the given folders what git does not
ignore.

Nothing vanishes: what is left out comes back as `Skipped` with its reason, what cannot be used as
`Problem`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from arc_toolkit.edit.files.edits import SkipCause, Unreadable
from arc_toolkit.edit.yaml.nodes import read

if TYPE_CHECKING:
    from pathspec.pattern import RegexPattern

CODE_ENDINGS = (".py", ".ipynb")
ENDINGS: tuple[str, ...] = (".yml", ".yaml", *CODE_ENDINGS)
# Never looked into, whatever .gitignore says.
_CLOSED = frozenset(
    [".git", ".hg", ".svn", "__pycache__", "node_modules", ".venv", ".ipynb_checkpoints"]
)
# Made by tools, by their usual names: not looked into either, and reported, since a person may have
# one of that name.
_MADE = frozenset(["venv", ".tox", ".nox", "build", "site-packages"])
_DEAD_LINK = "a symbolic link that leads nowhere, or in a circle"


@dataclass(frozen=True, slots=True)
class Skipped:
    """A file that was not used, and why: the cause for programs, the reason for people."""

    path: str
    cause: SkipCause
    reason: str
    # From 1; both are 0 if it is about the whole file.
    line: int = 0
    column: int = 0

    def __post_init__(self) -> None:
        if self.line and not self.column:
            object.__setattr__(self, "column", 1)

    @classmethod
    def of(cls, path: str, error: Unreadable) -> Skipped:
        return cls(path, error.cause, error.reason, error.line, error.column)

    @property
    def place(self) -> str:
        return f"{self.path}:{self.line}:{self.column}" if self.line else self.path


def foreign_yaml(path: str, data: bytes, reason: str, *, named: bool) -> Skipped:
    """A YAML file that is not what a run is about.

    Its words say so: one that was named is also read to its end.
    """
    try:
        if named:
            read(data)
    except Unreadable as error:
        return Skipped.of(path, error)
    return Skipped(path, SkipCause.FOREIGN, reason)


@dataclass(frozen=True, slots=True)
class Problem:
    """A path that cannot be used: one sentence, and the run ends with exit code 2."""

    path: str
    message: str
    line: int = 0


@dataclass(frozen=True, slots=True)
class InputFile:
    """A file to look at.

    `folder` is the given folder below which it was found, None if it was named itself.
    """

    path: str
    folder: str | None


def discover(
    paths: Iterable[str], endings: tuple[str, ...] = ENDINGS
) -> Iterator[InputFile | Skipped | Problem]:
    """Every file with one of the endings once, in order of path."""
    seen: set[str] = set()
    for path in paths:
        if path == "-":
            yield InputFile("-", None)
        elif os.path.isdir(path):
            yield from _files_below(path, seen, endings)
        elif not os.path.isfile(path):
            reason = "not a file" if os.path.exists(path) else "no such file or folder"
            if os.path.islink(path) and not os.path.exists(path):
                reason = _DEAD_LINK
            yield Problem(path, f"cannot read {path}: {reason}")
        elif not path.lower().endswith(endings):
            yield Skipped(path, SkipCause.FOREIGN, f"not one of {', '.join(endings)}")
        elif (real := os.path.realpath(path)) not in seen:
            seen.add(real)
            yield InputFile(path, None)


def _files_below(
    top: str, seen: set[str], endings: tuple[str, ...]
) -> Iterator[InputFile | Skipped]:
    stack = [(top, GitignoreRules.above(top))]
    while stack:
        folder, rules = stack.pop()
        try:
            with os.scandir(folder) as listing:
                entries = sorted(listing, key=lambda entry: entry.name)
        except OSError as error:
            reason = f"the folder cannot be read ({error.strerror})"
            yield Skipped(folder, SkipCause.UNREADABLE, reason)
            continue
        if any(entry.name == ".gitignore" for entry in entries):
            rules = rules.with_file_of(folder)
        folders = []
        for entry in entries:
            path = entry.path if folder != "." else entry.name
            is_folder = entry.is_dir(follow_symlinks=False)
            is_link_to_folder = entry.is_symlink() and os.path.isdir(path)
            if is_folder and entry.name in _CLOSED:
                continue
            if not (is_folder or is_link_to_folder or entry.name.lower().endswith(endings)):
                continue
            if is_link_to_folder:
                yield Skipped(path, SkipCause.NOT_A_FILE, "a symbolic link to a folder")
            elif rules.ignore(path, is_folder=is_folder):
                yield Skipped(path, SkipCause.IGNORED, "ignored by .gitignore")
            elif is_folder and entry.name in _MADE:
                reason = "a folder that tools make: name it to have it read"
                yield Skipped(path, SkipCause.IGNORED, reason)
            elif is_folder:
                folders.append((path, rules))
            elif not os.path.isfile(path):
                reason = "not a file" if os.path.exists(path) else _DEAD_LINK
                yield Skipped(path, SkipCause.NOT_A_FILE, reason)
            elif entry.is_symlink() and not _is_below(path, top):
                reason = "a symbolic link to a file outside of the folder: name that file"
                yield Skipped(path, SkipCause.NOT_A_FILE, reason)
            elif (real := os.path.realpath(path)) not in seen:
                seen.add(real)
                yield InputFile(path, top)
        stack.extend(reversed(folders))


def _is_below(path: str, folder: str) -> bool:
    real, top = os.path.realpath(path), os.path.realpath(folder)
    return os.path.commonpath([real, top]) == top


@dataclass(frozen=True, slots=True)
class GitignoreRules:
    """The .gitignore files that hold in a folder, from the root of the repository down to it.

    The walk enters no ignored folder, so only patterns that match a path itself are of interest,
    not those that match a folder above it; a folder that was named is read although it is ignored.
    """

    # A folder with a slash at its end, and the patterns of its .gitignore.
    levels: tuple[tuple[str, tuple[RegexPattern, ...]], ...] = ()

    @classmethod
    def above(cls, folder: str) -> GitignoreRules:
        """The rules of the folders above, up to the one with `.git`; none outside a repository."""
        parents: list[str] = []
        current = os.path.abspath(folder)
        while not os.path.exists(os.path.join(current, ".git")):
            parent = os.path.dirname(current)
            if parent == current:
                return cls()
            parents.append(parent)
            current = parent
        rules = cls()
        for parent in reversed(parents):
            rules = rules.with_file_of(parent)
        return rules

    def with_file_of(self, folder: str) -> GitignoreRules:
        """These rules and the .gitignore of a folder below."""
        try:
            with open(os.path.join(folder, ".gitignore"), "rb") as stream:
                text = stream.read().decode("utf-8-sig", errors="replace")
        except OSError:
            return self
        level = (os.path.join(os.path.abspath(folder), ""), _patterns(text))
        return GitignoreRules((*self.levels, level))

    def ignore(self, path: str, *, is_folder: bool) -> bool:
        """Whether git ignores this path: the last pattern that matches in the deepest .gitignore
        decides.
        """
        full = os.path.abspath(path) if self.levels else path
        for folder, patterns in reversed(self.levels):
            relative = full.removeprefix(folder).replace(os.sep, "/")
            for pattern in reversed(patterns):
                if _matches(pattern, relative, is_folder):
                    return bool(pattern.include)
        return False


@cache
def _patterns(text: str) -> tuple[RegexPattern, ...]:
    """The patterns of a .gitignore in order; invalid lines have no effect, as in git."""
    from pathspec import GitIgnoreSpec  # only a folder with a .gitignore needs it

    patterns: list[RegexPattern] = []
    for line in text.splitlines():
        if not line.strip("!/ "):  # pathspec takes `!/` for every folder
            continue
        try:
            patterns += GitIgnoreSpec.from_lines([line]).patterns
        except ValueError:
            continue
    return tuple(pattern for pattern in patterns if pattern.include is not None)


def _matches(pattern: RegexPattern, path: str, is_folder: bool) -> bool:
    """Whether a pattern matches a path itself.

    pathspec's expressions match whatever is below a match too, and name the slash between the two
    `ps_d`. A folder is matched as `a/b/`, where that slash has to be the last one, for the sake of
    patterns such as `b/`; and as `a/b`, because `a/b/**` matches `a/b/` although it is only about
    what is inside.
    """
    assert pattern.regex is not None
    has_mark = "ps_d" in pattern.regex.groupindex
    for text in (path, f"{path}/") if is_folder else (path,):
        last_slash = -1 if text == path else len(path)
        for match in pattern.regex.finditer(text):
            if (match.start("ps_d") if has_mark else -1) == last_slash:
                return True
    return False

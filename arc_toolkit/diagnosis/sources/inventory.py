"""Folders, zips, gz, single files, standard input and globs, as an inventory of what is worth reading.

Files are known by their name; nothing is unpacked to disk. What is not used is in the inventory with a reason.
"""

from __future__ import annotations

import io
import os
import re
import stat
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import BinaryIO, cast

from arc_toolkit.diagnosis.log_paths import PIPE
from arc_toolkit.diagnosis.model import LOG_NAME, LogFile, SkippedFile
from arc_toolkit.diagnosis.scan import why
from arc_toolkit.diagnosis.sources.streams import open_gzip, plain, unzip
from arc_toolkit.errors import ArcError
from arc_toolkit.output.safe import show_source

UNRELATED = "not a file that diagnose reads"
KUBERNETES_NAME = re.compile(r"(?:.*[-_.])?(?:pods|nodes|events)\.json(?:\.gz)?", re.IGNORECASE)
ARCHIVES = (".tar", ".tar.gz", ".tgz", ".7z", ".rar")


@dataclass
class Inventory:
    """What the sources offer. `keep_unrelated`: files of no interest one by one (for JSON), not just counted."""

    keep_unrelated: bool = False
    logs: list[LogFile] = field(default_factory=list)  # on this disk: may be read by other processes
    streams: list[LogFile] = field(default_factory=list)  # standard input, blobs: read by threads of this one
    kubernetes: list[LogFile] = field(default_factory=list)
    prs: list[LogFile] = field(default_factory=list)
    skipped: list[SkippedFile] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    seen: int = 0

    def skip(self, path: str, reason: str) -> None:
        self.counts[reason] = self.counts.get(reason, 0) + 1
        self.skipped.append(SkippedFile(clean(path), reason))

    def skip_unrelated(self, path: str) -> None:
        """A file that diagnose does not read; there may be many, so they are listed only for JSON."""
        self.counts[UNRELATED] = self.counts.get(UNRELATED, 0) + 1
        if self.keep_unrelated:
            self.skipped.append(SkippedFile(clean(path), UNRELATED))

    def skip_all(self, skipped: Iterable[SkippedFile]) -> None:
        for item in skipped:
            self.skip(item.path, item.reason)

    def offer(self, name: str, log: LogFile, remote: bool = False) -> bool:
        """Take a file if its name says what it is; False if nothing here reads it."""
        if name.startswith(LOG_NAME):
            (self.streams if remote else self.logs).append(log)
        elif name.endswith((".json", ".json.gz")) and KUBERNETES_NAME.fullmatch(name):
            self.kubernetes.append(log)
        elif name.endswith(".csv") and _is_prs(log.path):
            self.prs.append(log)
        else:
            return False
        return True


def add_remote(logs: Iterable[LogFile], inventory: Inventory) -> None:
    """What a blob container or a workspace lists."""
    for log in logs:
        inventory.seen += 1
        if not inventory.offer(log.path.rsplit("/", 1)[-1], log, remote=True):
            inventory.skip_unrelated(log.path)


def _is_prs(path: str) -> bool:
    from arc_toolkit.diagnosis import prs_logs

    return prs_logs.wanted(path)


def clean(path: str) -> str:
    """A path that can be printed even if its bytes are no UTF-8."""
    return path if path.isascii() else path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def add(source: str, inventory: Inventory) -> None:
    """One SOURCE of the command line. A source that is not there is an error; all else is in the inventory."""
    if source == "-":
        return _add_stdin(inventory)
    if os.path.isdir(source):
        return _add_folder(source, inventory)
    if not os.path.lexists(source):
        if not any(char in source for char in "*?["):
            raise ArcError(f"no such file or folder: {clean(show_source(source))}")
        import glob

        found = sorted(glob.glob(source, recursive=True))
        if not found:
            raise ArcError(f"nothing matches {clean(show_source(source))}")
        # A folder that a glob names holds also what the glob names below it: read nothing twice.
        top = ""
        for path in found:
            if not top or not path.startswith(top):
                add(path, inventory)
                top = os.path.join(path, "") if os.path.isdir(path) else top
        return None
    return _add_named_file(source, inventory)


def _add_named_file(path: str, inventory: Inventory) -> None:
    """A file that the user points at is read whatever its name is; its first bytes say how."""
    inventory.seen += 1
    try:
        with open(path, "rb", buffering=0) as stream:
            regular = stat.S_ISREG(os.fstat(stream.fileno()).st_mode)
            head = stream.read(64) if regular else b""
    except OSError as error:
        return inventory.skip(path, why(error))
    if not regular:
        return _add_pipe(path, inventory)
    if head.startswith(b"PK\x03\x04") or path.lower().endswith(".zip"):
        return _add_zip(path, inventory)
    if head.startswith(b"SQLite format 3\x00"):
        return inventory.skip(path, "an SQLite file: give it with --history")
    packed = head.startswith(b"\x1f\x8b")
    log = LogFile(clean(path), None, partial(open_gzip if packed else io.FileIO, path))
    name = os.path.basename(path)
    if inventory.offer(name, log):
        return None
    text = name.removesuffix(".gz") if packed else name
    if text.endswith(".json") or _is_json(head):
        inventory.kubernetes.append(log)
    else:
        inventory.logs.append(log)
    return None


def _add_folder(root: str, inventory: Inventory) -> None:
    walked: set[str] = set()
    # Links to folders are kept for later, and followed only to what was not read as itself.
    links: list[str] = []
    _walk(root, os.path.realpath(root), walked, links, inventory)
    while links:
        link = links.pop()
        target = os.path.realpath(link)
        if target in walked or os.path.islink(target):
            inventory.skip(link, "link to a folder that is read already")
        else:
            _walk(link, target, walked, links, inventory)


def _walk(root: str, real: str, walked: set[str], links: list[str], inventory: Inventory) -> None:
    """`real` is the folder's true path; below it nothing is a link, so true paths need no system call."""
    root = root.rstrip("/") or "/"
    stack = [(root, real)]
    skip = inventory.skip
    while stack:
        folder, true = stack.pop()
        if true in walked:
            continue
        walked.add(true)
        try:
            entries = os.scandir(folder)
        except OSError as error:
            skip(folder, "folder " + why(error))
            continue
        with entries:
            for entry in entries:
                name = entry.name
                try:
                    if entry.is_dir(follow_symlinks=False):
                        stack.append((entry.path, f"{true}/{name}"))
                        continue
                    inventory.seen += 1
                    if not entry.is_file():
                        if entry.is_dir():
                            inventory.seen -= 1
                            links.append(entry.path)
                        else:
                            skip(entry.path, "dangling link" if entry.is_symlink() else "not a regular file")
                        continue
                except OSError as error:  # a link that leads to itself
                    skip(entry.path, why(error))
                    continue
                _add_found_file(entry.path, name, inventory)


def _add_found_file(path: str, name: str, inventory: Inventory) -> None:
    opener = open_gzip if name.endswith(".gz") else io.FileIO
    if inventory.offer(name, LogFile(clean(path), None, partial(opener, path))):
        return
    if name.lower().endswith(".zip"):
        _add_zip(path, inventory)
    elif name.endswith(ARCHIVES):
        inventory.skip(path, "archive: unpack it first")
    else:
        inventory.skip_unrelated(path)


def _add_zip(path: str, inventory: Inventory) -> None:
    from arc_toolkit.diagnosis.sources.zips import add_zip

    add_zip(path, inventory)


def _add_stdin(inventory: Inventory) -> None:
    inventory.seen += 1
    _add_stream("stdin", sys.stdin.buffer, inventory)


def _add_pipe(path: str, inventory: Inventory) -> None:
    """Such as <(kubectl ...): it can be read only once, so it is opened once."""
    try:
        _add_stream(f"{PIPE}{os.path.basename(path)}", open(path, "rb"), inventory)  # noqa: SIM115 (read later)
    except OSError as error:
        inventory.skip(path, why(error))


def _add_stream(name: str, stream: BinaryIO, inventory: Inventory) -> None:
    """What cannot be read twice: its first bytes, also those that are compressed, say what it is."""
    head = _peek(stream)
    if head.startswith(b"PK\x03\x04"):
        raise ArcError(f"a zip cannot be read from {name}: save it, and give its name")
    if head.startswith(b"\x1f\x8b"):
        stream = cast(BinaryIO, io.BufferedReader(cast(io.RawIOBase, unzip(stream, None))))
        head = _peek(stream)
    log = LogFile(name, None, partial(plain, stream))
    (inventory.kubernetes if _is_json(head) else inventory.streams).append(log)


def _peek(stream: BinaryIO) -> bytes:
    try:
        return stream.peek(64)[:64] if isinstance(stream, io.BufferedReader) else b""
    except (OSError, EOFError, ValueError):  # damaged data: whoever reads it finds out, and says so
        return b""


def _is_json(head: bytes) -> bool:
    return head.lstrip(b"\xef\xbb\xbf \r\n\t")[:1] == b"{"

"""Folders, zips, gz, single files, standard input and globs, as an inventory of the files to read.

Files are recognized by their name; nothing is unpacked to disk. Files that are not used are listed
with a reason.
"""

from __future__ import annotations

import io
import os
import re
import stat
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import BinaryIO, cast

from arc_toolkit.diagnosis.identities import PIPE
from arc_toolkit.diagnosis.model import LOG_NAME, LogFile, SkippedFile
from arc_toolkit.diagnosis.read.scan import ARCHIVE
from arc_toolkit.diagnosis.read.sources.container_insights import is_export
from arc_toolkit.diagnosis.read.sources.zips import ARCHIVES, add_zip, clean
from arc_toolkit.diagnosis.read.unpack import (
    READ_ERRORS,
    BoundedStream,
    error_reason,
    unpack_stream,
)
from arc_toolkit.errors import ArcError
from arc_toolkit.output.redaction import show_source

UNRELATED = "not a file that diagnose reads"
KUBERNETES_NAME = re.compile(
    r"(?:.*[-_.])?(?:pods|nodes|events|podgroups|vcjobs)\.json(?:\.gz)?", re.IGNORECASE
)
# What the job itself printed, and AzureML's own component that reports how it ended:
# https://learn.microsoft.com/azure/machine-learning/how-to-log-view-metrics
SIDE_LOG = re.compile(
    r"(?:.*_)?std_log(?:_process_\d+)?\.txt|70_driver_log.*\.txt|lifecycler\.log"
    r"|worker-[0-9a-f]{56}-[0-9a-f]{8}-\d+\.err"  # of Ray: the agents of `elastic` write there
)
# Exports of Container Insights; a data export to a storage account has `am-<table>/.../PT05M.json`.
INSIGHTS_NAME = re.compile(
    r"(?:.*[-_.])?Kube(?:Events|PodInventory|NodeInventory)\b"
    r".*\.(?:csv|json|jsonl|ndjson)(?:\.gz)?",
    re.IGNORECASE,
)
EXPORTED = re.compile(
    r"(?:^|/)am-kube(?:events|podinventory|nodeinventory)/(?:.*/)?PT\d+M[^/]*\.json$"
)
HEAD_BYTES = 4096  # the columns of a CSV
# What people save instead of JSON or a log: how it begins, and the command that gives what is read.
_SAVE_JSON = "save JSON with `kubectl get pods,nodes,events -A -o json > cluster.json`"
WRONG_KINDS = (
    (re.compile(rb"(?:---\s*|#.*\n)*(?:- )?(?:apiVersion|kind|items):[ \r\n]"), "Kubernetes YAML"),
    (re.compile(rb"Name: +\S+\r?\n(?:Namespace|Roles|Labels): "), "the text of `kubectl describe`"),
    (
        re.compile(
            rb"(?:NAMESPACE +)?(?:NAME +(?:READY|STATUS|COMPLETIONS|AGE)\b|LAST SEEN +TYPE)"
        ),
        "the table of `kubectl get`",
    ),
)
PRS_NAMES = re.compile(r"processed_mini[-_]batches\.csv|node_resource_usage\.csv")


@dataclass
class Inventory:
    """The files of the sources. `keep_unrelated`: list the unread files too, for JSON."""

    keep_unrelated: bool = False
    # on this disk: can be read by other processes
    logs: list[LogFile] = field(default_factory=list)
    streams: list[LogFile] = field(default_factory=list)  # standard input, blobs: read by threads
    kubernetes: list[LogFile] = field(default_factory=list)
    prs: list[LogFile] = field(default_factory=list)
    # not those of blobs and workspaces, which may be large
    side_logs: list[LogFile] = field(default_factory=list)
    skipped: list[SkippedFile] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    file_count: int = 0
    suffixes: Counter[str] = field(default_factory=Counter)  # of files that diagnose does not read

    def skip(self, path: str, reason: str) -> None:
        self.counts[reason] = self.counts.get(reason, 0) + 1
        self.skipped.append(SkippedFile(clean(path), reason))

    def skip_unrelated(self, path: str) -> None:
        """A file that diagnose does not read; there may be many, so only JSON lists them."""
        self.counts[UNRELATED] = self.counts.get(UNRELATED, 0) + 1
        self.suffixes[os.path.splitext(path)[1]] += 1
        if self.keep_unrelated:
            self.skipped.append(SkippedFile(clean(path), UNRELATED))

    def offer(self, name: str, log: LogFile, remote: bool = False) -> bool:
        """Add a file if it is recognized by its name; False if it is not."""
        if name.startswith(LOG_NAME):
            (self.streams if remote else self.logs).append(log)
        elif (
            name.endswith((".json", ".json.gz")) and KUBERNETES_NAME.fullmatch(name)
        ) or _is_insights(name, log):
            self.kubernetes.append(log)
        elif name.endswith(".csv") and PRS_NAMES.fullmatch(name):
            self.prs.append(log)
        elif not remote and name.endswith((".txt", ".log", ".err")) and SIDE_LOG.fullmatch(name):
            self.side_logs.append(log)
        else:
            return False
        return True


def _is_insights(name: str, log: LogFile) -> bool:
    if not name.endswith((".json", ".csv", ".jsonl", ".ndjson", ".gz")):
        return False
    return bool(
        INSIGHTS_NAME.fullmatch(name) or (name.startswith("PT") and EXPORTED.search(log.path))
    )


def add_remote(logs: Iterable[LogFile], inventory: Inventory) -> None:
    """Add the files of a blob container or a workspace."""
    for log in logs:
        inventory.file_count += 1
        if not inventory.offer(log.path.rsplit("/", 1)[-1], log, remote=True):
            inventory.skip_unrelated(log.path)


def wrong_kind(head: bytes) -> str:
    """What the first bytes are, if diagnose cannot read it but kubectl can give it as JSON."""
    text = head.lstrip(b"\xef\xbb\xbf \r\n")
    return next((words for pattern, words in WRONG_KINDS if pattern.match(text)), "")


def add(source: str, inventory: Inventory) -> None:
    """Add one SOURCE of the command line. A source that does not exist is an error."""
    if source == "-":
        inventory.file_count += 1
        return _add_stream("stdin", sys.stdin.buffer, inventory)
    if os.path.isdir(source):
        return _add_folder(source, inventory)
    if not os.path.lexists(source):
        if not any(char in source for char in "*?["):
            raise ArcError(f"no such file or folder: {clean(show_source(source))}")
        import glob

        paths = sorted(glob.glob(source, recursive=True))
        if not paths:
            raise ArcError(f"nothing matches {clean(show_source(source))}")
        # If a glob matches a folder and files below it, the files are read once.
        top = ""
        for path in paths:
            if not top or not path.startswith(top):
                if os.path.isdir(path):
                    _add_folder(path, inventory)
                else:
                    _add_named_file(path, inventory, in_glob=True)
                top = os.path.join(path, "") if os.path.isdir(path) else top
        return None
    return _add_named_file(source, inventory)


def _add_named_file(path: str, inventory: Inventory, in_glob: bool = False) -> None:
    """A file passed by name is read whatever its name is; its first bytes decide how."""
    inventory.file_count += 1
    try:
        with open(path, "rb", buffering=0) as stream:
            regular = stat.S_ISREG(os.fstat(stream.fileno()).st_mode)
            head = _peek(stream) if regular else b""
    except OSError as error:
        return inventory.skip(path, error_reason(error))
    if not regular:
        return _add_pipe(path, inventory)
    if head.startswith(b"PK\x03\x04") or path.lower().endswith(".zip"):
        return add_zip(path, inventory)
    if path.endswith(ARCHIVES):
        return inventory.skip(path, ARCHIVE)
    if head.startswith(b"SQLite format 3\x00"):
        return inventory.skip(path, "an SQLite file: use --history")
    log = LogFile(clean(path), partial(io.FileIO, path))
    name = os.path.basename(path)
    if not inventory.offer(name, log):
        if in_glob and (words := wrong_kind(head)):
            return inventory.skip(path, words)
        _refuse_wrong_kind(path, head)
        as_json = name.endswith((".json", ".json.gz")) or _is_saved(head)
        (inventory.kubernetes if as_json else inventory.logs).append(log)
    return None


def _refuse_wrong_kind(path: str, head: bytes) -> None:
    if words := wrong_kind(head):
        raise ArcError(f"{clean(path)}: {words}, expected JSON or a log: {_SAVE_JSON}")


def _add_folder(root: str, inventory: Inventory) -> None:
    walked: set[str] = set()
    # Links to folders are followed last, and only to folders that were not read already.
    links: list[str] = []
    _walk(root, os.path.realpath(root), walked, links, inventory)
    while links:
        link = links.pop()
        target = os.path.realpath(link)
        if target in walked or os.path.islink(target):
            inventory.skip(link, "link to a folder that is already read")
        else:
            _walk(link, target, walked, links, inventory)


def _walk(root: str, real: str, walked: set[str], links: list[str], inventory: Inventory) -> None:
    """`real` is the folder's resolved path; no links are below it, so paths need no resolving."""
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
            skip(folder, "folder " + error_reason(error))
            continue
        with entries:
            for entry in entries:
                name = entry.name
                try:
                    if entry.is_dir(follow_symlinks=False):
                        stack.append((entry.path, f"{true}/{name}"))
                        continue
                    inventory.file_count += 1
                    if not entry.is_file():
                        if entry.is_dir():
                            inventory.file_count -= 1
                            links.append(entry.path)
                        else:
                            skip(
                                entry.path,
                                "dangling link" if entry.is_symlink() else "not a regular file",
                            )
                        continue
                except OSError as error:  # a link to itself
                    skip(entry.path, error_reason(error))
                    continue
                _add_found_file(entry.path, name, inventory)


def _add_found_file(path: str, name: str, inventory: Inventory) -> None:
    if inventory.offer(name, LogFile(clean(path), partial(io.FileIO, path))):
        return
    if name.lower().endswith(".zip"):
        add_zip(path, inventory)
    elif name.endswith(ARCHIVES):
        inventory.skip(path, ARCHIVE)
    else:
        inventory.skip_unrelated(path)


def _add_pipe(path: str, inventory: Inventory) -> None:
    """Such as <(kubectl ...), which can be opened only once."""
    try:
        stream = open(path, "rb")  # noqa: SIM115 (read later)
        _add_stream(f"{PIPE}{os.path.basename(path)}", stream, inventory)
    except OSError as error:
        inventory.skip(path, error_reason(error))


def _add_stream(name: str, stream: BinaryIO, inventory: Inventory) -> None:
    """A stream that cannot be read twice: its first bytes, unpacked, decide what it is."""
    reader = unpack_stream(stream)
    head = _peek(reader)
    if head.startswith(b"PK\x03\x04"):
        raise ArcError(f"a zip cannot be read from {name}: save it and pass its path")
    _refuse_wrong_kind(name, head)
    log = LogFile(name, cast(Callable[[], BinaryIO], partial(BoundedStream, reader)))
    (inventory.kubernetes if _is_saved(head) else inventory.streams).append(log)


def _peek(stream: BinaryIO) -> bytes:
    """The first bytes, unpacked."""
    try:
        return unpack_stream(stream).peek(HEAD_BYTES)[:HEAD_BYTES]
    except READ_ERRORS:  # reported when the data is read
        return b""


def _is_saved(head: bytes) -> bool:
    """Kubernetes objects as JSON, or an export of Container Insights."""
    return head.lstrip(b"\xef\xbb\xbf \r\n\t")[:1] == b"{" or is_export(head)

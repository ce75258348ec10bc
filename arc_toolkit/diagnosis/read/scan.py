"""One scanner for every log, wherever it comes from: the node line and a few other fields.

It reads bytes in chunks of fixed size, searches for literals and applies a regular expression only
where one is found, so the memory does not grow with the file. The log's text never leaves this
module, only the extracted fields.
"""

from __future__ import annotations

import io
import os
import re
import stat
import sys
import threading
import zlib
from dataclasses import dataclass
from functools import lru_cache
from typing import BinaryIO

from arc_toolkit.diagnosis import times
from arc_toolkit.diagnosis.identities import is_cut
from arc_toolkit.diagnosis.model import LogFile, SkippedFile
from arc_toolkit.diagnosis.read import gpu_messages
from arc_toolkit.diagnosis.read.gpu_messages import GpuProof
from arc_toolkit.diagnosis.read.log_end import TRACEBACK, log_end
from arc_toolkit.diagnosis.read.log_endings import LAUNCH_MARK, MARKS_BYTES, LogEndingKind, has_mark
from arc_toolkit.diagnosis.read.unpack import GZIP, READ_ERRORS, decode_utf_16, error_reason, unzip
from arc_toolkit.notices.run_log import PREFIX, RunRecord, read_run, read_runs

NEEDLE = b"Run on node:"
# Every plausible form of the line (docs/diagnose-sources.md); a name is a DNS-1123 subdomain.
NODE_LINE = re.compile(
    rb"Run on node:[ \t]*(?:['\"]|\x1b\[[0-9;]*m){0,8}"
    rb"([A-Za-z0-9](?:[A-Za-z0-9.-]{0,251}[A-Za-z0-9])?)([.-]*)"
)
LINE_END = re.compile(rb"(?:\x1b\[[0-9;]*m)*(?:[\r\n]|$)")
# What cannot follow a whole name: the name was an unexpanded variable, or is not a Kubernetes name.
NOT_A_NAME = frozenset(b"_$%{ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789")
QUOTES = (b"'", b'"')
NAME_LIKE = re.compile(rb"[0-9.-]")
# The predecessor runtime (2021) printed only `hostname`. Every line may start with the time when it
# was collected, or with the prefix of a container runtime (CRI).
_PREFIX = rb"(?:\d{4}-\d\d-\d\d[T ][\d:.,]{8,20}(?:Z|[+-]\d\d:?\d\d)? (?:std(?:out|err) [FP] )?)?"
HOSTNAME = re.compile(
    rb"^"
    + _PREFIX
    + rb"\+{1,9} hostname\r?\n"
    + _PREFIX
    + rb"([a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?)(?=\r?\n)",
    re.MULTILINE,
)
RUN_IDS = (b"AZUREML_RUN_ID=", b"MLFLOW_RUN_ID=")
POD_UID = b"POD_UID="
IDENTITY = re.compile(rb"['\"]?([A-Za-z0-9_.-]{1,255})")
# How AzureML writes the end of a Kubernetes job, in its three spellings, and of a preempted one.
FAILED = b"job failed."
JOB_FAILED = re.compile(
    rb"(?:Azure ?(?:ML|Machine Learning)|AML) Kubernetes(?: Compute)? job failed\."
)
FAILURE = re.compile(rb" ?(-?\w*|Dispatch Job Fail) ?: ?(.*)")  # code and diagnostics
PREEMPTED = b" PreemptionError: Nodes of this job got pre-empted"
RUN_LINE = b"kit-run 2"  # of `arc-toolkit run`, with the first digit of its time
END_MARKS = (TRACEBACK, *gpu_messages.MARKS)

DATE_END = b"TC 2"

CHUNK = 1 << 17  # most logs fit in it, and it fits in the second-level cache
HEAD = 1 << 16  # where the ids are: the bootstrap script exports its environment first
DATE_HEAD = 1 << 14  # where the start is: a date further on is another one
TAIL = 1 << 14  # where the end of a process is; carried from chunk to chunk
SHORTEST_STAMP = len("2021-07-13 16:03:07")
LONGEST_LINE = 2048  # longer than any node line
LONGEST_PREFIX = 400  # of a line of `kubectl logs --prefix --timestamps`
DIGEST_BYTES = 1024
MAX_RUN_LINES = 10_000  # of `arc-toolkit run` in one file
MAX_NODES = 200  # distinct names in one file; a file with more is not a bootstrap log

FIRST_BLOCK = 1024
ARCHIVE = "archive: unpack it first"
BINARY = "binary, not a log"
UTF_16 = "UTF-16 text"
EMPTY = "empty log"
NO_NODE = "no node line in the log"


@dataclass(slots=True)
class LogScan:
    """The fields extracted from one log."""

    path: str
    nodes: list[str]  # in order, without repeats
    truncated: bool = False  # the last name is cut: a part of a longer one
    size: int = 0
    digest: int = 0  # of its beginning and end: equal in copies
    start: float | None = None
    # from a `date` inside the log; a line's prefix is when it was collected
    start_exact: bool = False
    run_id: str | None = None
    pod_uid: str | None = None
    # AzureML's own code and diagnostics, e.g. ("137", "PodPattern ...")
    failure: tuple[str, str] | None = None
    later_starts: tuple[float | None, ...] = ()  # before the second and further whole names
    xids: tuple[int, ...] = ()  # numbers of NVIDIA's Xid messages, in order, without repeats
    # what CUDA, NVML and NCCL said, and what it proves
    gpu_messages: tuple[tuple[GpuProof, str], ...] = ()
    # the uncaught exception with which the log ends
    ending: tuple[LogEndingKind, str] | None = None
    run: RunRecord | None = None  # what `arc-toolkit run` saw, if the job was started by it
    runs: dict[str, list[RunRecord]] | None = None  # all of it by pod, of a log without a node line
    note: str = ""


class _Buffer(threading.local):
    """One buffer per thread, reused for every file."""

    def __init__(self) -> None:
        self.data = bytearray(TAIL + CHUNK)
        self.view = memoryview(self.data)


_BUFFER = _Buffer()


def scan(log: LogFile) -> LogScan | SkippedFile:
    """Read one log, or say why it is skipped; the part before an error counts."""
    try:
        stream = log.open()
    except READ_ERRORS as error:
        return SkippedFile(log.path, error_reason(error))
    with stream:
        return _scan_stream(log.path, stream)


def scan_all(logs: list[LogFile]) -> list[LogScan | SkippedFile]:
    """A batch, for a worker process."""
    return [scan(log) for log in logs]


def _scan_stream(
    path: str, stream: BinaryIO, was_gzip: bool = False, was_utf_16: bool = False
) -> LogScan | SkippedFile:
    data, view = _BUFFER.data, _BUFFER.view
    find = data.find
    readinto = stream.readinto  # type: ignore[attr-defined]
    result = LogScan(path, [])
    end = 0  # of the data in the buffer
    # a log that is being written is read up to its size when reading started
    limit: int | None = None
    error = ""
    head = b""  # kept for a log without a node line
    run_lines: list[bytes] = []  # the same
    final = has_nul = False
    while not final:
        begin = end
        while end < len(view) and not final:  # a stream may return less than requested
            try:
                count = readinto(view[end:]) or 0
            except READ_ERRORS as problem:
                count, error = 0, error_reason(problem)
            if limit is not None:
                count = min(count, limit - result.size)
            end += count
            result.size += count
            final = not count
        if not begin and end:
            if data.startswith(GZIP, 0, end) and not was_gzip:
                return _scan_stream(path, unzip(stream, bytes(view[:end])), was_gzip=True)
            has_nul = find(0, 0, min(end, FIRST_BLOCK)) >= 0
            if has_nul and (encoding := _other_than_text(bytes(view[: min(end, FIRST_BLOCK)]))):
                if encoding == UTF_16 and not was_utf_16:
                    text = decode_utf_16(stream, bytes(view[:end]))
                    return _scan_stream(path, text, was_gzip=True, was_utf_16=True)
                return SkippedFile(path, encoding if encoding != UTF_16 else BINARY)
            result.digest = zlib.crc32(view[: min(end, DIGEST_BYTES)])
            _read_head(data, end, result)
        # Unless this is the end, the last hits are for the next chunk, which has their whole line.
        start = TAIL - LONGEST_LINE if begin else 0
        stop = end if final else end - LONGEST_LINE + len(NEEDLE)
        at = find(NEEDLE, start, stop)
        while at >= 0:
            _take_node(data, at, end, final, result)
            at = find(NEEDLE, at + len(NEEDLE), stop)
        at = find(FAILED, start, stop)
        while at >= 0:
            _take_failure(data, at, end, result)
            at = find(FAILED, at + len(FAILED), stop)
        if not begin and not result.nodes:
            head = bytes(view[:end])
        if not result.nodes:
            # One byte less than above, so that no line is taken twice.
            stop = end if final else end - LONGEST_LINE + len(RUN_LINE) - 1
            at = find(RUN_LINE, start, stop)
            while at >= 0 and len(run_lines) < MAX_RUN_LINES:
                run_lines.append(_run_line(data, at, end))
                at = find(RUN_LINE, at + len(RUN_LINE), stop)
        if final:
            _read_tail(bytes(view[max(end - TAIL, 0) : end]), result)
            result.digest = zlib.crc32(view[max(end - DIGEST_BYTES, 0) : end], result.digest)
        else:
            if limit is None and isinstance(stream, io.FileIO):
                status = os.fstat(stream.fileno())
                limit = max(status.st_size, result.size) if stat.S_ISREG(status.st_mode) else None
            data[:TAIL] = data[end - TAIL : end]
            end = TAIL
    if not result.nodes and (hostname := _hostname(head)):
        result.nodes.append(hostname)
    if run_lines and not result.nodes:
        result.runs = read_runs(b"\n".join(run_lines).decode("utf-8", "replace"))
        result.run = list(result.runs.values())[-1][-1] if result.runs else None
    if has_nul and not (
        result.nodes or result.failure or result.xids or result.gpu_messages or result.runs
    ):
        return SkippedFile(path, BINARY)
    if not result.nodes and not result.runs:
        result.note = error or (NO_NODE if result.size else EMPTY)
    elif error:
        result.note = error
    return result


def _run_line(data: bytearray, at: int, end: int) -> bytes:
    """The line of `run` around a hit, and the beginning of its line; a bar may be between them."""
    begin = data.rfind(b"\n", 0, at) + 1
    hit_start = max(at - len(PREFIX), begin)
    stop = data.find(b"\n", at, min(at + LONGEST_LINE // 2, end))
    stop = stop if stop >= 0 else min(at + LONGEST_LINE // 2, end)
    return bytes(data[begin : min(begin + LONGEST_PREFIX, hit_start)] + data[hit_start:stop])


def _take_node(data: bytearray, at: int, end: int, final: bool, result: LogScan) -> None:
    """The name at a hit, unless it is not a name or already known."""
    if _is_repeated(data, at, result):
        return
    match = NODE_LINE.match(data, at, end)
    if match is None or len(result.nodes) >= MAX_NODES:
        return
    stop = match.end()
    if stop < end and data[stop] in NOT_A_NAME:
        return
    name, is_plain_word = _name(match[1])
    if is_plain_word and (
        not match[1].islower()
        or (stop + 1 < end and data[stop] in b" \t" and _is_word(data[stop + 1]))
    ):
        return  # `Run on node: failed to resolve host`, `Run on node: None`
    cut = (
        (stop == end and final)
        or is_cut(name)
        or (
            (match[2][-1:] == b"-" or data[at - 1 : at] in QUOTES)
            and LINE_END.match(data, stop, end) is not None
        )
    )
    if result.start is None and not result.nodes:
        low = max(at - 200, 0)
        begin = max(data.rfind(b"\n", low, at) + 1, data.rfind(b"\r", low, at) + 1, low)
        stamp = (
            times.STAMP.search(data, begin, min(at, begin + 80))
            if at - begin > SHORTEST_STAMP
            else None
        )
        if stamp:
            result.start = times.parse_stamp(stamp)
    if not cut and name not in result.nodes and len(result.nodes) > result.truncated:
        result.later_starts += (_date_before(data, at),)
    _add_node(result, name, cut)


def _is_repeated(data: bytearray, at: int, result: LogScan) -> bool:
    """The line has the whole name that is known already: most logs have it twice."""
    if not result.nodes or result.truncated:
        return False
    return (
        data.startswith(b"%b %b\n" % (NEEDLE, result.nodes[-1].encode()), at)
        and data[at - 1 : at] not in QUOTES
    )


@lru_cache(1 << 12)  # many logs name the same few nodes
def _name(text: bytes) -> tuple[str, bool]:
    """The node's name in small letters, and whether it may be a word of a sentence."""
    return sys.intern(text.decode("ascii").lower()), NAME_LIKE.search(text) is None


def _date_before(data: bytearray, at: int) -> float | None:
    """The last `date` in the lines before a name."""
    zone = data.rfind(b" UTC 2", max(at - LONGEST_LINE, 0), at)
    match = (
        times.DATE_LINE.search(data, max(zone - len(b"Tue Jul 13 16:02:22"), 0), zone + 12)
        if zone > 0
        else None
    )
    return times.parse_date_line(match) if match else None


def _add_node(result: LogScan, name: str, cut: bool) -> None:
    """A cut name is the last of the list, and only if no whole name begins with it."""
    last = result.nodes.pop() if result.truncated else None
    if not cut and name not in result.nodes:
        result.nodes.append(name)
    if not cut and last is None:
        return
    parts = sorted({part for part in (last, name if cut else None) if part}, key=len)
    part = parts[-1] if parts else None
    result.truncated = part is not None and not any(
        other.startswith(part) for other in result.nodes
    )
    if part is not None and result.truncated:
        result.nodes.append(part)


def _other_than_text(block: bytes) -> str:
    """What a first block with NUL bytes is; "" for text: a truncated log has some too."""
    if block[257:262] == b"ustar":
        return ARCHIVE
    low, high = block[::2].count(0), block[1::2].count(0)
    if block.startswith((b"\xff\xfe", b"\xfe\xff")) or max(low, high) > 8 + len(
        block
    ) / 4 > 8 * min(low, high):
        return UTF_16
    return ""


def _is_word(byte: int) -> bool:
    return bytes((byte,)).isalpha()


def _read_head(data: bytearray, end: int, result: LogScan) -> None:
    """The first run id, pod UID and `date`."""
    head = min(end, HEAD)
    run_ids = [hit for literal in RUN_IDS if (hit := _field(data, literal, head))]
    result.run_id = min(run_ids)[1] if run_ids else None
    pod_uid = _field(data, POD_UID, head)
    result.pod_uid = pod_uid[1] if pod_uid else None
    head = min(end, DATE_HEAD)
    at = data.find(DATE_END, 0, head)
    while at >= 0:
        match = times.DATE_LINE.search(
            data, max(at - len(b"Tue Jul 13 16:02:22 U"), 0), min(at + 10, end)
        )
        if match and (start := times.parse_date_line(match)) is not None:
            result.start, result.start_exact = start, True
            return
        at = data.find(DATE_END, at + len(DATE_END), head)


def _field(data: bytearray, literal: bytes, end: int) -> tuple[int, str] | None:
    """The first value after a literal, and where it is."""
    at = data.find(literal, 0, end)
    while at >= 0:
        if match := IDENTITY.match(data, at + len(literal), end):
            return at, match[1].decode("ascii")
        at = data.find(literal, at + len(literal), end)
    return None


def _read_tail(tail: bytes, result: LogScan) -> None:
    """How the process ended."""
    if RUN_LINE in tail:
        result.run = read_run(tail.decode("utf-8", "replace"))
    # A program's output is in a log without a node line; the others have one mark, to save time.
    if (
        LAUNCH_MARK in tail[-MARKS_BYTES:]
        or (not result.nodes and has_mark(tail))
        or any(mark in tail for mark in END_MARKS)
    ):
        result.ending, result.gpu_messages, result.xids = log_end(tail)


def _take_failure(data: bytearray, at: int, end: int, result: LogScan) -> None:
    """AzureML's own message about the failure; the last one in the log counts."""
    stop = at + len(FAILED)
    if data[at - 1 : at] != b" ":
        return
    if data.startswith(PREEMPTED, stop, end):
        result.failure = ("PreemptionError", "")
    elif JOB_FAILED.search(data, max(at - 40, 0), stop) and (
        match := FAILURE.match(data, stop, end)
    ):
        result.failure = (match[1].decode("ascii", "replace"), match[2].decode("utf-8", "replace"))


def _hostname(head: bytes) -> str | None:
    """The line after `+ hostname`, with which the predecessor runtime printed its node."""
    at = head.find(b"+ hostname")
    if at < 0:
        return None
    match = HOSTNAME.search(head, head.rfind(b"\n", 0, at) + 1)
    return match[1].decode("ascii") if match else None

"""The data of `diagnose`: the contract between its parts. Nothing here reads or decides.

    sources (files, zips, blobs, azureml)  -> LogFile      one scanner reads them all
    saved JSON, live cluster, history      -> ClusterFacts raw Kubernetes objects
    PRS logs, what jobs print              -> FileEvidence tied to a path, and so to a job
    metrics                                -> Restart
    all of it                              -> DiagnosisReport, from which every output format starts

Times are seconds since the epoch (UTC); None means unknown. Texts in these records are extracted
fields, never raw log lines or environment values, because real logs contain secrets.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

if TYPE_CHECKING:
    from dataclasses import dataclass as cheap_frozen
else:

    def cheap_frozen(*, frozen: bool, slots: bool) -> Any:
        """For the records of which there is one per attempt: frozen for mypy, but not at run time,
        because making an Attempt would take 4.8 µs instead of 2.0."""
        return dataclass(slots=slots, unsafe_hash=frozen)


LOG_NAME = "amlarc_cr_bootstrap"  # how the file name starts; usually amlarc_cr_bootstrap.log

Confidence = Literal["high", "medium", "low"]


class CauseKind(StrEnum):
    """Why an attempt ended. signals.KINDS has their meanings, and which blame a node."""

    OWN_MEMORY = "own-memory-limit"
    NODE_MEMORY = "node-out-of-memory"
    NODE_LOST = "node-not-ready"
    NODE_FAULT = "node-fault"
    NODE_PRESSURE = "node-pressure"
    OWN_STORAGE = "own-storage-limit"
    SPOT = "spot-preemption"
    DRAIN = "drain"
    SCALE_DOWN = "scale-down"
    SCHEDULER = "scheduler-preemption"
    GANG = "gang-collateral"
    SETUP = "setup-error"
    USER = "user-error"
    CANCELLED = "cancelled"
    UNKNOWN = "unknown"


class RunOutcome(StrEnum):
    """How an attempt or a job ended, as far as known."""

    FAILED = "failed"
    SUCCEEDED = "succeeded"
    RUNNING = "running"
    WAITING = "waiting"  # its pod has not started; Attempt.waiting says for what
    UNKNOWN = "unknown"


class WaitingFor(StrEnum):
    """What a pod that has not started waits for."""

    UNSCHEDULABLE = "unschedulable"  # no node fits
    POD_GROUP = "pod-group"  # Volcano has not admitted the whole gang
    QUOTA = "quota"  # of the namespace or the queue
    ADMISSION = "admission"  # the API server or a webhook refused the pod
    IMAGE = "image"
    MOUNT = "mount"
    SANDBOX = "sandbox"  # the network of the pod, or the container runtime
    CONTAINER = "container"  # a container cannot be created or an init container has not ended
    UNKNOWN = "unknown"


class Level(StrEnum):
    """How good a node is, worst first."""

    BAD = "bad"
    SUSPECT = "suspect"
    RECOVERED = "recovered"  # had a fault once, and good attempts since
    NOT_ENOUGH_DATA = "not-enough-data"
    OK = "ok"


class MetricLimit(StrEnum):
    """Why the metrics of a run could not have shown a restart."""

    NO_COUNTER = "no-counter"  # every step is the same, and no epoch is logged
    FEW_POINTS = "few-points"
    EQUAL_PARTS = "equal-parts"  # the counter starts again after equally many steps


class EvidenceSource(StrEnum):
    """Where a fact was seen."""

    POD_CONDITION = "pod condition"
    POD_STATUS = "pod status"
    CONTAINER = "container"
    POD_EVENT = "pod event"
    NODE_EVENT = "node event"
    NODE_CONDITION = "node condition"
    NODE_TAINT = "node taint"
    NODE_LIST = "node list"
    EXIT_CODE = "exit code"
    LOG = "log"
    PRS = "prs"
    GANG = "gang"  # another rank of the same attempt
    POD_GROUP = "pod group"  # of Volcano
    VOLCANO_JOB = "volcano job"
    COMPARISON = "comparison"  # with other attempts


@dataclass(frozen=True, slots=True)
class Evidence:
    """One fact: where it was seen, the exact reason string, and what it means in our own words."""

    source: EvidenceSource
    reason: str  # the string as Kubernetes or AzureML writes it, e.g. "SystemOOM"
    message: str = ""
    time: float | None = None
    path: str = field(default="", compare=False)  # of the log that has it


@dataclass(frozen=True, slots=True)
class Cause:
    """Why one attempt ended. `blames_node`: evidence at that time speaks against the node.

    `countable`: nothing speaks against the node, but it may be the reason, so the comparison with
    the pool counts it: a failure without any evidence, or an error of the job's process if the same
    job then succeeded on another node.
    """

    kind: CauseKind
    confidence: Confidence
    evidence: tuple[Evidence, ...] = ()
    blames_node: bool = False
    countable: bool = False


@dataclass(frozen=True, slots=True)
class Waiting:
    """Why a pod has not started: the kind, and the evidence that says what is missing."""

    kind: WaitingFor
    evidence: tuple[Evidence, ...] = ()


@cheap_frozen(frozen=True, slots=True)
class Attempt:
    """One rank (pod) of one attempt of one job."""

    job: str  # unique within the report
    number: int  # 0 = first, 1 = retry-001, ...
    node: str | None
    # the name was truncated at the end of the file and no single node fits
    node_truncated: bool = False
    rank: str | None = None  # "worker-0", "rank-3", an IP address; None for one-pod jobs
    start: float | None = None
    end: float | None = None
    pod: str | None = None
    pod_uid: str | None = None
    pool: str | None = None
    spot: bool | None = None
    vm_instance: int | None = None
    outcome: RunOutcome = RunOutcome.UNKNOWN
    cause: Cause | None = None  # for failed attempts
    waiting: Waiting | None = None  # for attempts that have not started
    # the sweep or pipeline of the job, otherwise the job: one vote per family and node
    family: str = ""
    memory_limit: int = 0  # of the job's container, in bytes; 0: none, or not known
    sources: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@cheap_frozen(frozen=True, slots=True)
class Job:
    """A job over all its attempts."""

    name: str
    run_id: str | None
    attempts: int  # their number; ranks do not count
    outcome: RunOutcome
    nodes: tuple[str, ...]  # in order, without repeats
    causes: tuple[CauseKind, ...]  # of failed attempts, most frequent first
    since: float | None
    fails_everywhere: bool = False
    missing: int = 0  # attempts before the last without any data
    # The name of its folder or run; if other jobs share it, `name` has more of the path.
    folder: str = ""
    unsure: tuple[CauseKind, ...] = ()  # the causes that have only low confidence
    notes: tuple[str, ...] = ()

    @property
    def retried(self) -> bool:
        return self.attempts > 1


@dataclass(frozen=True, slots=True)
class Suggestion:
    """What a person can do about a bad node: a sentence, or a command to copy. Never executed."""

    text: str
    is_command: bool = False


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict on one node, with its figures."""

    node: str
    level: Level
    pool: str | None = None
    failures: int = 0  # failures that a node can be blamed for
    attempts: int = 0  # attempts that count for the node
    interval: tuple[float, float] | None = None  # Wilson 95 % of failures/attempts
    pool_rate: float | None = None  # failure rate of the other nodes of the pool
    p_value: float | None = None
    evidence: tuple[Evidence, ...] = ()  # direct evidence, newest last
    since: float | None = None  # older attempts were on another VM (reimaged, redeployed, new UID)
    spot: bool | None = None
    vm_instance: int | None = None
    gone: bool = False  # the node no longer exists
    reason: str = ""  # one sentence
    suggestions: tuple[Suggestion, ...] = ()


@dataclass(frozen=True, slots=True)
class Incident:
    """Many nodes had the same trouble at the same time: one event, not many bad nodes."""

    start: float
    end: float
    kind: CauseKind
    nodes: tuple[str, ...]
    pool: str | None = None  # None: several pools
    pool_size: int = 0  # nodes that are known there
    reason: str = ""  # one sentence: what happened, and what to check


@dataclass(frozen=True, slots=True)
class UnevenPool:
    """Much of a pool fails more often than the rest, so no node stands out: two groups to compare."""

    pool: str | None
    worse: tuple[str, ...]  # nodes
    better: tuple[str, ...]
    worse_rate: float  # of failed votes
    better_rate: float
    reason: str = ""  # one sentence


@dataclass(frozen=True, slots=True)
class RecordingGap:
    """A time without a recorder or a connection. None: before its start, or after its end."""

    start: float | None
    end: float | None
    complete: bool = False  # the cluster still had every change of that time, so nothing is missing


@dataclass(frozen=True, slots=True)
class SkippedFile:
    """A file that was not used."""

    path: str
    reason: str


@dataclass(frozen=True, slots=True)
class Restart:
    """A restart seen in metrics: a counter went backwards, or the values started over.

    Steps are None if the run has none: the epoch fell, or every step is the same.
    """

    run: str
    time: float
    kind: Literal["from-scratch", "resumed"]
    last_step: int | None  # highest step before
    first_step: int | None  # first step after; above last_step if the step is a row number
    lost_steps: int | None
    lost_seconds: float  # from reaching that step first until reaching it again
    gap_seconds: float  # the pause before the restart
    keys: tuple[str, ...] = ()  # metrics that agree
    confidence: Confidence = "high"
    source: str = ""


@dataclass(frozen=True, slots=True)
class FileEvidence:
    """Evidence from inside a job's own files (PRS), tied to the job by the file's path."""

    path: str
    evidence: Evidence
    node: str | None = None  # node id or address as in the file
    kind: CauseKind | None = None  # the cause that it suggests, if any


@dataclass(slots=True)
class Stats:
    """What was read."""

    files_read: int = 0
    files_seen: int = 0
    bytes_read: int = 0
    seconds: float = 0.0
    pods: int = 0
    nodes: int = 0
    events: int = 0
    prs_files: int = 0
    metric_runs: int = 0
    metric_points: int = 0
    # runs that could not have shown a restart
    metric_limits: dict[MetricLimit, int] = field(default_factory=dict)
    # reason -> count, also of files that are not listed
    skipped: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DiagnosisReport:
    """The whole result of `diagnose`."""

    attempts: tuple[Attempt, ...] = ()
    jobs: tuple[Job, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    incidents: tuple[Incident, ...] = ()
    uneven_pools: tuple[UnevenPool, ...] = ()
    skipped: tuple[SkippedFile, ...] = ()
    restarts: tuple[Restart, ...] = ()
    prs_evidence: tuple[FileEvidence, ...] = ()
    stats: Stats = field(default_factory=Stats)
    gaps: tuple[RecordingGap, ...] = ()  # of the history
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LogFile:
    """A file that a source offers. `open` may raise OSError, which becomes a SkippedFile.

    `path` is shown to people and contains job, attempt and rank (`azureml:JOB/system_logs/...`,
    `az://c/p/...`, `logs.zip/job/...`), with `/` between the parts.
    """

    path: str
    open: Callable[[], BinaryIO]


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """Raw Kubernetes objects as in `items` of `kubectl get ... -o json`, from any source.

    The same object may occur more than once (saved file and history): the newest by resourceVersion
    or time wins. `nodes_complete`: the node list is complete, so a node that is not in it no longer
    exists.
    """

    pods: list[dict[str, Any]] = field(default_factory=list)
    nodes: list[dict[str, Any]] = field(default_factory=list)
    events: list[dict[str, Any]] = field(default_factory=list)
    pod_groups: list[dict[str, Any]] = field(default_factory=list)  # of Volcano
    volcano_jobs: list[dict[str, Any]] = field(default_factory=list)  # vcjob
    nodes_complete: bool = False
    gaps: list[RecordingGap] = field(default_factory=list)  # of a history
    read_at: float | None = None  # until when it is known; None: as long as its newest time
    # made from tables that lack conditions, messages, exit codes and taints
    summarized: bool = False

    def add(self, kind: str, item: Any) -> None:
        """Other kinds are ignored."""
        lists = {
            "Pod": self.pods,
            "Node": self.nodes,
            "Event": self.events,
            "PodGroup": self.pod_groups,
            "Job": self.volcano_jobs,
        }
        if kind != "Job" or str(item.get("apiVersion", "")).startswith("batch.volcano.sh/"):
            lists.get(kind, []).append(item)

"""Jobs and attempts while they are assembled from logs and pods."""

from __future__ import annotations

from dataclasses import dataclass, field

from arc_toolkit.diagnosis.model import Cause, PrsEvidence, RunOutcome, Waiting
from arc_toolkit.diagnosis.pod_states import PodState
from arc_toolkit.diagnosis.volcano import GangState


@dataclass(slots=True)
class AttemptDraft:
    """One rank of one attempt while it is assembled."""

    number: int
    rank: str | None
    node: str | None
    truncated: bool = False
    start: float | None = None
    start_exact: bool = False  # otherwise when the line was collected, some time later
    end: float | None = None
    size: int = 0
    digest: int = 0
    uid: str | None = None
    failure: tuple[str, str] | None = None
    pod: PodState | None = None
    sources: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    outcome: RunOutcome = RunOutcome.UNKNOWN  # at first only what a supervisor wrote
    cause: Cause | None = None
    waiting: Waiting | None = None
    folder: int | None = None  # the number in the path of its log
    gang: GangState | None = None  # for a gang that has no pods yet
    own_evidence: tuple[
        PrsEvidence, ...
    ] = ()  # of this attempt only, from a log of `arc-toolkit run`


@dataclass(slots=True)
class JobGroup:
    """One job while it is assembled."""

    root: str
    name: str
    run_id: str | None
    drafts: list[AttemptDraft] = field(default_factory=list)
    prs_evidence: tuple[tuple[int, PrsEvidence], ...] = ()  # with the number in their path
    notes: tuple[str, ...] = ()
    missing: int = 0  # attempts before the last without any data

"""The output of `diagnose`."""

from __future__ import annotations

from arc_toolkit.diagnosis import job_card, model
from scripts.schemas.words import (
    Documents,
    Schema,
    by_name,
    count,
    flag,
    integer,
    many,
    number,
    one_of,
    or_null,
    record,
    shared,
    text,
    texts,
    time,
)

SHARED: dict[str, Schema] = {
    "evidence": record(
        {
            "source": one_of(model.EvidenceSource, "where the fact was seen"),
            "reason": text("the reason as Kubernetes or AzureML writes it, such as `SystemOOM`"),
            "message": text("what it means; may be empty"),
            "time": or_null(time("when; null if unknown")),
        },
        "one fact",
    ),
}

_CAUSE = record(
    {
        "kind": one_of(model.CauseKind, "the cause"),
        "confidence": one_of(model.Confidence, "how sure"),
        "blames_node": flag("evidence speaks against the node"),
        "evidence": many(shared("evidence", "one fact"), "what shows it"),
    },
    "why the attempt failed; null if it did not",
)
_WAITING = record(
    {
        "kind": one_of(model.WaitingFor, "what the pod waits for"),
        "evidence": many(shared("evidence", "one fact"), "what shows it"),
    },
    "why the attempt has not started; null if it has",
)
_NODE_FACTS = {
    "pool": or_null(text("the pool of the node; null if unknown")),
    "spot": or_null(flag("whether the node is a spot VM; null if unknown")),
    "vm_instance": or_null(integer("the number of the VM in its scale set; null if unknown")),
}
_ATTEMPT = record(
    {
        "number": count("0: the first attempt, 1: the first retry"),
        "rank": or_null(text("the worker; null for a job with one pod")),
        "node": or_null(text("the node; null if unknown")),
        "node_truncated": flag("the name of the node is incomplete in the log"),
        **_NODE_FACTS,
        "start": or_null(time("start; null if unknown")),
        "end": or_null(time("end; null if unknown")),
        "pod": or_null(text("the pod; null if unknown")),
        "pod_uid": or_null(text("the UID of the pod; null if unknown")),
        "outcome": one_of(model.RunOutcome, "how it ended"),
        "cause": or_null(_CAUSE),
        "waiting": or_null(_WAITING),
        "sources": texts("the files and objects that it was read from"),
        "notes": texts("what else to know"),
    },
    "one rank of one attempt",
)
_CARD = record(
    {
        "happened": text("what happened, in one sentence"),
        "nodes": by_name(
            one_of(model.Level, "the verdict"),
            "the nodes of its failed attempts, otherwise all of its nodes, with their verdicts",
        ),
        "fault": one_of(job_card.Fault, "whose fault it was"),
        "confidence": one_of(model.Confidence, "how sure that is"),
        "step": one_of(job_card.NextStep, "what to do next"),
        "advice": text("what to do next, in words"),
        "log": or_null(text("the log to open; null if there is none")),
    },
    "the answer for the person whose job it is",
)
_GROUP = record(
    {
        "name": text("the sweep or pipeline, or how its jobs ended"),
        "is_family": flag("a sweep or pipeline; otherwise jobs that ended in the same way"),
        "outcomes": by_name({"type": "integer"}, "jobs by outcome"),
        "causes": by_name({"type": "integer"}, "jobs by cause, most frequent first"),
        "jobs": count("the number of its jobs"),
    },
    "jobs that share a row of the table and the page",
)
_JOB = record(
    {
        "name": text("the job, unique in the report"),
        "run_id": or_null(text("the AzureML run; null if unknown")),
        "outcome": one_of(model.RunOutcome, "how the job ended"),
        "retried": flag("it has more than one attempt"),
        "attempt_count": count("the number of attempts; ranks do not count"),
        "nodes": texts("the nodes that it ran on, in order"),
        "causes": many(
            {"enum": [kind.value for kind in model.CauseKind]},
            "of its failures, most frequent first",
        ),
        "since": or_null(time("its first sign; null if unknown")),
        "fails_everywhere": flag(
            "it failed on several nodes in the same way, so no node is blamed"
        ),
        "notes": texts("what else to know"),
        "group": or_null(text("the name of its group; null if it is in none")),
        "card": _CARD,
        "attempts": many(_ATTEMPT, "its attempts"),
    },
    "one job",
)
_VERDICT = record(
    {
        "node": text("the node"),
        "verdict": one_of(model.Level, "how good the node is"),
        **_NODE_FACTS,
        "failures": count("failures that a node can be blamed for"),
        "attempts": count("attempts that count for the node"),
        "interval_95": or_null(
            many({"type": "number"}, "the 95 % interval of the failure rate; null without attempts")
        ),
        "pool_rate": or_null(
            number("failure rate of the other nodes of the pool; null if unknown")
        ),
        "p_value": or_null(number("of the comparison with the pool; null if there was none")),
        "history_since": or_null(
            time("older attempts were on another VM of this name; null if none were")
        ),
        "reason": text("one sentence"),
        "evidence": many(shared("evidence", "one fact"), "direct evidence, newest last"),
        "suggestions": texts("what a person can do"),
    },
    "the verdict on one node",
)
_INCIDENT = record(
    {
        "start": time("start"),
        "end": time("end"),
        "kind": one_of(model.CauseKind, "what happened"),
        "pool": or_null(text("the pool; null: several")),
        "pool_size": count("nodes that are known there"),
        "nodes": texts("the nodes"),
        "reason": text("what happened, and what to check"),
    },
    "many nodes had the same trouble at the same time",
)
_UNEVEN_POOL = record(
    {
        "pool": or_null(text("the pool; null if unknown")),
        "worse": texts("the nodes that fail more often"),
        "better": texts("the others"),
        "worse_rate": number("the share of their jobs that failed, from 0 to 1"),
        "better_rate": number("the same of the others"),
        "reason": text("the difference, and what to compare"),
    },
    "much of a pool fails more often than the rest, so that no node of it is called bad for that",
)
_STEP = "null if the run has none"
_RESTART = record(
    {
        "run": text("the run"),
        "time": time("when"),
        "kind": one_of(["from-scratch", "resumed"], "from the start, or from a checkpoint"),
        "last_step": or_null(integer(f"the highest step before; {_STEP}")),
        "first_step": or_null(integer(f"the first step after; {_STEP}")),
        "lost_steps": or_null(integer(f"steps that were done again; {_STEP}")),
        "lost_seconds": number("from reaching that step first until reaching it again"),
        "gap_seconds": number("the pause before the restart"),
        "keys": texts("the metrics that agree"),
        "confidence": one_of(model.Confidence, "how sure"),
        "source": text("where the metrics were read"),
    },
    "a restart seen in metrics",
)
_SUMMARY = record(
    {
        "files_seen": count("files that were offered"),
        "files_read": count("log files that were read, also those that the jobs printed"),
        "bytes_read": count("bytes that were read"),
        "seconds": number("how long it took"),
        "pods": count("pods that were read"),
        "nodes": count("nodes that were read"),
        "events": count("events that were read"),
        "prs_files": count("files of ParallelRunStep that were read"),
        "metric_runs": count("runs whose metrics were read"),
        "metric_points": count("points of metrics that were read"),
        "attempts": count("attempts"),
        "jobs": count("jobs"),
        "jobs_retried": count("jobs with more than one attempt"),
        "jobs_failed": count("jobs that failed"),
        "verdicts": record(
            {level.value: count("nodes") for level in model.Level}, "nodes with each verdict"
        ),
        "skipped": by_name({"type": "integer"}, "files that were not used, by reason"),
    },
    "the counts",
)

DOCUMENTS: Documents = {
    "diagnose": (
        "`arc-toolkit diagnose --format json`",
        {
            "summary": _SUMMARY,
            "jobs": many(_JOB, "the jobs"),
            "groups": many(_GROUP, "sweeps, pipelines, and jobs that ended in the same way"),
            "nodes": many(_VERDICT, "the nodes"),
            "incidents": many(_INCIDENT, "events of the whole cluster"),
            "uneven_pools": many(_UNEVEN_POOL, "pools with two groups of nodes"),
            "restarts": many(_RESTART, "restarts seen in metrics"),
            "findings": many(
                record(
                    {
                        "path": text("the file"),
                        "node": or_null(text("the node as in the file; null if unknown")),
                        "speaks_for": or_null(
                            one_of(model.CauseKind, "the cause that it suggests; null if none")
                        ),
                        "evidence": shared("evidence", "what was found"),
                    },
                    "evidence in one file of a ParallelRunStep",
                ),
                "evidence in the files of ParallelRunSteps",
            ),
            "skipped": many(
                record({"path": text("the file"), "reason": text("why")}, "one file"),
                "files that were not used",
            ),
            "gaps": many(
                record(
                    {
                        "start": or_null(time("start; null: before the recorder started")),
                        "end": or_null(time("end; null: after the recorder ended")),
                        "complete": flag(
                            "the cluster still had every change of that time, so nothing is missing"
                        ),
                    },
                    "one gap",
                ),
                "times in which the recorder of the history did not run",
            ),
            "notes": texts("what else to know"),
        },
    ),
}

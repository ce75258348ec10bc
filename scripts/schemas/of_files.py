"""The outputs of commands that run over files, and the list of rules."""

from __future__ import annotations

from collections.abc import Iterable

from arc_toolkit.edit.files.edits import SkipCause
from arc_toolkit.findings import Language, LedgerOutcome, Severity
from arc_toolkit.output.run_report import Status
from scripts.schemas.words import (
    Documents,
    Schema,
    count,
    flag,
    integer,
    many,
    one_of,
    or_null,
    record,
    shared,
    text,
    texts,
    time,
)

_LINE = count("line, from 1; 0: the whole file")
_COLUMN = count("column in characters, from 1; 0: the whole line or file")

SHARED: dict[str, Schema] = {
    "finding": record(
        {
            "rule": text(
                "the rule, or the setting that was asked for; `arc-toolkit rules` lists the rules"
            ),
            "severity": one_of(Severity, "how bad it is"),
            "message": text("one sentence"),
            "path": text("the file; `-` is standard input"),
            "line": _LINE,
            "column": _COLUMN,
            "reason": text("the evidence, or why it was not changed; may be empty"),
            "fixable": one_of(
                ["safe", "unsafe", False],
                "whether `patch` fixes it; `unsafe` only with --unsafe-fixes",
            ),
            "fixed": flag("this run wrote the fix"),
            "fix": or_null(
                record(
                    {
                        "title": text("what the fix does"),
                        "edits": many(
                            record(
                                {
                                    "line": integer("first line of the region, from 1"),
                                    "column": integer(
                                        "first column of the region in characters, from 1"
                                    ),
                                    "end_line": integer("last line of the region"),
                                    "end_column": integer("first column after the region"),
                                    "text": text("the text in place of the region"),
                                },
                                "one replacement",
                            ),
                            "replacements in the order of the text; empty if this run wrote the fix",
                        ),
                    },
                    "the fix; null if there is none",
                )
            ),
            "ledger": many(
                record(
                    {
                        "source": text("the class or file that is converted; may be empty"),
                        "argument": text("an argument of it, or what is added to the result"),
                        "outcome": one_of(
                            LedgerOutcome,
                            "`dropped`: nothing is lost; `lost`: v2 has no place for it; "
                            "`by hand`: a person has to write it",
                        ),
                        "becomes": text("the place in the result; may be empty"),
                        "reason": text("what differs, or why; may be empty"),
                        "path": text("the file that has it; empty: the file of the finding"),
                        "line": _LINE,
                        "column": _COLUMN,
                    },
                    "one argument",
                ),
                "of a conversion: every argument of its source; absent otherwise",
            ),
        },
        "something that a rule found, or a setting that was set or could not be set",
        optional=("ledger",),
    ),
}


def _run(statuses: Iterable[Status], *, changes: bool) -> dict[str, Schema]:
    """What `RunReport` writes for a run over files."""
    entry = {
        "path": text("the file; `-` is standard input"),
        "status": one_of([s.value for s in statuses], "result"),
    }
    if changes:
        entry |= {
            "refused": or_null(text("why no safe change was possible; null if it was")),
            "diff": text("the unified diff; empty without a change"),
            "new_files": texts("files that are written beside it"),
        }
    skipped = {
        "path": text("the file"),
        "cause": one_of(SkipCause, "why, for programs"),
        "reason": text("why, for people"),
        "line": _LINE,
        "column": _COLUMN,
    }
    problem = {"path": text("the file or folder"), "message": text("one sentence"), "line": _LINE}
    return {
        "files": many(record(entry, "one file"), "every file that was looked at"),
        "findings": many(shared("finding", "one finding"), "in the order of files and lines"),
        "skipped": many(record(skipped, "one file"), "files that were not used"),
        "problems": many(
            record(problem, "one path"), "paths that cannot be used: the exit code is then 2"
        ),
    }


_CHANGE = (Status.CHANGED, Status.WOULD_CHANGE, Status.UNCHANGED, Status.REFUSED)
_REPORT = (Status.CHECKED,)

_CHECKPOINT = {
    "folder": text("the folder of the checkpoint"),
    "step": or_null(count("of the training; null without a manifest that can be read")),
    "epoch": or_null(integer("of the training, if the run gave one")),
    "created": or_null(time("when it was saved")),
    "reason": or_null(text("why it was saved: interval, notice, final or another word of the run")),
    "bytes": or_null(count("size of all files")),
    "world_size": or_null(count("processes of the run")),
    "metrics": {"type": ["object", "null"], "description": "what the run gave along"},
    "state": text("committed, or why it is not a valid checkpoint"),
}

DOCUMENTS: Documents = {
    "patch": ("`arc-toolkit patch --format json`", _run(_CHANGE, changes=True)),
    "place": ("`arc-toolkit place --format json`", _run(_CHANGE, changes=True)),
    "check": ("`arc-toolkit check --format json`", _run(_REPORT, changes=False)),
    "validate": (
        "`arc-toolkit validate --format json`",
        {"types": count("InstanceTypes that were checked"), **_run(_REPORT, changes=False)},
    ),
    "rules": (
        "`arc-toolkit rules --format json`",
        {
            "rules": many(
                record(
                    {
                        "id": text("the name of the rule"),
                        "severity": one_of(Severity, "how bad a finding is"),
                        "fix": one_of(["safe", "unsafe", "none"], "whether `patch` fixes it"),
                        "command": text(
                            "the commands that report it, separated by a comma and a space"
                        ),
                        "language": one_of(Language, "the files that it is about"),
                        "summary": text("what it finds"),
                        "why": text("why it matters, in Markdown"),
                        "before": text("an example"),
                        "after": text("the example without the finding"),
                    },
                    "one rule",
                ),
                "in order of name",
            )
        },
    ),
    "checkpoints": (
        "`arc-toolkit checkpoints --format json`",
        {"checkpoints": many(record(_CHECKPOINT, "one checkpoint"), "the newest first")},
    ),
}

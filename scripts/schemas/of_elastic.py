"""The summary of `elastic`."""

from __future__ import annotations

from scripts.schemas.words import Documents, by_name, count, number, text

DOCUMENTS: Documents = {
    "elastic": (
        "`arc-toolkit elastic --format json`",
        {
            "name": text("of the run"),
            "outcome": text("finished, failed, cancelled; running if it has not ended"),
            "code": count("the exit code"),
            "seconds": number("from start to end"),
            "seconds_trained": number(
                "between steps; of a script that reports none, the time in which its ranks ran"
            ),
            "seconds_lost": by_name(
                {"type": "number"},
                "by cause: start, eviction, lost node, lost controller, growing, shrinking, failure",
            ),
            "steps": count("done, each counted once"),
            "steps_redone": count("done again after a loss"),
            "evictions_survived": count("nodes with workers that were taken away"),
            "failures": count("errors of the script"),
            "throughput": by_name({"type": "number"}, "measured, by number of workers"),
            "throughput_unit": text("`samples per second`, or `steps per second` of all workers"),
        },
    ),
}

"""Runs an incident case through the command line and compares the report with the expert's answer beside it.

The format of a case is in cases/README.md. An answer is *right* if every judged key fits, *unsure* if it says unknown
where an expert knows better, and *wrong* otherwise.
"""

from __future__ import annotations

import csv
import io
import json
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from arc_toolkit.cli.main import main

CASES = Path(__file__).parent / "cases"
# How the attempts of several ranks sum up, worst first.
_WORST_FIRST = ("failed", "running", "waiting", "unknown", "succeeded")


def load(path: Path) -> dict[str, Any]:
    case: dict[str, Any] = yaml.load(
        path.read_text(), getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    )
    return case


def report_of(case: dict[str, Any], folder: Path) -> dict[str, Any]:
    """What `diagnose --format json` says of a case whose inputs are saved below a folder."""
    words, sources = ["--quiet", "--format", "json"], []
    for path, text in (case.get("files") or {}).items():
        target = folder / "logs" / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(text if isinstance(text, bytes) else text.encode())
    if case.get("files"):
        sources.append(str(folder / "logs"))
    for key in ("pods", "nodes", "events", "podgroups", "vcjobs"):
        value = case.get(key)
        if value is None:
            continue
        document = (
            value
            if isinstance(value, dict)
            else {"apiVersion": "v1", "kind": "List", "items": value}
        )
        saved = folder / f"{key}.json"
        saved.write_text(json.dumps(document))
        if key in ("pods", "nodes", "events"):
            words += [f"--{key}", str(saved)]
        else:
            sources.append(str(saved))
    if case.get("metrics"):
        with (folder / "metrics.csv").open("w", newline="") as stream:
            writer = csv.DictWriter(stream, ["run", "key", "step", "value", "timestamp"])
            writer.writeheader()
            writer.writerows(case["metrics"])
        words += ["--metrics", str(folder / "metrics.csv")]
    out, errors = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(errors):
        code = main(["diagnose", *sources, *words])
    if code:
        raise RuntimeError(f"exit code {code}: {errors.getvalue().strip()[-300:]}")
    report: dict[str, Any] = json.loads(out.getvalue())
    return report


@dataclass
class Judgement:
    """What does not fit the expected answer."""

    wrong: list[str] = field(default_factory=list)
    unsure: list[str] = field(default_factory=list)

    @property
    def word(self) -> str:
        return "wrong" if self.wrong else "unsure" if self.unsure else "right"

    def compare(self, what: str, expected: Any, actual: Any, *honest: Any) -> None:
        if not accepts(expected, actual):
            (self.unsure if actual in honest else self.wrong).append(
                f"{what}: {actual!r}, expected {expected!r}"
            )


def accepts(expected: Any, actual: Any) -> bool:
    """Any value of a list is an acceptable answer."""
    return actual in expected if isinstance(expected, list) else bool(actual == expected)


def judge(case: dict[str, Any], report: dict[str, Any]) -> Judgement:
    expect, result = case["expect"], Judgement()
    for name, expected in (expect.get("jobs") or {}).items():
        job = _job(report, name)
        if job is None:
            if not accepts(expected.get("outcome"), "unknown"):
                result.wrong.append(f"job {name} is missing")
            continue
        if "outcome" in expected:
            result.compare(f"{name} outcome", expected["outcome"], job["outcome"], "unknown")
        if "attempts" in expected:
            _judge_attempts(result, name, expected["attempts"], job["attempts"])
    levels = {verdict["node"]: verdict["verdict"] for verdict in report["nodes"]}
    for node, level in (expect.get("nodes") or {}).items():
        if node in levels or not accepts(level, "ok"):
            result.compare(
                f"node {node}", level, levels.get(node, "not-enough-data"), "not-enough-data"
            )
    for node in expect.get("never_bad") or ():
        if levels.get(node) in ("bad", "suspect"):
            result.wrong.append(f"node {node} is {levels[node]} and must not be")
    if expect.get("incident") and not report.get("incidents"):
        result.unsure.append("no incident is reported")
    if "restarts" in expect:
        _judge_restarts(result, expect["restarts"], report.get("restarts", []))
    return result


def _job(report: dict[str, Any], name: str) -> dict[str, Any] | None:
    parent, _, folder = name.rpartition("/")
    for job in report["jobs"]:
        if name in (job["run_id"], job["name"]) or (
            parent and job["name"].startswith(f"{folder} (") and parent in job["name"]
        ):
            found: dict[str, Any] = job
            return found
    return None


def _judge_attempts(
    result: Judgement, name: str, expected: list[dict[str, Any]], actual: list[dict[str, Any]]
) -> None:
    by_number: dict[int, list[dict[str, Any]]] = {}
    for attempt in actual:
        by_number.setdefault(attempt["number"], []).append(attempt)
    if len(by_number) != len(expected):
        expected = [entry for entry in expected if not entry.get("optional")]
    if len(by_number) != len(expected):
        result.wrong.append(f"{name}: {len(by_number)} attempts, expected {len(expected)}")
        return
    for entry, number in zip(expected, sorted(by_number), strict=True):
        label, ranks = f"{name} attempt {number}", by_number[number]
        if "ranks" in entry:
            _judge_ranks(result, label, entry, ranks)
        else:
            _judge_attempt(result, label, entry, min(ranks, key=_first_of_gang))


def _first_of_gang(rank: dict[str, Any]) -> tuple[int, bool, str]:
    """The rank that an answer for the whole attempt is about: not one that only followed another."""
    collateral = bool(rank["cause"]) and rank["cause"]["kind"] == "gang-collateral"
    return _WORST_FIRST.index(rank["outcome"]), collateral, rank["rank"] or ""


def _judge_attempt(
    result: Judgement, label: str, entry: dict[str, Any], attempt: dict[str, Any]
) -> None:
    cause = attempt["cause"]
    kind = cause["kind"] if cause else None
    if "node" in entry:
        result.compare(
            f"{label} node",
            entry["node"],
            None if attempt["node_truncated"] else attempt["node"],
            None,
        )
    if "outcome" in entry:
        result.compare(f"{label} outcome", entry["outcome"], attempt["outcome"], "unknown")
    if "cause" in entry:
        result.compare(f"{label} cause", entry["cause"], kind, "unknown")
    if "blames_node" in entry and cause:
        result.compare(f"{label} blames_node", entry["blames_node"], cause["blames_node"], False)
    if entry.get("waiting_for") is not None:
        result.compare(
            f"{label} waiting_for",
            entry["waiting_for"],
            (attempt["waiting"] or {}).get("kind"),
            None,
            "unknown",
        )


def _judge_ranks(
    result: Judgement, label: str, entry: dict[str, Any], ranks: list[dict[str, Any]]
) -> None:
    """A rank that was replaced within its attempt is listed once per pod, in order; the last one is its outcome."""
    by_index: dict[str, list[dict[str, Any]]] = {}
    for rank in ranks:
        by_index.setdefault(str(rank["rank"]).rpartition("-")[2], []).append(rank)
    final = [tries[-1] for tries in by_index.values()]
    for expected in entry["ranks"]:
        tries = by_index.get(str(expected["rank"]), ranks if len(ranks) == 1 else [])
        if not tries:
            result.wrong.append(f"{label}: rank {expected['rank']} is missing")
        else:
            rank = tries.pop(0) if len(tries) > 1 else tries[0]
            _judge_attempt(result, f"{label} rank {expected['rank']}", expected, rank)
    if "outcome" in entry:
        worst = min((rank["outcome"] for rank in final), key=_WORST_FIRST.index)
        result.compare(f"{label} outcome", entry["outcome"], worst, "unknown")
    if "cause" in entry:
        kinds = {rank["cause"]["kind"] for rank in ranks if rank["cause"]} - {"gang-collateral"}
        for kind in sorted(kinds) or [None]:
            result.compare(f"{label} cause", entry["cause"], kind, "unknown")


def _judge_restarts(
    result: Judgement, expected: list[dict[str, Any]], actual: list[dict[str, Any]]
) -> None:
    if len(actual) != len(expected):
        result.wrong.append(f"{len(actual)} restarts, expected {len(expected)}")
        return
    for entry, restart in zip(expected, actual, strict=True):
        for key in ("run", "kind", "last_step", "first_step"):
            if entry.get(key) is not None:
                result.compare(f"restart {key}", entry[key], restart[key])

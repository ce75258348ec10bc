"""The command as people run it: what it prints, where, and how it ends."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from arc_toolkit.resources import data_file
from tests.diagnosis.made import (
    NODE_A,
    NODE_B,
    NODE_C,
    container,
    event,
    node,
    node_line,
    pod,
    save,
    write_log,
)
from tests.support import ROOT, Result

Arc = Callable[..., Result]
LOG = "amlarc_cr_bootstrap.log"
DEMO = data_file("demo") / "logs"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A retried job whose first node ran out of memory, and a job that ran once."""
    write_log(tmp_path, f"brave/artifacts/system_logs/{LOG}", NODE_A)
    write_log(tmp_path, f"brave/artifacts/system_logs/retry-001/{LOG}", NODE_B)
    write_log(tmp_path, f"calm/artifacts/system_logs/{LOG}", NODE_C)
    (tmp_path / "brave/artifacts/user_logs").mkdir()
    (tmp_path / "brave/artifacts/user_logs/notes.txt").write_text("password=hunter2222\n")
    killed = pod("brave", NODE_A, "u1", containers=[container(code=137)])
    save(tmp_path / "pods.json", [killed, pod("brave", NODE_B, "u2", phase="Succeeded", start=35)])
    save(tmp_path / "nodes.json", [node(NODE_A), node(NODE_B), node(NODE_C)])
    save(tmp_path / "events.json", [event("SystemOOM", 29.9)])
    return tmp_path


def test_the_table_shows_jobs_nodes_and_causes(arc: Arc, tree: Path) -> None:
    result = arc("diagnose", tree)
    assert result.code == 0
    lines = result.out.splitlines()
    assert lines[0] == "1 of 2 jobs retried, 1 bad node of 3"
    row = next(line for line in lines if line.startswith("brave"))
    assert row.split("  ")[0] == "brave"
    for word in (
        "2",
        "succeeded",
        f"{NODE_A} -> {NODE_B}",
        "node out of memory",
        "2026-03-03 10:00",
    ):
        assert word in row
    bad = next(line for line in lines if line.startswith(NODE_A))
    assert "bad" in bad
    assert "SystemOOM" in bad
    assert f"  kubectl describe node {NODE_A}" in lines
    assert "  1 not a file that diagnose reads" in lines
    assert result.err.startswith("3 logs read (")
    assert "3 attempts of 2 jobs, 1 retried, in " in result.err


def test_one_job_in_detail(arc: Arc, tree: Path) -> None:
    result = arc("diagnose", tree, "--job", "brave")
    assert "attempt 0: " + NODE_A in result.out
    assert "node event SystemOOM at 2026-03-03T10:29:54Z" in result.out
    assert "exit code 137" in result.out
    assert "calm" not in result.out
    missing = arc("diagnose", tree, "--job", "brav")
    assert missing.code == 2
    assert "did you mean `brave`?" in missing.err


def test_json_has_everything_and_names_its_schema(arc: Arc, tree: Path) -> None:
    document = json.loads(arc("diagnose", tree, "--format", "json").out)
    assert document["schema"] == "arc-toolkit/diagnose/v1"
    assert document["summary"]["jobs_retried"] == 1
    assert document["summary"]["verdicts"] == {
        "bad": 1,
        "suspect": 0,
        "recovered": 0,
        "not-enough-data": 2,
        "ok": 0,
    }
    brave = next(job for job in document["jobs"] if job["name"] == "brave")
    first = brave["attempts"][0]
    assert (first["number"], first["node"], first["pod_uid"], first["vm_instance"]) == (
        0,
        NODE_A,
        "u1",
        10,
    )
    assert first["cause"]["kind"] == "node-out-of-memory"
    assert first["cause"]["evidence"][0]["reason"] == "SystemOOM"
    assert [entry["reason"] for entry in document["skipped"]] == ["not a file that diagnose reads"]
    assert document["nodes"][0]["suggestions"]
    card = brave["card"]
    assert (card["fault"], card["confidence"], card["step"]) == ("node", "high", "nothing")
    assert card["nodes"] == {NODE_A: "bad"}
    assert (brave["group"], document["groups"]) == (None, [])


def test_csv_has_one_row_per_attempt(arc: Arc, tree: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(arc("diagnose", tree, "--format", "csv").out)))
    assert [(row["job"], row["attempt"], row["node"], row["cause"]) for row in rows] == [
        ("brave", "0", NODE_A, "node-out-of-memory"),
        ("brave", "1", NODE_B, ""),
        ("calm", "0", NODE_C, ""),
    ]


def test_markdown_is_ready_for_an_issue(arc: Arc, tree: Path) -> None:
    out = arc("diagnose", tree, "--format", "markdown").out
    assert f"| `brave` | 2 | succeeded | `{NODE_A}` → `{NODE_B}` | node out of memory |" in out
    assert f"| `{NODE_A}` | bad |" in out
    assert "```sh\nkubectl describe node" in out


def test_no_secret_of_a_log_or_an_object_is_shown(arc: Arc, tmp_path: Path) -> None:
    secret = "sv=2024&sig=TOPSECRETTOPSECRET"
    log = write_log(tmp_path, f"j/system_logs/{LOG}", NODE_A)
    log.write_bytes(
        f"+ export TOKEN={secret}\n".encode()
        + node_line(NODE_A)
        + f"AML Kubernetes Compute job failed. 1:{secret}\n".encode()
    )
    failed = pod("j", NODE_A, "u", containers=[container(code=1)], message=secret, reason="Evicted")
    failed["spec"]["containers"] = [{"env": [{"name": "KEY", "value": secret}]}]
    save(tmp_path / "pods.json", [failed])
    save(tmp_path / "events.json", [event("SystemOOM", 30, message=secret)])
    for form in ("table", "json", "csv", "markdown"):
        assert "TOPSECRET" not in arc("diagnose", tmp_path, "--format", form).out
    assert "TOPSECRET" not in arc("diagnose", tmp_path, "--job", "j").out


@pytest.mark.parametrize("form", ["table", "json", "csv", "markdown"])
def test_a_hostile_name_reaches_no_terminal_and_no_spreadsheet(
    arc: Arc, tmp_path: Path, form: str
) -> None:
    name = "=cmd()\x1b[2J|`<script>"
    write_log(tmp_path, f"{name}/system_logs/{LOG}", NODE_A)
    save(tmp_path / "pods.json", [pod("lone \ud800 surrogate", NODE_B, "u")])
    result = arc("diagnose", tmp_path, "--format", form)
    assert result.code == 0
    assert "\x1b" not in result.out
    if form == "csv":
        assert "\n'=cmd()" in result.out
    if form == "markdown":
        assert "\\|" in result.out
        assert "\\<script\\>" in result.out


@pytest.mark.parametrize("form", ["table", "csv", "markdown", "html"])
def test_a_name_breaks_no_line_and_turns_no_writing(arc: Arc, tmp_path: Path, form: str) -> None:
    name = "a\nFAKE 9\tb\u2028c\u202etxt"
    write_log(tmp_path, f"{name}/system_logs/{LOG}", NODE_A)
    out = arc("diagnose", tmp_path, "--format", form).out
    assert "FAKE" in out
    assert not any(line.startswith("FAKE") for line in out.splitlines())
    assert not set("\t\u2028\u202e") & set(out) or form == "html"
    assert not set("\u2028\u202e") & set(out)


@pytest.mark.parametrize(
    ("condition", "code"), [("failed", 0), ("retried", 1), ("bad-node", 1), ("suspect-node", 1)]
)
def test_fail_on_decides_the_exit_code(arc: Arc, tree: Path, condition: str, code: int) -> None:
    assert arc("diagnose", tree, "--fail-on", condition).code == code


def test_fail_on_may_be_given_twice(arc: Arc, tree: Path) -> None:
    assert arc("diagnose", tree, "--fail-on", "failed", "--fail-on", "retried").code == 1
    refused = arc("diagnose", tree, "--fail-on", "rain")
    assert refused.code == 2
    assert refused.out == ""


def test_output_goes_to_a_file_without_colour(arc: Arc, tree: Path, tmp_path: Path) -> None:
    target = tmp_path / "report.txt"
    result = arc("diagnose", tree, "-o", target, "--color", "always")
    assert result.out == ""
    assert target.read_text().startswith("1 of 2 jobs retried")
    assert "\x1b" not in target.read_text()


def test_saved_objects_can_be_named_by_option(arc: Arc, tree: Path) -> None:
    logs = tree / "brave"
    result = arc(
        "diagnose",
        logs,
        "--pods",
        tree / "pods.json",
        "--events",
        tree / "events.json",
        "--format",
        "json",
    )
    job = json.loads(result.out)["jobs"][0]
    assert job["causes"] == ["node-out-of-memory"]


def test_the_cluster_alone_is_enough(arc: Arc, tree: Path) -> None:
    result = arc("diagnose", "--pods", tree / "pods.json", "--nodes", tree / "nodes.json")
    assert result.code == 0
    assert "brave" in result.out


@pytest.mark.parametrize("form", ["table", "json", "csv", "markdown", "html"])
def test_the_summary_line_is_on_standard_error_in_every_format(
    arc: Arc, tree: Path, form: str
) -> None:
    assert "3 attempts of 2 jobs, 1 retried, in " in arc("diagnose", tree, "--format", form).err


@pytest.mark.parametrize("form", ["table", "markdown"])
def test_weak_evidence_shows_as_a_question(arc: Arc, tmp_path: Path, form: str) -> None:
    pods = [pod("brave", NODE_A, "u1", phase="Failed", containers=[container(code=139)])]
    assert (
        "user error? "
        in arc("diagnose", "--pods", save(tmp_path / "p.json", pods), "--format", form).out
    )
    pods = [pod("brave", NODE_A, "u1", phase="Failed", containers=[container(code=1)])]
    assert (
        "user error "
        in arc("diagnose", "--pods", save(tmp_path / "p.json", pods), "--format", form).out
    )


def test_quiet_prints_the_result_only(arc: Arc, tree: Path) -> None:
    assert arc("diagnose", tree, "--quiet").err == ""


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "nothing to diagnose"),
        (["missing"], "no such file or folder: missing"),
        (
            ["--watch"],
            "--watch records the events of a cluster: it needs --cluster and --history FILE",
        ),
        (["x", "--context", "c"], "they need --cluster"),
        (["-", "--pods", "-"], "standard input can be read only once"),
        (["x", "--jobs", "0"], "--jobs: must be at least 1, not 0"),
        (["x", "--retention", "ever"], "is not a number of days"),
    ],
)
def test_what_cannot_be_used_is_one_sentence(arc: Arc, words: list[str], sentence: str) -> None:
    result = arc("diagnose", *words)
    assert (result.code, result.out) == (2, "")
    assert sentence in result.err
    assert len(result.err.splitlines()) == 1


def test_a_folder_without_logs_says_what_was_seen_and_what_to_do(arc: Arc, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("x")
    result = arc("diagnose", tmp_path)
    assert result.code == 2
    assert "1 file searched: 1 not a file that diagnose reads" in result.err
    assert "az ml job download --all" in result.err


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("{", "not JSON"),
        ("[]", "not a Kubernetes list or object"),
        (
            '{"kind":"List","items":[{"kind":"Secret"}]}',
            "no pods, nodes, events, or PodGroups and jobs of Volcano",
        ),
        ('{"kind":"List","items":[{"kind":"Node"}]}', "contains no pods"),
        ("[" * 100000, "not JSON"),
    ],
)
def test_a_named_file_of_the_wrong_kind_is_refused(
    arc: Arc, tmp_path: Path, content: str, sentence: str
) -> None:
    path = tmp_path / "x.json"
    path.write_text(content)
    result = arc("diagnose", "--pods", path)
    assert result.code == 2
    assert sentence in result.err
    assert "kubectl get pods -A -o json" in result.err


def test_the_demo_tree_shows_three_different_causes(arc: Arc) -> None:
    document = json.loads(arc("diagnose", DEMO, "--format", "json").out)
    causes = {job["name"]: job["causes"] for job in document["jobs"]}
    assert causes == {
        "brave_fig_4k2": ["node-out-of-memory"],
        "calm_pear_9x1": ["spot-preemption"],
        "dull_plum_7r3": ["own-memory-limit"],
    }
    assert [entry["node"] for entry in document["nodes"] if entry["verdict"] == "bad"] == [
        "aks-gpu-31415926-vmss00000a"
    ]


def test_the_example_of_the_help_works_when_pasted() -> None:
    line = "++ echo 'Run on node: aks-gpu-12345678-vmss000046'\n"
    done = subprocess.run(
        [sys.executable, "-m", "arc_toolkit", "diagnose", "-"],
        input=line,
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert done.returncode == 0
    assert "aks-gpu-12345678-vmss000046" in done.stdout


def test_every_option_is_in_the_documentation() -> None:
    from arc_toolkit.cli.main import command_parser

    page = (ROOT / "docs/diagnose.md").read_text()
    options = [
        option for action in command_parser("diagnose")._actions for option in action.option_strings
    ]
    missing = [
        option
        for option in options
        if option not in page and option not in ("-h", "--help", "-q", "-v")
    ]
    assert missing == []


def names(document: dict[str, Any]) -> list[str]:
    return [job["name"] for job in document["jobs"]]


def test_many_jobs_are_cut_in_the_table_and_whole_in_csv(arc: Arc, tmp_path: Path) -> None:
    for number in range(60):
        write_log(tmp_path, f"j{number}/system_logs/{LOG}", NODE_A)
    listed = arc("diagnose", tmp_path, "--all-jobs").out
    assert "... and 10 more jobs (--format csv has them all)" in listed
    collapsed = arc("diagnose", tmp_path).out
    assert "(60 jobs)" in collapsed
    assert "j59" not in collapsed
    assert len(names(json.loads(arc("diagnose", tmp_path, "--format", "json").out))) == 60


def test_the_examples_of_the_documentation_are_real(
    arc: Arc, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    page = (ROOT / "docs/diagnose.md").read_text()
    blocks = [part.split("\n```")[0] for part in page.split("```console\n$ ")[1:]]
    assert len(blocks) == 2
    for block in blocks:
        command, _, expected = block.partition("\n")
        assert arc(*command.split()[1:]).out.rstrip("\n") == expected

"""Sources as people name them: what was read and found nothing, pipes, and addresses with secrets."""

from __future__ import annotations

import gzip
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.diagnosis.made import NODE_A, container, node_line, pod, save
from tests.support import ROOT, Result

Arc = Callable[..., Result]
RISING = "key,value,step,timestamp\n" + "".join(
    f"loss,1,{step},{1.78e9 + 10 * step}\n" for step in range(50)
)
FALLING = RISING + "".join(f"loss,1,{step},{1.78e9 + 2000 + 10 * step}\n" for step in range(20))
FORMATS = ["table", "json", "csv", "markdown", "html"]


@pytest.mark.parametrize("form", ["table", "json", "markdown", "html"])
def test_metrics_without_a_restart_are_an_answer(arc: Arc, tmp_path: Path, form: str) -> None:
    (tmp_path / "m.csv").write_text(RISING)
    result = arc("diagnose", "--metrics", tmp_path / "m.csv", "--format", form)
    assert result.code == 0
    assert "no restart found in 1 run, 50 points" in result.out


@pytest.mark.parametrize("form", ["table", "json", "markdown", "html"])
def test_a_restart_in_metrics_is_in_the_report(arc: Arc, tmp_path: Path, form: str) -> None:
    (tmp_path / "m.csv").write_text(FALLING)
    result = arc("diagnose", "--metrics", tmp_path / "m.csv", "--format", form)
    assert result.code == 0
    assert "no restart found" not in result.out
    assert "49" in result.out
    assert "scratch" in result.out


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ([("auc", 0, 3600 * at, 0.7) for at in range(6)], "none is called epoch"),
        ([("loss", at, 3600 * at, 0.7) for at in range(4)], "too few points"),
        ([("loss", at % 50, 10 * at, 0.7) for at in range(150)], "as epochs do"),
    ],
)
def test_metrics_that_could_not_show_a_restart_do_not_say_that_there_is_none(
    arc: Arc, tmp_path: Path, rows: list[tuple[str, int, int, float]], says: str
) -> None:
    lines = [f"{key},{step},{1.78e9 + at},{value}" for key, step, at, value in rows]
    (tmp_path / "m.csv").write_text("\n".join(["key,step,timestamp,value", *lines]))
    result = arc("diagnose", "--metrics", tmp_path / "m.csv")
    assert result.code == 0
    assert "no restart found" not in result.out
    assert "metrics cannot show whether 1 run restarted" in result.out
    assert says in result.out


def test_runs_that_could_show_a_restart_are_counted_apart_from_those_that_could_not(
    arc: Arc, tmp_path: Path
) -> None:
    lines = [f"able,loss,{at},{1.78e9 + 10 * at},1" for at in range(50)]
    lines += [f"blind,auc,0,{1.78e9 + 10 * at},1" for at in range(50)]
    (tmp_path / "m.csv").write_text("\n".join(["trial_id,key,step,timestamp,value", *lines]))
    result = arc("diagnose", "--metrics", tmp_path / "m.csv")
    assert "no restart found in 1 run" in result.out
    assert "metrics cannot show whether 1 run restarted" in result.out


@pytest.mark.parametrize("form", ["table", "json", "markdown", "html"])
def test_a_restart_without_steps_is_shown_without_steps(
    arc: Arc, tmp_path: Path, form: str
) -> None:
    epochs = [*range(8), *range(3, 12)]
    lines = [f"epoch,{row},{1.78e9 + 30 * row},{epoch}" for row, epoch in enumerate(epochs)]
    (tmp_path / "m.csv").write_text("\n".join(["key,step,timestamp,value", *lines]))
    result = arc("diagnose", "--metrics", tmp_path / "m.csv", "--format", form)
    assert result.code == 0
    assert "resumed" in result.out
    assert "None" not in result.out


def test_a_parallel_job_without_trouble_is_an_answer(arc: Arc, tmp_path: Path) -> None:
    report = tmp_path / "j/logs/sys/job_report/processed_mini-batches.csv"
    report.parent.mkdir(parents=True)
    report.write_text("Mini-batch Id,Picked Count\n1,1\n2,1\n")
    result = arc("diagnose", tmp_path)
    assert result.code == 0
    assert "nothing unusual in 1 file of parallel jobs" in result.out


def test_an_empty_list_of_pods_is_an_answer(arc: Arc, tmp_path: Path) -> None:
    result = arc("diagnose", "--pods", save(tmp_path / "pods.json", []))
    assert (result.code, result.out.strip()) == (0, "nothing to report: no jobs and no nodes")


def test_standard_input_is_for_one_reader_only(arc: Arc) -> None:
    result = arc("diagnose", "-", "--metrics", "-")
    assert result.code == 2
    assert "standard input can be read only once" in result.err


SECRETS = [
    ["--metrics", "mlflow:http://user:TOPSECRET@127.0.0.1:9/#r"],
    ["--metrics", "mlflow:http://user:TOP/SECRET@127.0.0.1:9/"],
    ["--metrics", "az://c/m.csv?sv=1&sig=TOPSECRET"],
    ["--pods", "https://host/pods.json?sig=TOPSECRET"],
    ["az://c/p?sv=1&sig=TOPSECRET"],
    ["https://user:TOPSECRET@host/logs"],
    ["https://host/logs?sig=TOPSECRET"],
]


@pytest.mark.parametrize("words", SECRETS, ids=lambda words: words[-1][:20])
def test_an_address_is_never_shown_with_its_secrets(
    arc: Arc, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    result = arc("diagnose", *words)
    assert result.code == 2
    assert "SECRET" not in result.out + result.err


@pytest.mark.parametrize("form", FORMATS)
def test_the_secrets_in_the_url_of_metrics_are_never_shown(
    arc: Arc, monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    from arc_toolkit.diagnosis.read.sources import metric_points as metrics

    points = [
        metrics.Point("loss", step, 100.0 * at, 1.0)
        for at, step in enumerate([*range(50), *range(20)])
    ]
    points = [
        one._replace(time=one.time + (9000 if at >= 50 else 0)) for at, one in enumerate(points)
    ]
    monkeypatch.setattr(metrics, "_read_mlflow", lambda source: {"r": points})
    result = arc(
        "diagnose",
        "--metrics",
        "mlflow:http://me:TOPSECRET@host/?token=TOPSECRET#r",
        "--format",
        form,
    )
    assert result.code == 0
    assert "SECRET" not in result.out + result.err
    if form == "json":
        assert json.loads(result.out)["restarts"][0]["source"] == "mlflow:http://host/#r"


def piped(data: bytes, *words: str) -> subprocess.CompletedProcess[bytes]:
    """The command with a pipe that it opens by name, as <(...) of a shell gives it."""
    read, write = os.pipe()
    try:
        os.write(write, data)
        os.close(write)
        return subprocess.run(
            [sys.executable, "-m", "arc_toolkit", "diagnose", f"/dev/fd/{read}", *words],
            pass_fds=[read],
            capture_output=True,
            cwd=ROOT,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    finally:
        os.close(read)


PODS = json.dumps(
    {"kind": "List", "items": [pod("brave", containers=[container(reason="OOMKilled", code=137)])]}
)


@pytest.mark.parametrize("data", [PODS.encode(), gzip.compress(PODS.encode())], ids=["plain", "gz"])
def test_a_pipe_of_kubectl_is_read_as_what_it_is(data: bytes) -> None:
    done = piped(data, "--format", "json")
    assert done.returncode == 0, done.stderr
    assert [(job["name"], job["causes"]) for job in json.loads(done.stdout)["jobs"]] == [
        ("brave", ["own-memory-limit"])
    ]


def test_a_pipe_of_a_log_is_read_as_a_log() -> None:
    done = piped(node_line(NODE_A))
    assert done.returncode == 0, done.stderr
    assert NODE_A in done.stdout.decode()


def test_compressed_json_on_standard_input_is_read_as_json(
    arc: Arc, monkeypatch: pytest.MonkeyPatch
) -> None:
    stdin = io.TextIOWrapper(io.BufferedReader(io.BytesIO(gzip.compress(PODS.encode()))))
    monkeypatch.setattr("sys.stdin", stdin)
    document = json.loads(arc("diagnose", "-", "--format", "json").out)
    assert [job["name"] for job in document["jobs"]] == ["brave"]


@pytest.mark.parametrize("name", ["README.txt", "thing.csv"])
def test_a_file_that_is_not_a_log_makes_no_job(arc: Arc, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("a,b\n1,2\n")
    result = arc("diagnose", tmp_path / name)
    assert (result.code, result.out) == (2, "")
    assert "1 no node line in the log" in result.err
    (tmp_path / "good.log").write_bytes(node_line(NODE_A))
    both = json.loads(
        arc("diagnose", tmp_path / name, tmp_path / "good.log", "--format", "json").out
    )
    assert [(job["name"], len(job["attempts"])) for job in both["jobs"]] == [(tmp_path.name, 1)]
    assert [item["reason"] for item in both["skipped"]] == ["no node line in the log"]


def test_empty_standard_input_makes_no_job(arc: Arc, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(b""))))
    result = arc("diagnose", "-")
    assert (result.code, result.out) == (2, "")
    assert "empty log" in result.err


YAML = "apiVersion: v1\nitems:\n- apiVersion: v1\n  kind: Pod\n"
DESCRIBE = "Name:             brave-worker-0\nNamespace:        azureml\nPriority:         0\n"
TABLE = "NAMESPACE   NAME      READY   STATUS    RESTARTS   AGE\nml   brave-0   1/1   Running   0   1m\n"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (YAML, "Kubernetes YAML"),
        ("# saved today\n---\n" + YAML, "Kubernetes YAML"),
        ("- apiVersion: v1\n  kind: Pod\n", "Kubernetes YAML"),
        (DESCRIBE, "the text of `kubectl describe`"),
        (DESCRIBE.replace("\n", "\r\n"), "the text of `kubectl describe`"),
        (TABLE, "the table of `kubectl get`"),
        ("LAST SEEN   TYPE     REASON\n5m   Normal   Killing\n", "the table of `kubectl get`"),
    ],
)
def test_what_kubectl_prints_otherwise_is_refused_with_the_command_that_helps(
    arc: Arc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str, words: str
) -> None:
    path = tmp_path / "pods.txt"
    path.write_text(content)
    (tmp_path / "good.log").write_bytes(node_line(NODE_A))
    for sources in ([path], [tmp_path / "good.log", path]):
        result = arc("diagnose", *sources)
        assert (result.code, result.out) == (2, "")
        assert (
            f"pods.txt: {words}, expected JSON or a log: save JSON with `kubectl get" in result.err
        )
        assert len(result.err.splitlines()) == 1
    named = arc("diagnose", "--pods", path)
    assert named.code == 2
    assert f"pods.txt: {words}; save it with `kubectl get pods -A -o json`" in named.err
    monkeypatch.setattr(
        "sys.stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(content.encode())))
    )
    piped = arc("diagnose", "-")
    assert piped.code == 2
    assert f"stdin: {words}, expected JSON or a log" in piped.err


def test_pods_without_the_label_of_azureml_are_refused_with_the_command(
    arc: Arc, tmp_path: Path
) -> None:
    path = tmp_path / "pods.json"
    other = {"kind": "Pod", "metadata": {"name": "web", "labels": {"app": "web"}}}
    path.write_text(json.dumps({"kind": "List", "items": [other, other]}))
    for words in ([path], [tmp_path], ["--pods", path]):
        result = arc("diagnose", *words)
        assert (result.code, result.out) == (2, "")
        assert "none of 2 pods has the label ml.azure.com/run-id" in result.err
        assert "`kubectl get pods -A -l ml.azure.com/run-id -o json > pods.json`" in result.err
        assert len(result.err.splitlines()) == 1
    (tmp_path / "amlarc_cr_bootstrap.log").write_bytes(node_line(NODE_A))
    assert arc("diagnose", tmp_path).code == 0


def test_folder_of_the_wrong_kind_says_what_it_has_and_what_was_expected(
    arc: Arc, tmp_path: Path
) -> None:
    for name in ("train.py", "model.py", "job.yml"):
        (tmp_path / name).write_text("x")
    result = arc("diagnose", tmp_path)
    assert (result.code, result.out) == (2, "")
    assert "no logs of AzureML jobs (amlarc_cr_bootstrap.log, std_log.txt)" in result.err
    assert "3 files searched: 3 not a file that diagnose reads, mostly .py, .yml" in result.err
    assert "`az ml job download --all`" in result.err
    assert len(result.err.splitlines()) == 1

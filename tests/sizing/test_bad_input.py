"""Bad input: one sentence, exit code 2, nothing written."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arc_toolkit.errors import ArcError
from arc_toolkit.kube.nodes import SYSTEM_POOL_LABEL, parse_node
from arc_toolkit.sizing.occupants import occupants_by_node
from tests.sizing.builders import as_list, node
from tests.support import Result

Arc = Callable[..., Result]
SKU = ("--sku", "Standard_D64s_v5")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "no nodes: use --sku NAME"),
        (("--sku", "Standard_D64s_v55"), "did you mean"),
        (("--sku", "Standard_Q*"), "no VM size matches"),
        ((*SKU, "--share", "0"), "--share 0"),
        ((*SKU, "--share", "1/0"), "--share 1/0"),
        ((*SKU, "--tolerate", "=spot"), "is not a taint"),
        ((*SKU, "--share", "-1/2"), "--share"),
        ((*SKU, "--share", "1/1000"), "more pods"),
        ((*SKU, "--size", "32gb"), "--size 32gb"),
        ((*SKU, "--size", "0cpu1g"), "above zero"),
        ((*SKU, "--reserve", "-5%"), "--reserve -5%"),
        ((*SKU, "--reserve", "lots"), "--reserve lots"),
        ((*SKU, "--reserve", "5"), "did you mean 5%"),
        ((*SKU, "--name-template", "{size:d}"), "as they are"),
        ((*SKU, "--name-template", "{cpu!r}"), "as they are"),
        ((*SKU, "--node-selector", "a b=c d"), "as a Kubernetes label"),
        ((*SKU, "-o", ""), "use a folder"),
        ((*SKU, "--format", "list", "-o", "x.json"), "--format json"),
        (("--nodes", "-", "--pods", "-"), "not both"),
        (("--pods", "x.json"), "--pods goes with --nodes"),
        ((*SKU, "--kubernetes-version", "1.x"), "'1.x' is not a Kubernetes version"),
        ((*SKU, "--max-pods", "5"), "10 to 250"),
        ((*SKU, "--max-pods", "many"), "invalid int value"),
        ((*SKU, "--kube-reserved-memory", "-1Gi"), "cannot be negative"),
        ((*SKU, "--capacity-memory", "300Gi"), "more than the nominal"),
        ((*SKU, "--daemonsets", "aks"), "no DaemonSet profile or file 'aks'"),
        ((*SKU, "--daemonsets", "missing.yaml"), "cannot read missing.yaml"),
        ((*SKU, "--name-template", "{cpu"), "--name-template"),
        ((*SKU, "--name-template", "{nope}"), "no field {nope}"),
        ((*SKU, "--name-template", "{cpu}!"), "not valid in Kubernetes"),
        ((*SKU, "--node-selector", "pool"), "--node-selector"),
        ((*SKU, "--nodes", "x.json"), "not both"),
        ((*SKU, "--extension-selector", "a=b"), "--extension-selector goes with --nodes"),
        ((*SKU, "--check", "no-such-folder"), "not a folder"),
        ((*SKU, "--format", "json", "-o", "folder"), "makes one file"),
        (("--nodes", "no-such-file.json"), "cannot read no-such-file.json: no such file"),
        ((*SKU, "--shares", "half"), "unrecognized arguments"),
    ],
)
def test_one_sentence_and_exit_code_2(
    arc: Arc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    result = arc("gen-instance-types", *words)
    assert result.code == 2
    assert said in result.err
    assert result.out == ""
    assert len([line for line in result.err.splitlines() if line.startswith("arc-toolkit:")]) == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", ":1:2: broken JSON"),
        ('{"items": [}', ":1:12: broken JSON"),
        ("a: [b\nc: d", ":2:2: broken YAML"),
        ("{}", "no `items` in it"),
        ("[]", "no `items` in it"),
        ('{"items": []}', "none of 0 nodes"),
        ('{"items": [{"kind": "Pod"}]}', "expected Node objects, found Pod"),
        ('{"items": ["x"]}', "expected Node objects, found str"),
        ('{"items": [{"metadata": {"name": "n"}, "status": {}}]}', "n: it reports no capacity yet"),
        (
            '{"items": [{"status": {"capacity": {"cpu": "x", "memory": "1Gi"}}}]}',
            "is not a quantity",
        ),
        ("\udcff", "not UTF-8"),
    ],
)
def test_a_broken_nodes_file_is_named_with_the_place(
    arc: Arc, tmp_path: Path, text: str, said: str
) -> None:
    file = tmp_path / "nodes.json"
    file.write_bytes(text.encode("utf-8", "surrogateescape"))
    result = arc("gen-instance-types", "--nodes", file)
    assert (result.code, said in result.err, str(file) in result.err) == (2, True, True), result.err


def test_nodes_that_cannot_be_used_are_named_with_the_reason(arc: Arc, tmp_path: Path) -> None:
    file = tmp_path / "nodes.json"
    file.write_text(
        json.dumps(as_list([node("a", ready="False"), node("b"), node("c", unschedulable=True)]))
    )
    result = arc("gen-instance-types", "--nodes", file)
    assert result.code == 0
    assert "left out 1 node (a): NotReady" in result.err
    assert "left out 1 node (c): cordoned" in result.err


def test_a_system_pool_has_types_only_if_there_is_no_other_or_it_is_selected(
    arc: Arc, tmp_path: Path
) -> None:
    system = node("s", size="Standard_D32s_v5", pool="system", labels=dict([SYSTEM_POOL_LABEL]))
    file = tmp_path / "nodes.json"

    def sizes(nodes: list[dict[str, Any]], *words: str) -> list[str]:
        file.write_text(json.dumps(as_list(nodes)))
        result = arc("gen-instance-types", "--nodes", file, "--format", "json", *words)
        assert ("only nodes of a system pool" in result.err) == (nodes == [system])
        return [
            row["manifest"]["metadata"]["annotations"]["arc-toolkit.io/size"]
            for row in json.loads(result.out)["instance_types"]
        ]

    assert sizes([system]) == ["Standard_D32s_v5"]
    assert sizes([system, node("a")]) == ["Standard_D64s_v5"]
    assert sizes([system, node("a")], "--node-selector", "agentpool=system") == ["Standard_D32s_v5"]


def test_options_that_a_node_overrules_are_named(arc: Arc, tmp_path: Path) -> None:
    file = tmp_path / "nodes.json"
    file.write_text(json.dumps(as_list([node("a")])))
    result = arc(
        "gen-instance-types", "--nodes", file, "--max-pods", "30", "--kubernetes-version", "1.30"
    )
    assert (
        "--kubernetes-version, --max-pods: used only if the node does not report it; nodes win"
        in result.err
    )
    assert "nodes win" not in arc("gen-instance-types", "--nodes", file).err


KEYS = """metadata name labels spec taints status capacity allocatable conditions type nodeInfo cpu memory pods
nvidia.com/gpu nodeName containers resources requests ownerReferences kind initContainers overhead annotations phase"""
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=4)
    | st.sampled_from(["2", "4Gi", "True", "DaemonSet"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(KEYS.split()), inner, max_size=6)
    ),
    max_leaves=25,
)


@settings(max_examples=200)
@given(st.dictionaries(st.sampled_from(["metadata", "spec", "status"]), json_values))
def test_any_json_is_a_node_perhaps_with_a_defect(item: dict[str, Any]) -> None:
    assert parse_node(item).name


@settings(max_examples=200)
@given(st.dictionaries(st.sampled_from(["metadata", "spec", "status"]), json_values))
def test_any_json_is_a_pod_or_one_sentence(item: dict[str, Any]) -> None:
    with suppress(ArcError):
        occupants_by_node([item])


def test_an_output_folder_that_cannot_be_written_leaves_nothing(arc: Arc, tmp_path: Path) -> None:
    blocker = tmp_path / "file"
    blocker.write_text("")
    result = arc("gen-instance-types", *SKU, "-o", blocker / "types")
    assert result.code == 2
    assert "cannot make the folder" in result.err


def test_a_folder_is_written_as_a_whole_or_not_at_all(arc: Arc, tmp_path: Path) -> None:
    (tmp_path / "32cpu128g.yaml").mkdir()
    result = arc("gen-instance-types", *SKU, "--share", "whole", "--share", "half", "-o", tmp_path)
    assert (result.code, "it is a folder" in result.err) == (2, True)
    assert [path.name for path in tmp_path.iterdir()] == ["32cpu128g.yaml"]


def test_a_full_disk_behind_standard_output_is_one_sentence() -> None:
    with open("/dev/full", "w") as full:
        words = [sys.executable, "-m", "arc_toolkit", "gen-instance-types", "-q", *SKU]
        done = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 2
    assert done.stderr == "arc-toolkit: cannot write standard output: No space left on device\n"


def test_an_output_without_unicode_gets_question_marks() -> None:
    words = [sys.executable, "-m", "arc_toolkit", "gen-instance-types", "-q", *SKU, "--explain"]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(words, capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    assert "???" in done.stdout


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (
            {"allocatable_memory": "300000000Ki"},
            "its allocatable is not between zero and its capacity",
        ),
        ({"labels": {"a": 5}}, "not shaped like a Node"),
        (
            {"pool": "x\nspec: {evil: 1}\n#"},
            "not shaped like a Node",
        ),  # would break out of a comment
        ({"pods": "abc"}, "is not a quantity"),
    ],
)
def test_a_node_that_cannot_be_true_is_refused(
    arc: Arc, tmp_path: Path, overrides: dict[str, Any], said: str
) -> None:
    file = tmp_path / "nodes.json"
    file.write_text(json.dumps(as_list([node(**overrides)])))
    result = arc("gen-instance-types", "--nodes", file)
    assert (result.code, said in result.err) == (2, True), result.err


def test_a_closed_pipe_ends_quietly_as_the_shells_own_tools_do() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    words = [sys.executable, "-m", "arc_toolkit", "gen-instance-types", "-q", *SKU]
    done = subprocess.run(words, stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")


def test_ctrl_c_ends_with_130_and_one_sentence(tmp_path: Path) -> None:
    import signal

    process = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "arc_toolkit",
            "gen-instance-types",
            "--nodes",
            "-",
            "-o",
            str(tmp_path / "types"),
        ],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    process.stdin.write("{")
    process.stdin.flush()
    # It reads standard input until the end; wait until it is there.
    wchan = Path(f"/proc/{process.pid}/wchan")
    for _ in range(500):
        if wchan.exists() and "pipe" in wchan.read_text():
            break
        signal.sigtimedwait([], 0.02)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 130
    assert err == "arc-toolkit: interrupted; no file was left partially written\n"
    assert not (tmp_path / "types").exists()

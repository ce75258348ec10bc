"""How many threads, and how they are written."""

from __future__ import annotations

import subprocess

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arc_toolkit.azureml.evidence import (
    FrameworkEvidence,
    evidence_in_code,
    evidence_in_command,
    evidence_in_dependencies,
)
from arc_toolkit.azureml.settings import Settings
from arc_toolkit.azureml.threads import (
    LIGHTGBM_NAMES,
    cores_of,
    decide,
    exported_names,
    gpus_of,
    merge_prestep,
    prestep,
)
from arc_toolkit.kube.instance_type_spec import InstanceTypeSpec
from arc_toolkit.kube.quantities import GI

ALL = prestep(LIGHTGBM_NAMES)


def test_the_prestep_is_as_in_the_migration_note() -> None:
    assert ALL == (
        "export MKL_NUM_THREADS=` get_cores ` NUMEXPR_NUM_THREADS=` get_cores ` OMP_NUM_THREADS=` get_cores `"
    )


@pytest.mark.parametrize(
    ("old", "merged"),
    [
        (None, "export A=` get_cores `"),
        ("  ", "export A=` get_cores `"),
        ("export A=4", "export A=4"),
        ("export B=2", "export B=2 A=` get_cores `"),
        ("source setup.sh", "export A=` get_cores `; source setup.sh"),
        ("export B=1 && run # x", "export A=` get_cores `; export B=1 && run # x"),
        ("A=4 run", "export A=` get_cores `; A=4 run"),
        ('export B="x; export A=1"', 'export B="x; export A=1" A=` get_cores `'),
    ],
)
def test_merging_keeps_what_is_there(old: str | None, merged: str) -> None:
    assert merge_prestep(old, ["A"]) == merged
    assert merge_prestep(merged, ["A"]) == merged


@settings(max_examples=100, deadline=None)
@given(st.text(alphabet="AB=;&|'\"`$() export\n#\\12", max_size=40))
def test_merging_is_stable_and_loses_nothing(old: str) -> None:
    once = merge_prestep(old, ["A", "OMP_NUM_THREADS"])
    assert merge_prestep(once, ["A", "OMP_NUM_THREADS"]) == once
    assert old.strip() in once


def test_exports_are_found_outside_of_quotes_only() -> None:
    text = "export A=1 B='x y'; echo 'export C=1' && export D=$(nproc; true)"
    assert exported_names(text) == {"A": "1", "B": "'x y'", "D": "$(nproc; true)"}


@pytest.mark.parametrize(
    ("command", "names"),
    [
        ("export A=1 && python train.py", {"A": "1"}),
        ("export A=1; ./monitor.sh & python train.py", {"A": "1"}),
        ("export A=1\n./monitor.sh & python train.py", {"A": "1"}),
        ("export A=1 2>&1 && python train.py", {"A": "1"}),
        ("export A='x && y' || true", {"A": "'x && y'"}),
        ("export A=1 && ./monitor.sh & python train.py", {}),
        ("export A=1 | cat; python train.py", {}),
        ("(export A=1); python train.py", {}),
    ],
)
def test_exports_count_if_they_reach_the_commands_after_them(
    command: str, names: dict[str, str]
) -> None:
    assert exported_names(command) == names
    # As a shell sees it.
    shell = command.replace("./monitor.sh", "true").replace("python train.py", "true")
    done = subprocess.run(
        ["bash", "-c", f"{shell}\nwait; printenv A"], capture_output=True, text=True, check=False
    )
    assert (
        (done.stdout.strip().splitlines()[-1:] == [names["A"].strip("'")])
        if names
        else not done.stdout.strip()
    )


@pytest.mark.parametrize(
    ("name", "cores", "gpus"),
    [
        ("32cpu128g", 32, None),
        ("32c256g", 32, None),
        ("96cpu880g8gpu", 96, 8),
        ("gpu-8cores-64g", 8, None),
        ("statement-16vcpu", 16, None),
        ("standard-nc6s-v3", None, None),
        ("c32", None, None),
        ("1gpu-6cpu56g", 6, 1),
        ("0.5cpu2g", 1, None),
        ("48cpu440g-2gpu-standard-nc48ads-a100-v4", 48, 2),
    ],
)
def test_cores_and_gpus_by_name(name: str, cores: int | None, gpus: int | None) -> None:
    assert cores_of(name, Settings())[0] == cores
    assert gpus_of(name, Settings()) == gpus


def test_cores_are_asked_for_then_from_the_manifest_then_from_the_name() -> None:
    types = {"32cpu128g": InstanceTypeSpec("32cpu128g", 31500, 117 * GI, {"nvidia.com/gpu": 2})}
    assert cores_of("32cpu128g", Settings(cores=8, instance_types=types)) == (8, "--cores 8")
    assert cores_of("32cpu128g", Settings(instance_types=types))[0] == 31
    assert gpus_of("32cpu128g", Settings(instance_types=types)) == 2
    assert "--cores" in cores_of("big", Settings())[1]
    assert cores_of(None, Settings())[0] is None


def test_evidence() -> None:
    assert evidence_in_command("python train.py --num_workers 8") == [
        FrameworkEvidence("workers", "the command", 8)
    ]
    assert evidence_in_command("lightgbm config=x")[0].what == "lightgbm"
    assert evidence_in_dependencies("- pip:\n  - faiss-cpu==1.8  # lightgbm", "env.yml") == [
        FrameworkEvidence("faiss", "env.yml")
    ]
    code = "import torch, faiss\nfrom torch.utils.data import DataLoader\nDataLoader(d, num_workers=4)\n"
    assert [item.what for item in evidence_in_code(code, "a.py")] == [
        "faiss",
        "dataloader",
        "workers",
    ]
    assert evidence_in_code("# import lightgbm\nlightgbm = 1\n", "a.py") == []


LIGHTGBM = (FrameworkEvidence("lightgbm", "env.yml"),)
FAISS = (FrameworkEvidence("faiss", "env.yml"),)
LOADER = (*FAISS, FrameworkEvidence("dataloader", "a.py"))
WORKERS = (*LOADER, FrameworkEvidence("workers", "a.py", 8))


@pytest.mark.parametrize(
    ("asked", "evidence", "place", "how", "number"),
    [
        (Settings(), LIGHTGBM, {}, "nothing", None),
        (Settings(threads="off"), LIGHTGBM, {}, "nothing", None),
        (Settings(threads="auto"), (), {}, "nothing", None),
        (Settings(threads="auto"), LIGHTGBM, {}, "prestep", None),
        (Settings(threads="lightgbm"), (), {}, "prestep", None),
        (Settings(threads="lightgbm", manual=True), (), {}, "literal", 32),
        (Settings(threads="lightgbm"), (), {"windows": True}, "cannot", None),
        (Settings(threads="lightgbm"), (), {"literal_only": True}, "literal", 32),
        (Settings(threads="auto"), FAISS, {}, "prestep", None),
        (Settings(threads="auto"), LOADER, {}, "cannot", None),
        (Settings(threads="auto"), WORKERS, {}, "literal", 4),
        (Settings(threads="auto", dataloader_workers=0), LOADER, {}, "prestep", None),
        (Settings(threads="faiss", dataloader_workers=64), (), {}, "literal", 1),
        (Settings(threads="faiss", dataloader_workers=5), (), {}, "literal", 6),
        (Settings(threads="auto"), (*WORKERS, *LIGHTGBM), {}, "literal", 4),
        (Settings(threads="lightgbm"), (), {"parallel": True, "processes": 4}, "literal", 8),
        (Settings(threads="lightgbm"), (), {"parallel": True}, "literal", 1),
        (Settings(threads="lightgbm"), (), {"parallel": True, "processes": 1}, "prestep", None),
    ],
)
def test_the_decision(
    asked: Settings,
    evidence: tuple[FrameworkEvidence, ...],
    place: dict[str, int],
    how: str,
    number: int | None,
) -> None:
    decision = decide(asked, evidence, instance_type="32cpu128g", **place)  # type: ignore[arg-type]
    assert (decision.how, decision.number) == (how, number)
    assert bool(decision.reason) == (how != "nothing")


def test_a_decision_without_cores_says_what_is_missing() -> None:
    decision = decide(Settings(threads="auto"), WORKERS, instance_type=None)
    assert decision.how == "cannot"
    assert "--cores" in decision.reason


def test_variables_are_merged_with_those_that_are_there() -> None:
    decision = decide(Settings(threads="lightgbm"), (), instance_type=None)
    assert decision.variables({}) == {"AMLARC_PRESTEP": ALL}
    assert decision.variables({"AMLARC_PRESTEP": ALL}) == {}
    assert "OMP" not in decision.variables({"OMP_NUM_THREADS": "4"})["AMLARC_PRESTEP"]
    literal = decide(Settings(threads="lightgbm", manual=True, cores=8), (), instance_type=None)
    assert literal.variables({"OMP_NUM_THREADS": "8"}) == {
        "MKL_NUM_THREADS": "8",
        "NUMEXPR_NUM_THREADS": "8",
    }

"""`arc-toolkit checkpoints`: what it prints, deletes and returns."""

from __future__ import annotations

import json
import math
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import fsspec
import pytest

from arc_toolkit.checkpoints import Store
from tests.support import ROOT, Result

Arc = Callable[..., Result]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    store = Store(tmp_path / "c", keep=9)
    for step in (1, 2, 3, 4):
        with store.save(step, reason="final" if step == 4 else "interval") as target:
            (target / "x.bin").write_bytes(b"x" * step)
    return store.root


def damage(folder: Path, step: int) -> None:
    (next(folder.glob(f"step-*{step}-0*")) / "x.bin").write_bytes(b"y" * step)


def test_list_does_not_read_the_files(folder: Path, arc: Arc) -> None:
    damage(folder, 4)
    result = arc("checkpoints", "list", str(folder))
    assert result.code == 0
    assert [line.split()[0] for line in result.out.splitlines()] == ["STEP", "4", "3", "2", "1"]


def test_verify_names_what_is_damaged(folder: Path, arc: Arc) -> None:
    assert arc("checkpoints", "verify", str(folder)).code == 0
    damage(folder, 4)
    result = arc("checkpoints", "verify", str(folder), "--format", "json")
    assert result.code == 1
    rows = json.loads(result.out)["checkpoints"]
    assert [row["state"] for row in rows] == [
        "x.bin has other bytes than were saved",
        *["committed"] * 3,
    ]
    assert "3 valid, 1 damaged" in result.err


def test_resume_prints_the_newest_valid_one(folder: Path, arc: Arc) -> None:
    damage(folder, 4)
    result = arc("checkpoints", "resume", str(folder))
    assert result.code == 0
    assert "step-000000000003" in result.out
    assert "is skipped" in result.err
    assert len(list(folder.glob("step-*"))) == 4


def test_nothing_to_resume_from(tmp_path: Path, arc: Arc) -> None:
    result = arc("checkpoints", "resume", str(tmp_path))
    assert (result.code, result.out) == (1, "")


def test_a_new_run_has_no_folder_yet(tmp_path: Path, arc: Arc) -> None:
    result = arc("checkpoints", "resume", str(tmp_path / "none"))
    assert (result.code, result.out) == (1, "")
    (tmp_path / "file").touch()
    for mistake in ("file", "file/below"):
        assert arc("checkpoints", "resume", str(tmp_path / mistake)).code == 2


@pytest.mark.parametrize(("code", "end"), [(0, 0), (1, 0), (2, 2), (65, 65), (75, 75)])
def test_the_script_of_the_docs_ends_with_the_code_of_resume(
    tmp_path: Path, code: int, end: int
) -> None:
    lines = [
        line.strip().replace("python train.py", "echo")
        for line in (ROOT / "docs/checkpoints.md").read_text().splitlines()
        if line.startswith(("    folder=$(", '    python train.py --resume "$folder"'))
    ]
    command = tmp_path / "arc-toolkit"
    command.write_text(f"#!/bin/sh\nexit {code}\n")
    command.chmod(0o755)
    result = subprocess.run(
        ["sh", "-c", "\n".join(lines)],
        env={"PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True,
        check=False,
    )
    assert (result.returncode, bool(result.stdout)) == (end, end == 0)


def test_a_wrong_time_in_the_environment_is_a_mistake(
    tmp_path: Path, arc: Arc, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ARC_TOOLKIT_CHECKPOINT_PATIENCE", "soon")
    result = arc("checkpoints", "resume", str(tmp_path))
    assert result.code == 2
    assert "ARC_TOOLKIT_CHECKPOINT_PATIENCE" in result.err


def test_prune_deletes_valid_ones_and_only_with_yes(folder: Path, arc: Arc) -> None:
    damage(folder, 4)
    shown = arc("checkpoints", "prune", str(folder), "--keep", "2")
    assert "would delete" in shown.out
    assert len(list(folder.glob("step-*"))) == 4
    assert arc("checkpoints", "prune", str(folder), "--keep", "2", "--yes").code == 0
    assert sorted(path.name[5:17] for path in folder.glob("step-*")) == [
        f"{step:012d}" for step in (2, 3, 4)
    ]


def test_bad_input_is_one_sentence(tmp_path: Path, arc: Arc) -> None:
    missing = arc("checkpoints", "list", str(tmp_path / "none"))
    assert (missing.code, missing.err) == (2, f"arc-toolkit: {tmp_path / 'none'} is not a folder\n")
    assert arc("checkpoints", "prune", str(tmp_path), "--keep", "1").code == 2


def test_a_loss_that_is_not_a_number_is_text_in_json(tmp_path: Path, arc: Arc) -> None:
    with Store(tmp_path / "c").save(
        1, metrics={"loss": math.nan, "best": -math.inf, "rate": 0.5}
    ) as target:
        (target / "x.bin").write_bytes(b"x")
    result = arc("checkpoints", "list", str(tmp_path / "c"), "--format", "json")
    (row,) = json.loads(result.out, parse_constant=pytest.fail)["checkpoints"]
    assert row["metrics"] == {"loss": "nan", "best": "-inf", "rate": 0.5}


def test_resume_from_a_url_that_cannot_be_read_is_not_a_new_start(arc: Arc) -> None:
    pytest.importorskip("fsspec")
    result = arc("checkpoints", "resume", "unheard-of://container/job")
    assert (result.code, result.out) == (2, "")
    assert "cannot read unheard-of://container/job" in result.err
    assert "fsspec does not know unheard-of://" in result.err


def test_a_folder_below_one_that_may_not_be_read_is_refused(
    tmp_path: Path, arc: Arc, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*words: object, **options: object) -> None:
        raise PermissionError(13, "permission denied")

    monkeypatch.setattr("os.stat", refuse)
    monkeypatch.setattr("os.listdir", refuse)
    for action, code in (("list", 2), ("verify", 2), ("prune", 2), ("resume", 75)):
        result = arc("checkpoints", action, str(tmp_path / "c"))
        assert (result.code, result.out) == (code, ""), action
        assert "permission denied" in result.err


def test_resume_says_that_all_are_damaged_and_fresh_that_one_may_start_anew(
    folder: Path, arc: Arc
) -> None:
    for path in folder.glob("step-*/x.bin"):
        path.write_bytes(b"y" * path.stat().st_size)
    result = arc("checkpoints", "resume", str(folder))
    assert (result.code, result.out) == (65, "")
    assert "has no valid checkpoint left" in result.err
    assert arc("checkpoints", "resume", "--fresh", str(folder)).code == 1
    assert len(list(folder.glob("step-*"))) == 4


def test_the_name_of_a_folder_cannot_break_a_line(tmp_path: Path, arc: Arc) -> None:
    folder = tmp_path / "two\nlines"
    store = Store(folder)
    for step in (1, 2, 3):
        with store.save(step) as target:
            (target / "x.bin").write_bytes(b"x")
    listed = arc("checkpoints", "list", str(folder))
    assert len(listed.out.splitlines()) == 4
    assert "two\\nlines" in listed.out
    pruned = arc("checkpoints", "prune", str(folder), "--keep", "2")
    assert len(pruned.out.splitlines()) == 1
    assert len(arc("checkpoints", "list", f"{folder}/none").err.splitlines()) == 1
    newest = Path(arc("checkpoints", "resume", str(folder)).out.removesuffix("\n"))
    assert newest.is_dir()  # for scripts: as it is


def test_a_server_that_does_not_answer_is_not_an_empty_store(arc: Arc) -> None:
    """`find` of fsspec takes every error of `ls` for an empty folder, as with http://."""

    class Unanswered(fsspec.AbstractFileSystem):  # type: ignore[misc]
        protocol = "unanswered"

        def ls(self, path: str, detail: bool = True, **options: object) -> list[object]:
            raise ConnectionRefusedError(111, "Connection refused")

    fsspec.register_implementation("unanswered", Unanswered, clobber=True)
    for action in ("list", "verify", "prune", "resume"):
        result = arc("checkpoints", action, "unanswered://host/run")
        assert (result.code, result.out) == (75 if action == "resume" else 2, ""), action
        assert "cannot read unanswered://host/run: [Errno 111] Connection refused" in result.err

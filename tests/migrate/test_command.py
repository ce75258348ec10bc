"""`arc-toolkit patch --sweep-to-v2` as a user runs it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from tests.migrate.support import SWEEP, TRIAL, spec
from tests.support import Result

Arc = Callable[..., Result]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "sweep.yaml").write_text(yaml.safe_dump(SWEEP))
    (tmp_path / "spec.yaml").write_text(yaml.safe_dump(TRIAL))
    return tmp_path


@pytest.mark.parametrize(
    ("form", "names"),
    [
        ("step", {"sweep.trial.v2.yaml", "sweep.v2.yaml"}),
        ("job", {"sweep.trial.v2.yaml", "sweep.v2.yaml"}),
        ("python", {"sweep.trial.v2.yaml", "sweep_v2.py"}),
    ],
)
def test_each_form_is_written_once_and_a_second_run_is_empty(
    arc: Arc, folder: Path, form: str, names: set[str]
) -> None:
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    words = ("patch", folder / "sweep.yaml", "--sweep-to-v2", "--as", form, "--instance-type", "t")
    shown = arc(*words)
    assert shown.code == 0
    assert {path.name for path in folder.iterdir()} == set(before), (
        "nothing is written without --write"
    )
    assert "+++ b/" in shown.out
    assert arc(*words, "--write").code == 0
    assert {path.name for path in folder.iterdir()} == set(before) | names
    assert {name: (folder / name).read_bytes() for name in before} == before
    again = arc(*words, "--check")
    assert (again.code, again.out) == (0, "")


def test_a_bad_sweep_is_one_sentence_and_the_others_are_done(arc: Arc, folder: Path) -> None:
    bad = spec(SWEEP, search_space={"lr": {"type": "poisson"}})
    (folder / "bad.yaml").write_text(yaml.safe_dump(bad))
    result = arc("patch", folder, "--sweep-to-v2", "--write")
    assert result.err.count("bad.yaml is not changed") == 1
    assert "lr has the distribution 'poisson': use one of choice, randint" in result.err
    assert (folder / "sweep.v2.yaml").is_file()
    assert not (folder / "bad.v2.yaml").exists()


@pytest.mark.parametrize("form", ["step", "job", "python"])
def test_a_second_run_over_the_folder_leaves_the_new_files_alone(
    arc: Arc, folder: Path, form: str
) -> None:
    (folder / "train.py").write_text("import lightgbm\n")
    options = [
        "--instance-type",
        "32cpu128g",
        "--instance-count",
        "2",
        "--compute",
        "arc",
        "--threads",
        "auto",
    ]
    words = ("patch", folder, "--sweep-to-v2", "--as", form, *options)
    assert arc(*words, "--write").code == 0
    after = {path.name: path.read_bytes() for path in folder.iterdir()}
    arc(*words, "--write")
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == after

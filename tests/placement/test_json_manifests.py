"""Manifests in JSON, such as `kubectl get -o json` writes: they stay JSON, in their own layout."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from arc_toolkit.cli.main import main
from tests.placement.support import TOLERATION, expression, required

SPEC: dict[str, Any] = {"containers": [{"name": "c", "image": "busybox"}], "restartPolicy": "Never"}


def job(**spec: Any) -> dict[str, Any]:
    template = {"spec": {**SPEC, **spec}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j"},
        "spec": {"template": template},
    }


def placed_file(path: Path, text: str) -> str:
    path.write_bytes(text.encode())
    assert main(["place", str(path), "--spot", "require", "--write"]) == 0
    after = path.read_bytes().decode()
    assert main(["place", str(path), "--spot", "require", "--check"]) == 0
    return after


@pytest.mark.parametrize("layout", [{"indent": 4}, {"indent": 2}, {"separators": (",", ":")}, {}])
@pytest.mark.parametrize("tolerations", [None, [], [{"key": "sku", "operator": "Exists"}]])
def test_the_result_is_what_the_same_program_would_write(
    tmp_path: Path, layout: dict[str, Any], tolerations: list[Any] | None
) -> None:
    own = {} if tolerations is None else {"tolerations": tolerations}
    after = placed_file(tmp_path / "job.json", json.dumps(job(**own), **layout))
    expected = job(tolerations=[*(tolerations or []), TOLERATION], affinity=required(expression()))
    assert after == json.dumps(expected, **layout)


def test_line_ends_and_the_missing_newline_stay(tmp_path: Path) -> None:
    text = json.dumps(job(), indent=2).replace("\n", "\r\n")
    after = placed_file(tmp_path / "job.json", text)
    assert after.count("\n") == after.count("\r\n") > text.count("\n")
    assert not after.endswith("\n")


def test_json_files_are_found_in_folders_and_others_are_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "package.json").write_text('{"name": "x", }  // not JSON')
    (tmp_path / "list.json").write_text(
        json.dumps({"apiVersion": "v1", "kind": "List", "items": [job()]}, indent=1)
    )
    assert main(["place", str(tmp_path), "--spot", "require"]) == 0
    shown = capsys.readouterr().out
    assert "list.json" in shown
    assert "package.json" not in shown


def test_patch_does_not_read_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "job.json"
    path.write_text(json.dumps(job()))
    assert main(["check", str(path)]) == 0
    assert "not one of .yml, .yaml, .py, .ipynb" in "".join(capsys.readouterr())

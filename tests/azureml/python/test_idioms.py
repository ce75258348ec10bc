"""The programs of `idioms.py`: what is reported, what a second run does, and what azure-ai-ml makes of them."""

from __future__ import annotations

import sys
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from arc_toolkit.azureml.python.python_plan import patch_source
from arc_toolkit.azureml.settings import Settings
from arc_toolkit.findings import FileResult
from tests.azureml.python.idioms import FILES, IDIOMS, Idiom
from tests.azureml.python.import_idioms import IMPORTS, MODULES
from tests.azureml.python.more_idioms import MORE
from tests.support import unavailable

ALL = {**IDIOMS, **MORE, **IMPORTS}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in (FILES | MODULES).items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(dedent(text))
    return tmp_path


def patched(idiom: Idiom, folder: Path) -> FileResult:
    result = patch_source(str(folder / "p.py"), idiom.text.encode(), Settings(**idiom.settings))
    assert result.refused is None
    return result


@pytest.mark.parametrize("idiom", ALL.values(), ids=ALL)
def test_what_is_not_changed_is_reported(idiom: Idiom, folder: Path) -> None:
    result = patched(idiom, folder)
    reasons = {
        finding.reason
        for finding in result.findings
        if finding.rule in ("instance-type", "expose-parameters")
    }
    assert len(reasons) == len(idiom.reasons), reasons
    for reason in idiom.reasons:
        assert any(reason in item for item in reasons), reasons
    assert (result.after is not None) == any(value is not None for value in idiom.expected.values())
    if result.after is not None:
        again = patch_source(str(folder / "p.py"), result.after, Settings(**idiom.settings))
        assert (again.after, again.refused) == (None, None)


@pytest.mark.real
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("idiom", ALL.values(), ids=ALL)
def test_the_rest_body_has_what_is_expected(
    idiom: Idiom, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    try:
        import azure.ai.ml  # noqa: F401
    except ImportError:
        unavailable("azure-ai-ml is not installed")
    monkeypatch.chdir(folder)
    monkeypatch.setenv("TRAIN_FILE", "train.yml")
    monkeypatch.syspath_prepend(folder)
    for name in [name for name in sys.modules if name.startswith("own_")]:
        monkeypatch.delitem(sys.modules, name)
    result = patched(idiom, folder)
    before, after = (
        sent(text, folder) for text in (idiom.text, (result.after or result.before).decode())
    )
    assert before.keys() == after.keys() == idiom.expected.keys()
    for name, expected in idiom.expected.items():
        was, body = before[name], after[name]
        if body.get("type") == "pipeline":  # it has the inputs of its steps
            assert {key: value["value"] for key, value in body["inputs"].items()} == expected
            continue
        assert _resources(body) == (_resources(was) if expected is None else expected), name
        assert _rest(body) == _rest(was)


def sent(text: str, folder: Path) -> dict[str, dict[str, Any]]:
    """The REST bodies of the steps of a program's job; of an entity its own, without a name."""
    space: dict[str, Any] = {"__file__": str(folder / "p.py"), "__name__": "p"}
    exec(compile(text, "p.py", "exec"), space)
    job = space["job"]
    properties = job._to_rest_object().properties
    if hasattr(job, "jobs"):
        return dict(properties.jobs)
    body = properties.as_dict()
    words = {
        "instanceType": "instance_type",
        "instanceCount": "instance_count",
        "shmSize": "shm_size",
    }
    resources = body.get("resources") or {}
    body["resources"] = {
        words[key]: value for key, value in resources.items() if value and key in words
    }
    return {"": body}


def _resources(body: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in (body.get("resources") or {}).items() if value}


def _rest(body: dict[str, Any]) -> dict[str, Any]:
    """All but the resources; a component is written with a name that depends on its content."""
    return {
        key: str(value)
        for key, value in body.items()
        if key not in ("resources", "componentId", "_source")
    }

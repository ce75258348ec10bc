"""Real files, real azure-ai-ml: what loaded before loads after, and its REST body differs in the asked fields only."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from arc_toolkit.azureml.azureml_files import AzureMLFiles
from arc_toolkit.azureml.documents import parse
from arc_toolkit.azureml.references import ProjectFiles
from arc_toolkit.azureml.settings import Settings
from arc_toolkit.azureml.threads import LIGHTGBM_NAMES, prestep
from arc_toolkit.batch import run, write
from arc_toolkit.edit.files.edits import SkipCause, Unreadable
from arc_toolkit.file_io import read_raw
from arc_toolkit.findings import FileResult
from tests.support import CORPUS, needs_corpus, unavailable

pytestmark = [
    pytest.mark.real,
    pytest.mark.slow,
    needs_corpus,
    pytest.mark.filterwarnings("ignore"),
]

TYPE, COUNT, PRESTEP = "32cpu128g", 2, prestep(LIGHTGBM_NAMES)
SETTINGS = Settings(instance_type=TYPE, instance_count=COUNT, threads="lightgbm")
# PRS without max_concurrency_per_instance, and 2, 4 or 8 processes of PRS, MPI or PyTorch, on 32 cores.
THREADS = {PRESTEP, "1", "16", "8", "4"}
# The trial of a sweep in a pipeline loses variables.
EXPORTS = "export MKL_NUM_THREADS=32 NUMEXPR_NUM_THREADS=32 OMP_NUM_THREADS=32\n"


@pytest.fixture(scope="module")
def azure() -> Iterator[Any]:
    try:
        from azure.ai import ml
    except ImportError:
        unavailable("azure-ai-ml is not installed")
    logging.disable(logging.CRITICAL)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AZURE_ML_INTERNAL_COMPONENTS_ENABLED", "true")
        yield ml
    logging.disable(logging.NOTSET)


@pytest.fixture(scope="module")
def patched(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, list[FileResult]]:
    """The corpus as it was, and patched in place."""
    top = tmp_path_factory.mktemp("corpus")
    for name in ("before", "after"):
        shutil.copytree(CORPUS, top / name, copy_function=shutil.copyfile)
        for folder in (top / name).rglob("*/"):
            folder.chmod(0o755)
    results = [
        outcome.result
        for outcome in run([str(top / "after")], AzureMLFiles(SETTINGS), lambda _: None)
        if outcome.result
    ]
    for result in results:
        assert write(result) == []
    return top / "before", top / "after", results


def test_what_loaded_before_loads_after_and_differs_in_the_asked_fields_only(
    azure: Any, patched: tuple[Path, Path, list[FileResult]]
) -> None:
    before, after, results = patched
    loaded = changed = 0
    for result in results:
        path = Path(result.path)
        old_path = before / path.relative_to(after)
        try:
            old = _load(azure, old_path)
        except Exception:
            continue
        loaded += 1
        new = _load(azure, path)
        old_body = _rest(old, before)
        if old_body is None:
            assert _rest(new, after) is None, path
            continue
        differences = list(_differences(old_body, _rest(new, after)))
        unasked = [entry for entry in differences if not _asked(*entry)]
        assert not unasked, (path, unasked[:3])
        changed += bool(differences)
    assert loaded > 200
    assert changed > 150


def _load(azure: Any, path: Path) -> Any:
    document = parse(str(path), path.read_bytes(), ProjectFiles(read_raw)).documents[0]
    job = document.root.kind.role == "job"
    return (azure.load_job if job else azure.load_component)(str(path))


def _rest(entity: Any, top: Path) -> Any:
    """The body that would be sent, with component texts as data; None where building it needs a workspace."""
    try:
        body = entity._to_rest_object()
        data = body.as_dict() if hasattr(body, "as_dict") else body.serialize()
    except Exception:
        return None
    return _opened(json.loads(json.dumps(data, default=str).replace(str(top), "TOP")))


def _opened(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _opened(child) for key, child in value.items()}
    if isinstance(value, list):
        return [_opened(child) for child in value]
    if isinstance(value, str) and "\n" in value and "azureml_anonymous" in value:
        return yaml.safe_load(value)
    return value


def _differences(
    old: Any, new: Any, path: tuple[Any, ...] = ()
) -> Iterator[tuple[tuple[Any, ...], Any, Any]]:
    if isinstance(new, dict) and (old is None or isinstance(old, dict)):
        for key in dict.fromkeys([*(old or {}), *new]):
            yield from _differences((old or {}).get(key), new.get(key), (*path, key))
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, (one, other) in enumerate(zip(old, new, strict=True)):
            yield from _differences(one, other, (*path, index))
    elif old != new:
        yield path, old, new


def _asked(path: tuple[Any, ...], old: Any, new: Any) -> bool:
    name = str(path[-1])
    if name == "client_component_hash":  # computed from the rest
        return True
    if name == "command":
        return bool(new == EXPORTS + old)
    if name in ("instance_type", "instanceType"):
        return bool(new == TYPE)
    # The workers of TensorFlow follow the count.
    if name in ("instance_count", "instanceCount", "node_count", "worker_count", "workerCount"):
        return str(new) == str(COUNT)
    return name in ("AMLARC_PRESTEP", *LIGHTGBM_NAMES) and new in THREADS


def test_every_file_is_changed_or_has_a_reason(
    patched: tuple[Path, Path, list[FileResult]],
) -> None:
    _, _, results = patched
    for result in results:
        assert result.refused is None, (result.path, result.refused)
        if not result.changed:
            text = result.before.decode()
            only_others = (
                "spark" in text
                or "finetuning" in text
                or "default_compute" in text
                or "pipeline" in text
            )
            assert result.findings or only_others, result.path


def test_a_second_run_over_the_written_files_changes_nothing(
    patched: tuple[Path, Path, list[FileResult]],
) -> None:
    _, after, _ = patched
    again = [
        outcome.result
        for outcome in run([str(after)], AzureMLFiles(SETTINGS), lambda _: None)
        if outcome.result
    ]
    assert [result.path for result in again if result.changed] == []


def test_only_intended_lines_are_added_or_replaced(
    patched: tuple[Path, Path, list[FileResult]],
) -> None:
    import difflib

    _, _, results = patched
    words = (
        "instance_type",
        "instance_count",
        "resources:",
        "environment_variables:",
        "AMLARC_PRESTEP",
        "_NUM_THREADS",
    )
    for result in results:
        if result.after is None:
            continue
        old, new = result.before.decode().splitlines(), result.after.decode().splitlines()
        for line in difflib.ndiff(old, new) if old != new else ():
            # A blank line is what keeps the exports apart from a folded command.
            if line[:1] in "+-" and line[1:].strip():
                assert any(word in line for word in words), (result.path, line)


def test_no_azureml_file_of_the_corpus_is_unreadable() -> None:
    """The Kubernetes manifests of the corpus have Helm templates among them, which are not YAML."""
    broken = {}
    for path in sorted(CORPUS.rglob("*.y*ml")):
        try:
            parse(str(path), path.read_bytes(), ProjectFiles(read_raw))
        except Unreadable as error:
            if error.cause is not SkipCause.FOREIGN and CORPUS / "kubernetes" not in path.parents:
                broken[path] = error.reason
    assert not broken

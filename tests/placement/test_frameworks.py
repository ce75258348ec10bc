"""Code of frameworks that make pods when they run: reported as not changed, never as "no Kubernetes workloads"."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import arc_toolkit.placement
from arc_toolkit.cli.main import main

CASES = [
    (
        "Airflow",
        "from airflow.providers.cncf.kubernetes.operators.pod import KubernetesPodOperator",
        2,
    ),
    ("Airflow", "from airflow import DAG", 0),
    ("Flyte", "from flytekit import task, workflow", 2),
    ("Flyte", "import flyte", 2),
    ("Dask", "from dask_kubernetes.operator import KubeCluster", 2),
    ("Dask", "from dask.distributed import Client", 0),
    ("Metaflow", "from metaflow import FlowSpec, kubernetes, step", 2),
    ("Metaflow", "from metaflow import FlowSpec, step", 0),
]


@pytest.mark.parametrize(("name", "line", "exit_code"), CASES, ids=[row[1] for row in CASES])
def test_pods_of_a_framework_are_reported(
    name: str, line: str, exit_code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "flow.py").write_text(f"{line}\n")
    for path in (tmp_path, tmp_path / "flow.py"):
        assert main(["place", str(path), "--spot", "require", "--check"]) == exit_code
        text = capsys.readouterr().err
        assert f"{name} makes them when it runs: use an admission policy" in text
        assert "no Kubernetes workloads" not in text
    (tmp_path / "flow.py").write_text(f"# arc-toolkit: spot=avoid because it is small\n{line}\n")
    assert main(["place", str(tmp_path), "--spot", "require", "--check"]) == 0


def test_a_module_with_a_similar_name_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("import distributed_training\nimport daskish\n")
    assert main(["place", str(tmp_path), "--spot", "require"]) == 2  # no workloads here


def test_no_message_names_a_python_file() -> None:
    (folder,) = arc_toolkit.placement.__path__
    for path in Path(folder).rglob("*.py"):
        tree = ast.parse(path.read_text())
        docs = {
            id(node.body[0].value)
            for node in ast.walk(tree)
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
            and node.body
            and isinstance(node.body[0], ast.Expr)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and id(node) not in docs:
                assert not re.search(r"\w\.py\b", str(node.value)), (path, node.value)

"""docs/sweep-to-v2.md shows what the converters really write."""

from __future__ import annotations

import re
from pathlib import Path

from arc_toolkit.azureml.settings import Settings
from arc_toolkit.migrate import sweep
from tests.migrate.support import convert_python, ledger_lines, read, texts
from tests.support import ROOT

PAGE = (ROOT / "docs/sweep-to-v2.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def test_the_worked_example_is_what_is_written(tmp_path: Path) -> None:
    sweep_text, trial_text, component, pipeline = blocks("yaml")
    (tmp_path / "train.yaml").write_text(trial_text)
    (tmp_path / "conda.yaml").write_text("dependencies: [python=3.10]\n")
    settings = Settings(instance_type="32cpu128g", instance_count=2, compute="arc")
    result = sweep.convert(str(tmp_path / "sweep.yaml"), sweep_text.encode(), settings, read)
    assert texts(result) == {"sweep.trial.v2.yaml": component, "sweep.v2.yaml": pipeline}
    [finding] = result.findings
    said = [line.replace(f"{tmp_path}/", "") for line in ledger_lines(finding).splitlines()]
    (shown,) = re.findall(r"some of its lines:\n\n```\n(.*?)```", PAGE, re.DOTALL)
    for line in shown.splitlines():
        assert line in said


def test_the_ledger_of_a_sweep_in_python_is_what_is_reported() -> None:
    [code] = blocks("python")
    head = "import azure.ml.component\nfrom azureml.train.hyperdrive import BanditPolicy, uniform\n"
    [finding] = convert_python(head + code).findings
    assert f"```\n{ledger_lines(finding)}\n```" in PAGE

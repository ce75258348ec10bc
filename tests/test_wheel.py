"""The built wheel in an empty environment, used from another folder."""

from __future__ import annotations

import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

from tests.support import ROOT, unavailable

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The command of a fresh environment that holds the wheel and what it requires, and no more."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [
        sys.executable,
        "-m",
        "build",
        "--wheel",
        "--no-isolation",
        "--outdir",
        str(folder),
        str(ROOT),
    ]
    subprocess.run(build, check=True, capture_output=True)
    (wheel,) = folder.glob("*.whl")
    subprocess.run([sys.executable, "-m", "venv", str(folder / "env")], check=True)
    pip = [
        str(folder / "env" / "bin" / "pip"),
        "install",
        "-q",
        "--disable-pip-version-check",
        str(wheel),
    ]
    done = subprocess.run(pip, capture_output=True, text=True)
    if done.returncode:
        unavailable(f"pip could not install the wheel: {done.stderr.strip().splitlines()[-1]}")
    return folder / "env" / "bin" / "arc-toolkit"


def run(command: Path, *words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(command), *words], cwd=cwd, capture_output=True, text=True)


def test_sizing_works_from_the_wheel(installed: Path, tmp_path: Path) -> None:
    made = run(
        installed,
        "gen-instance-types",
        "--sku",
        "D64s_v5",
        "--share",
        "half",
        "-o",
        "types",
        cwd=tmp_path,
    )
    assert made.returncode == 0, made.stderr
    shown = run(installed, "gen-instance-types", "--sku", "D64s_v5", "--explain", cwd=tmp_path)
    assert "schedulable" in shown.stdout
    checked = run(installed, "validate", "types", "--sku", "D64s_v5", cwd=tmp_path)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    differs = run(
        installed, "gen-instance-types", "--sku", "D64s_v5", "--check", "types", cwd=tmp_path
    )
    assert differs.returncode == 1


def test_the_catalogue_the_templates_and_the_pages_are_in_the_wheel(installed: Path) -> None:
    (wheel,) = installed.parent.parent.parent.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert "arc_toolkit/_templates/instance_type.yaml.j2" in names
    assert sum(name.startswith("arc_toolkit/_instance_types/") for name in names) > 60
    assert "arc_toolkit/_docs/rules/duplicate-key.md" in names
    assert "arc_toolkit/py.typed" in names
    assert not any(name.startswith(("tests/", "scripts/")) for name in names)


def test_a_command_whose_extra_is_missing_says_what_brings_it(
    installed: Path, tmp_path: Path
) -> None:
    done = run(installed, "cluster", "nodes", cwd=tmp_path)
    assert done.returncode == 2
    assert "pip install '.[cluster]'" in done.stderr


def test_patch_works_from_the_wheel(installed: Path, tmp_path: Path) -> None:
    job = tmp_path / "job.yml"
    job.write_text(
        "type: command\ncommand: python train.py\nenvironment: azureml:env@latest\ncompute: azureml:k8s\n"
    )
    done = run(
        installed, "patch", "--instance-type", "32cpu128g", "--write", "job.yml", cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert "instance_type: 32cpu128g" in job.read_text()


def test_the_rule_pages_are_read_from_the_wheel(installed: Path, tmp_path: Path) -> None:
    page = run(installed, "rules", "duplicate-key", cwd=tmp_path)
    assert page.stdout == (ROOT / "docs" / "rules" / "duplicate-key.md").read_text()
    assert run(installed, "rules", cwd=tmp_path).returncode == 0


def test_diagnose_works_from_the_wheel(installed: Path, tmp_path: Path) -> None:
    log = tmp_path / "job1" / "system_logs" / "amlarc_cr_bootstrap.log"
    log.parent.mkdir(parents=True)
    log.write_text("++ echo 'Run on node: aks-pool-12345678-vmss000001'\n")
    done = run(installed, "diagnose", "job1", "--format", "html", "-o", "report.html", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "aks-pool-12345678-vmss000001" in (tmp_path / "report.html").read_text()


def test_the_container_gets_every_folder_that_the_wheel_is_built_from() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    sources = [*wheel["packages"], *wheel["force-include"], *project["project"]["license-files"]]
    copied = (ROOT / "Dockerfile").read_text().split()
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    for source in sources:
        assert source in copied, source
        assert f"!{source}" in ignored, source

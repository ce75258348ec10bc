"""macOS and Windows: the commands that need no Linux work without what those systems lack."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import ROOT

DEMO = ROOT / "arc_toolkit" / "data" / "demo"
# What Windows lacks: https://docs.python.org/3/library/os.html says of each on which systems it is.
WITHOUT = """
import importlib.abc, os, signal, sys
sys.platform = {platform!r}
ABSENT = {{"fcntl", "termios", "pwd", "grp", "resource", "tty", "pty"}}
class Absent(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name in ABSENT:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
for name in ABSENT:
    sys.modules.pop(name, None)
sys.meta_path.insert(0, Absent())
for name in {os_names!r}.split():
    if hasattr(os, name):
        delattr(os, name)
for name in {signals!r}.split():
    if hasattr(signal, name):
        delattr(signal, name)
from arc_toolkit.cli.main import main
sys.exit(main(sys.argv[1:]))
"""
ON_WINDOWS = """
fork forkpty sched_getaffinity sched_setaffinity fchmod getuid geteuid getgid getpgid killpg setsid
register_at_fork posix_fadvise O_DIRECT O_DIRECTORY O_CLOEXEC O_NOFOLLOW pidfd_open uname statvfs sync
wait waitid memfd_create sendfile copy_file_range posix_spawn getpgrp setpgid nice
"""
ON_MACOS = "sched_getaffinity sched_setaffinity O_DIRECT pidfd_open memfd_create posix_fadvise"
SIGNALS = """
SIGKILL SIGHUP SIGUSR1 SIGUSR2 SIGQUIT SIGCHLD SIGALRM SIGSTOP SIGCONT SIGTSTP SIGPIPE SIGWINCH alarm
setitimer pthread_sigmask pthread_kill sigwait sigtimedwait sigwaitinfo
"""
SYSTEMS = {
    "win32": WITHOUT.format(platform="win32", os_names=ON_WINDOWS, signals=SIGNALS),
    "darwin": WITHOUT.format(platform="darwin", os_names=ON_MACOS, signals=""),
}


def run(system: str, *words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", SYSTEMS[system], *map(str, words)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
    )


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize(
    ("words", "code", "shown"),
    [
        (("gen-instance-types", "--sku", "D64s_v5", "--format", "table"), 0, "64cpu256g"),
        (("validate", DEMO / "mytypes.yaml"), 1, "instance-type-misplaced"),
        (("patch", DEMO / "pipeline", "--instance-type", "half"), 0, "instance_type: half"),
        (("check", DEMO / "pipeline"), 1, "warning"),
        (("place", DEMO / "manifests", "--spot", "require"), 0, "scalesetpriority"),
        (("rules",), 0, "wrong-schema"),
        (("cost", "--sku", "Standard_D64s_v5", "--hours", "10"), 0, "spot"),
        (("diagnose", DEMO / "logs"), 0, "attempt"),
        (("checkpoints", "verify", DEMO / "checkpoints"), None, "step"),
    ],
    ids=lambda value: str(value[0]) if isinstance(value, tuple) else "",
)
def test_commands_without_a_process_of_their_own_work_everywhere(
    system: str, words: tuple[object, ...], code: int | None, shown: str
) -> None:
    result = run(system, *words)
    assert shown in result.stdout.lower() or shown in result.stdout, result.stderr
    assert "a fault in the toolkit" not in result.stderr
    assert code in (None, result.returncode)


@pytest.mark.parametrize("system", SYSTEMS)
def test_files_are_written_everywhere(system: str, tmp_path: Path) -> None:
    job = tmp_path / "job.yml"
    job.write_bytes(
        b"$schema: https://azuremlschemas.azureedge.net/latest/commandJob.schema.json\r\n"
        b"command: python train.py\r\nenvironment: azureml:e:1\r\ncompute: azureml:aks\r\n"
    )
    result = run(system, "patch", job, "--instance-type", "half", "--write")
    assert result.returncode == 0, result.stderr
    assert job.read_bytes().endswith(b"resources:\r\n  instance_type: half\r\n")


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("words", [("run", "--", "true"), ("elastic", "-f", "train.py")])
def test_what_needs_linux_says_so(system: str, words: tuple[str, ...]) -> None:
    result = run(system, *words)
    assert result.returncode == 2
    assert f"on Linux, not on {system}" in result.stderr

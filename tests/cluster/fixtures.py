"""A real Kubernetes as fixtures: `control_plane` (one per session), `cluster` (the same, empty), `own_cluster`,
`older_cluster`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from scripts import control_plane as build
from tests.support import unavailable

if TYPE_CHECKING:  # every test run imports this module, and most need no cluster
    from tests.cluster.control_plane import ControlPlane


@pytest.fixture(scope="session")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A running Kubernetes, whatever is in it; skips where the binaries were not built."""
    with _running(tmp_path_factory.mktemp("control-plane")) as plane:
        yield plane


@pytest.fixture
def cluster(control_plane: ControlPlane) -> ControlPlane:
    """The running Kubernetes with no nodes, pods or InstanceTypes in it."""
    control_plane.wipe()
    return control_plane


@pytest.fixture
def own_cluster(tmp_path: Path) -> Iterator[ControlPlane]:
    """A Kubernetes for one test that leaves thousands of objects: ending it takes less than wiping it."""
    with _running(
        tmp_path, lease_seconds=600
    ) as plane:  # a thousand nodes would do little else than renew
        yield plane


@pytest.fixture
def older_cluster(tmp_path: Path) -> Iterator[ControlPlane]:
    """The same for one test, with a Kubernetes that is one minor older."""
    with _running(tmp_path, lease_seconds=600, older=True) as plane:
        yield plane


@contextmanager
def _running(
    folder: Path, lease_seconds: int = 40, *, older: bool = False
) -> Iterator[ControlPlane]:
    binaries = build.locate(older=older)
    missing = build.missing(binaries)
    if missing:
        unavailable(f"no {', '.join(missing)}: run scripts/control-plane first")
    from tests.cluster.control_plane import ControlPlane

    plane = ControlPlane(binaries, folder, lease_seconds)
    try:
        plane.start()
        yield plane
    finally:
        plane.stop()

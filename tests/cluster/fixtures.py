"""The fixtures `control_plane` (once per session) and `cluster` (the same, empty at the start of each test)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from scripts import control_plane as build
from tests.support import unavailable

if TYPE_CHECKING:  # every test run imports this module, and most need no cluster
    from tests.cluster.control_plane import ControlPlane


@pytest.fixture(scope="session")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A running Kubernetes, whatever is in it; skips where the binaries were not built."""
    binaries = build.locate()
    missing = build.missing(binaries)
    if missing:
        unavailable(f"no {', '.join(missing)}: run scripts/control-plane first")
    from tests.cluster.control_plane import ControlPlane

    plane = ControlPlane(binaries, tmp_path_factory.mktemp("control-plane"))
    try:
        plane.start()
        yield plane
    finally:
        plane.stop()


@pytest.fixture
def cluster(control_plane: ControlPlane) -> ControlPlane:
    """The running Kubernetes with no nodes, pods or InstanceTypes in it."""
    control_plane.wipe()
    return control_plane

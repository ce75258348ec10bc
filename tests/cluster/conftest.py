"""Fixtures of the tests on a live cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from tests.support import Result

if TYPE_CHECKING:
    from tests.cluster.control_plane import ControlPlane

Arc = Callable[..., Result]


@pytest.fixture
def gen(arc: Arc, cluster: ControlPlane) -> Arc:
    """`gen-instance-types --from-cluster` with a Ready node in the cluster."""
    from tests.cluster.small import big, ready

    cluster.create(big("big-0"))
    ready(cluster, "big-0")
    return lambda *words: arc(
        "gen-instance-types", "--from-cluster", "--kubeconfig", cluster.kubeconfig, *words
    )


@pytest.fixture
def look(arc: Arc, cluster: ControlPlane) -> Arc:
    """`look("nodes", ...)` is `arc-toolkit cluster nodes ...` on this cluster."""
    return lambda command, *words: arc(
        "cluster", command, "--kubeconfig", cluster.kubeconfig, *words
    )

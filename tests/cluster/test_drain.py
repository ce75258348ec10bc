"""`run --drain-node` on a real API server: cordon, eviction through the API, least rights, a withdrawn notice."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.control_plane import ControlPlane
from tests.cluster.small import big, ready
from tests.cluster.test_rbac import allowed, bind
from tests.notices.metadata_service import (
    MetadataService,
    azure_answers,
    azure_event,
    metadata_service,
)
from tests.support import ROOT, Result

pytestmark = pytest.mark.cluster

NODE = "aks-spot-12345678-vmss000004"
MANIFESTS = list(yaml.safe_load_all((ROOT / "docs" / "node-drainer.yaml").read_text()))
ROLE = next(item for item in MANIFESTS if item["kind"] == "ClusterRole")
RIGHTS = [
    (verb, resource)
    for rule in ROLE["rules"]
    for resource in rule["resources"]
    for verb in rule["verbs"]
]


def pod(name: str, grace: int = 60, **metadata: Any) -> dict[str, Any]:
    container = {"name": "c", "image": "i"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", **metadata},
        "spec": {
            "nodeName": NODE,
            "containers": [container],
            "terminationGracePeriodSeconds": grace,
        },
    }


@pytest.fixture
def service() -> Iterator[MetadataService]:
    with metadata_service() as running:
        azure_answers(running, [])
        yield running


class Drainer:
    """A running drainer that acts with the rights of a user."""

    def __init__(
        self, cluster: ControlPlane, service: MetadataService, user: str, log: Path
    ) -> None:
        words = ["run", "--drain-node", "--cloud", "azure", "--metadata", service.url]
        words += ["--kubeconfig", str(cluster.kubeconfig), "--as", user]
        self.log = log
        self.process = subprocess.Popen(
            [sys.executable, "-m", "arc_toolkit", *words],
            stderr=log.open("w"),
            env={**os.environ, "NODE_NAME": NODE, "PYTHONPATH": str(ROOT)},
        )

    def until(self, text: str) -> None:
        end = time.monotonic() + 60
        while not re.search(text, self.log.read_text(), re.MULTILINE):
            assert time.monotonic() < end, self.log.read_text()
            assert self.process.poll() is None, self.log.read_text()
            time.sleep(0.05)

    def stop(self) -> int:
        self.process.terminate()
        return self.process.wait(30)


@pytest.fixture
def drainer(
    cluster: ControlPlane, service: MetadataService, tmp_path: Path
) -> Iterator[Callable[..., Drainer]]:
    started: list[Drainer] = []

    def start(user: str, missing: tuple[str, str] | None = None) -> Drainer:
        rules = [
            {"apiGroups": [""], "resources": [resource], "verbs": [verb]}
            for verb, resource in RIGHTS
            if (verb, resource) != missing
        ]
        cluster.apply({**ROLE, "metadata": {"name": user}, "rules": rules})
        bind(cluster, user, user)
        for verb, resource in RIGHTS:
            if "/" not in resource and (verb, resource) != missing:
                cluster.wait("the role", partial(allowed, cluster, user, (verb, resource)))
        started.append(Drainer(cluster, service, user, tmp_path / f"{user}.log"))
        return started[-1]

    yield start
    for item in started:
        if item.process.poll() is None:
            item.stop()


@pytest.fixture
def node(cluster: ControlPlane) -> ControlPlane:
    cluster.create(big(NODE))
    ready(cluster, NODE)
    return cluster


def test_a_notice_drains_the_node_and_a_withdrawn_one_gives_it_back(
    node: ControlPlane, service: MetadataService, drainer: Callable[..., Drainer]
) -> None:
    node.create(pod("train"))
    owner = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "name": "d",
        "uid": "1",
        "controller": True,
    }
    agent = drainer("drainer")
    agent.until("start node=")
    node.create(pod("agent", ownerReferences=[owner]))
    azure_answers(service, [azure_event(seconds=25)])
    agent.until("drained node=")
    stored = node.get("Node", NODE)
    assert stored["spec"]["unschedulable"] is True
    assert "arc-toolkit/cordoned" in stored["metadata"]["annotations"]
    grace = re.search(r"default/train: evicted with (\d+) s", agent.log.read_text())
    assert grace is not None
    assert 1 <= int(grace[1]) <= 25  # less than its own 60 s
    assert "default/agent" not in agent.log.read_text()
    azure_answers(service, [])
    agent.until("withdrawn node=")
    stored = node.get("Node", NODE)
    assert not stored["spec"].get("unschedulable")
    assert "arc-toolkit/cordoned" not in stored["metadata"].get("annotations", {})
    assert service.paths("POST") == []
    assert agent.stop() == 0


def test_a_disruption_budget_is_respected_until_the_deadline(
    node: ControlPlane, service: MetadataService, drainer: Callable[..., Drainer]
) -> None:
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b", "namespace": "default"},
        "spec": {"minAvailable": 21, "selector": {"matchLabels": {"app": "db"}}},
    }
    path = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
    node.request("POST", path, budget)
    try:
        for number in range(20):  # more than are asked for at once, and first in the list
            node.create(pod(f"a{number:02d}", labels={"app": "db"}))
        node.create(pod("db", labels={"app": "db"}))
        node.create(pod("train"))
        agent = drainer("drainer")
        azure_answers(service, [azure_event(seconds=9)])
        agent.until("default/train: evicted")
        assert "drained node=" not in agent.log.read_text()
        agent.until("drained node=.* pods=1$")
        assert "default/train: evicted" in agent.log.read_text()
        assert "default/db: " in agent.log.read_text()
        assert "default/db: evicted" not in agent.log.read_text()
        assert not node.get("Pod", "db")["metadata"].get("deletionTimestamp")
    finally:
        node.request("DELETE", f"{path}/b")


def test_a_cordon_of_somebody_else_is_not_taken_back(
    node: ControlPlane, service: MetadataService, drainer: Callable[..., Drainer]
) -> None:
    node.patch(f"/api/v1/nodes/{NODE}", {"spec": {"unschedulable": True}})
    agent = drainer("drainer")
    azure_answers(service, [azure_event(seconds=25)])
    agent.until("drained node=")
    azure_answers(service, [])
    agent.until("is not announced any more")
    time.sleep(1)
    assert node.get("Node", NODE)["spec"]["unschedulable"] is True


def test_the_cordon_of_an_earlier_process_is_taken_back_if_the_machine_goes_on(
    node: ControlPlane, service: MetadataService, drainer: Callable[..., Drainer]
) -> None:
    """After a reboot the node has the same name, the mark, and no notice any more."""
    azure_answers(service, [azure_event("Reboot", seconds=25)])
    first = drainer("drainer")
    first.until("drained node=")
    first.stop()
    service.answer = lambda *words: (503, b"")
    second = drainer("drainer")
    second.until("answered 503")
    assert node.get("Node", NODE)["spec"]["unschedulable"] is True
    azure_answers(service, [])
    second.until("withdrawn node=")
    assert not node.get("Node", NODE)["spec"].get("unschedulable")


@pytest.mark.slow
@pytest.mark.parametrize("right", RIGHTS)
def test_it_needs_each_of_its_rights(
    node: ControlPlane,
    service: MetadataService,
    drainer: Callable[..., Drainer],
    right: tuple[str, str],
) -> None:
    node.create(pod("train"))
    agent = drainer(f"no-{right[0]}-{right[1].replace('/', '-')}", missing=right)
    azure_answers(service, [azure_event(seconds=20)])
    if right == ("list", "pods"):
        assert agent.process.wait(60) == 2
    else:
        agent.until("may not")
    assert f"may not {right[0]} {right[1]}" in agent.log.read_text()


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda item: item["kind"])
def test_the_api_server_accepts_the_manifest(
    cluster: ControlPlane, manifest: dict[str, Any]
) -> None:
    group = manifest["apiVersion"]
    base = f"/api/{group}" if group == "v1" else f"/apis/{group}"
    space = "/namespaces/kube-system" if "namespace" in manifest["metadata"] else ""
    cluster.request(
        "POST",
        f"{base}{space}/{manifest['kind'].lower()}s",
        manifest,
        {"dryRun": "All", "fieldValidation": "Strict"},
    )


def test_without_the_name_of_the_node_it_is_refused(
    arc: Callable[..., Result], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NODE_NAME", raising=False)
    result = arc("run", "--drain-node", "--cloud", "azure")
    assert result.code == 2
    assert "NODE_NAME" in result.err

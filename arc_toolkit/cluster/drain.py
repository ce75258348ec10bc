"""Drain this node before its machine is evicted: pods get the grace period that a loss denies.

Cordon first, so that nothing else lands there; then the Eviction API, which respects
PodDisruptionBudgets. Pods of DaemonSets and static pods stay: their controllers would put them
back.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from arc_toolkit.cluster.client import ApiError, Client, NotFound
from arc_toolkit.errors import ArcError

# Says that the cordon is ours, so that a withdrawn notice takes back only that.
CORDONED = "arc-toolkit/cordoned"
_MIRROR = "kubernetes.io/config.mirror"
_AT_ONCE = 16
_TOO_MANY = 429  # a PodDisruptionBudget does not allow it now
_DEFAULT_GRACE = 30
_RETRY_SECONDS = 1
# The kubelet needs a moment of its own before the machine is gone.
_SPARE_SECONDS = 3


@dataclass(frozen=True)
class Eviction:
    """What became of one pod; `problem` is empty if it was evicted or was gone already."""

    namespace: str
    name: str
    grace: int
    problem: str = ""


class NodeDrain:
    """One node. Trouble with one pod does not keep the others from being evicted."""

    def __init__(self, client: Client, node: str) -> None:
        self._client = client
        self._path = f"/api/v1/nodes/{node}"
        self._node = node

    def check(self) -> None:
        """Raise what would fail later: no such node, no rights to list pods."""
        self._pods()

    def cordon(self, id: str) -> None:
        """Nothing new lands here. A node that somebody else cordoned keeps no mark of ours."""
        node = self._client.get(self._path)
        if not (node.get("spec") or {}).get("unschedulable"):
            change = {"metadata": {"annotations": {CORDONED: id}}, "spec": {"unschedulable": True}}
            self._client.merge(self._path, change)

    def is_cordoned(self) -> bool:
        """Whether there is a cordon of ours, perhaps of a process before a restart."""
        return CORDONED in (self._client.get(self._path)["metadata"].get("annotations") or {})

    def uncordon(self) -> bool:
        """Take back our own cordon; whether there was one."""
        if not self.is_cordoned():
            return False
        change = {"metadata": {"annotations": {CORDONED: None}}, "spec": {"unschedulable": None}}
        self._client.merge(self._path, change)
        return True

    def evict(
        self, deadline: float, say: Callable[[str], None], go_on: Callable[[], bool]
    ) -> list[Eviction]:
        """Evict every pod that can go, at most until the deadline (as of `time.time()`).

        Those that have to wait are asked again once per second, while `go_on` says so.
        """
        waiting = [pod for pod in self._pods() if _can_go(pod)]
        results: list[Eviction] = []
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            while waiting and go_on():
                outcomes = list(pool.map(lambda pod: self._evict(pod, deadline), waiting))
                waiting = [
                    pod for pod, outcome in zip(waiting, outcomes, strict=True) if outcome is None
                ]
                for result in (outcome for outcome in outcomes if outcome is not None):
                    results.append(result)
                    result_text = result.problem or f"evicted with {result.grace} s of grace"
                    say(f"{result.namespace}/{result.name}: {result_text}")
                if waiting:
                    time.sleep(_RETRY_SECONDS)
        return results

    def _pods(self) -> list[dict[str, Any]]:
        return list(
            self._client.list("/api/v1/pods", {"fieldSelector": f"spec.nodeName={self._node}"})
        )

    def _evict(self, pod: dict[str, Any], deadline: float) -> Eviction | None:
        """What became of it; None if a PodDisruptionBudget does not allow it yet."""
        namespace, name = pod["metadata"]["namespace"], pod["metadata"]["name"]
        wanted_grace = pod["spec"].get("terminationGracePeriodSeconds", _DEFAULT_GRACE)
        path = f"/api/v1/namespaces/{namespace}/pods/{name}/eviction"
        grace = max(1, min(wanted_grace, int(deadline - time.time()) - _SPARE_SECONDS))
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"namespace": namespace, "name": name},
            "deleteOptions": {
                "gracePeriodSeconds": grace,
                "preconditions": {"uid": pod["metadata"]["uid"]},
            },
        }
        try:
            self._client.request("POST", path, None, body)
        except NotFound:
            pass  # it went by itself
        except ApiError as error:
            if error.status == _TOO_MANY and time.time() < deadline - _SPARE_SECONDS:
                return None
            return Eviction(namespace, name, grace, str(error))
        except ArcError as error:
            return Eviction(namespace, name, grace, str(error))
        return Eviction(namespace, name, grace)


def _can_go(pod: dict[str, Any]) -> bool:
    metadata = pod["metadata"]
    owners = {owner.get("kind") for owner in metadata.get("ownerReferences") or ()}
    is_over = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
    is_static = _MIRROR in (metadata.get("annotations") or {})
    return not (is_over or is_static or "DaemonSet" in owners or metadata.get("deletionTimestamp"))

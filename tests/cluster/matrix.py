"""The machines of the proof: true capacities, and what AKS makes of them, written down apart from the code under test.

Capacities are those of real nodes where one is known, else nominal memory less the loss seen on nodes of that
memory size. Allocatable follows the published rules, computed here anew so that sizing cannot prove itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.cluster.objects import node
from tests.cluster.workloads import PROFILE, daemonset

Object = dict[str, Any]
PURPOSE = "test/purpose"  # a node label
SHARES = {"whole": 1, "half": 2, "quarter": 4, "1/8": 8}


@dataclass(frozen=True)
class Machine:
    """One VM size under one regime."""

    size: str
    cores: int
    memory_gib: float
    capacity_ki: int
    kubernetes: str
    max_pods: int
    profile: str
    gpus: int = 0

    @property
    def pool(self) -> str:
        return self.size.removeprefix("Standard_").replace("_", "").lower()

    @property
    def reservation_ki(self) -> int:
        """The pod of the AzureML extension: 5 % of capacity memory."""
        return -(-self.capacity_ki * 5 // 100)

    def allocatable_cpu_m(self) -> int:
        kept = sum([60, 40, 20, 20][: self.cores]) + 10 * max(0, self.cores - 4)
        return self.cores * 1000 - kept

    def allocatable_ki(self) -> int:
        nominal_mi = int(self.memory_gib * 1024)
        if tuple(map(int, self.kubernetes.split("."))) >= (1, 29):
            kept_mi = min(20 * self.max_pods + 50, nominal_mi // 4) + 100
        else:
            left, kept = self.memory_gib, 0.0
            for step, part in ((4, 0.25), (4, 0.20), (8, 0.10), (112, 0.06), (10**6, 0.02)):
                kept += min(left, step) * part
                left = max(0, left - step)
            kept_mi = int(kept * 1024 + 1e-6) + 750
        return self.capacity_ki - kept_mi * 1024

    def node(self, name: str, purpose: str = "") -> Object:
        """A Node manifest; pods of a test that are meant for it select its purpose."""
        gpus = {"nvidia.com/gpu": str(self.gpus)} if self.gpus else {}
        pods = {"pods": str(self.max_pods)}
        return node(
            name,
            capacity={"cpu": str(self.cores), "memory": f"{self.capacity_ki}Ki", **pods, **gpus},
            allocatable={
                "cpu": f"{self.allocatable_cpu_m()}m",
                "memory": f"{self.allocatable_ki()}Ki",
                **pods,
                **gpus,
            },
            labels={
                "node.kubernetes.io/instance-type": self.size,
                "agentpool": self.pool,
                PROFILE: self.profile,
                PURPOSE: purpose or name,
            },
            version=f"v{self.kubernetes}.0",
        )

    def reservation(self) -> Object:
        """The extension's DaemonSet for the nodes of this machine."""
        name = f"reservation-{self.pool}"
        return daemonset(name, "0", f"{self.reservation_ki}Ki", {"agentpool": self.pool}, "azureml")

    def shares(self) -> list[str]:
        """The shares that the cores and GPUs can be divided into."""
        return [
            name
            for name, n in SHARES.items()
            if n == 1 or (self.cores >= 2 * n and self.gpus % n == 0)
        ]


def _mi(gib: float, loss_mi: int) -> int:
    return int(gib * 1024 - loss_mi) * 1024


KUBENET, OVERLAY, MONITORED = "kubenet-1.26", "overlay-1.30", "overlay-1.35-monitored"

MACHINES = (
    Machine("Standard_B2s", 2, 4, 4025836, "1.24", 100, KUBENET),
    Machine("Standard_DS2_v2", 2, 7, _mi(7, 236), "1.27", 110, KUBENET),
    Machine("Standard_D2s_v5", 2, 8, 8130044, "1.30", 250, OVERLAY),
    Machine("Standard_E2s_v5", 2, 16, 16375056, "1.28", 110, KUBENET),
    Machine("Standard_D4s_v5", 4, 16, _mi(16, 393), "1.33", 110, OVERLAY),
    Machine("Standard_B8ms", 8, 32, 32859916, "1.32", 110, OVERLAY),
    Machine("Standard_E8s_v5", 8, 64, 65843232, "1.28", 110, KUBENET),
    Machine("Standard_D16s_v5", 16, 64, _mi(64, 1236), "1.34", 30, OVERLAY),
    Machine("Standard_NC6s_v3", 6, 112, _mi(112, 1996), "1.31", 30, OVERLAY, gpus=1),
    Machine("Standard_NC24ads_A100_v4", 24, 220, 226783616, "1.28", 30, KUBENET, gpus=1),
    Machine("Standard_D64s_v5", 64, 256, _mi(256, 4400), "1.33", 250, MONITORED),
    Machine("Standard_D96s_v5", 96, 384, _mi(384, 6500), "1.35", 250, MONITORED),
    Machine("Standard_NC96ads_A100_v4", 96, 880, _mi(880, 14700), "1.34", 110, OVERLAY, gpus=4),
    Machine("Standard_ND96asr_v4", 96, 900, _mi(900, 15000), "1.33", 250, MONITORED, gpus=8),
    Machine("Standard_M128s", 128, 2048, _mi(2048, 33900), "1.33", 30, OVERLAY),
)

"""What to simulate. Every scenario is a named function; its figures can be changed by keyword."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from random import Random
from typing import Any


class Style(StrEnum):
    """How a bad node shows itself."""

    FLAP = "flap"  # NotReady, sometimes with a reboot
    SYSTEM_OOM = "system-oom"  # the machine as a whole runs out of memory
    GPU_EXIT = "gpu-exit"  # the process exits with 1, no event at all
    GPU_EVENTS = "gpu-events"  # refused by the kubelet, NVIDIA hook errors, Xid
    SILENT = "silent"  # 137 and nothing else


GPU_STYLES = (Style.GPU_EXIT, Style.GPU_EVENTS)
ONE_OF_EACH = (Style.FLAP, Style.SYSTEM_OOM, Style.GPU_EXIT, Style.GPU_EVENTS, Style.SILENT)


@dataclass(frozen=True, slots=True)
class Pool:
    name: str
    size: int
    vmss: str
    sku: str
    gpu: bool = False
    spot: bool = False
    job_share: float = 1.0  # jobs per node, against the other pools
    rate: float = 0.02  # ordinary failures per attempt
    bad_rate: float = 0.20  # failures per attempt of its bad nodes


@dataclass(frozen=True, slots=True)
class Scenario:
    """Rates are per attempt (of each rank) unless they say otherwise; positions are shares of the whole time."""

    name: str
    about: str
    pools: tuple[Pool, ...]
    jobs: int = 3000
    days: int = 14
    bad: tuple[Style, ...] = ONE_OF_EACH
    repaired: tuple[Style, ...] = ()  # bad until half-time, then moved to other hardware
    notready_share: float = 0.30  # of ordinary failures that leave NotReady or evictions behind
    benign_flaps: float = 0.05  # per node and week; nothing is lost by them
    heavy_share: float = 0.0  # of nodes that get `heavy_weight` times as many attempts
    heavy_weight: float = 5.0
    light_share: float = 0.0
    light_weight: float = 0.33
    evenness: float = 6.0  # shape of the gamma distribution of the other nodes' weights
    gang_share: float = 0.03
    buggy_share: float = 0.03
    flaky_share: float = 0.005
    memory_share: float = 0.02
    sweeps: int = 4
    broken_sweeps: int = 1
    pipelines: int = 6
    broken_pipelines: int = 1
    retry_share: float = 0.9  # of failed attempts that are tried again
    pressure_rate: float = 0.002
    cancel_rate: float = 0.01
    preempt_rate: float = 0.002
    drains: float = 0.05  # per node and week
    scale_downs: float = 0.0  # per node and week, in pools that are not spot
    upgrade_at: float | None = None  # the first pool is drained and reimaged node by node
    spot_evictions: float = 0.15  # per node and day, in spot pools
    spot_evidence: float = 0.6  # of evictions that leave PreemptScheduled and the like
    spot_deallocate: bool = False  # the machine is stopped and started again, its Node object stays
    blip_at: float | None = None
    blip_loss: float = 0.6  # of the pods that run during the blip
    zone_outage_at: float | None = None
    zone_outage_lasts: bool = False  # it still lasts when the picture is taken
    events_kept_hours: float | None = None  # None: a recorder kept all of them
    vary: Callable[[Scenario, Random], Scenario] | None = None  # another cluster for each seed


CPU = Pool("cpu", 40, "41770210", "Standard_D32s_v5")
GPU = Pool("a100", 60, "11874420", "Standard_NC24ads_A100_v4", gpu=True)
SPOT_POOL = Pool("spotnc", 30, "90215531", "Standard_NC24ads_A100_v4", gpu=True, spot=True)
ON_DEMAND_AND_SPOT = (replace(CPU, size=30), replace(GPU, size=40), SPOT_POOL)


def base(**change: Any) -> Scenario:
    """100 nodes in a CPU and a GPU pool, 3,000 jobs in two weeks, five bad nodes, one of each style.

    Ordinary failures are 2 % of the attempts, and 30 % of them leave NotReady events or evictions.
    """
    return replace(Scenario("base", "one bad node of each style", (CPU, GPU)), **change)


def no_bad(**change: Any) -> Scenario:
    """The same without any bad node: every name is wrong."""
    return replace(replace(base(), name="no-bad", about="no bad node exists", bad=()), **change)


def gangs(**change: Any) -> Scenario:
    """A quarter of the jobs are gangs of 4 to 16 ranks; the first to fail takes the others with it."""
    return replace(
        replace(base(), name="gangs", about="a quarter of the jobs are gangs", gang_share=0.25),
        **change,
    )


def unequal(**change: Any) -> Scenario:
    """A tenth of the nodes gets five times as many attempts as most, a fifth of them only a third of that."""
    scenario = replace(
        base(), name="unequal", about="some nodes run 15 times as much as others", heavy_share=0.1
    )
    return replace(replace(scenario, light_share=0.2), **change)


def buggy(**change: Any) -> Scenario:
    """15 % of the jobs exit 1 on every node with up to six tries, 4 % fail most of the time and then succeed."""
    scenario = replace(
        base(), name="buggy", about="15 % buggy, 4 % flaky jobs", buggy_share=0.15, flaky_share=0.04
    )
    return replace(scenario, **change)


def sweeps(**change: Any) -> Scenario:
    """Twelve broken sweeps of 30 to 40 trials that all fail, each packed on one to four nodes."""
    scenario = replace(
        base(), name="sweeps", about="12 broken sweeps on few nodes", broken_sweeps=12
    )
    return replace(replace(scenario, broken_pipelines=8), **change)


def spot_silent(**change: Any) -> Scenario:
    """A spot pool whose machines are taken back every three days without any evidence; names come back."""
    scenario = replace(
        base(),
        name="spot-silent",
        about="spot evictions without evidence",
        pools=ON_DEMAND_AND_SPOT,
    )
    return replace(replace(scenario, spot_evictions=0.33, spot_evidence=0.0), **change)


def spot_deallocate(**change: Any) -> Scenario:
    """The same with the policy Deallocate: the Node object stays while the machine is stopped."""
    return replace(
        replace(
            spot_silent(), name="spot-dealloc", about="policy Deallocate", spot_deallocate=True
        ),
        **change,
    )


def notready_noise(**change: Any) -> Scenario:
    """30 % of ordinary failures leave NotReady, and every node also flaps every second week without harm."""
    scenario = replace(
        base(), name="notready-noise", about="30 % NotReady, harmless flaps", benign_flaps=0.5
    )
    return replace(scenario, **change)


def bad_gpu(**change: Any) -> Scenario:
    """Five GPU nodes whose processes exit with 1: no event at all, and the job succeeds elsewhere."""
    return replace(
        replace(base(), name="bad-gpu", about="GPU nodes that exit 1", bad=(Style.GPU_EXIT,) * 5),
        **change,
    )


def blip(**change: Any) -> Scenario:
    """Every node is NotReady for two minutes on a busy day and many pods are lost; no node is bad."""
    return replace(
        replace(base(), name="blip", about="all nodes NotReady for 2 minutes", bad=(), blip_at=0.7),
        **change,
    )


def zone(**change: Any) -> Scenario:
    """One of three zones fails at the end and is still down; the bad nodes are elsewhere or among them."""
    scenario = replace(
        base(), name="zone", about="one zone is down at the end", zone_outage_at=0.995
    )
    return replace(replace(scenario, zone_outage_lasts=True), **change)


def everything(**change: Any) -> Scenario:
    """All of it at once: spot, gangs, unequal exposure, bugs, sweeps, an upgrade, scale-downs, a blip, an outage."""
    scenario = replace(
        unequal(), name="everything", about="all of it at once", pools=ON_DEMAND_AND_SPOT
    )
    scenario = replace(scenario, gang_share=0.1, buggy_share=0.08)
    scenario = replace(
        scenario, flaky_share=0.01, broken_sweeps=5, broken_pipelines=3, spot_evidence=0.4
    )
    scenario = replace(scenario, upgrade_at=0.15, scale_downs=0.1, blip_at=0.4, zone_outage_at=0.6)
    return replace(replace(scenario, benign_flaps=0.2), **change)


def small(**change: Any) -> Scenario:
    """20 nodes, 200 jobs, one bad node. Too little data for most answers, so no figure is demanded."""
    pools = (replace(CPU, size=8), replace(GPU, size=12))
    scenario = replace(
        base(), name="small", about="20 nodes, 200 jobs", pools=pools, jobs=200, sweeps=1
    )
    return replace(
        replace(scenario, bad=(Style.GPU_EXIT,), pipelines=1, broken_pipelines=0), **change
    )


def two_rates(**change: Any) -> Scenario:
    """A pool that fails 1 % and one that fails 8 %: each node must be compared with its own pool."""
    pools = (replace(CPU, size=60, rate=0.01), replace(GPU, size=40, rate=0.08, bad_rate=0.6))
    scenario = replace(base(), name="two-rates", about="pools that fail 1 % and 8 %", pools=pools)
    return replace(scenario, **change)


def repaired(**change: Any) -> Scenario:
    """Besides the bad nodes, five that were as bad were redeployed at half-time and have been good since."""
    return replace(
        replace(
            base(), name="repaired", about="five more nodes were repaired", repaired=ONE_OF_EACH
        ),
        **change,
    )


def no_recorder(**change: Any) -> Scenario:
    """Events of the last hour only, as `kubectl get events` has them; pods are known from before."""
    return replace(
        replace(
            base(), name="no-recorder", about="events of the last hour only", events_kept_hours=1.0
        ),
        **change,
    )


def churn(**change: Any) -> Scenario:
    """Pools that fail 1 % and 4 %; the autoscaler removes and adds nodes all the time, and one pool is upgraded."""
    pools = (replace(CPU, size=50, rate=0.01), replace(GPU, size=50, rate=0.04, bad_rate=0.4))
    scenario = replace(
        base(), name="churn", about="nodes come and go, pools fail 1 % and 4 %", pools=pools
    )
    return replace(
        replace(scenario, scale_downs=0.3, drains=0.2, upgrade_at=0.3, benign_flaps=0.2), **change
    )


def one_user(**change: Any) -> Scenario:
    """One user's jobs are half of all failures: they exit 1 in most tries and succeed on another node in the end."""
    scenario = replace(
        base(), name="one-user", about="flaky jobs are half of all failures", buggy_share=0.01
    )
    return replace(replace(scenario, flaky_share=0.05), **change)


CROWDED = Pool("a100", 20, "11874420", "Standard_NC24ads_A100_v4", gpu=True, bad_rate=0.3)


def _one_pool(size: int, bad: tuple[Style, ...], jobs_per_node: int) -> dict[str, Any]:
    jobs = size * jobs_per_node
    return {
        "pools": (replace(CROWDED, size=size),),
        "bad": bad,
        "jobs": jobs,
        "sweeps": jobs // 300,
        "broken_sweeps": jobs // 800,
        "pipelines": jobs // 300,
        "broken_pipelines": 0,
    }


def _draw_crowded(scenario: Scenario, rng: Random) -> Scenario:
    size = rng.randint(8, 40)
    bad = max(1, int(rng.uniform(0.1, 0.3) * size))
    styles = tuple(rng.choices(ONE_OF_EACH, k=bad))
    return replace(scenario, **_one_pool(size, styles, rng.randint(20, 60)))


def _draw_healthy(scenario: Scenario, rng: Random) -> Scenario:
    return replace(_draw_crowded(scenario, rng), bad=())


def crowded(**change: Any) -> Scenario:
    """A pool of 8 to 40 nodes, 10 to 30 % of them bad: 30 % of 20 to 60 jobs per node fail there, 2 % elsewhere."""
    scenario = Scenario("crowded", "10 to 30 % of a pool is bad", (CROWDED,), vary=_draw_crowded)
    return replace(scenario, **change)


def healthy(**change: Any) -> Scenario:
    """The same pools without any bad node: every name is wrong."""
    scenario = Scenario("healthy", "small pools, none is bad", (CROWDED,), vary=_draw_healthy)
    return replace(replace(scenario, bad=()), **change)


def two_of_ten(**change: Any) -> Scenario:
    """Ten nodes with 40 jobs each. One kills 30 % of its processes, one lets them exit with 1."""
    figures = _one_pool(10, (Style.SILENT, Style.GPU_EXIT), 40)
    return replace(Scenario("two-of-ten", "2 of 10 nodes are bad", **figures), **change)


def four_of_twenty(**change: Any) -> Scenario:
    """Twenty nodes with 40 jobs each. Four fail 30 % of them: two silently, two with NotReady or SystemOOM."""
    bad = (Style.SILENT, Style.GPU_EXIT, Style.FLAP, Style.SYSTEM_OOM)
    scenario = Scenario("four-of-twenty", "4 of 20 nodes are bad", **_one_pool(20, bad, 40))
    return replace(scenario, **change)


def half_bad(**change: Any) -> Scenario:
    """Half of 20 nodes fail 30 % of 40 jobs each: the report says that the pool is uneven and names nobody."""
    bad = (Style.SILENT,) * 5 + (Style.GPU_EXIT,) * 5
    scenario = Scenario("half-bad", "10 of 20 nodes are bad", **_one_pool(20, bad, 40))
    return replace(scenario, **change)


SCENARIOS: tuple[Callable[..., Scenario], ...] = (
    base,
    no_bad,
    gangs,
    unequal,
    buggy,
    sweeps,
    spot_silent,
    spot_deallocate,
    notready_noise,
    bad_gpu,
    blip,
    zone,
    two_rates,
    repaired,
    no_recorder,
    everything,
    churn,
    one_user,
    small,
    crowded,
    healthy,
    two_of_ten,
    four_of_twenty,
    half_bad,
)

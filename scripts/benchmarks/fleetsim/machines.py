"""Machines and what befalls them: flaps, drains, upgrades, scale-downs, spot evictions, blips and outages."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING

from scripts.benchmarks.fleetsim import objects
from scripts.benchmarks.fleetsim.endings import XID_STANDS
from scripts.benchmarks.fleetsim.objects import NodeFacts
from scripts.benchmarks.fleetsim.scenarios import GPU_STYLES, Pool, Scenario, Style
from scripts.benchmarks.fleetsim.workload import DAY, Blame

if TYPE_CHECKING:
    from .world import Attempt, Rank, World

HOUR, WEEK = 3600.0, 604_800.0
WHAT_AKS_SAYS = "For more information, see https://aka.ms/aks/scheduledevents."


@dataclass(slots=True, eq=False)
class Machine:
    facts: NodeFacts
    weight: float
    rate: float  # failures per attempt, ordinary ones and its own
    ordinary_rate: float
    style: Style | None = None
    silent: bool = False  # its kubelet does not answer
    gone: bool = False
    xid_at: float | None = None
    blame: Blame = Blame.BAD_NODE  # for what it does if it is bad
    running: dict[int, tuple[Attempt, Rank]] = field(default_factory=dict)

    @property
    def up(self) -> bool:
        return not (self.silent or self.gone or self.facts.cordoned or self.facts.stopped)


def build(scenario: Scenario, rng: Random) -> list[Machine]:
    found: list[Machine] = []
    for pool in scenario.pools:
        for number in range(pool.size):
            name = objects.node_name(pool.name, number, pool.vmss)
            facts = NodeFacts(
                name, pool.name, pool.sku, number, 1 + number % 3, pool.spot, pool.gpu, -20 * DAY
            )
            found.append(Machine(facts, _weight(scenario, rng), pool.rate, pool.rate))
    pools = {pool.name: pool for pool in scenario.pools}
    for style in scenario.bad:
        _spoil(style, found, pools, rng)
    for style in scenario.repaired:
        _spoil(style, found, pools, rng).blame = Blame.PAST
    return found


def _weight(scenario: Scenario, rng: Random) -> float:
    draw = rng.random()
    if draw < scenario.heavy_share:
        return scenario.heavy_weight
    if draw < scenario.heavy_share + scenario.light_share:
        return scenario.light_weight
    return max(0.05, rng.gammavariate(scenario.evenness, 1 / scenario.evenness))


def _spoil(style: Style, found: list[Machine], pools: dict[str, Pool], rng: Random) -> Machine:
    """Makes one machine bad. Not in spot pools: there the machine behind a name changes all the time."""
    fit = [
        one
        for one in found
        if not one.style and not one.facts.spot and (one.facts.gpu or style not in GPU_STYLES)
    ]
    machine = rng.choice(fit)
    machine.style, machine.rate = style, pools[machine.facts.pool].bad_rate
    return machine


def plan(world: World) -> None:
    """Puts everything on the agenda that befalls machines whatever runs on them."""
    scenario, rng = world.scenario, world.rng
    for machine in world.machines:
        spot = machine.facts.spot
        for rate, what in (
            (scenario.benign_flaps / WEEK, benign_flap),
            (0.0 if spot else scenario.drains / WEEK, drain),
            (0.0 if spot else scenario.scale_downs / WEEK, scale_down),
            (scenario.spot_evictions / DAY if spot else 0.0, evict),
            (0.4 / WEEK, chatter),
        ):
            at = rng.expovariate(rate) if rate else world.end
            while at < world.end - 2 * HOUR:
                world.at(at, lambda machine=machine, what=what: what(world, machine))  # type: ignore[misc]
                at += HOUR + rng.expovariate(rate)
        if machine.blame is Blame.PAST:
            world.at(0.5 * world.end, lambda machine=machine: redeploy(world, machine))  # type: ignore[misc]
    if scenario.upgrade_at is not None:
        for place, machine in enumerate(world.by_pool[scenario.pools[0].name]):
            when = scenario.upgrade_at * world.end + place * 600
            world.at(when, lambda machine=machine: upgrade(world, machine))  # type: ignore[misc]
    if scenario.blip_at is not None:
        world.at(scenario.blip_at * world.end, lambda: blip(world))
    if scenario.zone_outage_at is not None:
        world.at(scenario.zone_outage_at * world.end, lambda: zone_outage(world))


def close(machine: Machine, end: float) -> None:
    """The state of the Node object in the picture at the end."""
    if machine.xid_at is not None and end - machine.xid_at < XID_STANDS:
        text = "XID error-codes found: 79. FaultCode: NHC2001"
        machine.facts.faults.append(("XIDErrors", "XIDErrorIsPresent", text, machine.xid_at))


# ---- NotReady


def _outage(world: World, machine: Machine, fell: float, lasts: float, reboot: bool) -> None:
    """NotReady from 45 seconds after the kubelet fell silent until it is back."""
    if machine.silent:
        return
    name, back = machine.facts.name, fell + lasts
    machine.silent = True
    machine.facts.ready, machine.facts.ready_since = False, fell + 45
    world.diary.not_ready(name, fell + 45)

    def return_() -> None:
        machine.silent = False
        if machine.gone or machine.facts.stopped:
            return
        machine.facts.ready, machine.facts.ready_since = True, back
        world.diary.ready(name, back)
        if reboot:
            world.diary.rebooted(name, back - 5)

    world.at(back, return_)


def short_flap(world: World, machine: Machine, fell: float) -> None:
    _outage(world, machine, fell, world.rng.uniform(70, 240), world.rng.random() < 0.4)


def flap(world: World, machine: Machine, how: str) -> str:
    """The machine flaps; what runs beside the attempt may be lost too. Gives how the attempt's pod ends."""
    if (
        how == "flap-beside"
    ):  # a network that stutters: the process gives up, the node is back in a minute
        short_flap(world, machine, world.now - world.rng.uniform(0, 60))
        return "exit1"
    if how == "flap-short":
        short_flap(world, machine, world.now)
        world.lose(machine, "lost-container", Blame.SAME_FLAP, 0.6)
        return "lost-container"
    lasts = world.rng.uniform(7, 20) * 60
    _outage(world, machine, world.now, lasts, world.rng.random() < 0.5)
    if lasts > 600 and world.rng.random() < 0.5:
        for reason, text, at in (
            (
                "NodeRebootStart",
                "Node auto-repair is initiating a reboot action due to NotReady status",
                400.0,
            ),
            ("NodeRebootEnd", "Reboot action from node auto-repair is completed.", lasts - 20),
        ):
            world.diary.on_node(
                machine.facts.name, reason, text, world.now + at, component="aks-auto-repair"
            )
    world.lose(machine, "taint-evicted", Blame.SAME_FLAP)
    return "taint-evicted"


def benign_flap(world: World, machine: Machine) -> None:
    """NotReady for a minute or two; the containers run on and nothing is lost."""
    if machine.up:
        _outage(world, machine, world.now, world.rng.uniform(70, 200), False)


def blip(world: World) -> None:
    """The control plane loses contact with every node at once, for two minutes."""
    for machine in world.machines:
        if not machine.up:
            continue
        fell = world.now + world.rng.uniform(0, 40)
        _outage(world, machine, fell, 45 + world.rng.uniform(110, 140), False)
        way = world.rng.choice(("lost-container", "killed", "exit1", "exit1"))
        world.lose(machine, way, Blame.CLUSTER, world.scenario.blip_loss)


def zone_outage(world: World) -> None:
    lasts = 2 * WEEK if world.scenario.zone_outage_lasts else world.rng.uniform(20, 60) * 60
    for machine in world.machines:
        if machine.facts.zone == 2 and machine.up:
            _outage(world, machine, world.now + world.rng.uniform(0, 60), lasts, False)
            world.lose(machine, "taint-evicted", Blame.CLUSTER)


def redeploy(world: World, machine: Machine) -> None:
    """Auto-repair moves a bad machine to other hardware, under the same name and UID. It is good from then on."""
    name, lasts = machine.facts.name, 1500.0
    machine.style, machine.rate = None, machine.ordinary_rate
    world.lose(machine, "taint-evicted", Blame.PAST)
    _outage(world, machine, world.now, lasts, True)
    why = "Node auto-repair is initiating a redeploy action due to NotReady status persisting more than 5 minutes."
    done = "Redeploy action from node auto-repair is completed."
    for reason, text, at in (
        ("NodeRedeployStart", why, 400.0),
        ("NodeRedeployEnd", done, lasts - 10),
    ):
        world.diary.on_node(name, reason, text, world.now + at, component="aks-auto-repair")


# ---- planned removals


def _cordon(world: World, machine: Machine) -> None:
    name = machine.facts.name
    machine.facts.cordoned = True
    text = f"Node {name} status is now: NodeNotSchedulable"
    world.diary.on_node(name, "NodeNotSchedulable", text, world.now, host=name)


def _uncordon(world: World, machine: Machine) -> None:
    name = machine.facts.name
    machine.facts.cordoned = False
    text = f"Node {name} status is now: NodeSchedulable"
    world.diary.on_node(name, "NodeSchedulable", text, world.now, host=name)


def drain(world: World, machine: Machine) -> None:
    if machine.up:
        _cordon(world, machine)
        world.lose(machine, "drained", Blame.CLUSTER)
        world.at(world.now + world.rng.uniform(0.5, 6) * HOUR, lambda: _uncordon(world, machine))


def upgrade(world: World, machine: Machine) -> None:
    """Drained, deleted from the API server, reimaged, and registered again under its name."""
    if not machine.up:
        return
    name, diary, now = machine.facts.name, world.diary, world.now
    diary.on_node(name, "Drain", f"Draining node: {name}", now, component="upgrader")
    world.lose(machine, "drained", Blame.CLUSTER)
    diary.on_node(
        name, "Upgrade", f"Deleting node {name} from API server", now + 120, component="upgrader"
    )
    _removed(world, machine, now + 130)

    def back() -> None:
        _registered(world, machine)
        diary.on_node(
            name,
            "Upgrade",
            f"Successfully reimaged node: {name}",
            world.now + 30,
            component="upgrader",
        )

    world.at(now + 260, back)


def scale_down(world: World, machine: Machine) -> None:
    """The autoscaler thinks that the node is not needed; mostly it is empty. Later the pool grows again."""
    if not machine.up or (machine.running and world.rng.random() < 0.7):
        return
    name, diary = machine.facts.name, world.diary
    marked = "marked the node as toBeDeleted/unschedulable"
    diary.on_node(name, "ScaleDown", marked, world.now - 5, component="cluster-autoscaler")
    world.lose(machine, "scaled-down", Blame.CLUSTER)
    removed = "node removed by cluster autoscaler"
    diary.on_node(name, "ScaleDown", removed, world.now + 60, component="cluster-autoscaler")
    _removed(world, machine, world.now + 80)
    world.at(world.now + world.rng.uniform(2, 20) * HOUR, lambda: _registered(world, machine))


def _removed(world: World, machine: Machine, at: float, told: bool = True) -> None:
    name = machine.facts.name
    machine.gone = True
    if told:
        text = f"Node {name} event: Removing Node {name} from Controller"
        world.diary.on_node(name, "RemovingNode", text, at, component="node-controller")


def _registered(world: World, machine: Machine, told: bool = True) -> None:
    name, facts = machine.facts.name, machine.facts
    machine.gone = False
    facts.generation += 1
    facts.created, facts.ready_since, facts.ready = world.now, world.now + 20, True
    if told:
        world.diary.on_node(name, "Starting", "Starting kubelet.", world.now, host=name)
        text = "invalid capacity 0 on image filesystem"
        world.diary.on_node(name, "InvalidDiskCapacity", text, world.now, warning=True, host=name)
        world.diary.ready(name, world.now + 20)
        text = f"Node {name} event: Registered Node {name} in Controller"
        world.diary.on_node(
            name, "RegisteredNode", text, world.now + 22, component="node-controller"
        )


# ---- spot


def evict(world: World, machine: Machine) -> None:
    """Azure takes a spot machine back. Some evictions leave traces, some none."""
    if not machine.up:
        return
    told = world.rng.random() < world.scenario.spot_evidence
    name, diary, now = machine.facts.name, world.diary, world.now
    away = world.rng.uniform(0.3, 12) * HOUR
    if told:
        text = (
            f"Preempt Scheduled: {objects.http_date(now)}. DurationInSeconds: -1.  {WHAT_AKS_SAYS}"
        )
        monitor = "custom-scheduledevents-consolidated-preempt-plugin-monitor"
        diary.on_node(
            name,
            "PreemptScheduled",
            text,
            now - 30,
            warning=True,
            component=monitor,
            count=6,
            first=now - 60,
        )
        diary.not_ready(name, now + 40)
    if world.scenario.spot_deallocate:
        world.lose(machine, "taint-evicted" if told else "taken-silently", Blame.CLUSTER)
        machine.facts.ready, machine.facts.ready_since, machine.facts.stopped = (
            False,
            now + 40,
            True,
        )
        world.at(now + away, lambda: _started(world, machine, told))
        return
    if told:
        text = f"Deleting node {name} because it does not exist in the cloud provider"
        diary.on_node(
            name, "DeletingNode", text, now + 50, component="cloud-node-lifecycle-controller"
        )
    silent = not told and world.rng.random() < 0.6
    world.lose(machine, "taken-silently" if silent else "garbage-collected", Blame.CLUSTER)
    _removed(world, machine, now + 55, told)
    if world.rng.random() < 0.8:
        world.at(now + away, lambda: _registered(world, machine, told))


def _started(world: World, machine: Machine, told: bool) -> None:
    machine.facts.ready, machine.facts.ready_since, machine.facts.stopped = True, world.now, False
    if told:
        world.diary.ready(machine.facts.name, world.now)


def chatter(world: World, machine: Machine) -> None:
    """Events that mean nothing: AKS nodes write them all the time."""
    name, diary, now = machine.facts.name, world.diary, world.now
    failed = "IMDS query failed, exit code: 28\nConnection timed out after 24 seconds."
    freeze = f"Freeze Scheduled: {objects.http_date(now)}. DurationInSeconds: 9.  {WHAT_AKS_SAYS}"
    plugin = "custom-scheduledevents-consolidated-preempt-plugin-monitor"
    reason, text, component = world.rng.choice(
        (
            ("PreemptScheduled", failed, plugin),
            ("FreezeScheduled", freeze, plugin),
            ("ContainerdStart", "Starting containerd container runtime...", "systemd-monitor"),
            ("KubeletStart", "Started Kubelet.", "systemd-monitor"),
            ("ImageGCFailed", "failed to get imageFs info: non-existent label", "kubelet"),
        )
    )
    diary.on_node(name, reason, text, now, warning=True, component=component, host=name)

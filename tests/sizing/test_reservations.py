"""The rules against every real node that is known."""

from __future__ import annotations

import csv
from collections.abc import Callable
from fractions import Fraction

import pytest

from arc_toolkit.errors import ArcError
from arc_toolkit.kube.quantities import GI, MI, bytes_offered, cpu_offered
from arc_toolkit.resources import data_file, data_rows
from arc_toolkit.sizing import occupants, reservations
from tests.support import Result

with open(data_file("observed_nodes.csv"), encoding="utf-8") as stream:
    OBSERVED = list(csv.DictReader(line for line in stream if not line.startswith("#")))
SEEN = data_rows("observed_losses.csv")
LOSSES = reservations.observed_losses()


def _kept(row: dict[str, str]) -> int:
    version, windows = reservations.parse_version(row["kubernetes"]), row["os"] == "windows"
    nominal = int(Fraction(row["memory_gib"]) * GI)
    # maxPods matters from 1.29 only, and every such row has it.
    memory = reservations.kube_reserved_memory(nominal, version, int(row["max_pods"] or 0), windows)
    return memory.amount + reservations.eviction(version, windows).amount


def _name(row: dict[str, str]) -> str:
    return f"{row['size'] or 'unnamed'}-{row['memory_gib']}GiB-{row['kubernetes']}-{row['os']}"


@pytest.mark.parametrize("row", OBSERVED, ids=_name)
def test_allocatable_equals_what_the_real_node_shows(row: dict[str, str]) -> None:
    computed = bytes_offered(row["capacity_memory"]) - _kept(row)
    # A report in Gi with three decimals is exact to half a thousandth of a Gi, twice.
    tolerance = GI // 1000 if row["capacity_memory"].endswith("Gi") else 0
    assert abs(computed - bytes_offered(row["allocatable_memory"])) <= tolerance
    if row["allocatable_cpu"]:
        cores = int(row["vcpus"])
        assert cores * 1000 - reservations.kube_reserved_cpu(cores).amount == cpu_offered(
            row["allocatable_cpu"]
        )


@pytest.mark.parametrize("row", OBSERVED, ids=_name)
def test_estimated_capacity_is_never_above_the_truth_and_within_one_percent(
    row: dict[str, str],
) -> None:
    nominal = int(Fraction(row["memory_gib"]) * GI)
    truth = bytes_offered(row["allocatable_memory"])
    estimate = (
        nominal - reservations.kernel_loss(nominal, row["os"] == "windows").amount - _kept(row)
    )
    assert truth * 99 // 100 <= estimate <= truth


@pytest.mark.parametrize("row", [row for row in OBSERVED if row["os"] == "linux"], ids=_name)
def test_the_bound_alone_would_hold_too(row: dict[str, str]) -> None:
    nominal = int(Fraction(row["memory_gib"]) * GI)
    assert nominal - reservations.loss_bound(nominal) <= bytes_offered(row["capacity_memory"])


def _leave_out(gib: Fraction, monkeypatch: pytest.MonkeyPatch) -> int:
    """The estimate of capacity if no node with that memory had been seen."""
    others = {size: loss for size, loss in LOSSES.items() if size != gib}
    monkeypatch.setattr(reservations, "observed_losses", lambda: others)
    nominal = int(gib * GI)
    return nominal - reservations.kernel_loss(nominal).amount


@pytest.mark.parametrize("row", [row for row in OBSERVED if row["os"] == "linux"], ids=_name)
def test_out_of_sample_allocatable_is_never_above_the_node_and_at_most_3_75_percent_low(
    row: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The figures of docs/capacity.md: 3.75 % for the smallest nodes; 1.6 % from 7 GiB on, where jobs can run."""
    gib = Fraction(row["memory_gib"])
    truth = bytes_offered(row["allocatable_memory"])
    low = Fraction(truth - (_leave_out(gib, monkeypatch) - _kept(row)), truth)
    assert 0 <= low <= (Fraction("0.0375") if gib < 7 else Fraction("0.016"))


@pytest.mark.parametrize("row", SEEN, ids=lambda row: f"{row['memory_gib']}GiB")
def test_out_of_sample_capacity_is_never_above_any_node_and_at_most_2_percent_low(
    row: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    gib = Fraction(row["memory_gib"])
    for loss_mib in (int(row["least_mib"]), int(row["most_mib"])):
        truth = int(gib * GI) - loss_mib * MI
        assert 0 <= truth - _leave_out(gib, monkeypatch) <= truth * 2 // 100


def test_every_loss_that_was_seen_is_within_the_bound() -> None:
    for gib, most_mib in reservations.observed_losses().items():
        assert most_mib * MI <= reservations.loss_bound(int(gib * GI)) <= (most_mib + 200) * MI


@pytest.mark.parametrize(
    ("cores", "milli"),
    [(1, 60), (2, 100), (4, 140), (8, 180), (16, 260), (32, 420), (64, 740), (96, 1060)],
)
def test_cpu_reservation_by_cores(cores: int, milli: int) -> None:
    assert reservations.kube_reserved_cpu(cores).amount == milli


@pytest.mark.parametrize("row", OBSERVED, ids=_name)
def test_the_nominal_memory_of_an_unknown_size_is_found_from_its_capacity(
    row: dict[str, str],
) -> None:
    if row["os"] == "linux":
        found = reservations.nominal_from_capacity(bytes_offered(row["capacity_memory"]))
        assert found == Fraction(row["memory_gib"]) * GI


@pytest.mark.parametrize(
    ("gib", "beyond_mib"), [("56", 250), ("48", 290), ("3.5", 200), ("64", 212), ("256", 300)]
)
def test_a_loss_a_little_beyond_the_bound_still_finds_the_size(gib: str, beyond_mib: int) -> None:
    nominal = int(Fraction(gib) * GI)
    assert reservations.nominal_from_capacity(nominal - nominal // 64 - beyond_mib * MI) == nominal


@pytest.mark.parametrize(
    ("text", "version"), [("1.33", (1, 33)), ("v1.28.12", (1, 28)), ("1.30.9+aks", (1, 30))]
)
def test_versions(text: str, version: tuple[int, int]) -> None:
    assert reservations.parse_version(text) == version


@pytest.mark.parametrize("text", ["1.x", "", "1", "latest", "1..33", "one.two"])
def test_text_that_is_not_a_version_is_refused(text: str) -> None:
    with pytest.raises(ArcError, match="not a Kubernetes version"):
        reservations.parse_version(text)


@pytest.mark.parametrize(
    ("plugin", "pods"), [("overlay", 250), ("pod-subnet", 110), ("kubenet", 110), ("azure", 30)]
)
def test_the_default_of_max_pods_follows_the_network_plugin(
    plugin: str, pods: int, arc: Callable[..., Result]
) -> None:
    result = arc(
        "gen-instance-types", "--sku", "Standard_D64s_v5", "--network-plugin", plugin, "--explain"
    )
    assert f"20Mi x {pods} pods + 50Mi" in result.out


@pytest.mark.parametrize(("pods", "code"), [(9, 2), (10, 0), (250, 0), (251, 2)])
def test_max_pods_is_within_what_aks_accepts(
    pods: int, code: int, arc: Callable[..., Result]
) -> None:
    result = arc(
        "gen-instance-types", "--sku", "Standard_D64s_v5", "--max-pods", pods, "--format", "table"
    )
    assert result.code == code


def test_the_rule_by_pods_holds_from_1_29_on() -> None:
    assert reservations.kube_reserved_memory(64 * GI, (1, 29), 110).amount == 2250 * MI
    assert reservations.kube_reserved_memory(64 * GI, (1, 28), 110).amount > 5000 * MI
    assert reservations.eviction((1, 29)).amount == 100 * MI
    assert reservations.eviction((1, 28)).amount == 750 * MI


@pytest.mark.parametrize(
    ("profile", "cpu_m", "memory_mib", "pods"),
    [
        ("aks-kubenet", 310, 220, 5),
        ("aks-overlay-1.30", 350, 470, 6),
        ("aks-overlay-1.35", 335, 526, 6),
        ("ama-logs", 150, 550, 1),
        ("azureml", 10, 100, 1),
    ],
)
def test_the_shipped_profiles_of_daemonsets(
    profile: str, cpu_m: int, memory_mib: int, pods: int
) -> None:
    rows = occupants.profile(profile, (1, 33))
    total = (
        sum(row.cpu_m for row in rows),
        sum(row.memory for row in rows),
        sum(row.pods for row in rows),
    )
    assert total == (cpu_m, memory_mib * MI, pods)


def test_the_losses_that_were_seen() -> None:
    """As in the reports; a row that is missing or mistyped moves every estimate of that memory size."""
    assert reservations.observed_losses() == {
        Fraction("3.5"): 166,
        4: 173,
        7: 236,
        8: 253,
        16: 393,
        28: 605,
        32: 678,
        56: 1109,
        64: 1236,
        112: 1996,
        220: 3812,
    }

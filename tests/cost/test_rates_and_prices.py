"""Eviction rates as people and Azure write them, measured ones, and tables of prices."""

from __future__ import annotations

import math
import random
from datetime import date

import pytest

from arc_toolkit.cost.eviction_rates import NodeLife, measured_rate, node_lives, parse_rate, percent
from arc_toolkit.cost.prices import (
    Tier,
    VmPrice,
    old_prices,
    prices_of,
    read_prices,
    shipped_prices,
)
from arc_toolkit.errors import ArcError
from arc_toolkit.sizing import vm_sizes


@pytest.mark.parametrize(
    ("text", "low", "used", "high", "open_end"),
    [
        ("5%", 0.05, 0.05, 0.05, False),
        ("0-5%", 0.0, 0.025, 0.05, False),
        ("5-10%", 0.05, 0.075, 0.10, False),
        ("5% - 10%", 0.05, 0.075, 0.10, False),
        ("20+%", 0.2, 0.2, 0.2, True),
        ("20%+", 0.2, 0.2, 0.2, True),
        ("0%", 0.0, 0.0, 0.0, False),
    ],
)
def test_rates_as_azure_writes_them(
    text: str, low: float, used: float, high: float, open_end: bool
) -> None:
    rate = parse_rate(text)
    assert (rate.low, rate.high, rate.open_end) == (low, high, open_end)
    assert rate.used == pytest.approx(used)


@pytest.mark.parametrize("text", ["5", "100%", "-5%", "10-5%", "five%", "", "%", "5-10-15%"])
def test_other_rates_are_refused(text: str) -> None:
    with pytest.raises(ArcError, match="rate"):
        parse_rate(text)


def test_measured_with_the_exact_interval() -> None:
    # Tables of Garwood's interval: 3 events: 0.6187 to 8.767; 10: 4.795 to 18.39; 0: 0 to 3.689.
    def per_hour(mean: float) -> float:
        return 1 - math.exp(-mean / 100)

    lives = [NodeLife(10, evicted=True)] * 3 + [NodeLife(70)]
    rate = measured_rate(lives, "h.db")
    assert rate.used == pytest.approx(per_hour(3))
    assert (rate.low, rate.high) == pytest.approx((per_hour(0.6187), per_hour(8.767)), rel=1e-3)
    many = measured_rate([NodeLife(10, evicted=True)] * 10, "h.db")
    assert (many.low, many.high) == pytest.approx((per_hour(4.795), per_hour(18.39)), rel=1e-3)
    # Chi-squared quantiles: 100 events: 81.36 to 121.63; 1000: 938.97 to 1063.95.
    for events, ends in ((100, (81.36, 121.63)), (1000, (938.97, 1063.95))):
        often = measured_rate([NodeLife(100, evicted=True)] * events, "h.db")
        per_node_hour = [1 - math.exp(-end / (100 * events)) for end in ends]
        assert [often.low, often.high] == pytest.approx(per_node_hour, rel=1e-4)
    none = measured_rate([NodeLife(100)], "h.db")
    assert none.low == 0
    assert none.used == pytest.approx(per_hour(0.5))
    assert none.high == pytest.approx(per_hour(3.689), rel=1e-3)


def test_nodes_that_go_together_are_one_event() -> None:
    # 12 evictions of 3 waves say as much as 3: Garwood 0.6187 to 8.767, of 4 nodes each; the rate itself is the same.
    moments = [0.0, 10, 200, 450] + [9000.0] * 4 + [86400.0, 86460, 86470, 86480]
    waves = measured_rate([NodeLife(25, evicted=True, ended=moment) for moment in moments], "h.db")
    single = measured_rate(
        [NodeLife(25, evicted=True, ended=1000.0 * number) for number in range(12)], "h.db"
    )
    assert (waves.used, waves.together) == (single.used, 4)
    ends = [1 - math.exp(-4 * mean / 300) for mean in (0.6187, 8.767)]
    assert [waves.low, waves.high] == pytest.approx(ends, rel=1e-3)
    assert waves.low < single.low < single.high < waves.high
    assert "12 evictions of 12 spot nodes in 300 node hours, 3 waves" in waves.source
    assert (single.together, "wave" in single.source) == (1, False)


@pytest.mark.parametrize(("per_hour", "size", "nodes"), [(0.1, 1, 10), (0.1, 4, 8), (0.2, 2, 20)])
def test_the_interval_has_the_true_rate_as_often_as_it_says(
    per_hour: float, size: int, nodes: int
) -> None:
    numbers = random.Random(1)
    true = 1 - math.exp(-per_hour * size / nodes)
    rates = [measured_rate(_history(numbers, per_hour, size, nodes), "h.db") for _ in range(300)]
    assert sum(rate.low <= true <= rate.high for rate in rates) / len(rates) >= 0.93
    assert (
        sum(rate.low <= true / 4 for rate in rates) / len(rates) < 0.5
    )  # and is not as wide as to have any


def _history(
    numbers: random.Random, per_hour: float, size: int, nodes: int, hours: float = 100
) -> list[NodeLife]:
    """Waves at random moments, each of some of the nodes, which are replaced at once."""
    since, lives, clock = [0.0] * nodes, [], numbers.expovariate(per_hour)
    while clock < hours:
        for node in numbers.sample(range(nodes), size):
            lives.append(NodeLife(clock - since[node], evicted=True, ended=clock * 3600))
            since[node] = clock
        clock += numbers.expovariate(per_hour)
    return lives + [NodeLife(hours - start) for start in since]


def test_a_recording_of_minutes_is_too_little() -> None:
    with pytest.raises(
        ArcError, match=r"1 eviction of 2 spot nodes in 0\.07 node hours: .* record for longer"
    ):
        measured_rate([NodeLife(0.05, evicted=True), NodeLife(0.02)], "h.db")


def test_nodes_that_vanished_widen_the_interval_upwards() -> None:
    rate = measured_rate([NodeLife(50, evicted=True), NodeLife(50, unclear=True)], "h.db")
    sure = measured_rate([NodeLife(50, evicted=True), NodeLife(50)], "h.db")
    assert rate.low == sure.low
    assert rate.high > sure.high
    assert rate.used == pytest.approx(1 - math.exp(-1.5 / 100))  # half of it is assumed
    assert "1 more vanished" in rate.source


def node(
    name: str, created: str, deleted: str = "", spot: bool = True, pool: str = "gpu"
) -> dict[str, object]:
    labels = {"kubernetes.azure.com/agentpool": pool}
    labels |= {"kubernetes.azure.com/scalesetpriority": "spot"} if spot else {}
    metadata: dict[str, object] = {"name": name, "creationTimestamp": created, "labels": labels}
    return {"metadata": metadata | ({"deletionTimestamp": deleted} if deleted else {})}


def event(name: str, reason: str, moment: str) -> dict[str, object]:
    return {
        "involvedObject": {"kind": "Node", "name": name},
        "reason": reason,
        "lastTimestamp": moment,
    }


def test_lives_of_spot_nodes_end_in_an_eviction_a_scale_down_or_unclear() -> None:
    noon = 1_782_907_200.0  # 2026-07-01T12:00:00Z
    nodes = [
        node("evicted", "2026-07-01T12:00:00Z", "2026-07-01T14:00:00Z"),
        node("scaled", "2026-07-01T12:00:00Z", "2026-07-01T13:00:00Z"),
        node("vanished", "2026-07-01T10:00:00Z", "2026-07-01T13:30:00Z"),
        node("alive", "2026-07-01T15:00:00Z"),
        node("before", "2026-07-01T08:00:00Z", "2026-07-01T11:00:00Z"),
        node("dedicated", "2026-07-01T12:00:00Z", "2026-07-01T14:00:00Z", spot=False),
    ]
    events = [
        event("evicted", "PreemptScheduled", "2026-07-01T13:59:30Z"),
        event("scaled", "ScaleDown", "2026-07-01T12:59:00Z"),
        event(
            "vanished", "PreemptScheduled", "2026-06-01T12:00:00Z"
        ),  # of an earlier node of that name
    ]
    lives = list(node_lives(nodes, events, since=noon, until=noon + 4 * 3600))
    assert lives == [
        NodeLife(2.0, evicted=True, ended=noon + 2 * 3600),
        NodeLife(1.0, ended=noon + 3600),
        NodeLife(1.5, unclear=True, ended=noon + 1.5 * 3600),
        NodeLife(1.0),
    ]
    assert list(node_lives(nodes, events, since=noon, until=noon + 4 * 3600, pool="other")) == []


@pytest.mark.parametrize(
    ("mark", "evicted", "unclear"),
    [  # what karpenter-provider-azure, AKS and the autoscaler write on a node before it goes
        (
            {"status": {"conditions": [{"type": "PreemptionScheduled", "status": "True"}]}},
            True,
            False,
        ),
        (
            {"status": {"conditions": [{"type": "PreemptionScheduled", "status": "False"}]}},
            False,
            True,
        ),
        (
            {"spec": {"taints": [{"key": "cloudprovider.azure.microsoft.com/draining"}]}},
            True,
            False,
        ),
        ({"spec": {"taints": [{"key": "ToBeDeletedByClusterAutoscaler"}]}}, False, False),
        ({"spec": {"taints": [{"key": "sku"}]}}, False, True),
    ],
)
def test_marks_on_the_node_itself_say_how_it_ended(
    mark: dict[str, object], evicted: bool, unclear: bool
) -> None:
    item = node("n", "2026-07-01T12:00:00Z", "2026-07-01T14:00:00Z") | mark
    [life] = node_lives([item], [], since=None, until=1_782_907_200.0 + 7200)
    assert (life.evicted, life.unclear, life.hours) == (evicted, unclear, 2.0)


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0.05, "5 %"),
        (0.075, "7.5 %"),
        (0.0025, "0.25 %"),
        (0.714, "71 %"),
        (0.0, "0 %"),
        (0.996, "99.6 %"),
        (0.9999, "99.9 %"),
        (1.0, "100 %"),
        (-2.51, "-251 %"),
        (-0.025, "-2.5 %"),
        (12.34, "1,234 %"),
    ],
)
def test_percent_has_two_digits_that_matter_and_is_never_100_by_rounding(
    share: float, text: str
) -> None:
    assert percent(share) == text


OWN = [
    "size,region,tier,price,currency,date",
    "Standard_D8s_v5,westeurope,on-demand,0.40,usd,2026-01-02",
]


def test_own_prices_win_and_the_rest_is_from_the_shipped_table() -> None:
    own = read_prices([*OWN, "standard_d8s_v5,,spot,0.05"], "mine.csv")
    prices = prices_of("Standard_D8s_v5", "westeurope", [own, shipped_prices()])
    assert prices[Tier.LOW_PRIORITY].amount == 0.092
    assert prices[Tier.DEDICATED] == VmPrice(0.40, "USD", date(2026, 1, 2), "mine.csv")
    assert prices[Tier.SPOT].amount == 0.05  # a row without a region is for all of them
    shipped = prices_of("Standard_D8s_v5", "eastus", [shipped_prices()])
    assert list(shipped) == [Tier.DEDICATED]
    assert shipped[Tier.DEDICATED].amount == 0.384


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["size,region,price"], "tier is missing"),
        ([OWN[0], "D8s,westeurope,cheap,1"], "mine.csv:2: tier 'cheap'"),
        (
            [OWN[0], "# a comment", "D8s,westeurope,spot,free"],
            "mine.csv:3: price 'free' is not a number",
        ),
        ([OWN[0], "D8s,westeurope,spot,-1"], "a price is more than 0"),
        ([OWN[0], "D8s,westeurope,spot,1e9"], "a price is more than 0 and less than 1,000,000"),
        ([OWN[0], "D8s,westeurope,spot,1,USD,June"], "date 'June'"),
        ([], "must have the columns"),
    ],
)
def test_a_bad_table_is_one_sentence_with_its_line(lines: list[str], message: str) -> None:
    with pytest.raises(ArcError, match=message):
        read_prices(lines, "mine.csv")


def test_an_unknown_region_and_two_currencies_are_refused() -> None:
    with pytest.raises(ArcError, match="did you mean westeurope"):
        prices_of("Standard_D8s_v5", "westeurop", [shipped_prices()])
    own = read_prices([OWN[0], "Standard_D8s_v5,westus2,spot,0.4,EUR"], "mine.csv")
    with pytest.raises(ArcError, match="EUR and USD"):
        prices_of("Standard_D8s_v5", "westus2", [own, shipped_prices()])


def test_a_price_older_than_a_year_is_a_warning() -> None:
    prices = {
        Tier.SPOT: VmPrice(1, day=date(2025, 6, 18)),
        Tier.DEDICATED: VmPrice(1, day=date(2026, 6, 18)),
    }
    [note] = old_prices(prices, date(2026, 6, 19))
    assert "spot price is of 2025-06-18, 366 days old" in note
    assert old_prices(prices, date(2026, 6, 18)) == []


def test_every_shipped_price_is_of_a_known_size_with_date_and_source_and_none_is_above_dedicated() -> (
    None
):
    table = shipped_prices()
    assert len(table) > 900
    for (size, region, _), price in table.items():
        assert vm_sizes.find(size), size
        assert price.day, size
        assert price.source in ("azure-pricing-radar", "karpenter")
        # Spot of ND96isr_H200_v5 does cost as much as dedicated.
        assert price.amount <= table[size, region, Tier.DEDICATED].amount


def test_low_priority_is_a_fifth_of_dedicated_as_azure_says() -> None:
    # "up to 80 %": all but a few sizes of Linux have exactly that.
    table = shipped_prices()
    shares = [
        price.amount / table[size, region, Tier.DEDICATED].amount
        for (size, region, tier), price in table.items()
        if tier is Tier.LOW_PRIORITY
    ]
    assert len(shares) > 200
    assert sum(abs(share - 0.2) < 0.005 for share in shares) / len(shares) > 0.95

"""Prices per VM and hour, with one row per size, region and tier, and the price of a share.

The shipped table, what `scripts/refresh_prices.py` writes and the `--prices` of a contract have the
same columns. A price that is in none of them is unknown.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from functools import cache

from arc_toolkit.errors import ArcError
from arc_toolkit.resources import data_file
from arc_toolkit.sizing.instance_types import InstanceType, generate
from arc_toolkit.sizing.node_selection import DaemonSets, select_sizes
from arc_toolkit.sizing.schedulable import Assumptions
from arc_toolkit.sizing.shares import Share
from arc_toolkit.text import nearest

REQUIRED = ("size", "region", "tier", "price")
FIELDS = (*REQUIRED, "currency", "date", "source")
OLD_DAYS = 365
HIGHEST_PRICE = 1_000_000  # per VM and hour, in any currency: above it is a slip


class Tier(StrEnum):
    """How a VM is bought. Low priority is AzureML's own compute; spot a pool, or a VM."""

    DEDICATED = "dedicated"
    SPOT = "spot"
    LOW_PRIORITY = "low-priority"


@dataclass(frozen=True, slots=True)
class VmPrice:
    """One row: per VM and hour."""

    amount: float
    currency: str = "USD"
    day: date | None = None
    source: str = ""

    def age_days(self, today: date) -> int | None:
        return (today - self.day).days if self.day else None


PriceKey = tuple[str, str, Tier]  # size and region in lower case
PriceTable = Mapping[PriceKey, VmPrice]


def read_prices(lines: Iterable[str], name: str) -> dict[PriceKey, VmPrice]:
    """The rows of a CSV; lines that begin with # are comments."""
    numbered = [
        (number, line)
        for number, line in enumerate(lines, 1)
        if not line.startswith("#") and line.strip()
    ]
    rows = csv.DictReader(line for _, line in numbered)
    lacking = [field for field in REQUIRED if field not in (rows.fieldnames or ())]
    if lacking:
        raise ArcError(
            f"{name}: the first line must have the columns {', '.join(REQUIRED)}: "
            f"{lacking[0]} is missing"
        )
    table: dict[PriceKey, VmPrice] = {}
    for (number, _), row in zip(numbered[1:], rows, strict=False):
        place = f"{name}:{number}"
        tier = _tier(row["tier"], place)
        table[(row["size"] or "").strip().lower(), (row["region"] or "").strip().lower(), tier] = (
            VmPrice(
                _amount(row["price"], place),
                (row.get("currency") or "USD").strip().upper(),
                _day(row.get("date"), place),
                (row.get("source") or name).strip(),
            )
        )
    return table


@cache
def shipped_prices() -> PriceTable:
    with open(data_file("prices.csv"), encoding="utf-8", newline="") as stream:
        return read_prices(stream, "prices.csv")


def prices_of(size: str, region: str, tables: Iterable[PriceTable]) -> dict[Tier, VmPrice]:
    """The known prices of a size; the first table wins, a row without a region is for all."""
    tables = list(tables)
    regions = sorted({key[1] for table in tables for key in table} - {""})
    if region.lower() not in regions and not any(key[1] == "" for table in tables for key in table):
        near = nearest(region.lower(), regions)
        hint = f"did you mean {near}?" if near else f"known are {', '.join(regions)};"
        raise ArcError(
            f"--region {region}: no price is known there: {hint} --prices FILE sets others"
        )
    prices: dict[Tier, VmPrice] = {}
    for tier in Tier:
        for table in tables:
            price = table.get((size.lower(), region.lower(), tier)) or table.get(
                (size.lower(), "", tier)
            )
            if price:
                prices[tier] = price
                break
    check_currency(size, prices)
    return prices


def check_currency(size: str, prices: Mapping[Tier, VmPrice]) -> None:
    """Prices of two currencies cannot be compared."""
    currencies = sorted({price.currency for price in prices.values()})
    if len(currencies) > 1:
        raise ArcError(
            f"the prices of {size} are in {' and '.join(currencies)}: "
            "put those of all tiers in one currency in --prices"
        )


def money(amount: float | None) -> str:
    """Two decimals; four digits below 10."""
    if amount is None:
        return "unknown"
    return f"{amount:,.2f}" if amount >= 10 else f"{amount:.4g}"


def old_prices(prices: Mapping[Tier, VmPrice], today: date) -> list[str]:
    """A sentence for each price that is older than a year."""
    notes = []
    for tier, price in prices.items():
        days = price.age_days(today)
        if days is not None and days > OLD_DAYS:
            notes.append(
                f"the {tier} price is of {price.day}, {days} days old: "
                "--prices FILE or scripts/refresh_prices.py has newer ones"
            )
    return notes


def unknown_prices(prices: Mapping[Tier, VmPrice], region: str) -> list[str]:
    """A sentence about the tiers without a price, if there are any."""
    tiers = [tier.value for tier in Tier if tier not in prices]
    if not tiers:
        return []
    return [
        f"no price is known for {' and '.join(tiers)} in {region}: "
        f"run `python -m scripts.refresh_prices {region} -o prices.csv` "
        "in a clone of arc-toolkit (no sign-in), and use --prices prices.csv"
    ]


def parse_price_option(option: str, text: str, dedicated: VmPrice | None) -> VmPrice:
    """`0.45` per VM and hour, or `20%` of the dedicated price."""
    number = text.removesuffix("%")
    try:
        amount = float(number)
    except ValueError:
        raise ArcError(
            f"{option} {text}: use a price per hour such as 0.45, or a share such as 20%"
        ) from None
    if number != text:
        if dedicated is None:
            raise ArcError(
                f"{option} {text}: the dedicated price is unknown: use --prices FILE or an amount"
            )
        if not 0 <= amount <= 100:
            raise ArcError(f"{option} {text}: use a share from 0% to 100%")
        amount *= dedicated.amount / 100
    _check_range(amount, f"{option} {text}")
    return VmPrice(amount, dedicated.currency if dedicated else "USD", None, option)


def _tier(text: str | None, place: str) -> Tier:
    try:
        return Tier(
            (text or "").strip().lower().replace("_", "-").replace("on-demand", "dedicated")
        )
    except ValueError:
        raise ArcError(f"{place}: tier {text!r}: there are {', '.join(Tier)}") from None


def _amount(text: str | None, place: str) -> float:
    try:
        amount = float(text or "")
    except ValueError:
        raise ArcError(f"{place}: price {text!r} is not a number") from None
    _check_range(amount, f"{place}: price {text!r}")
    return amount


def _check_range(amount: float, place: str) -> None:
    if not 0 < amount < HIGHEST_PRICE:
        raise ArcError(f"{place}: a price is more than 0 and less than {HIGHEST_PRICE:,}")


def _day(text: str | None, place: str) -> date | None:
    if not text or not text.strip():
        return None
    try:
        return date.fromisoformat(text.strip())
    except ValueError:
        raise ArcError(f"{place}: date {text!r}: write it like 2026-06-18") from None


@dataclass(frozen=True, slots=True)
class ShareUse:
    """`workers` of one type on as few VMs as hold them."""

    instance_type: str
    share: str
    per_vm: int
    workers: int
    left_over: float  # of a full VM: of its GPUs, or else of cores and memory on average

    @property
    def vms(self) -> int:
        return -(-self.workers // self.per_vm)

    @property
    def empty(self) -> int:
        """Shares that are paid and not used."""
        return self.vms * self.per_vm - self.workers

    @property
    def wasted(self) -> float:
        """The part of the price that nothing runs for."""
        return 1 - self.workers / (self.vms * self.per_vm) * (1 - self.left_over)

    def price(self, vm_price: float) -> float:
        """Of one share and hour, on full VMs."""
        return vm_price / self.per_vm


def share_use(size: str, share: str, workers: int) -> ShareUse:
    """By the same rules as `gen-instance-types --sku SIZE --share SHARE`."""
    assumptions = Assumptions()
    selection = select_sizes([size], assumptions, DaemonSets())
    types, refused, _ = generate(selection.groups, [Share.parse(share)], assumptions)
    if not types:
        raise ArcError(refused[0] if refused else f"--share {share}: {size} has nothing to share")
    entry = types[0]
    return ShareUse(
        entry.name, str(entry.request), entry.portion.per_node, workers, _left_over(entry)
    )


def _left_over(entry: InstanceType) -> float:
    group, portion = entry.group, entry.portion
    if group.gpus:
        return portion.left_gpus / group.gpus
    cpu = portion.left_cpu_m / group.tightest_cpu.cpu_m
    memory = portion.left_memory / group.tightest_memory.memory
    return (cpu + memory) / 2

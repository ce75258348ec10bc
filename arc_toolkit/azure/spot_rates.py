"""Eviction rate and latest price of a spot size, from the tables of Azure Resource Graph.

https://learn.microsoft.com/azure/virtual-machines/spot-vms#azure-resource-graph
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from arc_toolkit.azure.session import Session
from arc_toolkit.errors import ArcError

PATH = "/providers/Microsoft.ResourceGraph/resources"
API_VERSION = "2022-10-01"
_WORD = re.compile(r"[A-Za-z0-9_-]+")

RATE_QUERY = """\
SpotResources
| where type =~ 'microsoft.compute/skuspotevictionrate/location'
| where sku.name in~ ('{size}') and location in~ ('{region}')
| project rate = tostring(properties.evictionRate)"""
PRICE_QUERY = """\
SpotResources
| where type =~ 'microsoft.compute/skuspotpricehistory/ostype/location'
| where sku.name in~ ('{size}') and location in~ ('{region}') and properties.osType =~ 'linux'
| project price = todouble(properties.spotPrices[0].priceUSD)"""


@dataclass(frozen=True)
class SpotFacts:
    """`rate` as Azure writes its bands: `5-10`, `20+`; `price` in USD per hour, if it is known."""

    rate: str
    price: float | None


def spot_facts(session: Session, size: str, region: str) -> SpotFacts:
    for word in (size, region):
        if not _WORD.fullmatch(word):
            raise ArcError(f"{word!r} is not the name of a size or region")
    rates = _ask(session, RATE_QUERY.format(size=size.lower(), region=region.lower()))
    if not rates or not rates[0].get("rate"):
        raise ArcError(
            f"Azure Resource Graph has no eviction rate of {size} in {region}: use --eviction-rate"
        )
    prices = _ask(session, PRICE_QUERY.format(size=size.lower(), region=region.lower()))
    price = prices[0].get("price") if prices else None
    return SpotFacts(
        str(rates[0]["rate"]),
        float(price) if isinstance(price, int | float) and price > 0 else None,
    )


def _ask(session: Session, query: str) -> list[dict[str, object]]:
    answer = session.query(
        PATH, API_VERSION, {"query": query, "options": {"resultFormat": "objectArray"}}
    )
    rows = answer.get("data")
    return [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []

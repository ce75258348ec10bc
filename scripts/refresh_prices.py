"""Make price rows from Azure's public retail price API, which needs no sign-in.

    .venv/bin/python -m scripts.refresh_prices westeurope eastus -o prices.csv      # then: cost --prices prices.csv
    .venv/bin/python -m scripts.refresh_prices westeurope                           # into the shipped table

A region has some 5,000 meters in pages of 100 or 1,000. After every page the state is written to `OUTPUT.REGION.part`,
so that a run that was stopped continues where it was. Rows of other regions in the file are kept.
https://learn.microsoft.com/rest/api/cost-management/retail-prices/azure-retail-prices
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import quote, urlsplit
from urllib.request import Request, urlopen

from arc_toolkit.cost.prices import FIELDS, Tier, VmPrice, read_prices
from arc_toolkit.file_io import write_atomic
from arc_toolkit.resources import data_file
from arc_toolkit.sizing import vm_sizes

API = "https://prices.azure.com/api/retail/prices"
VERSION = "2023-01-01-preview"
PAGE = 100  # the documented size; a page that is full and has no link is followed by another
TRIES = 7  # about a minute in all: half of one was needed when many asked
SOURCE = "Azure retail price API"
# Windows is also written `NCCadsv5 Srs Win`. Cloud Services have the names of VM sizes, at the price of Windows.
_OTHER_PRODUCTS = (" Win", "Cloud Services", "CloudServices", "Dedicated Host", "DedicatedHost")

Row = tuple[str, str, Tier, VmPrice]


def first_url(api: str, region: str) -> str:
    words = f"serviceName eq 'Virtual Machines' and priceType eq 'Consumption' and armRegionName eq '{region}'"
    return f"{api}?api-version={VERSION}&$filter={quote(words)}"


def read_region(
    api: str,
    region: str,
    state: Path,
    fetch: Callable[[str], dict[str, Any]],
    progress: Callable[[int], None],
) -> list[dict[str, Any]]:
    """All meters of a region, from where the last run stopped."""
    saved = json.loads(state.read_text(encoding="utf-8")) if state.exists() else {}
    items: list[dict[str, Any]] = saved.get("items", [])
    url: str | None = saved.get("next", first_url(api, region))
    seen: set[str] = set()
    while url:
        if url in seen:
            raise SystemExit(f"the API points to a page that was read already: {url}")
        seen.add(url)
        page = fetch(url)
        rows = page.get("Items") or []
        items += [_kept(row) for row in rows]
        url = _same_host(api, page.get("NextPageLink"))
        # In March 2023 the API gave no links for a while: a full page is then followed by its number.
        if not url and len(rows) >= PAGE:
            url = f"{first_url(api, region)}&$skip={len(items)}"
        write_atomic(state, json.dumps({"next": url, "items": items}))
        progress(len(items))
    return items


_KEPT = (
    "armSkuName",
    "armRegionName",
    "skuName",
    "meterName",
    "productName",
    "retailPrice",
    "currencyCode",
    "unitOfMeasure",
    "type",
    "isPrimaryMeterRegion",
    "tierMinimumUnits",
    "effectiveStartDate",
    "effectiveEndDate",
)


def _kept(row: Mapping[str, Any]) -> dict[str, Any]:
    return {key: row.get(key) for key in _KEPT}


def _same_host(api: str, link: object) -> str | None:
    """Links carry `:443`; one to another host is not followed."""
    if not isinstance(link, str) or not link:
        return None
    if (
        urlsplit(link).hostname != urlsplit(api).hostname
        or urlsplit(link).scheme != urlsplit(api).scheme
    ):
        raise SystemExit(
            f"the API points to another host ({urlsplit(link).hostname}): not followed"
        )
    return link


def rows_of(items: Iterable[Mapping[str, Any]], day: date) -> list[Row]:
    """Linux VMs of sizes that we know: one row per size and tier, of the primary and newest of several meters."""
    best: dict[tuple[str, str, Tier], tuple[tuple[bool, str], VmPrice]] = {}
    for item in items:
        size = vm_sizes.find(str(item.get("armSkuName") or "").strip())
        product, names = (
            str(item.get("productName")),
            f"{item.get('skuName')} {item.get('meterName')}",
        )
        price = item.get("retailPrice")
        if (
            size is None
            or item.get("type") != "Consumption"
            or item.get("unitOfMeasure") != "1 Hour"
        ):
            continue
        if (
            any(word in product for word in _OTHER_PRODUCTS)
            or not isinstance(price, int | float)
            or price <= 0
        ):
            continue
        if item.get("tierMinimumUnits") or not _in_force(item, day):
            continue
        tier = (
            Tier.SPOT
            if " Spot" in names
            else Tier.LOW_PRIORITY
            if " Low Priority" in names
            else Tier.DEDICATED
        )
        key = (size.name, str(item["armRegionName"]), tier)
        rank = (bool(item.get("isPrimaryMeterRegion")), str(item.get("effectiveStartDate") or ""))
        if key not in best or rank > best[key][0]:
            best[key] = (
                rank,
                VmPrice(float(price), str(item.get("currencyCode") or "USD"), day, SOURCE),
            )
    return sorted((*key, price) for key, (_, price) in best.items())


def _in_force(item: Mapping[str, Any], day: date) -> bool:
    """A price that was announced is in the answers before it holds."""
    start, end = _day(item.get("effectiveStartDate")), _day(item.get("effectiveEndDate"))
    return (start is None or start <= day) and (end is None or day <= end)


def _day(text: object) -> date | None:
    try:
        return datetime.fromisoformat(str(text)).date()
    except ValueError:
        return None


def merged(old: str, rows: Iterable[Row], regions: Iterable[str]) -> str:
    """The file with the rows of these regions replaced; comments and other rows stay."""
    again = set(regions)
    kept = [line for line in old.splitlines() if not line.startswith("#") and line.strip()]
    out = io.StringIO()
    out.write("".join(f"{line}\n" for line in old.splitlines() if line.startswith("#")))
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(FIELDS)
    for row in csv.DictReader(kept):
        if row["region"] not in again:
            writer.writerow([row.get(field) or "" for field in FIELDS])
    for size, region, tier, price in rows:
        writer.writerow(
            [size, region, tier.value, f"{price.amount:g}", price.currency, price.day, price.source]
        )
    read_prices(out.getvalue().splitlines(), "the new table")
    return out.getvalue()


def fetch_page(url: str) -> dict[str, Any]:
    """One page; a busy or broken server is asked again, ever later."""
    for attempt in range(TRIES):
        try:
            with urlopen(
                Request(url, headers={"Accept": "application/json"}), timeout=60
            ) as response:
                page: dict[str, Any] = json.load(response)
                return page
        except HTTPError as error:
            if error.code not in (429, 500, 502, 503, 504) or attempt == TRIES - 1:
                raise SystemExit(
                    f"the retail price API answered {error.code}: run again to continue"
                ) from None
            told = (
                error.headers.get("Retry-After") or ""
            )  # seconds; the standard also allows a date
            wait = float(told) if told.isdigit() else 2.0**attempt
        except (URLError, TimeoutError, ConnectionError) as error:
            if attempt == TRIES - 1:
                raise SystemExit(
                    f"cannot reach the retail price API ({error}): run again to continue"
                ) from None
            wait = 2.0**attempt
        time.sleep(min(wait, 60))
    raise AssertionError("not reached")


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("regions", nargs="+", metavar="REGION")
    parser.add_argument("-o", "--output", type=Path, default=data_file("prices.csv"))
    parser.add_argument("--api", default=API, help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    rows: list[Row] = []
    states = []
    for region in args.regions:
        state = args.output.with_name(f"{args.output.name}.{region}.part")
        items = read_region(
            args.api,
            region,
            state,
            fetch_page,
            lambda count: print(f"{count} meters", end="\r", file=sys.stderr),
        )
        found = rows_of(items, date.today())
        if not found:
            state.unlink()
            raise SystemExit(
                f"{region}: the API has no prices of Linux VMs there: write it like westeurope"
            )
        rows += found
        states.append(state)
    old = args.output.read_text(encoding="utf-8") if args.output.exists() else ""
    write_atomic(args.output, merged(old, rows, args.regions))
    for state in states:
        state.unlink()
    print(f"wrote {len(rows)} prices of {', '.join(args.regions)} to {args.output.name}")


if __name__ == "__main__":
    main()

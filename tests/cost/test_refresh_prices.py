"""The refresh of prices against a loopback server that answers as the published retail price API does."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from datetime import date
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from arc_toolkit.cost.prices import Tier, read_prices
from scripts import refresh_prices


def meter(
    size: str, price: float, name: str, product: str = "Virtual Machines Dsv5 Series", **more: Any
) -> Any:
    """An item with the fields of the documented sample answer."""
    return {
        "currencyCode": "USD",
        "tierMinimumUnits": 0.0,
        "retailPrice": price,
        "unitPrice": price,
        "armRegionName": "westeurope",
        "location": "EU West",
        "effectiveStartDate": "2021-11-01T00:00:00Z",
        "meterId": "000a794b-bdb0-58be-a0cd-0c3a0f222923",
        "meterName": name,
        "productId": "DZH318Z0BQPS",
        "skuId": "DZH318Z0BQPS/00TG",
        "productName": product,
        "skuName": name,
        "serviceName": "Virtual Machines",
        "serviceId": "DZH313Z7MMC8",
        "serviceFamily": "Compute",
        "unitOfMeasure": "1 Hour",
        "type": "Consumption",
        "isPrimaryMeterRegion": True,
        "armSkuName": size,
        **more,
    }


D8 = "Standard_D8s_v5"
METERS = [
    meter(D8, 0.828, "D8s v5", "Virtual Machines Dsv5 Series Windows"),
    meter(D8, 0.2, "D8s v5 Spot", "Virtual Machines Dsv5 Series Windows"),
    meter(D8, 0.9, "D8s v5", isPrimaryMeterRegion=False),
    meter(D8, 0.46, "D8s v5"),
    meter(D8, 0.051, "D8s v5 Spot"),
    meter(D8, 0.092, "D8s v5 Low Priority"),
    meter(D8, 2000.0, "D8s v5", type="Reservation", unitOfMeasure="1 Hour"),
    meter(D8, 0.0, "D8s v5 Spot", isPrimaryMeterRegion=True),
    meter("Standard_Unheard_of", 1.0, "Unheard of"),
    meter("Dsv5_Type1", 9.0, "Dsv5 Type1", "Dsv5 Series Dedicated Host"),
    meter(
        "Standard_NC24ads_A100_v4",
        4.775,
        "NC24ads A100 v4",
        "Virtual Machines NCads A100 v4 Series",
    ),
]
# size, skuName, meterName, product and three prices as they were in westeurope on 2026-08-22.
RECORDED = """\
NC24ads_A100_v4;Standard_NC24ads_A100_v4;NC24ads_A100_v4;NCads A100 v4 Series Linux;4.775;1.097295;0.955
NC24ads_A100_v4;Standard_NC24ads_A100_v4;NC24ads_A100_v4;NCads A100 v4 Series Windows;5.879;1.350994;2.352
NCC40ads_H100_v5;NCC40adsH100v5;NCC40adsH100v5;Virtual Machines NCCadsv5 Srs Win;10.74;1.984752;4.296
NCC40ads_H100_v5;NCC40adsH100v5;NCC40adsH100v5;Virtual Machines NCCadsv5 Srs;8.9;1.64472;1.78
D8ads_v5;Standard_D8ads_v5;D8ads v5;Dadsv5 Series Cloud Services;0.868;;0.347
D8ads_v5;Standard_D8ads_v5;D8ads v5;Virtual Machines Dadsv5 Series;0.5;0.0924;0.1
ND96asr_v4;ND96asr_A100_v4;ND96asr_A100_v4;Virtual Machines NDasr A100 v4 Series;35.357;7.77854;7.071
ND96asr_v4;NDasrA100v4 Type1;NDasrA100v4 Type1;NDasr A100 v4 Series Dedicated Host;38.893;;
"""
WORDS = {"dedicated": "", "spot": " Spot", "low-priority": " Low Priority"}


def test_names_and_products_of_real_answers() -> None:
    items = [
        meter(f"Standard_{size}", float(price), meter_name + word, product, skuName=sku + word)
        for size, sku, meter_name, product, *prices in (
            row.split(";") for row in RECORDED.splitlines()
        )
        for word, price in zip(WORDS.values(), prices, strict=True)
        if price
    ]
    expected = {
        ("Standard_NC24ads_A100_v4", 4.775, 1.097295, 0.955),
        ("Standard_NCC40ads_H100_v5", 8.9, 1.64472, 1.78),
        ("Standard_D8ads_v5", 0.5, 0.0924, 0.1),
        ("Standard_ND96asr_v4", 35.357, 7.77854, 7.071),
    }
    for order in (items, items[::-1]):  # the first of several is not better than the last
        rows = {
            (size, tier): price.amount
            for size, _, tier, price in refresh_prices.rows_of(order, date.today())
        }
        assert {(size, *(rows[size, Tier(name)] for name in WORDS)) for size, _ in rows} == expected


def test_a_price_of_the_future_or_past_does_not_count_and_the_newest_does() -> None:
    today = date(2026, 8, 22)
    items = [
        meter(D8, 0.4, "D8s v5", effectiveStartDate="2021-11-01T00:00:00Z"),
        meter(D8, 0.5, "D8s v5", effectiveStartDate="2026-08-01T00:00:00Z"),
        meter(D8, 0.6, "D8s v5", effectiveStartDate="2026-09-01T00:00:00Z"),
        meter(
            D8,
            0.7,
            "D8s v5",
            effectiveStartDate="2026-08-02T00:00:00Z",
            effectiveEndDate="2026-08-20T00:00:00Z",
        ),
        meter(D8, 0.3, "D8s v5", effectiveStartDate="2026-08-03T00:00:00Z", tierMinimumUnits=100.0),
        meter(f" {D8} ", 0.05, "D8s v5 Spot"),  # blanks were seen in its names
        meter(
            D8, 0.02, "D8s v5", type="DevTestConsumption", effectiveStartDate="2026-08-10T00:00:00Z"
        ),
    ]
    for order in (items, items[::-1]):
        assert [
            (tier, price.amount) for _, _, tier, price in refresh_prices.rows_of(order, today)
        ] == [
            (Tier.DEDICATED, 0.5),
            (Tier.SPOT, 0.05),
        ]


class PriceServer(ThreadingHTTPServer):
    """Pages of `page` items with NextPageLink; `links` off is the fault of March 2023; `broken` fails once each."""

    page, links = 4, True
    broken: list[int]
    status, retry_after = 503, "0"
    turning = False  # every link is to the second page
    asked: list[dict[str, list[str]]]


@pytest.fixture
def server() -> Iterator[PriceServer]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            own = self.server
            assert isinstance(own, PriceServer)
            query = parse_qs(urlsplit(self.path).query)
            own.asked.append(query)
            skip = int(query.get("$skip", ["0"])[0])
            if own.turning and len(own.asked) > 20:
                self.send_error(400)  # a test must end
                return
            if skip in own.broken:
                own.broken.remove(skip)
                self.send_response(own.status)
                self.send_header("Retry-After", own.retry_after)
                self.end_headers()
                return
            items = METERS[skip : skip + own.page]
            if "nowhere" in query["$filter"][0]:
                items, skip = [], len(METERS)
            skip = 0 if own.turning else skip
            more = skip + own.page < len(METERS) and own.links
            link = (
                f"http://127.0.0.1:{own.server_address[1]}{urlsplit(self.path).path}?"
                if more
                else None
            )
            if link:
                link += f"$filter={query['$filter'][0].replace(' ', '%20')}&$skip={skip + own.page}"
            body = {
                "BillingCurrency": "USD",
                "CustomerEntityId": "Default",
                "CustomerEntityType": "Retail",
            }
            data = json.dumps(
                {**body, "Items": items, "NextPageLink": link, "Count": len(items)}
            ).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: object) -> None:
            pass

    own = PriceServer(("127.0.0.1", 0), Handler)
    own.broken, own.asked = [], []
    thread = threading.Thread(target=own.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    yield own
    own.shutdown()
    own.server_close()
    thread.join()


def api(server: PriceServer) -> str:
    return f"http://127.0.0.1:{server.server_address[1]}/api/retail/prices"


EXPECTED = {
    (D8.lower(), "westeurope", Tier.DEDICATED): 0.46,
    (D8.lower(), "westeurope", Tier.SPOT): 0.051,
    (D8.lower(), "westeurope", Tier.LOW_PRIORITY): 0.092,
    ("standard_nc24ads_a100_v4", "westeurope", Tier.DEDICATED): 4.775,
}


def amounts(path: Path) -> dict[Any, float]:
    return {
        key: price.amount for key, price in read_prices(path.read_text().splitlines(), "x").items()
    }


def test_all_pages_are_read_and_only_linux_vms_of_known_sizes_stay(
    server: PriceServer, tmp_path: Path
) -> None:
    target = tmp_path / "prices.csv"
    refresh_prices.main(["westeurope", "-o", str(target), "--api", api(server)])
    assert amounts(target) == EXPECTED
    assert len(server.asked) == 3
    words = server.asked[0]["$filter"][0]
    assert words == (
        "serviceName eq 'Virtual Machines' and priceType eq 'Consumption' and armRegionName eq 'westeurope'"
    )
    row = read_prices(target.read_text().splitlines(), "x")[D8.lower(), "westeurope", Tier.SPOT]
    assert (row.day, row.source) == (date.today(), "Azure retail price API")
    assert list(tmp_path.iterdir()) == [target]  # no state is left


def test_rows_of_other_regions_and_comments_stay(server: PriceServer, tmp_path: Path) -> None:
    target = tmp_path / "prices.csv"
    target.write_text(
        "# mine\nsize,region,tier,price\nStandard_D8s_v5,eastus,spot,0.04\nStandard_D8s_v5,westeurope,spot,9\n"
    )
    refresh_prices.main(["westeurope", "-o", str(target), "--api", api(server)])
    assert amounts(target) == {**EXPECTED, (D8.lower(), "eastus", Tier.SPOT): 0.04}
    assert target.read_text().startswith("# mine\n")
    assert "spot,9," not in target.read_text()  # replaced, not beside the new one


def test_a_stopped_run_continues_with_the_next_page(
    server: PriceServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "prices.csv"
    server.broken = [8] * 9
    monkeypatch.setattr(refresh_prices, "TRIES", 2)
    with pytest.raises(SystemExit, match="503: run again to continue"):
        refresh_prices.main(["westeurope", "-o", str(target), "--api", api(server)])
    assert not target.exists()
    server.broken, server.asked = [], []
    refresh_prices.main(["westeurope", "-o", str(target), "--api", api(server)])
    assert amounts(target) == EXPECTED
    assert [query.get("$skip") for query in server.asked] == [
        ["8"]
    ]  # the first two pages are not asked again


def test_a_server_that_is_busy_once_is_asked_again(server: PriceServer, tmp_path: Path) -> None:
    server.broken = [0, 4]
    refresh_prices.main(["westeurope", "-o", str(tmp_path / "p.csv"), "--api", api(server)])
    assert amounts(tmp_path / "p.csv") == EXPECTED


def test_a_busy_server_says_when_or_not(
    server: PriceServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    monkeypatch.setattr("scripts.refresh_prices.time.sleep", waits.append)
    server.status, server.retry_after, server.broken = 429, "17", [0]
    refresh_prices.main(["westeurope", "-o", str(tmp_path / "p.csv"), "--api", api(server)])
    # A date is allowed too; then it waits ever longer.
    server.retry_after, server.broken = "Tue, 17 Nov 2026 05:24:38 GMT", [4, 4, 4]
    refresh_prices.main(["westeurope", "-o", str(tmp_path / "p.csv"), "--api", api(server)])
    assert waits == [17, 1, 2, 4]
    assert amounts(tmp_path / "p.csv") == EXPECTED


def test_a_run_that_was_interrupted_in_its_second_region_asks_for_no_page_twice(
    server: PriceServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, pages = tmp_path / "prices.csv", refresh_prices.fetch_page

    def interrupted(url: str) -> dict[str, Any]:
        if len(server.asked) == 4:
            raise KeyboardInterrupt
        return pages(url)

    words = ["westeurope", "eastus", "-o", str(target), "--api", api(server)]
    monkeypatch.setattr(refresh_prices, "fetch_page", interrupted)
    with pytest.raises(KeyboardInterrupt):
        refresh_prices.main(words)
    assert not target.exists()
    monkeypatch.setattr(refresh_prices, "fetch_page", pages)
    server.asked = []
    refresh_prices.main(words)
    assert amounts(target) == EXPECTED
    assert [query.get("$skip") for query in server.asked] == [["4"], ["8"]]
    assert list(tmp_path.iterdir()) == [target]


def test_links_that_turn_in_a_circle_and_regions_without_prices_end_it(
    server: PriceServer, tmp_path: Path
) -> None:
    target = tmp_path / "p.csv"
    target.write_text("size,region,tier,price\nStandard_D8s_v5,nowhere,spot,0.04\n")
    before = target.read_text()
    with pytest.raises(SystemExit, match="nowhere: the API has no prices of Linux VMs there"):
        refresh_prices.main(["nowhere", "-o", str(target), "--api", api(server)])
    assert (target.read_text(), list(tmp_path.iterdir())) == (before, [target])
    server.turning = True
    with pytest.raises(SystemExit, match="was read already"):
        refresh_prices.main(["westeurope", "-o", str(target), "--api", api(server)])
    assert target.read_text() == before


def test_full_pages_without_links_are_followed_by_number(
    server: PriceServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.links = False
    monkeypatch.setattr(refresh_prices, "PAGE", 4)
    refresh_prices.main(["westeurope", "-o", str(tmp_path / "p.csv"), "--api", api(server)])
    assert amounts(tmp_path / "p.csv") == EXPECTED


def test_a_link_to_another_host_is_not_followed() -> None:
    same = "https://prices.azure.com:443/api/retail/prices?$skip=100"
    assert refresh_prices._same_host(refresh_prices.API, same) == same
    with pytest.raises(SystemExit, match="another host"):
        refresh_prices._same_host(refresh_prices.API, "https://example.com/prices")

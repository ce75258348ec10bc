"""`arc-toolkit cost` from end to end: table, JSON, page, shares, history, and one sentence for bad input."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from arc_toolkit.checkpoints.interval import (
    EVICTIONS_PER_HOUR,
    NOTICE_SECONDS,
    SaveSchedule,
    mean_seconds,
)
from arc_toolkit.cost.eviction_rates import parse_rate
from arc_toolkit.cost.prices import VmPrice
from arc_toolkit.diagnosis.read.history import History, RecordedChange
from tests.support import Result

Arc = Callable[..., Result]
# In eastus only the dedicated price is known; the figures by hand are with it.
A100 = (
    "cost",
    "--sku",
    "Standard_NC24ads_A100_v4",
    "--nodes",
    "8",
    "--hours",
    "40",
    "--region",
    "eastus",
)


def as_json(arc: Arc, *words: str) -> dict[str, Any]:
    result = arc(*words, "--format", "json")
    assert result.code == 0, result.err
    data: dict[str, Any] = json.loads(result.out)
    return data


def test_the_table_answers_the_question(arc: Arc) -> None:
    # By hand: dedicated 3.673 x 8 x 40 = 1175.36; spot 0.444433 x 8 x 40 x 1.026145 = 145.94, 88 % cheaper.
    result = arc(*A100, "--eviction-rate", "5%", "--spot-price", "0.444433")
    assert result.code == 0
    assert re.search(r"dedicated +3.673 +40.00 +1,175.36", result.out)
    assert re.search(r"spot +0.4444 +41.05 +145.94 .* 88 %", result.out)
    assert re.search(r"low-priority +unknown +41.05 +unknown", result.out)
    assert "Spot is 88 % cheaper and takes 2.6 % longer; it " in result.out
    assert "Save every 27 min" in result.out
    assert (
        "no price is known for low-priority in eastus: run `python -m scripts.refresh_prices eastus"
        in result.err
    )
    assert "assumed: 90% of the evictions" in result.err


def test_json_has_the_same_figures(arc: Arc) -> None:
    data = as_json(arc, *A100, "--eviction-rate", "5%", "--no-notice", "--spot-price", "30%")
    dedicated, spot, low = data["tiers"]
    assert spot["price_per_hour"] == pytest.approx(0.3 * 3.673)
    assert spot["hours"] == pytest.approx(42.7209, abs=1e-3)  # 40 x 1.068023
    assert spot["price"] == pytest.approx(0.3 * 1175.36 * 1.068023, rel=1e-5)
    assert spot["saving"] == pytest.approx(1 - 0.3 * 1.068023, abs=1e-5)
    assert spot["price_low"] < spot["price"] < spot["price_high"]
    assert (dedicated["price"], low["price"]) == (pytest.approx(1175.36), None)
    assert data["interval"]["young_seconds"] == pytest.approx(513.02, abs=0.01)
    assert data["answer"].startswith(
        "Spot is 68 % cheaper and takes 6.8 % longer; it stops paying above "
    )
    # At the rate of the answer both cost the same.
    rate = f"{100 * data['break_even_rate']}%"
    even = as_json(arc, *A100, "--eviction-rate", rate, "--no-notice", "--spot-price", "30%")
    assert even["tiers"][1]["saving"] == pytest.approx(0, abs=1e-4)


def test_a_band_is_computed_in_its_middle_and_its_ends_are_in_the_range(arc: Arc) -> None:
    words = (*A100, "--spot-price", "12%")
    sure = as_json(arc, *words, "--eviction-rate", "7.5%")["tiers"][1]
    band = as_json(arc, *words, "--eviction-rate", "5-10%")["tiers"][1]
    assert band["price"] == pytest.approx(sure["price"])
    assert band["price_low"] < sure["price_low"] < sure["price_high"] < band["price_high"]


@pytest.mark.parametrize(
    "words",
    [  # a rate at whose upper end 32 nodes hardly get on, and a band without an upper end
        ("--nodes", "32", "--restart", "10m", "--eviction-rate", "1-90%"),
        ("--nodes", "8", "--eviction-rate", "20+%"),
    ],
)
def test_a_range_without_an_upper_end_says_so(arc: Arc, words: tuple[str, ...]) -> None:
    command = ("cost", "--sku", "Standard_NC24ads_A100_v4", "--hours", "10", *words)
    spot = as_json(arc, *command)["tiers"][1]
    assert spot["price_low"] < spot["price"]
    assert spot["price_high"] is None
    assert re.search(r"^spot .* or more ", arc(*command).out, re.M)
    assert " or more</td>" in arc(*command, "--format", "html").out


def test_spot_that_is_never_cheaper_pays_at_no_rate(arc: Arc) -> None:
    # Standard_ND96isr_H200_v5 in northeurope has the same price.
    words = (
        "cost",
        "--sku",
        "Standard_ND96isr_H200_v5",
        "--region",
        "northeurope",
        "--hours",
        "40",
    )
    answer = as_json(arc, *words)["answer"]
    assert re.fullmatch(
        r"Spot is 1.1 % more expensive and takes 1.1 % longer; it pays at no eviction rate.", answer
    )


def test_hardly_any_evictions_and_notices_that_always_work(arc: Arc) -> None:
    rare = arc(*A100, "--eviction-rate", "0.0000001%", "--spot-price", "20%").out
    assert "Spot is 80 % cheaper and takes no longer" in rare
    assert "e-" not in rare
    assert "The saves at the notices are enough." in arc(*A100, "--notice-works", "100%").out


def test_spot_that_does_not_pay_is_said(arc: Arc) -> None:
    data = as_json(
        arc,
        *A100,
        "--eviction-rate",
        "60%",
        "--no-notice",
        "--spot-price",
        "80%",
        "--restart",
        "10m",
    )
    assert re.match(
        r"Spot is \d+ % more expensive and takes \d+ % longer; it stops paying above ",
        data["answer"],
    )


def test_all_three_tiers_have_a_price_out_of_the_box(arc: Arc) -> None:
    # westeurope, by hand: M = 3600 / -ln 0.9 = 34168 s, so 8 nodes 4271 s and with 90 % notices 42710 s;
    # dedicated 4.775 x 8 x 40 = 1528; low priority is 0.955 / 4.775 = 20.0 % and spot 1.097295 / 4.775 = 23.0 % of it.
    words = ("cost", "--sku", "Standard_NC24ads_A100_v4", "--nodes", "8", "--hours", "40")
    result, data = arc(*words), as_json(arc, *words)
    dedicated, spot, low = data["tiers"]
    assert (dedicated["price"], data["region"]) == (pytest.approx(1528), "westeurope")
    assert spot["price"] / spot["hours"] == pytest.approx(8 * 1.097295)
    assert low["price"] / spot["price"] == pytest.approx(0.955 / 1.097295)
    assert {row["price_source"] for row in data["tiers"]} == {"azure-pricing-radar"}
    assert {row["price_date"] for row in data["tiers"]} == {"2026-08-22"}
    assert "unknown" not in result.out + result.err
    assert "no price" not in result.err


def test_an_unknown_spot_price_is_answered_by_the_price_at_which_it_pays(arc: Arc) -> None:
    # M = 34168 s, tau = 3201.6 s: 1.0104 by numeric integration. Dedicated 0.444: 0.444 / 1.0104 = 0.4394.
    data = as_json(arc, "cost", "--sku", "Standard_D8s_v5", "--region", "uksouth", "--hours", "2")
    assert data["answer"] == (
        "The spot price of Standard_D8s_v5 in uksouth is unknown: "
        "spot pays below 0.4394 USD per hour (99 % of dedicated), and takes 1 % longer."
    )
    assert (data["tiers"][1]["price"], data["break_even_rate"]) == (None, None)
    assert data["break_even_price"] == pytest.approx(0.4394, abs=1e-4)


@pytest.mark.parametrize(
    "more", [(), ("--missing", "50%:3h"), ("--missing", "50%:3h", "--fallback", "30m")]
)
def test_at_the_price_of_the_answer_spot_costs_as_much_as_dedicated(
    arc: Arc, more: tuple[str, ...]
) -> None:
    words = (*A100, "--eviction-rate", "20%", "--no-notice", *more)
    price = as_json(arc, *words)["break_even_price"]
    even = as_json(arc, *words, "--spot-price", str(price))
    assert even["tiers"][1]["saving"] == pytest.approx(0, abs=1e-9)
    assert even["break_even_price"] == price


def test_spot_that_costs_more_on_demand_than_dedicated_does_pays_at_no_price(arc: Arc) -> None:
    # An eviction comes after 34 min on average and sends the job on demand for good, with a restart of 1 h.
    words = (*A100, "--eviction-rate", "20%", "--no-notice", "--restart", "1h")
    data = as_json(arc, *words, "--missing", "100%:10000h", "--fallback", "0s", "--simulate", "200")
    assert data["break_even_price"] == 0
    assert "unknown: spot pays at no price, and takes " in data["answer"]


def test_without_the_dedicated_price_nothing_can_be_compared(arc: Arc, tmp_path: Path) -> None:
    own = tmp_path / "mine.csv"
    own.write_text("size,region,tier,price\nStandard_D8s_v5,mine,spot,1\n")
    words = ("cost", "--region", "mine", "--hours", "2", "--prices", str(own), "--sku")
    known, unknown = (
        as_json(arc, *words, "Standard_D8s_v5"),
        as_json(arc, *words, "Standard_D64s_v5"),
    )
    assert known["answer"].startswith(
        "The dedicated price of Standard_D8s_v5 in mine is unknown, and so is the saving"
    )
    assert unknown["answer"].startswith(
        "The price of Standard_D64s_v5 in mine is unknown, and so is the saving"
    )
    assert known["break_even_price"] is unknown["break_even_price"] is None


def test_own_prices(arc: Arc, tmp_path: Path) -> None:
    own = tmp_path / "mine.csv"
    own.write_text(
        "size,region,tier,price,currency\nStandard_D8s_v5,mine,dedicated,2,EUR\nStandard_D8s_v5,mine,spot,1,EUR\n"
    )
    data = as_json(
        arc,
        "cost",
        "--sku",
        "D8s_v5",
        "--region",
        "mine",
        "--hours",
        "3",
        "--prices",
        str(own),
        "--eviction-rate",
        "0%",
    )
    assert (data["currency"], data["tiers"][0]["price"], data["tiers"][1]["price"]) == ("EUR", 6, 3)
    assert data["interval"]["mean_between_evictions_seconds"] is None


def test_a_price_of_last_year_is_a_warning_and_those_of_azure_are_todays(
    arc: Arc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = tmp_path / "mine.csv"
    own.write_text(
        "size,region,tier,price,date\nStandard_D8s_v5,westeurope,dedicated,2,2020-01-01\n"
    )
    words = ("cost", "--sku", "Standard_D8s_v5", "--hours", "3", "--prices", str(own))
    assert re.search(
        r"warning: the dedicated price is of 2020-01-01, \d+ days old", arc(*words).err
    )
    told = (parse_rate("5-10%", "Azure"), VmPrice(1.25, "USD"))
    monkeypatch.setattr("arc_toolkit.cli.cost.azure_rate", lambda size, region: told)
    assert as_json(arc, *words, "--from-azure")["tiers"][1]["price_per_hour"] == 1.25
    own.write_text(
        "size,region,tier,price,currency\nStandard_D8s_v5,,dedicated,2,EUR\nStandard_D8s_v5,,spot,1,EUR\n"
    )
    result = arc(*words, "--low-priority-price", "1", "--from-azure", "--region", "mine")
    assert (result.code, "EUR and USD" in result.err) == (2, True)


def test_one_run_cannot_show_that_a_deadline_is_met(arc: Arc) -> None:
    words = (
        *A100,
        "--spot-price",
        "12%",
        "--eviction-rate",
        "5%",
        "--missing",
        "50%:3h",
        "--deadline",
        "60h",
    )
    policies = as_json(arc, *words, "--simulate", "1")["deadline"]["policies"]
    assert any(0 < policy["in_time"] < 1 for policy in policies)


def test_a_share_costs_its_part_and_empty_shares_are_waste(arc: Arc) -> None:
    # 3 halves take 2 VMs: 1 of 4 shares is empty. A half of 3.68 USD costs 1.84 USD.
    words = (
        "cost",
        "--sku",
        "Standard_D64s_v5",
        "--region",
        "westeurope",
        "--hours",
        "8",
        "--nodes",
        "3",
    )
    data = as_json(arc, *words, "--share", "half")
    share = data["share"]
    assert (share["instance_type"], share["per_vm"], share["vms"], share["empty_shares"]) == (
        "32cpu128g",
        2,
        2,
        1,
    )
    assert share["prices_per_hour"]["dedicated"] == pytest.approx(1.84)
    assert share["wasted"] == pytest.approx(0.25, abs=1e-4)
    assert data["job"]["nodes"] == 2
    assert data["tiers"][0]["price"] == pytest.approx(2 * 8 * 3.68)
    assert "1 share empty: 25 % of the price" in arc(*words, "--share", "half").out
    # Thirds of 64 cores leave something over by rounding, and fill their VM otherwise.
    third = as_json(arc, *words, "--share", "1/3")["share"]
    assert (third["vms"], third["empty_shares"]) == (1, 0)
    assert 0 < third["wasted"] < 0.001


@pytest.mark.parametrize("notices", [True, False])
def test_the_interval_is_that_of_the_checkpoint_library(arc: Arc, notices: bool) -> None:
    schedule = SaveSchedule(mean_seconds(EVICTIONS_PER_HOUR, 8), has_notices=notices)
    schedule.note_save(1, 12.0)
    words = (*A100, "--save", "12s", *(() if notices else ("--no-notice",)))  # all else by default
    assert as_json(arc, *words)["interval"]["used_seconds"] == pytest.approx(schedule.interval)


@pytest.mark.parametrize(("save", "fits"), [("19s", True), ("21s", False), ("30s", False)])
def test_a_save_that_the_library_would_not_begin_at_a_notice_is_a_note(
    arc: Arc, save: str, fits: bool
) -> None:
    # It keeps half of the time of a save to spare: 30 s / 1.5 = 20 s.
    result = arc(*A100, "--save", save)
    assert (result.code, "does not fit into a notice of 30 s" in result.err) == (0, not fits)
    assert "does not fit" not in arc(*A100, "--save", save, "--no-notice").err


def test_explain_shows_the_formula_in_numbers(arc: Arc) -> None:
    out = arc(*A100, "--eviction-rate", "5%", "--no-notice", "--explain").out
    assert "M1 = 3600 / -ln(1 - 0.05)" in out
    assert "sqrt(2 x 15 x 8773 / (1 - 0))" in out
    assert re.search(r"Young .* 8.55 min", out)
    assert re.search(r"Daly .* 8.38 min", out)
    hours = {
        row[0]: float(row[1])
        for row in re.findall(r"^(work|saves|done again|restarts|expected) +([\d.]+)", out, re.M)
    }
    assert sum(hours.values()) - hours["expected"] == pytest.approx(hours["expected"], abs=0.02)
    assert hours["expected"] == pytest.approx(42.72, abs=0.01)


def test_simulation_and_deadline(arc: Arc) -> None:
    spot = ("--spot-price", "12%", "--eviction-rate", "5%", "--missing", "50%:3h")
    words = (*A100, *spot, "--simulate", "300", "--deadline", "60h")
    data = as_json(arc, *words)
    assert data["simulation"]["runs"] == 300
    assert data["simulation"]["mean_hours"] == pytest.approx(data["expected"]["hours"], rel=0.02)
    assert list(data["simulation"]["hours"]) == ["0.05", "0.25", "0.5", "0.75", "0.95"]
    best, peer = data["deadline"]["best"], data["deadline"]["uniform_progress"]
    assert best["in_time"] >= 0.95
    assert best["price"] <= peer["price"]
    assert data == as_json(arc, *words)  # the seed is fixed
    text = arc(*words).out
    assert "For 60 h with 95 %: " in text
    assert "Uniform Progress (NSDI 2024)" in text


def test_with_a_fallback_the_figures_come_from_the_simulation(arc: Arc) -> None:
    words = (
        *A100,
        "--eviction-rate",
        "5%",
        "--missing",
        "50%:3h",
        "--fallback",
        "30m",
        "--simulate",
        "500",
    )
    data = as_json(arc, *words, "--spot-price", "40%")
    spot = data["tiers"][1]
    assert spot["hours"] == pytest.approx(data["simulation"]["mean_hours"])
    assert spot["hours"] < data["expected"]["hours"]
    assert data["break_even_rate"] is None
    assert data["answer"].endswith("longer.")


def test_the_page_needs_no_network_and_has_two_plots(arc: Arc, tmp_path: Path) -> None:
    target = tmp_path / "cost.html"
    result = arc(
        *A100,
        "--eviction-rate",
        "5-10%",
        "--spot-price",
        "30%",
        "--format",
        "html",
        "-o",
        str(target),
    )
    assert result.code == 0
    page = target.read_text()
    assert page.count("<svg ") == 2
    assert page.count("<polyline ") == 3  # dedicated, spot, waste
    assert not re.search(r"(src|href)=\"(?!data:)|@import|url\(|style=|<script", page)
    assert "default-src &#39;none&#39;" in page
    assert "Spot is 69 % cheaper" in page
    curve = re.search(r'curve spot" points="([^"]*)"', page)
    assert curve
    heights = [float(point.split(",")[1]) for point in curve[1].split()]
    assert heights == sorted(
        heights, reverse=True
    )  # the price rises with the rate; y grows downwards


def test_the_page_without_prices_and_evictions_says_so(arc: Arc, tmp_path: Path) -> None:
    own = tmp_path / "mine.csv"
    own.write_text("size,region,tier,price\nStandard_D8s_v5,<b>,spot,1\n")
    words = (
        "cost",
        "--sku",
        "Standard_D64s_v5",
        "--hours",
        "1",
        "--region",
        "<b>",
        "--prices",
        str(own),
    )
    page = arc(*words, "--eviction-rate", "0%", "--format", "html").out
    assert "No price is known" in page
    assert "the interval does not matter" in page
    assert "<b>" not in page


def spot_node(uid: str, version: int) -> dict[str, Any]:
    labels = {
        "kubernetes.azure.com/scalesetpriority": "spot",
        "kubernetes.azure.com/agentpool": "gpu",
    }
    metadata = {"name": f"aks-{uid}", "uid": uid, "resourceVersion": str(version), "labels": labels}
    metadata |= {"creationTimestamp": "2026-07-01T10:00:00Z"}  # before the recording began
    return {"metadata": metadata, "spec": {}, "status": {"conditions": []}}


def test_the_rate_is_measured_from_a_recorded_history(arc: Arc, tmp_path: Path) -> None:
    # 4 nodes are watched from noon on; two are evicted after 10 h, two live for 20 h: 2 evictions in 60 node hours.
    noon, path = 1_782_907_200.0, str(tmp_path / "history.db")
    with History(path, "https://127.0.0.1:6443") as store:
        nodes = [spot_node(f"n{index}", index) for index in range(4)]
        store.write([RecordedChange("nodes", "Node", item, version="9") for item in nodes], noon)
        notice = {"reason": "PreemptScheduled", "lastTimestamp": "2026-07-01T21:59:30Z"}
        for index in (0, 1):
            about = {"kind": "Node", "name": f"aks-n{index}"}
            event = {
                "metadata": {"uid": f"e{index}", "name": f"e{index}"},
                "involvedObject": about,
                **notice,
            }
            store.write([RecordedChange("events", "Event", event, version="9")], noon + 36000)
            store.write(
                [RecordedChange("nodes", "Node", nodes[index], deleted=True, version="9")],
                noon + 36000,
            )
        store.write([RecordedChange("nodes", "Node", version="10")], noon + 72000)
    rate = as_json(arc, *A100, "--history", path)["eviction_rate"]
    assert rate["used"] == pytest.approx(1 - 2.718281828 ** (-2 / 60), rel=1e-6)
    assert rate["source"].endswith("2 evictions of 4 spot nodes in 60 node hours, 1 wave")
    # Both at once are one event. Garwood for 1: 0.02532 to 5.572, of 2 nodes each.
    ends = [1 - 2.718281828 ** (-2 * mean / 60) for mean in (0.02532, 5.572)]
    assert [rate["low"], rate["high"]] == pytest.approx(ends, rel=1e-3)
    assert "use --together 2" in arc(*A100, "--history", path).err
    together = as_json(arc, *A100, "--history", path, "--together", "2")
    assert together["interval"]["mean_between_evictions_seconds"] == pytest.approx(
        60 / 8 * 3600
    )  # 30 h a node, 2 of 8
    assert "--together" not in arc(*A100, "--history", path, "--together", "2").err
    assert "no spot node of pool other" in arc(*A100, "--history", path, "--pool", "other").err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--sku", "Standard_D64s_v55"), "no VM size 'Standard_D64s_v55'"),
        (("--region", "westeurop"), "did you mean westeurope"),
        (("--nodes", "0"), "at least one node"),
        (("--nodes", "-3"), "at least one node"),
        (("--together", "0.5"), "--together 0.5: use 1 to 8, the nodes of the job"),
        (("--together", "9"), "--together 9: use 1 to 8, the nodes of the job"),
        (("--together", "nan"), "--together nan: use 1 to 8, the nodes of the job"),
        (("--hours", "0"), "at least a second"),
        (("--hours", "-4"), "at least a second"),
        (("--hours", "inf"), "at least a second"),
        (("--hours", "nan"), "at least a second"),
        (("--hours", "1e-300"), "at least a second"),
        (("--hours", "long"), "use a number of hours"),
        (("--eviction-rate", "100%"), "less than 100%"),
        (("--eviction-rate", "-5%"), "write a rate per hour"),
        (("--eviction-rate", "5"), "write a rate per hour"),
        (("--save", "-5s"), "is not a time"),
        (("--restart", "soon"), "is not a time"),
        (("--save", f"{NOTICE_SECONDS + 1:g}s"), "longer than the notice of 30 s: use --no-notice"),
        (("--notice-works", "120%"), "0% to 100%"),
        (("--missing", "10%"), "write it like 10%:2h"),
        (("--missing", "110%:2h"), "0% to 100%"),
        (("--missing", "10%:0s"), "a time of more than 0"),
        (("--hours", "1e300"), "at most 100,000"),
        (("--fallback", "10m"), "goes with --missing"),
        (("--simulate", "0"), "use 1 to 1,000,000 runs"),
        (("--deadline", "10h", "--spot-price", "20%"), "nothing can meet it"),
        (("--deadline", "60h", "--region", "uksouth"), "needs the prices"),
        (("--prices", "nowhere.csv"), "nowhere.csv"),
        (("--spot-price", "0"), "more than 0"),
        (("--spot-price", "1e300"), "less than 1,000,000"),
        (("--spot-price", "nan"), "more than 0"),
        (("--spot-price", "120%"), "0% to 100%"),
        (("--spot-price", "cheap"), "use a price per hour"),
        (("--history", "nowhere.db"), "does not exist"),
        (("--history", "a.db", "--from-azure"), "use one of"),
        (("--pool", "gpu"), "goes with --history"),
        (("--share", "most"), "--share most"),
        (("--eviction-rate", "99%", "--nodes", "900", "--restart", "10m"), "hardly makes progress"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_code_2(
    arc: Arc, words: tuple[str, ...], message: str
) -> None:
    result = arc(*A100, *words)
    assert (result.code, result.out) == (2, "")
    assert message in result.err
    assert len([line for line in result.err.splitlines() if line.startswith("arc-toolkit:")]) == 1
    assert "Traceback" not in result.err


def test_neither_numpy_nor_azure_nor_diagnose_is_imported() -> None:
    code = (
        "import sys\nfrom arc_toolkit.cli.main import main\n"
        "main(['cost', '--sku', 'Standard_D8s_v5', '--hours', '4', '-q'])\n"
        "print([name for name in sys.modules if name.split('.')[0] in ('numpy', 'azure', 'kubernetes', 'jinja2') "
        "or name.startswith('arc_toolkit.diagnosis')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"

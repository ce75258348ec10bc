"""`cost`: what spot saves for one job, how often to save, and what a deadline costs."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from arc_toolkit.cli.console import Console
from arc_toolkit.cli.option_table import OUTPUT, add_options, percentage, seconds
from arc_toolkit.errors import OK, ArcError

if TYPE_CHECKING:
    from arc_toolkit.cost.cost_report import CostReport
    from arc_toolkit.cost.eviction_rates import EvictionRate
    from arc_toolkit.cost.prices import Tier, VmPrice
    from arc_toolkit.cost.training_job import TrainingJob

EPILOG = """\
examples:
  arc-toolkit cost --sku Standard_NC24ads_A100_v4 --nodes 8 --hours 40 --eviction-rate 5%
  arc-toolkit cost --sku Standard_D64s_v5 --hours 12 --eviction-rate 5-10% --no-notice --explain
  arc-toolkit cost --sku Standard_NC24ads_A100_v4 --hours 40 --missing 30%:2h --deadline 60h
  arc-toolkit cost --sku Standard_D64s_v5 --share half --nodes 3 --hours 8
  arc-toolkit cost --sku Standard_NC24ads_A100_v4 --hours 40 --format html -o cost.html
"""
# The shipped table has all three prices in westeurope.
OPTIONS = """
the job:
  --sku NAME required       VM size, such as Standard_NC24ads_A100_v4
  --region NAME [westeurope]    region of the prices
  --nodes N [1]             number of nodes, all of which must run
  --hours HOURS required    hours of work without evictions
  --share SHARE             workers of a whole, half, quarter or 1/N of a VM instead of nodes
  --save TIME [15s]         duration of a save
  --restart TIME [60s]      time from an eviction to the first new step
evictions:
  --eviction-rate RATE      per node and hour: 5%, or a band of Azure such as 5-10% or 20+%
  --history FILE            measure the rate in a recording of `diagnose --cluster --watch`
  --pool NAME               with --history: only this node pool
  --from-azure              rate and spot price from Azure Resource Graph, signed in
  --together NUMBER [1]     average number of the job's nodes that are evicted at once
  --no-notice               do not save on eviction notices
  --notice TIME [30s]       time from a notice to the eviction
  --notice-works PERCENT [90%]    share of evictions with a notice that leads to a save (assumed)
  --missing SHARE:TIME      share of evictions after which capacity is missing, and for how long
                            on average: 10%:2h
  --fallback TIME           continue on demand after waiting this long for spot
prices:
  --prices FILE             your prices: CSV with size, region, tier, price
  --spot-price PRICE        per VM and hour, or as a share of dedicated: 0.45 or 20%
  --low-priority-price PRICE    the same for low priority
result:
  --simulate N              simulate N runs and show how they differ
  --seed N [0]              seed of the simulation
  --deadline TIME           the cheapest mix of spot and on demand that meets it with 95 %
  --explain                 show the formulas with numbers
  --format {table,json,html} [table]    output format
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    add_options(parser, OPTIONS + OUTPUT, hours={"type": hours}, missing={"type": missing})


def hours(text: str) -> float:
    """`40` and `40h` as 40.0."""
    try:
        return float(text.removesuffix("h"))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text}: use a number of hours such as 40") from None


def missing(text: str) -> tuple[float, float]:
    """`10%:2h` as a share and seconds."""
    share, colon, duration = text.partition(":")
    if not colon:
        raise argparse.ArgumentTypeError(f"{text}: write it like 10%:2h")
    return percentage(share), seconds(duration)


def run(args: argparse.Namespace, console: Console) -> int:
    from arc_toolkit.cost import cost_text

    report = report_of(args, console)
    for warning in report.warnings:
        console.warn(warning)
    for note in report.notes:
        console.note(note)
    if args.format == "json":
        from arc_toolkit.output.json_document import document

        text = document("cost", cost_text.cost_json(report)) + "\n"
    elif args.format == "html":
        from arc_toolkit.cost.cost_page import render_cost

        text = render_cost(report)
    else:
        text = cost_text.cost_table(report)
        if args.explain:
            text += "\n" + cost_text.explain_cost(report, console.style)
    console.write(args.output, text)
    return OK


def report_of(args: argparse.Namespace, console: Console) -> CostReport:
    """The options, checked, as one report."""
    from datetime import date

    from arc_toolkit.cost import cost_report, prices
    from arc_toolkit.cost.mix import LEAST_RUNS, MIX_RUNS, cheapest_mix
    from arc_toolkit.cost.prices import share_use
    from arc_toolkit.cost.simulation import MOST_RUNS
    from arc_toolkit.sizing import vm_sizes

    size = vm_sizes.lookup(args.sku).name
    share = share_use(size, args.share, args.nodes) if args.share else None
    job, notes = job_of(args, share.vms if share else args.nodes)
    rate, azure_price = rate_of(args, size, console)
    tier_prices = prices_of(args, size, azure_price)
    if args.simulate is not None and not 1 <= args.simulate <= MOST_RUNS:
        raise ArcError(f"--simulate {args.simulate}: use 1 to {MOST_RUNS:,} runs")
    console.progress("simulating")
    report = cost_report.build_cost(
        size, args.region, job, rate, tier_prices, runs=args.simulate or 0, seed=args.seed
    )
    report.share = share
    report.notes += [*prices.unknown_prices(tier_prices, args.region), *notes]
    report.warnings += prices.old_prices(tier_prices, date.today())
    if args.deadline is not None:
        spot, dedicated = map(tier_prices.get, (prices.Tier.SPOT, prices.Tier.DEDICATED))
        if spot is None or dedicated is None:
            raise ArcError(
                "--deadline needs the prices of spot and dedicated: "
                "use --prices FILE or --spot-price 20%"
            )
        console.progress("comparing policies")
        runs = max(args.simulate or MIX_RUNS, LEAST_RUNS)
        report.mix = cheapest_mix(
            report.job, args.deadline, (spot.amount, dedicated.amount), runs=runs, seed=args.seed
        )
    return report


def job_of(args: argparse.Namespace, nodes: int) -> tuple[TrainingJob, list[str]]:
    """The job, and notes about what was assumed."""
    from arc_toolkit.cost.training_job import MissingCapacity, TrainingJob, notice_notes

    if args.fallback is not None and not args.missing:
        raise ArcError(
            "--fallback goes with --missing SHARE:TIME: otherwise spot capacity is always there"
        )
    share_missing, missing_seconds = args.missing or (0.0, 0.0)
    notes = [] if args.no_notice else notice_notes(args.save, args.notice, args.notice_works)
    job = TrainingJob(
        work_seconds=args.hours * 3600,
        nodes=nodes,
        save_seconds=args.save,
        restart_seconds=args.restart,
        noticed=0.0 if args.no_notice else args.notice_works,
        missing=MissingCapacity(share_missing, missing_seconds, args.fallback),
        together=args.together,
    )
    return job, notes


def rate_of(
    args: argparse.Namespace, size: str, console: Console
) -> tuple[EvictionRate, VmPrice | None]:
    """The eviction rate from the one source that was named, and Azure's spot price, if any."""
    from arc_toolkit.checkpoints.interval import EVICTIONS_PER_HOUR
    from arc_toolkit.cost.eviction_rates import EvictionRate, parse_rate

    if sum(map(bool, (args.eviction_rate, args.history, args.from_azure))) > 1:
        raise ArcError("use one of --eviction-rate, --history and --from-azure")
    if args.pool and not args.history:
        raise ArcError("--pool goes with --history")
    if args.eviction_rate:
        return parse_rate(args.eviction_rate), None
    if args.history:
        return history_rate(args.history, args.pool), None
    if args.from_azure:
        return azure_rate(size, args.region)
    console.note(
        f"assumed: {EVICTIONS_PER_HOUR:.0%} evictions per hour; "
        "set it with --eviction-rate, --history or --from-azure"
    )
    rate = EVICTIONS_PER_HOUR
    return EvictionRate(rate, rate, rate, "assumed"), None


def history_rate(path: str, pool: str | None) -> EvictionRate:
    """Measured in a recording of `diagnose`."""
    import time

    from arc_toolkit.cost.eviction_rates import measured_rate, node_lives
    from arc_toolkit.diagnosis.read import history

    facts = history.read(path)
    since = next((gap.end for gap in facts.gaps if gap.start is None), None)
    until = facts.read_at or time.time()
    lives = list(node_lives(facts.nodes, facts.events, since=since, until=until, pool=pool))
    if not lives:
        raise ArcError(
            f"--history {path}: no spot node{f' of pool {pool}' if pool else ''} was recorded"
        )
    return measured_rate(lives, path)


def azure_rate(size: str, region: str) -> tuple[EvictionRate, VmPrice | None]:
    import os
    from datetime import date

    from arc_toolkit.azure import session as azure_session
    from arc_toolkit.azure.operations import spot_facts
    from arc_toolkit.azure.scope import read_az_defaults
    from arc_toolkit.cost.eviction_rates import parse_rate
    from arc_toolkit.cost.prices import VmPrice

    facts = spot_facts(azure_session.open_session(read_az_defaults(os.environ).cloud), size, region)
    rate = parse_rate(facts.rate if "%" in facts.rate else f"{facts.rate}%", "Azure Resource Graph")
    price = (
        VmPrice(facts.price, "USD", date.today(), "Azure Resource Graph") if facts.price else None
    )
    return rate, price


def prices_of(
    args: argparse.Namespace, size: str, azure_price: VmPrice | None
) -> Mapping[Tier, VmPrice]:
    """From the options, Azure, --prices and the shipped table: the first that has a price wins."""
    from arc_toolkit.cost import prices
    from arc_toolkit.file_io import read_text

    tables = [prices.shipped_prices()]
    if args.prices:
        lines = read_text(Path(args.prices)).splitlines()
        tables.insert(0, prices.read_prices(lines, args.prices))
    result = prices.prices_of(size, args.region, tables)
    if azure_price:
        result[prices.Tier.SPOT] = azure_price
        prices.check_currency(size, result)
    dedicated = result.get(prices.Tier.DEDICATED)
    for tier, text in (
        (prices.Tier.SPOT, args.spot_price),
        (prices.Tier.LOW_PRIORITY, args.low_priority_price),
    ):
        if text is not None:
            result[tier] = prices.parse_price_option(f"--{tier.value}-price", text, dedicated)
    return result

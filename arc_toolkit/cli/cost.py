"""`cost`: what spot saves for one job, how often to save, and what a deadline costs."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from arc_toolkit.cli.console import Console
from arc_toolkit.errors import OK, ArcError

if TYPE_CHECKING:
    from arc_toolkit.cost.cost_report import CostReport
    from arc_toolkit.cost.eviction_rates import EvictionRate
    from arc_toolkit.cost.prices import Tier, VmPrice
    from arc_toolkit.cost.training_job import MissingCapacity, TrainingJob

DEFAULT_REGION = "westeurope"  # the shipped table has all three prices there

EPILOG = """\
examples:
  arc-toolkit cost --sku Standard_NC24ads_A100_v4 --nodes 8 --hours 40 --eviction-rate 5%
  arc-toolkit cost --sku Standard_D64s_v5 --hours 12 --eviction-rate 5-10% --no-notice --save 60s --explain
  arc-toolkit cost --sku Standard_NC24ads_A100_v4 --hours 40 --missing 30%:2h --deadline 60h
  arc-toolkit cost --sku Standard_D64s_v5 --share half --nodes 3 --hours 8
  arc-toolkit cost --sku Standard_NC24ads_A100_v4 --hours 40 --format html -o cost.html
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    what = parser.add_argument_group("the job")
    what.add_argument(
        "--sku", required=True, metavar="NAME", help="VM size, such as Standard_NC24ads_A100_v4"
    )
    what.add_argument(
        "--region",
        default=DEFAULT_REGION,
        metavar="NAME",
        help="of the prices (default: %(default)s)",
    )
    what.add_argument(
        "--nodes", type=int, default=1, metavar="N", help="nodes that all must run (default: 1)"
    )
    what.add_argument("--hours", required=True, metavar="N", help="hours of work without evictions")
    what.add_argument(
        "--share",
        metavar="SHARE",
        help="workers of a whole, half, quarter or 1/N of a VM instead of nodes",
    )
    what.add_argument(
        "--save", default="15s", metavar="TIME", help="time of one save (default: %(default)s)"
    )
    what.add_argument(
        "--restart",
        default="60s",
        metavar="TIME",
        help="from an eviction to the first new step (default: %(default)s)",
    )
    rates = parser.add_argument_group("evictions")
    rates.add_argument(
        "--eviction-rate",
        metavar="RATE",
        help="per node and hour: 5%%, or a band of Azure such as 5-10%% or 20+%%",
    )
    rates.add_argument(
        "--history", metavar="FILE", help="measured: what `diagnose --cluster --watch` recorded"
    )
    rates.add_argument("--pool", metavar="NAME", help="with --history: only this node pool")
    rates.add_argument(
        "--from-azure",
        action="store_true",
        help="rate and spot price from Azure Resource Graph, signed in",
    )
    rates.add_argument(
        "--together",
        type=float,
        default=1.0,
        metavar="N",
        help="nodes of the job that are evicted at once, on average (default: 1)",
    )
    rates.add_argument(
        "--no-notice", action="store_true", help="no eviction notice is used for a save"
    )
    rates.add_argument(
        "--notice",
        default="30s",
        metavar="TIME",
        help="how long before an eviction it is announced (default: 30s)",
    )
    rates.add_argument(
        "--notice-works",
        default="90%",
        metavar="SHARE",
        help="share of evictions whose notice comes and leads to a save (default: 90%%, an assumption)",
    )
    rates.add_argument(
        "--missing",
        metavar="SHARE:TIME",
        help="capacity is missing after this share of evictions, for this time on average: 10%%:2h",
    )
    rates.add_argument(
        "--fallback", metavar="TIME", help="go on demand after waiting this long for spot"
    )
    money = parser.add_argument_group("prices")
    money.add_argument(
        "--prices", metavar="FILE", help="your own: CSV with size, region, tier, price"
    )
    money.add_argument(
        "--spot-price",
        metavar="PRICE",
        help="per VM and hour, or as a share of dedicated: 0.45 or 20%%",
    )
    money.add_argument("--low-priority-price", metavar="PRICE", help="the same for low priority")
    result = parser.add_argument_group("result")
    result.add_argument(
        "--simulate", type=int, metavar="N", help="simulate N runs and show how they differ"
    )
    result.add_argument(
        "--seed", type=int, default=0, metavar="S", help="of the simulation (default: 0)"
    )
    result.add_argument(
        "--deadline",
        metavar="TIME",
        help="the cheapest mix of spot and on demand that meets it with 95%%",
    )
    result.add_argument("--explain", action="store_true", help="show the formulas in numbers")
    result.add_argument("--format", choices=["table", "json", "html"], default="table")
    result.add_argument(
        "-o", "--output", default="-", metavar="FILE", help="default: standard output"
    )


def run(args: argparse.Namespace, console: Console) -> int:
    from arc_toolkit.cost import cost_text

    report = report_of(args, console)
    for warning in report.warnings:
        console.warn(warning)
    for note in report.notes:
        console.note(note)
    if args.format == "json":
        from arc_toolkit.output.jsonout import document

        text = document("cost", cost_text.cost_json(report)) + "\n"
    elif args.format == "html":
        from arc_toolkit.cost.cost_page import render_cost

        text = render_cost(report)
    else:
        text = cost_text.cost_table(report)
        if args.explain:
            text += "\n" + cost_text.explain_cost(report, console.style)
    if args.output == "-":
        console.out(text, end="")
    else:
        from arc_toolkit.file_io import write_atomic

        write_atomic(Path(args.output), text)
        console.note(f"wrote {args.output}")
    return OK


def report_of(args: argparse.Namespace, console: Console) -> CostReport:
    """The options, checked, as one report."""
    from datetime import date

    from arc_toolkit.cost import cost_report, prices, share_price
    from arc_toolkit.cost.mix import LEAST_RUNS, MIX_RUNS, cheapest_mix
    from arc_toolkit.cost.simulation import MOST_RUNS
    from arc_toolkit.sizing import vm_sizes

    size = vm_sizes.lookup(args.sku).name
    job, missing_notes = job_of(args)
    use = share_price.share_use(size, args.share, args.nodes) if args.share else None
    if use:
        job = replace(job, nodes=use.vms)
    job = replace(job, together=args.together)
    rate, azure_price = rate_of(args, size, console)
    known = prices_of(args, size, azure_price)
    if args.simulate is not None and not 1 <= args.simulate <= MOST_RUNS:
        raise ArcError(f"--simulate {args.simulate}: use 1 to {MOST_RUNS:,} runs")
    console.progress("simulating")
    report = cost_report.build_cost(
        size, args.region, job, rate, known, runs=args.simulate or 0, seed=args.seed
    )
    report.share = use
    if args.deadline:
        spot, dedicated = known.get(prices.Tier.SPOT), known.get(prices.Tier.DEDICATED)
        if spot is None or dedicated is None:
            raise ArcError(
                "--deadline needs the prices of spot and dedicated: use --prices FILE or --spot-price 20%"
            )
        console.progress("comparing policies")
        deadline, both = seconds("--deadline", args.deadline), (spot.amount, dedicated.amount)
        runs = max(args.simulate or MIX_RUNS, LEAST_RUNS)
        report.mix = cheapest_mix(report.job, deadline, both, runs=runs, seed=args.seed)
    report.warnings += prices.old_prices(known, date.today())
    unknown = [tier.value for tier in prices.Tier if tier not in known]
    if unknown:
        report.notes.append(
            f"no price is known for {' and '.join(unknown)} in {args.region}: run `python -m scripts.refresh_prices "
            f"{args.region} -o prices.csv` in a clone of arc-toolkit (no sign-in), and use --prices prices.csv"
        )
    report.notes += missing_notes
    if rate.together > 1 and args.together == 1 and job.nodes > 1:
        report.notes.append(
            f"recorded evictions took {rate.together:.2g} nodes at once: if those are nodes of one job, "
            f"use --together {min(rate.together, job.nodes):.2g}"
        )
    if rate.open_end:
        report.warnings.append(
            f"{rate.text}: the band has no upper end, and its lower end is computed with"
        )
    return report


def job_of(args: argparse.Namespace) -> tuple[TrainingJob, list[str]]:
    import math

    from arc_toolkit.checkpoints.pace import Pace
    from arc_toolkit.cost.training_job import TrainingJob

    try:
        hours = float(str(args.hours).removesuffix("h"))
    except ValueError:
        raise ArcError(f"--hours {args.hours}: use a number of hours such as 40") from None
    save, restart, notice = (
        seconds(f"--{name}", getattr(args, name)) for name in ("save", "restart", "notice")
    )
    notes = []
    noticed = 0.0
    if not args.no_notice:
        if save > notice:
            raise ArcError(
                f"--save {args.save}: a save takes longer than the notice of {notice:g} s: "
                "use --no-notice, or save faster"
            )
        noticed = share("--notice-works", args.notice_works)
        pace = Pace(math.inf)
        pace.saved(0, save)
        if not pace.fits(notice):
            notes.append(
                f"a save of {save:g} s does not fit into a notice of {notice:g} s with the margin that the checkpoint "
                "library keeps: --no-notice shows the price without it"
            )
        notes.append(
            f"assumed: {args.notice_works} of the evictions are announced in time for a save "
            "(--notice-works, --no-notice)"
        )
    return TrainingJob(
        hours * 3600, args.nodes, 0.0, save, restart, noticed, missing_of(args)
    ), notes


def missing_of(args: argparse.Namespace) -> MissingCapacity:
    from arc_toolkit.cost.training_job import MissingCapacity

    fallback = seconds("--fallback", args.fallback) if args.fallback else None
    if not args.missing:
        if fallback is not None:
            raise ArcError(
                "--fallback goes with --missing SHARE:TIME: otherwise spot capacity is always there"
            )
        return MissingCapacity()
    portion, colon, lasts = args.missing.partition(":")
    if not colon:
        raise ArcError(f"--missing {args.missing}: write it like 10%:2h")
    return MissingCapacity(share("--missing", portion), seconds("--missing", lasts), fallback)


def rate_of(
    args: argparse.Namespace, size: str, console: Console
) -> tuple[EvictionRate, VmPrice | None]:
    """The eviction rate from the one source that was named, and the spot price if Azure was asked."""
    from arc_toolkit.checkpoints.interval import EVICTIONS_PER_HOUR
    from arc_toolkit.cost.eviction_rates import EvictionRate, parse_rate

    sources = [bool(args.eviction_rate), bool(args.history), args.from_azure]
    if sum(sources) > 1:
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
        f"assumed: {EVICTIONS_PER_HOUR:.0%} evictions per hour; --eviction-rate, --history or --from-azure says it"
    )
    rate = EVICTIONS_PER_HOUR
    return EvictionRate(rate, rate, rate, "assumed"), None


def history_rate(path: str, pool: str | None) -> EvictionRate:
    """Measured on one's own cluster: the recording belongs to `diagnose`, what follows from it to `cost`."""
    import time

    from arc_toolkit.cost.eviction_rates import measured_rate
    from arc_toolkit.cost.node_lives import node_lives
    from arc_toolkit.diagnosis import history

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
    from arc_toolkit.azure.scope import read_az_defaults
    from arc_toolkit.azure.spot_rates import spot_facts
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
    from arc_toolkit.cost import prices
    from arc_toolkit.cost.prices import Tier, VmPrice
    from arc_toolkit.file_io import read_text

    own = (
        prices.read_prices(read_text(Path(args.prices)).splitlines(), args.prices)
        if args.prices
        else {}
    )
    known = prices.prices_of(size, args.region, [own, prices.shipped_prices()])
    if azure_price:
        known[Tier.SPOT] = azure_price
        prices.check_currency(size, known)
    dedicated = known.get(Tier.DEDICATED)
    for tier, option in (
        (Tier.SPOT, args.spot_price),
        (Tier.LOW_PRIORITY, args.low_priority_price),
    ):
        if option is None:
            continue
        name = f"--{tier.value}-price"
        if option.endswith("%"):
            if dedicated is None:
                raise ArcError(
                    f"{name} {option}: the dedicated price is unknown: use --prices FILE or an amount"
                )
            amount = share(name, option) * dedicated.amount
        else:
            try:
                amount = float(option)
            except ValueError:
                raise ArcError(
                    f"{name} {option}: use a price per hour such as 0.45, or a share such as 20%"
                ) from None
        if not 0 < amount < prices.HIGHEST_PRICE:
            raise ArcError(
                f"{name} {option}: a price is more than 0 and less than {prices.HIGHEST_PRICE:,}"
            )
        known[tier] = VmPrice(amount, dedicated.currency if dedicated else "USD", None, name)
    return known


def seconds(option: str, text: str) -> float:
    from arc_toolkit.durations import parse_seconds

    try:
        return parse_seconds(text)
    except ValueError as error:
        raise ArcError(f"{option}: {error}") from None


def share(option: str, text: str) -> float:
    """`90%` as 0.9."""
    try:
        value = float(text.removesuffix("%")) / 100
    except ValueError:
        value = -1.0
    if not text.endswith("%") or not 0 <= value <= 1:
        raise ArcError(f"{option} {text}: use a share from 0% to 100%")
    return value

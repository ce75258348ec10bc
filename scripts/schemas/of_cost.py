"""The output of `cost`."""

from __future__ import annotations

from arc_toolkit.cost.prices import Tier
from scripts.schemas.words import (
    Documents,
    Schema,
    by_name,
    count,
    flag,
    many,
    number,
    one_of,
    or_null,
    record,
    text,
    texts,
)

_PRICE = number("per VM and hour")
_SHARES: Schema = {"type": "number"}
_POLICY = {
    "policy": text("its name"),
    "in_time": number("share of the simulated runs that meet the deadline"),
    "price": number("mean price of a run"),
    "hours": number("mean hours of a run"),
    "hours_95": number("95 of 100 runs take at most so long"),
    "on_demand": number("share of the paid time that is on demand"),
}
_JOB = {
    "nodes": count("VMs that all must run"),
    "work_hours": number("without evictions and saves"),
    "save_seconds": number("of one save"),
    "restart_seconds": number("from an eviction to the first new step"),
    "notice_works": number("share of evictions whose notice leads to a save"),
    "evicted_together": number("nodes of the job that one eviction takes, on average"),
    "missing_share": number("share of evictions after which no spot capacity is available"),
    "missing_seconds": number("for how long, on average"),
    "fallback_seconds": or_null(number("on demand after waiting so long; null: never")),
}
_RATE = {
    "low": number("lower end, as a probability per node and hour"),
    "used": number("what is computed with"),
    "high": number("upper end"),
    "open_end": flag("the band has no upper end"),
    "source": text("where it comes from"),
}
_INTERVAL = {
    "mean_between_evictions_seconds": or_null(
        number("of any node of the job; null without evictions")
    ),
    "young_seconds": or_null(
        number("optimum by Young, with the notice; null: no periodic save is needed")
    ),
    "daly_seconds": or_null(
        number("optimum by Daly, with the notice; null: no periodic save is needed")
    ),
    "used_seconds": number("work between two saves in this report"),
}
_EXPECTED = {
    "hours": number("on spot, by the formulas, without a fallback"),
    "work_hours": number("of these: work"),
    "saves_hours": number("of these: saves"),
    "redone_hours": number("of these: work done again"),
    "restarts_hours": number("of these: restarts"),
    "waits_hours": number("of these: waiting for capacity"),
    "evictions": number("expected number"),
}
_TIER = {
    "tier": one_of(Tier, "how the VMs are bought"),
    "price_per_hour": or_null(_PRICE),
    "price_date": or_null(text("of the price: `2026-06-18`; null if unknown")),
    "price_source": or_null(text("of the price; null if it is unknown")),
    "hours": number("expected"),
    "slower": number("0.06: takes 6 % longer than the work alone"),
    "price": or_null(number("expected, of the whole job; null if a price is unknown")),
    "price_low": or_null(number("5 % of the runs are cheaper, at the lower end of the rate")),
    "price_high": or_null(
        number(
            "5 % of the runs are more expensive, at the upper end of the rate; null with price_low: there is no end"
        )
    ),
    "saving": or_null(number("against dedicated, as a share; negative if it costs more")),
}
_SHARE = {
    "instance_type": text("its name"),
    "share": text("as asked for"),
    "per_vm": count("how many fit on a VM"),
    "workers": count("how many the job has"),
    "vms": count("how many VMs they take"),
    "empty_shares": count("paid and not used"),
    "wasted": number("share of the price that nothing runs for"),
    "prices_per_hour": by_name({"type": "number"}, "of one share on full VMs, by tier"),
}
_SIMULATION = {
    "runs": count("simulated"),
    "mean_hours": number("of a run"),
    "mean_evictions": number("of a run"),
    "hours": by_name(_SHARES, "by share of the runs that take at most so long"),
    "spot_prices": {
        "type": ["object", "null"],
        "additionalProperties": {"type": "number"},
        "description": "by share of the runs that cost at most so much; null if the price is unknown",
    },
}

DOCUMENTS: Documents = {
    "cost": (
        "`arc-toolkit cost --format json`",
        {
            "size": text("VM size"),
            "region": text("of the prices"),
            "currency": text("of all prices"),
            "job": record(_JOB, "what was asked for"),
            "eviction_rate": record(_RATE, "of one node"),
            "interval": record(_INTERVAL, "how often to save"),
            "expected": record(_EXPECTED, "where the time goes"),
            "tiers": many(record(_TIER, "one tier"), "dedicated, spot, low priority"),
            "break_even_rate": or_null(
                number(
                    "above it spot costs more than dedicated; null: it pays at any rate, or is unknown"
                )
            ),
            "break_even_price": or_null(
                number(
                    "spot price per VM and hour above which it costs more than dedicated; null: unknown"
                )
            ),
            "answer": text("one sentence"),
            "share": or_null(record(_SHARE, "with --share; else null")),
            "simulation": or_null(record(_SIMULATION, "with --simulate; else null")),
            "deadline": or_null(
                record(
                    {
                        "hours": number("the deadline"),
                        "answer": text("one sentence"),
                        "best": or_null(
                            record(
                                _POLICY, "the cheapest that meets it with 95 %; null if none does"
                            )
                        ),
                        "uniform_progress": record(
                            _POLICY, "the policy of `Can't Be Late`, for comparison"
                        ),
                        "policies": many(
                            record(_POLICY, "one policy"), "all that were tried, the cheapest first"
                        ),
                    },
                    "with --deadline; else null",
                )
            ),
            "notes": texts("assumptions and unknowns"),
            "warnings": texts("what to act on"),
        },
    ),
}

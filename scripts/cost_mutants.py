"""Mutants of `cost`, by file: its tests, and (old text, new text) of each."""

from __future__ import annotations

COST = "arc_toolkit/cost/"
FORMULA_TESTS = ("tests/cost/test_formulas.py", "tests/cost/test_by_node.py")
RATE_TESTS = ("tests/cost/test_rates_and_prices.py",)
MIX_TESTS = ("tests/cost/test_mix.py",)
COMMAND_TESTS = ("tests/cost/test_cost_command.py",)
REFRESH_TESTS = ("tests/cost/test_refresh_prices.py",)
ALL_TESTS = (*RATE_TESTS, *FORMULA_TESTS, *MIX_TESTS, *COMMAND_TESTS)

_FILES: tuple[tuple[str, tuple[str, ...], tuple[tuple[str, str], ...]], ...] = (
    (
        COST + "formulas.py",
        FORMULA_TESTS,
        (
            ("again = math.exp(job.restart_seconds / mean)", "again = 1 + job.restart_seconds / mean"),
            ("count * evicted * again", "count * evicted"),
            ("(math.ceil(job.work_seconds / tau) - 1)", "math.floor(job.work_seconds / tau / 2)"),
            ("_renewals(job, last, last, 0.0)", "_renewals(job, last, last, job.save_seconds)"),
            ("undisturbed * save + noticed * evicted * at_notice", "undisturbed * save"),
            ("noticed * (mean * -math.expm1(-tau / mean)", "noticed * (tau * evicted + 0 * mean"),
            ("(self.elapsed - self.waits) + self.idle_nodes", "self.elapsed + self.idle_nodes"),
            ("(self.elapsed - self.waits) + self.idle_nodes", "(self.elapsed - self.waits)"),
            ("redone = mean * evicted - undisturbed * save - kept", "redone = mean * evicted - kept"),
            ("waits=evictions * _wait(job, math.inf)", "waits=evictions * _wait(job, IDLE_SECONDS)"),
            ("evictions * _wait(job, IDLE_SECONDS)", "evictions * _wait(job, math.inf)"),
            ("return None if pays(HIGHEST_RATE) else _last(pays)", "return _last(pays)"),
            ("(middle, high) if holds(middle) else (low, middle)", "(middle, high) if middle < 0.5 else (low, middle)"),
            ("if not saves + restarts + redone <= HOPELESS * job.work_seconds:", "if False:"),
        ),
    ),
    (
        COST + "simulation.py",
        FORMULA_TESTS,
        (
            ("        starting = restart\n", ""),
            ("left -= saved * interval", "left -= worked"),
            ("                spot += save\n", ""),
            ("min(worked - saved * span, interval)", "worked"),
            ("idle += others * min(wait, IDLE_SECONDS)", "idle += others * wait"),
            ("save * (ceil(left / interval) - 1)", "save * ceil(left / interval)"),
            ("-log(1.0 - uniform()) * mean\n", "2 * uniform() * mean\n"),
            ("if after is None or lasts <= after:", "if after is None:"),
            ("return after, job.restart_seconds + left, 0.0", "return after, left, 0.0"),
            ("return after, most, left - worked", "return after, most, left"),
            ("place = share * (len(ordered) - 1)", "place = share * len(ordered) - 0.5"),
            ("dear * full) + spot * waiting)", "dear * full))"),
            ("random.Random(seed)", "random.Random(0)"),
        ),
    ),
    (
        COST + "training_job.py",
        ALL_TESTS,
        (
            (" * self.together if self.rate", " if self.rate"),
            ("return self.nodes - self.together", "return self.nodes - 1.0"),
            ("self.mean, self.noticed)", "self.mean)"),
            ("min(max(best, SHORTEST_INTERVAL), self.work_seconds)", "max(best, SHORTEST_INTERVAL)"),
            ("if not 1 <= self.together <= self.nodes:", "if self.together < 1:"),
            ("if not 0 <= self.rate < 1:", "if self.rate > 1:"),
        ),
    ),
    (
        COST + "eviction_rates.py",
        (*RATE_TESTS, *COMMAND_TESTS),
        (
            ("(low + high) / 2, high, source", "low, high, source"),
            ("most = events if upper else events - 1", "most = events"),
            ("len(unclear) / 2 or 0.5", "len(unclear) / 2"),
            ("len(sure) + len(unclear) / 2", "len(sure)"),
            ("_mean_evictions([*sure, *unclear])", "_mean_evictions(sure)"),
            ("later - earlier > WAVE_SECONDS", "later - earlier > 0"),
            ("gaps + bool(ends) +", "gaps +"),
            ("size = len(rows) / waves if waves else 1.0", "size = 1.0"),
            ("if per_hour[1] > HIGHEST_MEASURED:", "if per_hour[1] > 1:"),
            ("if not low <= high < 1:", "if not low <= high:"),
            ("if 99 < value < 100:", "if 100 < value < 100:"),
            ("abs(value) >= 9.95", "value >= 9.95"),
            ("CONFIDENCE = 0.95", "CONFIDENCE = 0.9"),
            ("together=together)", "together=1.0)"),
        ),
    ),
    (
        COST + "node_lives.py",
        (*RATE_TESTS, *COMMAND_TESTS),
        (
            ("created if since is None else max(created, since)", "created"),
            ('and "scale-down" not in causes', ""),
            ('if item.status == "True"', ""),
            ("not node.spot or ", ""),
            (" or (pool and node.pool != pool)", ""),
            ("created <= moment <= deleted + AFTER_SECONDS", "moment <= deleted + AFTER_SECONDS"),
            ("created <= moment <= deleted + AFTER_SECONDS", "created <= moment <= deleted - AFTER_SECONDS"),
            ("until if deleted is None else min(deleted, until)", "until"),
            ('    signs += [("node taint", taint.key) for taint in node.taints]\n', ""),
        ),
    ),
    (
        COST + "prices.py",
        (*RATE_TESTS, *COMMAND_TESTS),
        (
            ("days > OLD_DAYS", "days >= OLD_DAYS"),
            (' or table.get((size.lower(), "", tier))', ""),
            ("                break\n", ""),
            ("if len(currencies) > 1:", "if False:"),
            ('.replace("on-demand", "dedicated")', ""),
            ("if not 0 < amount < HIGHEST_PRICE:", "if not 0 < amount:"),
            ("if not 0 < amount < HIGHEST_PRICE:", "if not amount < HIGHEST_PRICE:"),
            ("(row.get(\"currency\") or \"USD\")", "\"USD\""),
            ("if lacking:", "if False:"),
        ),
    ),
    (
        COST + "mix.py",
        MIX_TESTS,
        (
            ("margin = 1.645 * math.sqrt(CERTAINTY * (1 - CERTAINTY) / runs)", "margin = -0.2"),
            ("if deadline < job.work_seconds:", "if False:"),
            ("key=lambda result: result.cost,", "key=lambda result: -result.cost,"),
            ("wait = min(wait, max(0.0, self._slack() - self._threshold(self.left)))", "wait = 0.0"),
            ('(NSDI 2024)", 1.0,', '(NSDI 2024)", 0.5,'),
            ("2 * job.restart_seconds)\n\n\ndef evaluate", "job.restart_seconds)\n\n\ndef evaluate"),
            ("* left / self.job.work_seconds\n", "\n"),
            ("row.clock <= deadline + 1e-6", "row.clock <= 2 * deadline"),
        ),
    ),
    (
        COST + "share_price.py",
        COMMAND_TESTS,
        (
            ("return -(-self.workers // self.per_vm)", "return self.workers // self.per_vm + 1"),
            ("return self.vms * self.per_vm - self.workers", "return 0"),
            ("* (1 - self.left_over)", ""),
            ("return vm_price / self.per_vm", "return vm_price / self.workers"),
        ),
    ),
    (
        COST + "cost_report.py",
        (*COMMAND_TESTS, *FORMULA_TESTS),
        (
            ("RANGE = (0.05, 0.95)", "RANGE = (0.0, 1.0)"),
            ("RANGE = (0.05, 0.95)", "RANGE = (0.25, 0.75)"),
            ("max(0.0, limit - on_demand) / spot", "max(0.0, limit) / spot"),
            ("max(0.0, limit - on_demand) / spot", "(limit - on_demand) / spot"),
            ("simulated if fallback else None, dedicated.amount)", "None, dedicated.amount)"),
            ("elapsed = mean_of(simulated.elapsed) if fallback else result.elapsed", "elapsed = result.elapsed"),
            ("high = None if rate.open_end else high", "pass"),
            ("if dedicated and spot and not fallback else None", "if dedicated and spot else None"),
            ("and _dearer(spot.price, dedicated.price)", "and False"),
            ("in (rate.low, rate.high)", "in (rate.used, rate.used)"),
        ),
    ),
    (
        "scripts/refresh_prices.py",
        REFRESH_TESTS,
        (
            ('_OTHER_PRODUCTS = (" Win",', '_OTHER_PRODUCTS = ("Windows",'),
            ('"Cloud Services", ', ""),
            ('"Dedicated Host", ', ""),
            (" or not _in_force(item, day)", ""),
            ("(start is None or start <= day) and ", ""),
            (" and (end is None or day <= end)", ""),
            ('item.get("tierMinimumUnits") or ', ""),
            ('item.get("type") != "Consumption" or ', ""),
            ("or rank > best[key][0]", ""),
            ("bool(item.get(\"isPrimaryMeterRegion\")), ", "False, "),
            ("if not url and len(rows) >= PAGE:", "if False:"),
            ("if url in seen:", "if False:"),
            ("if not found:", "if False:"),
            ('saved.get("next", first_url(api, region))', "first_url(api, region)"),
            ("if told.isdigit() else 2.0**attempt", "if told.isdigit() else 0.0"),
            (" not in (429, 500, 502, 503, 504)", " not in (500, 502, 503, 504)"),
            (' if row["region"] not in again:', " if True:"),
            ("urlsplit(link).hostname != urlsplit(api).hostname", "False"),
        ),
    ),
    (
        "arc_toolkit/cli/cost.py",
        COMMAND_TESTS,
        (
            ("if save > notice:", "if False:"),
            ("job = replace(job, nodes=use.vms)", "pass"),
            ("job = replace(job, together=args.together)", "pass"),
            ("if sum(sources) > 1:", "if False:"),
            ("max(args.simulate or MIX_RUNS, LEAST_RUNS)", "args.simulate or MIX_RUNS"),
            ("amount = share(name, option) * dedicated.amount", "amount = share(name, option)"),
            ("    report.warnings += prices.old_prices(known, date.today())\n", ""),
            ("known[Tier.SPOT] = azure_price", "pass"),
            ("since=since, until=until", "since=None, until=until"),
        ),
    ),
)  # fmt: skip


def cost_replacements() -> list[tuple[str, str, str, str, str, tuple[str, ...]]]:
    """In the form of REPLACEMENTS in scripts/mutants.py."""
    return [
        ("cost", f"{path.rpartition('/')[2]}: {_brief(old)} -> {_brief(new) or 'nothing'}", path, old, new, tests)
        for path, tests, rows in _FILES
        for old, new in rows
    ]


def _brief(code: str) -> str:
    return " ".join(code.split())[:60]

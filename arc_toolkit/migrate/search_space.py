"""Search space, objective, limits and early termination of a sweep, v1.5 to v2.

Every source (SweepComponent, `runsettings.sweep`, HyperDrive) is read into a `LegacySpec`, of which
`sweep_body` makes the one model of a v2 sweep: YAML as it is, Python by `sweep_arguments`.

    algorithm: Random                                    sampling_algorithm: random
    limits: {max_total_trials: 4, timeout_minutes: 3}    limits: {max_total_trials: 4, timeout: 180}

The tables are those of Microsoft's sweep schemas; each row was loaded with azure-ai-ml 1.35.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

from arc_toolkit.migrate.legacy_spec import LegacySpec


@dataclass(frozen=True)
class Distribution:
    """The class of azure.ai.ml.sweep, its keys in order, and the v2 input type of a drawn value."""

    v2_class: str
    keys: tuple[str, ...]
    kind: str = "number"


DISTRIBUTIONS = {
    "choice": Distribution("Choice", ("values",), "string"),
    "randint": Distribution("Randint", ("upper",), "integer"),
    "uniform": Distribution("Uniform", ("min_value", "max_value")),
    "loguniform": Distribution("LogUniform", ("min_value", "max_value")),
    "quniform": Distribution("QUniform", ("min_value", "max_value", "q")),
    "qloguniform": Distribution("QLogUniform", ("min_value", "max_value", "q")),
    "normal": Distribution("Normal", ("mu", "sigma")),
    "lognormal": Distribution("LogNormal", ("mu", "sigma")),
    "qnormal": Distribution("QNormal", ("mu", "sigma", "q")),
    "qlognormal": Distribution("QLogNormal", ("mu", "sigma", "q")),
}


@dataclass(frozen=True)
class EarlyTermination:
    """The class of a policy, its keys beside the intervals, and hyperdrive's order of arguments."""

    v2_class: str
    keys: tuple[str, ...]
    v1_order: tuple[str, ...]


_INTERVALS = ("evaluation_interval", "delay_evaluation")
POLICIES = {
    "bandit": EarlyTermination(
        "BanditPolicy",
        ("slack_factor", "slack_amount"),
        ("evaluation_interval", "slack_factor", "slack_amount", "delay_evaluation"),
    ),
    "median_stopping": EarlyTermination("MedianStoppingPolicy", (), _INTERVALS),
    "truncation_selection": EarlyTermination(
        "TruncationSelectionPolicy",
        ("truncation_percentage",),
        ("truncation_percentage", *_INTERVALS),
    ),
}
# v1.5 names for "no policy" (`default` is what its NoTerminationPolicy becomes).
NO_POLICY = ("default", "none", "no_termination")
# Written out, because azure-ai-ml sends an evaluation_interval of 0 without one.
_POLICY_DEFAULTS = {"evaluation_interval": 1, "delay_evaluation": 0}
_POLICY_KEYS = {key for policy in POLICIES.values() for key in policy.keys}
_ALGORITHMS = ("random", "grid", "bayesian")
_COUNTS = ("max_total_trials", "max_concurrent_trials")
# Spellings of old drafts of the v1.5 schema, which v2 rejects.
_OLD_KEYS = {"spec": "type", "min": "min_value", "max": "max_value"}


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def sweep_body(spec: LegacySpec) -> dict[str, Any]:
    """All that v2 says about a sweep, in the order in which it is written."""
    body: dict[str, Any] = {
        "sampling_algorithm": _algorithm(spec),
        "objective": _objective(spec),
        "search_space": _search_space(spec),
        "limits": _limits(spec),
    }
    if policy := _early_termination(spec):
        body["early_termination"] = policy
    return body


def _search_space(spec: LegacySpec) -> dict[str, dict[str, Any]]:
    space = spec.mapping("search_space")
    if not space:
        reason = "the sweep has no search_space: name the parameters to sweep"
        raise spec.refuse(reason, "search_space")
    return {
        str(name): _distribution(spec, value, "search_space", name) for name, value in space.items()
    }


def _distribution(spec: LegacySpec, value: object, *at: Any) -> dict[str, Any]:
    """One distribution with the keys that v2 knows, in their order."""
    name = at[-1]
    if not isinstance(value, dict):
        hint = "write `type: uniform` and its parameters"
        raise spec.refuse(f"{name} is not a distribution: {hint}", *at)
    for old, new in _OLD_KEYS.items():
        if old in value and new not in value:
            spec.note(f"`{old}` of old drafts is written as `{new}`", *at)
            value = {new if key == old else key: item for key, item in value.items()}
    kind = str(value.get("type", "")).lower()
    if kind not in DISTRIBUTIONS:
        problem = "a distribution without type"
        if "type" in value:
            problem = f"the distribution {value['type']!r}"
        raise spec.refuse(f"{name} has {problem}: use one of {', '.join(DISTRIBUTIONS)}", *at)
    keys = DISTRIBUTIONS[kind].keys
    if missing := [key for key in keys if key not in value]:
        raise spec.refuse(f"{name}: {kind} needs {' and '.join(missing)}: add it", *at)
    if extra := [str(key) for key in value if key not in (*keys, "type")]:
        raise spec.refuse(f"{name}: {kind} has no {' and '.join(extra)} in v2: take it out", *at)
    if kind == "choice":
        values = value["values"]
        if not isinstance(values, list) or not values:
            raise spec.refuse(f"{name}: choice needs a list of values: write `values: [1, 2]`", *at)
        items = [_choice(spec, item, *at, "values", index) for index, item in enumerate(values)]
        return {"type": kind, "values": items}
    for key in keys:
        is_whole = kind == "randint"
        if not _is_number(value[key]) or (is_whole and not isinstance(value[key], int)):
            hint = "use a whole number" if is_whole else "use a number"
            raise spec.refuse(f"{name}: {key} is {value[key]!r}: {hint}", *at, key)
    return {"type": kind, **{key: value[key] for key in keys}}


def _choice(spec: LegacySpec, value: object, *at: Any) -> Any:
    """One value of a choice; v2 rejects booleans, of which v1.5 made words."""
    name = at[1]
    if isinstance(value, bool):
        reason = f"{value} is written as the string {str(value)!r}, as v1.5 did"
        spec.note(reason, *at[:2])
        return str(value)
    if _is_number(value) or isinstance(value, str):
        return value
    if isinstance(value, dict):  # a conditional space
        return {
            str(key): (_distribution if isinstance(item, dict) else _choice)(spec, item, *at, key)
            for key, item in value.items()
        }
    hint = "use numbers or strings"
    raise spec.refuse(f"{name}: {value!r} cannot be a value of a choice: {hint}", *at)


def drawn_kind(drawn: dict[str, Any]) -> str:
    """The v2 input type of what a distribution draws."""
    if drawn["type"] != "choice":
        return DISTRIBUTIONS[drawn["type"]].kind
    if all(isinstance(value, int) for value in drawn["values"]):
        return "integer"
    return "number" if all(map(_is_number, drawn["values"])) else "string"


def _algorithm(spec: LegacySpec) -> str:
    value = spec.data.get("algorithm")
    if value is None:
        reason = "random, the default of v1.5 and of v2, because no algorithm is given"
        spec.ledger.added("sampling_algorithm", reason)
        return "random"
    if str(value).lower() not in _ALGORITHMS:
        hint = f"use one of {', '.join(_ALGORITHMS)}"
        raise spec.refuse(f"the algorithm {value!r} is unknown: {hint}", "algorithm")
    return str(value).lower()


def _objective(spec: LegacySpec) -> dict[str, str]:
    """The objective; of a metric with `default` and `enum` the default is taken."""
    at = "objective", "primary_metric"
    section = spec.mapping("objective")
    spec.account(section, "objective")
    metric = section.get("primary_metric")
    if isinstance(metric, dict):
        others = [str(item) for item in metric.get("enum") or [] if item != metric.get("default")]
        metric = metric.get("default")
        if others:
            words = f"{', '.join(others[:3])}{', ...' if len(others) > 3 else ''}"
            verb = "has" if len(others) == 1 else "have"
            spec.note(
                f"v2 takes one metric; {metric} is written, and {len(others)} more of its enum "
                f"{verb} no place ({words})",
                *at,
                outcome="lost",
            )
    if not isinstance(metric, str) or not metric:
        hint = "(v1.5 lets runsettings.sweep.objective give it): add it"
        raise spec.refuse(f"objective.primary_metric names no metric {hint}", *at)
    goal = str(section.get("goal", "")).lower()
    if goal not in ("minimize", "maximize"):
        raise spec.refuse_value("use minimize or maximize", "objective", "goal")
    return {"goal": goal, "primary_metric": metric}


def _limits(spec: LegacySpec) -> dict[str, int]:
    """Limits; minutes become seconds."""
    section = spec.mapping("limits")
    limits = {}
    for key in _COUNTS:
        if (value := section.get(key)) is not None:
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise spec.refuse_value("use a whole number above 0", "limits", key)
            limits[key] = value
    if "max_total_trials" not in limits:
        hint = "v2 requires it (v1.5 lets runsettings.sweep.limits give it): add it"
        raise spec.refuse(f"limits.max_total_trials is missing, and {hint}", "limits")
    if (minutes := section.get("timeout_minutes")) is not None:
        if not _is_number(minutes) or not 0 < minutes < math.inf:
            raise spec.refuse_value("use a number above 0", "limits", "timeout_minutes")
        limits["timeout"] = round(minutes * 60)
    spec.account(section, "limits")
    return limits


def _early_termination(spec: LegacySpec) -> dict[str, Any] | None:
    """The policy, its intervals written out; None for no policy."""
    at = "early_termination"
    section = spec.mapping(at)
    name = str(section.get("policy_type", section.get("type", "")))
    # `medianStopping` in drafts, `medianstopping` where the v1.5 SDK wrote it from an object.
    plain = name.lower().replace("_", "")
    names = {policy.replace("_", ""): policy for policy in (*POLICIES, *NO_POLICY)}
    kind = names.get(plain, "")
    if not section or kind in NO_POLICY:
        return None
    if kind not in POLICIES:
        hint = f"use one of {', '.join(POLICIES)} or default"
        raise spec.refuse(f"the early termination policy {name!r} is unknown: {hint}", at)
    keys = POLICIES[kind].keys
    result: dict[str, Any] = {"type": kind}
    for key in (*keys, *_POLICY_DEFAULTS):
        value = section.get(key, _POLICY_DEFAULTS.get(key))
        if value is not None and not _is_number(value):
            raise spec.refuse_value("use a number", at, key)
        if value is not None:
            result[key] = value
    slacks = [key for key in keys if key in result]
    if keys and len(slacks) != 1:
        both = ", not both" if slacks else ""
        raise spec.refuse(f"{kind} needs {' or '.join(keys)}{both}: fix it", at)
    if "evaluation_interval" not in section:
        reason = "1, the documented default, is written out, because azure-ai-ml would send 0"
        spec.ledger.added(f"{at}.evaluation_interval", reason)
    spec.account(section, at)
    for key in section:
        if key in _POLICY_KEYS and key not in result:
            spec.note(f"{kind} has no {key}", at, key, outcome="lost")
    return result


# --- as Python text ---


def literal(value: object) -> str:
    """Python source of a value: `repr` with double quotes, and `float("inf")`."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    if isinstance(value, dict):
        items = (f"{literal(key)}: {literal(item)}" for key, item in value.items())
        return f"{{{', '.join(items)}}}"
    return repr(value)


def distribution_text(drawn: dict[str, Any], used: set[str]) -> str:
    """`Uniform(min_value=0, max_value=1)`; the classes that it needs are added to `used`."""
    row = DISTRIBUTIONS[drawn["type"]]
    used.add(row.v2_class)
    return call_text(row.v2_class, {key: _argument(drawn[key], used) for key in row.keys})


def _argument(value: Any, used: set[str]) -> str:
    if isinstance(value, list):
        return f"[{', '.join(_argument(item, used) for item in value)}]"
    if not isinstance(value, dict):
        return literal(value)
    items = (  # of a conditional space
        f"{literal(key)}: "
        + (distribution_text(item, used) if isinstance(item, dict) else literal(item))
        for key, item in value.items()
    )
    return f"{{{', '.join(items)}}}"


def sweep_arguments(body: dict[str, Any], used: set[str]) -> dict[str, str]:
    """The arguments of `.sweep(...)`; the classes that they need are added to `used`."""
    objective = body["objective"]
    values = {
        "primary_metric": objective["primary_metric"],
        "goal": objective["goal"],
        "sampling_algorithm": body["sampling_algorithm"],
        **body["limits"],
    }
    arguments = {key: literal(value) for key, value in values.items()}
    if policy := body.get("early_termination"):
        name = POLICIES[policy["type"]].v2_class
        used.add(name)
        inner = {key: literal(value) for key, value in policy.items() if key != "type"}
        arguments["early_termination_policy"] = call_text(name, inner)
    return arguments


def call_text(function: str, arguments: dict[str, str]) -> str:
    """`function(a=1, b=2)`"""
    return f"{function}({', '.join(f'{key}={text}' for key, text in arguments.items())})"

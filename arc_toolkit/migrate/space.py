"""What a sweep searches, and how: search space, objective, limits and early termination, v1.5 to v2.

The tables are those of Microsoft's v1.5 and v2 sweep schemas; each row was loaded with azure-ai-ml 1.35.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

from arc_toolkit.migrate.legacy_spec import LegacySpec


@dataclass(frozen=True)
class Distribution:
    """One distribution: the class of azure.ai.ml.sweep, and its keys in the order of positional arguments.

    `kind` is the v2 input type of a drawn value, for a parameter that no input declares.
    """

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
class Policy:
    """One early termination policy: its class in hyperdrive and in azure.ai.ml.sweep, its keys beside the two that
    all have, and the order of hyperdrive's positional arguments."""

    v2_class: str
    keys: tuple[str, ...]
    v1_order: tuple[str, ...]


POLICIES = {
    "bandit": Policy(
        "BanditPolicy",
        ("slack_factor", "slack_amount"),
        ("evaluation_interval", "slack_factor", "slack_amount", "delay_evaluation"),
    ),
    "median_stopping": Policy(
        "MedianStoppingPolicy", (), ("evaluation_interval", "delay_evaluation")
    ),
    "truncation_selection": Policy(
        "TruncationSelectionPolicy",
        ("truncation_percentage",),
        ("truncation_percentage", "evaluation_interval", "delay_evaluation"),
    ),
}
# v1.5 names for "no policy" (`default` is what its NoTerminationPolicy becomes).
NO_POLICY = ("default", "none", "no_termination")
# The intervals' meaning when a spec does not give them. Written out, since azure-ai-ml sends an
# evaluation_interval of 0 for bandit and truncation_selection where it is absent.
POLICY_DEFAULTS = {"evaluation_interval": 1, "delay_evaluation": 0}

ALGORITHMS = ("random", "grid", "bayesian")
GOALS = ("minimize", "maximize")

# Spellings of old drafts of the v1.5 schema, which v2 rejects.
_OLD_KEYS = {"spec": "type", "min": "min_value", "max": "max_value"}


def number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def sweep_body(spec: LegacySpec) -> dict[str, Any]:
    """All that v2 says about a sweep, in the order in which it is written."""
    body: dict[str, Any] = {
        "sampling_algorithm": algorithm(spec),
        "objective": objective(spec),
        "search_space": search_space(spec),
        "limits": limits(spec),
    }
    if policy := early_termination(spec):
        body["early_termination"] = policy
    return body


def search_space(spec: LegacySpec) -> dict[str, dict[str, Any]]:
    """The `search_space` of a v1.5 sweep as that of v2."""
    space = spec.mapping("search_space")
    if not space:
        raise spec.refuse(
            "the sweep has no search_space: name the parameters to sweep", "search_space"
        )
    return {
        str(name): distribution(spec, value, "search_space", name) for name, value in space.items()
    }


def distribution(spec: LegacySpec, value: object, *at: Any) -> dict[str, Any]:
    """One distribution with the keys that v2 knows, in their order."""
    name = at[-1]
    if not isinstance(value, dict):
        raise spec.refuse(
            f"{name} is not a distribution: write `type: uniform` and its parameters", *at
        )
    for old, new in _OLD_KEYS.items():
        if old in value and new not in value:
            spec.note(f"{name}: `{old}` of old drafts is written as `{new}`", *at)
            value = {new if key == old else key: item for key, item in value.items()}
    kind = str(value.get("type", "")).lower()
    known = DISTRIBUTIONS.get(kind)
    if known is None:
        named = (
            f"the distribution {value['type']!r}"
            if "type" in value
            else "a distribution without type"
        )
        raise spec.refuse(f"{name} has {named}: use one of {', '.join(DISTRIBUTIONS)}", *at)
    missing = [key for key in known.keys if key not in value]
    if missing:
        raise spec.refuse(f"{name}: {kind} needs {' and '.join(missing)}: add it", *at)
    extra = [str(key) for key in value if key not in (*known.keys, "type")]
    if extra:
        raise spec.refuse(f"{name}: {kind} has no {' and '.join(extra)} in v2: take it out", *at)
    if kind == "choice":
        return {"type": kind, "values": _values(spec, value["values"], *at)}
    for key in known.keys:
        whole = kind == "randint"
        if not number(value[key]) or (whole and not isinstance(value[key], int)):
            hint = "use a whole number" if whole else "use a number"
            raise spec.refuse(f"{name}: {key} is {value[key]!r}: {hint}", *at, key)
    return {"type": kind, **{key: value[key] for key in known.keys}}


def _values(spec: LegacySpec, values: object, *at: Any) -> list[Any]:
    if not isinstance(values, list) or not values:
        raise spec.refuse(f"{at[-1]}: choice needs a list of values: write `values: [1, 2]`", *at)
    return [_value(spec, value, *at, "values", index) for index, value in enumerate(values)]


def _value(spec: LegacySpec, value: object, *at: Any) -> Any:
    """One value of a choice; booleans become the words that v1.5 made of them, since v2 rejects booleans."""
    if isinstance(value, bool):
        spec.note(
            f"{_parameter(at)}: {value} is written as the string {str(value)!r}, as v1.5 did", *at
        )
        return str(value)
    if number(value) or isinstance(value, str):
        return value
    if isinstance(value, dict):  # a conditional space
        return {
            str(key): distribution(spec, item, *at, key)
            if isinstance(item, dict)
            else _value(spec, item, *at, key)
            for key, item in value.items()
        }
    raise spec.refuse(
        f"{_parameter(at)}: {value!r} cannot be a value of a choice: use numbers or strings", *at
    )


def _parameter(at: tuple[Any, ...]) -> str:
    return str(at[1] if len(at) > 1 else at[0])


def drawn_kind(drawn: dict[str, Any]) -> str:
    """The v2 input type of what a distribution draws."""
    if drawn["type"] != "choice":
        return DISTRIBUTIONS[drawn["type"]].kind
    if all(isinstance(value, int) for value in drawn["values"]):
        return "integer"
    return "number" if all(number(value) for value in drawn["values"]) else "string"


def algorithm(spec: LegacySpec) -> str:
    """`algorithm` as `sampling_algorithm`."""
    value = spec.data.get("algorithm")
    if value is None:
        spec.note("no algorithm is given: random, the default of v1.5 and of v2, is written out")
        return "random"
    if str(value).lower() not in ALGORITHMS:
        raise spec.refuse(
            f"the algorithm {value!r} is unknown: use one of {', '.join(ALGORITHMS)}", "algorithm"
        )
    return str(value).lower()


def objective(spec: LegacySpec) -> dict[str, str]:
    """The objective; of a metric with `default` and `enum` the default is taken."""
    section = spec.mapping("objective")
    metric = section.get("primary_metric")
    if isinstance(metric, dict):
        others = [str(item) for item in metric.get("enum") or [] if item != metric.get("default")]
        metric = metric.get("default")
        if others:
            words = f"{', '.join(others[:3])}{', ...' if len(others) > 3 else ''}"
            spec.warn(
                f"objective.primary_metric: v2 takes one metric; {metric} is written, and {len(others)} more of its "
                f"enum {'has' if len(others) == 1 else 'have'} no place ({words})",
                *("objective", "primary_metric"),
            )
    if not isinstance(metric, str) or not metric:
        reason = "objective.primary_metric names no metric (v1.5 lets runsettings.sweep.objective give it): add it"
        raise spec.refuse(reason, "objective", "primary_metric")
    goal = str(section.get("goal", "")).lower()
    if goal not in GOALS:
        raise spec.refuse_value("use minimize or maximize", "objective", "goal")
    spec.warn_unknown(section, ("primary_metric", "goal"), "objective")
    return {"goal": goal, "primary_metric": metric}


def limits(spec: LegacySpec) -> dict[str, int]:
    """Limits; minutes become seconds."""
    section = spec.mapping("limits")
    out = {}
    for key in ("max_total_trials", "max_concurrent_trials"):
        if (value := section.get(key)) is not None:
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise spec.refuse_value("use a whole number above 0", "limits", key)
            out[key] = value
    if "max_total_trials" not in out:
        reason = "limits.max_total_trials is missing, and v2 requires it (v1.5 lets runsettings.sweep.limits give it)"
        raise spec.refuse(f"{reason}: add it", "limits")
    if (minutes := section.get("timeout_minutes")) is not None:
        if not number(minutes) or not 0 < minutes < math.inf:
            raise spec.refuse_value("use a number above 0", "limits", "timeout_minutes")
        out["timeout"] = round(minutes * 60)
    spec.warn_unknown(
        section, ("max_total_trials", "max_concurrent_trials", "timeout_minutes"), "limits"
    )
    return out


def early_termination(spec: LegacySpec) -> dict[str, Any] | None:
    """The policy, its intervals written out; None for no policy."""
    at = "early_termination"
    section = spec.mapping(at)
    if not section:
        return None
    name = str(section.get("policy_type", section.get("type", "")))
    # `medianStopping` in drafts, `medianstopping` where the v1.5 SDK wrote it from an object.
    plain = name.lower().replace("_", "")
    kind = next((known for known in (*POLICIES, *NO_POLICY) if known.replace("_", "") == plain), "")
    if kind in NO_POLICY:
        return None
    policy = POLICIES.get(kind)
    if policy is None:
        known = ", ".join(POLICIES)
        raise spec.refuse(
            f"the early termination policy {name!r} is unknown: use one of {known} or default", at
        )
    out: dict[str, Any] = {"type": kind}
    for key in (*policy.keys, *POLICY_DEFAULTS):
        value = section.get(key, POLICY_DEFAULTS.get(key))
        if value is not None and not number(value):
            raise spec.refuse_value("use a number", at, key)
        if value is not None:
            out[key] = value
    slacks = [key for key in policy.keys if key in out]
    if policy.keys and len(slacks) != 1:
        raise spec.refuse(
            f"{kind} needs {' or '.join(policy.keys)}{', not both' if slacks else ''}: fix it", at
        )
    if "evaluation_interval" not in section:
        reason = "1, the documented default, is written out, because azure-ai-ml would send 0"
        spec.note(f"early_termination.evaluation_interval: {reason}", at)
    spec.warn_unknown(section, ("policy_type", "type", *policy.keys, *POLICY_DEFAULTS), at)
    return out


WIDTH = 100


def literal(value: object) -> str:
    """Python source of a value: `repr` with double quotes, and with the floats that have no literal."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    if isinstance(value, dict):
        return (
            "{" + ", ".join(f"{literal(key)}: {literal(item)}" for key, item in value.items()) + "}"
        )
    return repr(value)


def distribution_text(drawn: dict[str, Any], used: set[str]) -> str:
    """`Uniform(min_value=0, max_value=1)`; the classes that it needs are added to `used`."""
    known = DISTRIBUTIONS[drawn["type"]]
    used.add(known.v2_class)
    parts = []
    for key in known.keys:
        value = drawn[key]
        listed = (
            f"[{', '.join(_element(item, used) for item in value)}]"
            if isinstance(value, list)
            else None
        )
        parts.append(f"{key}={listed or literal(value)}")
    return f"{known.v2_class}({', '.join(parts)})"


def _element(item: Any, used: set[str]) -> str:
    if not isinstance(item, dict):
        return literal(item)
    inner = (
        f"{literal(key)}: {distribution_text(value, used) if isinstance(value, dict) else literal(value)}"
        for key, value in item.items()
    )
    return f"{{{', '.join(inner)}}}"


def sweep_arguments(body: dict[str, Any], used: set[str]) -> dict[str, str]:
    """The arguments of `.sweep(...)`; the classes that they need are added to `used`."""
    arguments = {
        "primary_metric": literal(body["objective"]["primary_metric"]),
        "goal": literal(body["objective"]["goal"]),
        "sampling_algorithm": literal(body["sampling_algorithm"]),
        **{key: literal(value) for key, value in body["limits"].items()},
    }
    if policy := body.get("early_termination"):
        name = POLICIES[policy["type"]].v2_class
        used.add(name)
        inner = ", ".join(
            f"{key}={literal(value)}" for key, value in policy.items() if key != "type"
        )
        arguments["early_termination_policy"] = f"{name}({inner})"
    return arguments


def call_text(function: str, arguments: dict[str, str]) -> str:
    """`function(a=1, b=2)`"""
    return f"{function}({', '.join(f'{key}={text}' for key, text in arguments.items())})"


def call_lines(function: str, arguments: dict[str, str], column: int) -> str:
    """The same, with a line for each argument where it would be too long for a statement at `column`."""
    line = call_text(function, arguments)
    if column + len(line) < WIDTH:
        return line
    return (
        f"{function}(\n" + "".join(f"    {key}={text},\n" for key, text in arguments.items()) + ")"
    )

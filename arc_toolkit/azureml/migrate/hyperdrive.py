"""Calls of `azureml.train.hyperdrive` and v1.5 run settings in Python source, read as the v1.5 spec of a sweep.

Only literals are read; everything else is `Refused` with its line. Signatures are those of azureml-train-core 1.6x.
"""

from __future__ import annotations

import ast
from typing import Any

from arc_toolkit.azureml.migrate import space
from arc_toolkit.azureml.migrate.legacy_spec import LegacySpec
from arc_toolkit.azureml.python.meaning import Meanings, short
from arc_toolkit.azureml.python.names import Statement
from arc_toolkit.edit.edits import Refused

MODULE = "azureml.train.hyperdrive"

# Class -> the policy_type of v1.5 and its parameters in their order.
POLICIES: dict[str, tuple[str, tuple[str, ...]]] = {
    "NoTerminationPolicy": ("default", ()),
    **{policy.v2_class: (kind, policy.v1_order) for kind, policy in space.POLICIES.items()},
}
SAMPLINGS = {
    "RandomParameterSampling": "random",
    "GridParameterSampling": "grid",
    "BayesianParameterSampling": "bayesian",
}
# A longer range is not written out.
_MOST_VALUES = 10_000


class HyperdriveReader:
    """Reads one sweep into a v1.5 spec whose places are lines of the Python source."""

    def __init__(self, meanings: Meanings, statement: Statement) -> None:
        self._meanings = meanings
        self._spot = statement
        self.spec = LegacySpec("", {"search_space": {}, "objective": {}, "limits": {}})
        # Uses of imported hyperdrive names that were read, and go with what they are in.
        self.names: set[int] = set()

    def name(self, node: ast.expr | None) -> str:
        """`choice` for `choice`, `hd.choice` and `azureml.train.hyperdrive.choice`; "" for anything else."""
        path = self._meanings.path(node, self._spot) if node is not None else None
        return path.rpartition(".")[2] if path is not None and path.startswith(f"{MODULE}.") else ""

    def called(self, node: ast.expr | None) -> str:
        return self.name(node.func) if isinstance(node, ast.Call) else ""

    def take(self, node: ast.expr) -> None:
        """This use of a hyperdrive name goes with the edit."""
        if isinstance(node, ast.Name):
            self.names.add(id(node))

    def put(self, node: ast.expr, value: Any, *keys: str) -> None:
        """A value of the spec, and where it is written."""
        self.spec.places[keys] = node.lineno, node.col_offset + 1
        inner = self.spec.data
        for key in keys[:-1]:
            inner = inner.setdefault(key, {})
            if not isinstance(inner, dict):
                raise Refused(f"{'.'.join(keys)} is set in two ways", line=node.lineno)
        inner[keys[-1]] = value

    def distribution(self, node: ast.expr, name: str) -> bool:
        """`choice(1, 2)` or `uniform(0, 1)` into the search space; whether it is one."""
        kind = self.called(node)
        if kind not in space.DISTRIBUTIONS or not isinstance(node, ast.Call):
            return False
        drawn: dict[str, Any]
        if kind == "choice":
            if node.keywords:
                raise Refused(f"{name}: choice takes no keyword arguments", line=node.lineno)
            values = [value(item, f"a value of {name}") for item in node.args]
            if len(values) == 1 and isinstance(values[0], list | tuple):
                values = list(values[0])
            drawn = {"values": [list(item) if isinstance(item, tuple) else item for item in values]}
        else:
            drawn = arguments(node, space.DISTRIBUTIONS[kind].keys, f"{kind} of {name}")
        self.put(node, {"type": kind, **drawn}, "search_space", name)
        self.take(node.func)
        return True

    def policy(self, node: ast.expr) -> bool:
        """`BanditPolicy(...)` into early_termination; whether it is a policy."""
        kind = self.called(node)
        if kind not in POLICIES or not isinstance(node, ast.Call):
            return False
        policy_type, order = POLICIES[kind]
        self.put(node, {"policy_type": policy_type, **arguments(node, order, kind)}, "early_termination")
        self.take(node.func)
        return True

    def body(self) -> dict[str, Any]:
        """What v2 says about the sweep; refused where something of it has no place in v2."""
        body = space.sweep_body(self.spec)
        for note in self.spec.notes:
            if note.severity == "warning":
                raise Refused(note.message, line=note.line)
        return body


def value(node: ast.expr, what: str) -> Any:
    """A literal, `range(...)` among them."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "range":
        try:
            numbers = range(*(value(item, what) for item in node.args))
            if not node.keywords and len(numbers) <= _MOST_VALUES:
                return list(numbers)
        except (ValueError, TypeError, OverflowError):
            pass
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        raise Refused(f"{what} is not a literal: {short(node)}", line=node.lineno) from None


def arguments(call: ast.Call, order: tuple[str, ...], what: str) -> dict[str, Any]:
    """The literal arguments of a call by name; those that are None are as if not given."""
    out = {}
    if len(call.args) > len(order):
        raise Refused(f"{what} has more arguments than it takes", line=call.lineno)
    for name, node in zip(order, call.args, strict=False):
        out[name] = value(node, f"{name} of {what}")
    for keyword in call.keywords:
        if keyword.arg is None:
            raise Refused(f"{what} takes **arguments that cannot be read", line=call.lineno)
        if keyword.arg not in order:
            raise Refused(f"{what} has no argument {keyword.arg}", line=call.lineno)
        out[keyword.arg] = value(keyword.value, f"{keyword.arg} of {what}")
    return {name: item for name, item in out.items() if item is not None}

"""The ledger of a conversion: what becomes of every argument of the object that is converted.

`data/v1_arguments.csv` has a row for each argument of each class of SDK v1 and v1.5. A conversion
reads a call with `Ledger.read`, which makes an entry for each of its arguments, and then says what
is not one to one:

    ledger.read("ParallelRunConfig", ["node_count", "run_max_try"])
    ledger.note("run_max_try", "one less")
    ledger.by_hand("node_count", "it is `nodes`")

    by hand  ParallelRunConfig.node_count -> resources.instance_count: it is `nodes`
    mapped   ParallelRunConfig.run_max_try -> retry_settings.max_retries: one less

An argument with the outcome `refused` makes the conversion refuse; one without a row is lost.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal

from arc_toolkit.azureml.python.python_plan import PythonPlan
from arc_toolkit.edit.files.edits import Refused
from arc_toolkit.edit.yaml.nodes import YamlNode
from arc_toolkit.findings import LedgerEntry, LedgerOutcome, Severity
from arc_toolkit.resources import data_rows

NO_PLACE = "v2 has no place for it"
# The worse of two outcomes of one argument counts.
_ORDER: tuple[LedgerOutcome, ...] = ("dropped", "added", "mapped", "lost", "by hand")
Place = tuple[str, int, int]


@dataclass(frozen=True)
class ArgumentRow:
    """What the table says about an argument."""

    outcome: LedgerOutcome | Literal["refused"]
    becomes: str
    reason: str


@cache
def argument_rows() -> dict[str, dict[str, ArgumentRow]]:
    """Class -> argument -> row, in the order of the signatures."""
    rows: dict[str, dict[str, ArgumentRow]] = {}
    for row in data_rows("v1_arguments.csv"):
        arguments = rows.setdefault(row["source"], {})
        outcome: Any = row["outcome"]
        arguments[row["argument"]] = ArgumentRow(outcome, row["becomes"], row["reason"])
    return rows


def signature(source: str) -> tuple[str, ...]:
    """The arguments of a class in their order."""
    return tuple(argument_rows()[source])


class Ledger:
    """The entries of one conversion, in their order."""

    def __init__(self) -> None:
        self._entries: dict[tuple[str, str], LedgerEntry] = {}

    @property
    def entries(self) -> tuple[LedgerEntry, ...]:
        return tuple(self._entries.values())

    @property
    def unknown(self) -> dict[str, str]:
        """The arguments that a person has to write, with the reasons."""
        return {item.argument: item.reason for item in self.entries if item.outcome == "by hand"}

    def read(self, source: str, arguments: Iterable[str], name: str = "") -> None:
        """An entry for each argument of a call, as the table says.

        `name` is that of the object, if there may be several of the class.
        """
        rows = argument_rows()[source]
        label = f"{source}({name})" if name else source
        for argument in arguments:
            row = rows.get(argument)
            if row is None:
                self.add(label, argument, "lost", reason=f"SDK v1 has no such argument: {NO_PLACE}")
            elif row.outcome == "refused":
                raise Refused(f"{source} has the argument {argument}: {row.reason}")
            else:
                self.add(label, argument, row.outcome, row.becomes, row.reason)

    def add(
        self,
        source: str,
        argument: str,
        outcome: LedgerOutcome,
        becomes: str = "",
        reason: str = "",
        place: Place = ("", 0, 0),
    ) -> None:
        self._entries[source, argument] = LedgerEntry(
            source, argument, outcome, becomes, reason, *place
        )

    def note(
        self,
        argument: str,
        reason: str,
        outcome: LedgerOutcome = "mapped",
        source: str = "",
        place: Place = ("", 0, 0),
    ) -> None:
        """Say more about an argument; one that was not read is added."""
        keys = [key for key in self._entries if argument == key[1] and source in ("", key[0])]
        if not keys:
            self.add(source, argument, outcome, reason=reason, place=place)
            return
        old = self._entries[keys[0]]
        worse = max(old.outcome, outcome, key=_ORDER.index)
        if reason not in old.reason:
            reason = "; ".join(filter(None, (old.reason, reason)))
            self._entries[keys[0]] = replace(old, outcome=worse, reason=reason)

    def by_hand(self, argument: str, reason: str, source: str = "") -> None:
        self.note(argument, reason, "by hand", source)

    def added(self, becomes: str, reason: str) -> None:
        """Something in the result that the source does not say."""
        self.note(becomes, reason, "added")

    def replace(self, argument: str, reason: str) -> None:
        """The command line says what the argument would have said."""
        for key, entry in self._entries.items():
            if key[1] == argument:
                self._entries[key] = replace(entry, outcome="dropped", reason=reason)

    def report(
        self,
        plan: PythonPlan,
        rule: str,
        message: str,
        at: YamlNode,
        reason: str = "",
        *,
        done: bool = True,
    ) -> None:
        """The finding about a conversion of code; a warning if a person has to look at it."""
        needs_person = not done or any(entry.needs_person for entry in self.entries)
        severity: Severity = "warning" if needs_person else "note"
        if not plan.covers(rule, at):
            plan.add_finding(rule, severity, message, at, reason, applied=done)
            plan.findings[-1] = replace(plan.findings[-1], ledger=self.entries)

"""Statements about a step that do not begin with its own name.

`same = step`, `rs = step.runsettings` and `for node in [a, b]` are other names for a step or a part of it;
`job.jobs["a"]` and `for node in job.jobs.values()` are its step after the pipeline is made.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property

from arc_toolkit.azureml.python.meaning import PipelineJob
from arc_toolkit.azureml.python.python_targets import SETTINGS, PythonTarget
from arc_toolkit.azureml.python.read_meaning import Meanings
from arc_toolkit.edit.python_expressions import chain
from arc_toolkit.edit.python_names import Binding, Scope, Use

_PARTS = frozenset({"resources", "runsettings", "environment_variables"})


class Aliases:
    """The other names in one scope."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope

    @cached_property
    def _names(self) -> dict[str, list[tuple[Binding, tuple[str, ...]]]]:
        """Name of a step -> its other names, each with the part of the step that it is."""
        names: dict[str, list[tuple[Binding, tuple[str, ...]]]] = {}
        for bindings in self.scope.bindings.values():
            for binding in bindings:
                for root, path in _meant(self.scope, binding):
                    if root != binding.name:
                        names.setdefault(root, []).append((binding, path))
        return names

    @cached_property
    def has_settings(self) -> bool:
        """Whether something in this scope is set in a way that only steps have."""
        return any(
            use.path[0] in ("runsettings", "set_resources")
            for name in self.scope.uses
            for use in self.uses(name)
            if use.how != "argument"
        )

    def uses(self, name: str, depth: int = 0) -> list[Use]:
        """Everything that is said about a name, in order; that of a part of it with the path to that part."""
        uses = self.scope.uses.get(name, [])
        if name not in self._names or depth > 3:
            return uses
        uses = list(uses)
        for binding, path in self._names[name]:
            uses += [
                replace(use, path=(*path, *use.path))
                for use in self.uses(binding.name, depth + 1)
                if use.statement.order > binding.statement.order and use.how != "argument"
            ]
        return sorted(uses, key=lambda use: use.statement.order)


def _meant(scope: Scope, binding: Binding) -> Iterator[tuple[str, tuple[str, ...]]]:
    value, stmt = binding.value, binding.statement.stmt
    if isinstance(value, ast.Name):
        yield value.id, ()
    elif isinstance(value, ast.Attribute):
        parts = chain(value)
        if parts is not None and _PARTS.intersection(parts[1][:1]):
            yield parts
    elif isinstance(stmt, ast.For) and value is None:
        items = stmt.iter
        bound = scope.bindings.get(items.id, []) if isinstance(items, ast.Name) else []
        if len(bound) == 1 and isinstance(bound[0].value, ast.expr):
            items = bound[0].value
        for item in items.elts if isinstance(items, ast.List | ast.Tuple) else ():
            if isinstance(item, ast.Name):
                yield item.id, ()


def refuse_later_settings(targets: list[PythonTarget], meanings: Meanings) -> None:
    """Steps whose settings are set again on the job: what is written where they are made would not count."""
    by_function: dict[int, list[PythonTarget]] = {}
    for target in targets:
        if target.pipeline is not None:
            by_function.setdefault(id(target.pipeline.function), []).append(target)
    for name, use, step, setting in _on_jobs(meanings) if by_function else ():
        meaning = meanings.of_name(name, use.statement)
        if isinstance(meaning, PipelineJob) and setting in SETTINGS:
            for target in by_function.get(id(meaning.function.function), ()):
                if step in ("", target.name) and not target.refusal:
                    line = use.statement.stmt.lineno
                    target.refusal = f"its {setting} is set again after the pipeline is made (line {line})"


def _on_jobs(meanings: Meanings) -> Iterator[tuple[str, Use, str, str]]:
    """The name of a job, the statement, the name of its step (empty for any of them), and the setting."""
    for scope in meanings.module.scopes:
        nodes: dict[str, str] = {}
        for bindings in scope.bindings.values():
            for binding in bindings:
                stmt = binding.statement.stmt
                if isinstance(stmt, ast.For) and binding.value is None and (job := _job_of(stmt.iter)):
                    nodes[binding.name] = job
        for name, uses in scope.uses.items():
            for use in uses:
                if use.how == "argument":
                    continue
                if name in nodes:
                    yield nodes[name], use, "", use.path[0]
                elif use.path[0] == "jobs" and len(use.path) > 2:
                    yield name, use, use.path[1][1:-1], use.path[2]


def _job_of(items: ast.expr) -> str | None:
    """The job that `job.jobs`, `job.jobs.values()` or `job.jobs.items()` is about."""
    parts = chain(items.func if isinstance(items, ast.Call) else items)
    return parts[0] if parts and parts[1][:1] == ("jobs",) else None

"""Statements about a step that do not begin with its own name.

`same = step`, `rs = step.runsettings` and `for node in [a, b]` are other names for a step or a part
of it; `job.jobs["a"]` and `for node in job.jobs.values()` are its step after the pipeline is made.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property

from arc_toolkit.azureml.python.python_targets import SETTINGS, PythonTarget
from arc_toolkit.azureml.python.resolve import SdkResolver
from arc_toolkit.azureml.python.sdk_objects import PipelineJob
from arc_toolkit.edit.code.names import Binding, Scope, Use, chain, last_name

_PARTS = frozenset({"resources", "runsettings", "environment_variables"})


class OtherNames:
    """The other names in one scope."""

    scope: Scope

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
        """Everything that is said about a name, in order; that of a part of it with the path to
        that part.
        """
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
        for item in _items(scope, stmt.iter):
            if isinstance(item, ast.Name):
                yield item.id, ()


# Calls that give the items of what they are called with.
_ITEMS_OF = frozenset(
    {"enumerate", "reversed", "list", "tuple", "sorted", "set", "iter", "zip", "chain"}
)


def _items(scope: Scope, node: ast.expr, depth: int = 0) -> Iterator[ast.expr]:
    """What a loop goes over: the parts of a list or dict display, also by a name, or in
    `enumerate(...)`.
    """
    bound = scope.bindings.get(node.id, []) if isinstance(node, ast.Name) else []
    if len(bound) == 1 and isinstance(bound[0].value, ast.expr):
        node = bound[0].value
    match node:
        case (
            ast.List(elts=items)
            | ast.Tuple(elts=items)
            | ast.Set(elts=items)
            | ast.Dict(values=items)
        ):
            for item in items:
                yield from (
                    _items(scope, item, depth + 1) if isinstance(item, ast.Tuple) else (item,)
                )
        case ast.Call(func=ast.Attribute(value=holder, attr="values" | "items"), args=[]) if (
            depth < 5
        ):
            yield from _items(scope, holder, depth + 1)
        case ast.Call(func=function, args=arguments) if (
            last_name(function) in _ITEMS_OF and depth < 5
        ):
            for argument in arguments:
                yield from _items(scope, argument, depth + 1)


def refuse_later_settings(targets: list[PythonTarget], resolver: SdkResolver) -> None:
    """Steps whose settings are set again on the job: what is written where they are made would not
    count.
    """
    by_function: dict[int, list[PythonTarget]] = {}
    for target in targets:
        if target.pipeline is not None:
            by_function.setdefault(id(target.pipeline.function), []).append(target)
    for name, use, step, setting in _on_jobs(resolver) if by_function else ():
        if setting not in SETTINGS:
            continue
        sdk_object = resolver.object_of_name(name, use.statement)
        if isinstance(sdk_object, PipelineJob):
            affected = by_function.get(id(sdk_object.function.function), [])
        elif _may_be_job(name, use, resolver):
            affected = [target for group in by_function.values() for target in group]
        else:
            continue
        for target in affected:
            if step in ("", target.name) and not target.refusal:
                line = use.statement.stmt.lineno
                target.refusal = (
                    f"its {setting} is set again after the pipeline is made (line {line})"
                )


def _may_be_job(name: str, use: Use, resolver: SdkResolver) -> bool:
    """Whether a name with `jobs` is a parameter, or made by code of its own: it may be a job of any
    pipeline here.
    """
    binding = resolver.binding(name, use.statement)
    if not isinstance(binding, Binding):
        return True
    path = (
        resolver.import_path(binding.value.func, binding.statement)
        if isinstance(binding.value, ast.Call)
        else None
    )
    return path is None and not isinstance(binding.value, str)


def _on_jobs(resolver: SdkResolver) -> Iterator[tuple[str, Use, str, str]]:
    """The name of a job, the statement, the name of its step (empty for any of them), and the
    setting.
    """
    for scope in resolver.module.scopes:
        # `steps = job.jobs`, and `node = job.jobs["a"]` or a loop over them: what they are of
        holders: dict[str, str] = {}
        nodes: dict[str, tuple[str, str]] = {}
        loops = []
        for bindings in scope.bindings.values():
            for binding in bindings:
                stmt = binding.statement.stmt
                parts = (
                    chain(binding.value)
                    if isinstance(binding.value, ast.Attribute | ast.Subscript)
                    else None
                )
                if parts is not None and parts[1][:1] == ("jobs",):
                    if len(parts[1]) == 1:
                        holders[binding.name] = parts[0]
                    elif len(parts[1]) == 2:
                        nodes[binding.name] = parts[0], parts[1][1][1:-1]
                elif isinstance(stmt, ast.For) and binding.value is None:
                    loops.append((binding.name, stmt.iter))
        for name, items in loops:
            if job := _job_of(items, holders):
                nodes[name] = job, ""
        for name, uses in scope.uses.items():
            for use in uses:
                if use.how == "argument":
                    continue
                if name in nodes:
                    yield nodes[name][0], use, nodes[name][1], use.path[0]
                elif name in holders and len(use.path) > 1 and use.path[0].startswith("["):
                    yield holders[name], use, use.path[0][1:-1], use.path[1]
                elif use.path[0] == "jobs" and len(use.path) > 2:
                    yield name, use, use.path[1][1:-1], use.path[2]


def _job_of(items: ast.expr, holders: Mapping[str, str]) -> str | None:
    """The job that `job.jobs`, `job.jobs.values()` or `job.jobs.items()` is about."""
    parts = chain(items.func if isinstance(items, ast.Call) else items)
    if parts is None or parts[1][-1:] not in ((), ("jobs",), ("values",), ("items",)):
        return None  # `client.jobs.list()` is about jobs of the workspace
    return parts[0] if parts[1][:1] == ("jobs",) else holders.get(parts[0])

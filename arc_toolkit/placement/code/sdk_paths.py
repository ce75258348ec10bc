"""The import path of an expression such as `client.V1PodSpec`."""

from __future__ import annotations

import ast

from arc_toolkit.edit.code.expressions import chain
from arc_toolkit.edit.code.names import Statement, certain_binding, find_bindings
from arc_toolkit.placement.code.sdk_models import is_model_path


def import_path(node: ast.expr, statement: Statement) -> str | None:
    """The path by which an expression is imported; None if it does not come from an import."""
    parts = chain(node)
    if parts is None or any(part.startswith("[") for part in parts[1]):
        return None
    binding = certain_binding(find_bindings(parts[0], statement, is_model_path), statement)
    if binding is None or not isinstance(binding.value, str):
        return None
    return ".".join((binding.value, *parts[1]))

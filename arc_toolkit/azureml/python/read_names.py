"""Which functions of a module may make steps: only those are read."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

from arc_toolkit.azureml.python.names import WORDS, Module
from arc_toolkit.edit.code.expressions import chain, last_name
from arc_toolkit.edit.code.names import Binding
from arc_toolkit.edit.code.scopes import ScopeReader
from arc_toolkit.edit.code.source import Source

# Words without which a function makes no step and sets nothing; `@` is for decorated functions inside of it.
_FUNCTION_WORDS = (
    *WORDS,
    *(
        "@",
        "load_component",
        "from_yaml",
        "from_func",
        "Component",
        "components",
        "resources",
        "runsettings",
    ),
    *("default_compute", "azure.", "mldesigner", "HyperDriveConfig"),
)
_COMPONENT_MAKERS = frozenset(
    {"load_component", "from_yaml", "from_func", "CommandComponent", "ParallelComponent", "partial"}
)
_HELD = re.compile(
    r"self\.(\w+)[ \t]*(?::[^=\n]+)?=[ \t]*[\w.]*(?:load_component|from_yaml|Component|command)\w*\("
)
# Calls at module level whose results are not components, for certain.
_HARMLESS_MAKERS = frozenset({"getLogger", "Path", "join", "getenv", "open", "dict", "list", "set"})


def read_module(sources: Sequence[Source]) -> Module:
    """Walk the statements of the sources, as one module.

    Functions without a decorator are walked only when a word in their lines says that they may matter.
    """
    module = Module(sources)
    reader = ScopeReader(module)
    scope = module.top
    makers = [
        name
        for name, bindings in scope.bindings.items()
        if any(_may_make_steps(name, binding.value) for binding in bindings)
    ]
    module.makers = {
        f"{name}("
        for name, bindings in scope.bindings.items()
        if any(map(_makes_component, bindings))
    }
    module.held_makers = {
        f"self.{name}("
        for source in sources
        if "self." in source.text and "omponent" in source.text
        for name in _HELD.findall(source.text)
    }
    reader.finish([*_FUNCTION_WORDS, *module.held_makers], {*makers, *module.makers})
    return module


def _makes_component(binding: Binding) -> bool:
    value = binding.value
    return isinstance(value, ast.Call) and last_name(value.func) in _COMPONENT_MAKERS


def _may_make_steps(name: str, value: ast.expr | ast.FunctionDef | str | None) -> bool:
    """Whether what a module binds may be called for a step elsewhere: not sure, but sure enough not to miss one."""
    if isinstance(value, str):  # `command as make`: the words know it by its own name only
        renamed = value.startswith(("azure", "mldesigner")) and not value.endswith(name)
        return renamed or value.startswith("azure.ai.ml.automl")
    if isinstance(value, ast.FunctionDef):
        return bool(value.decorator_list)
    if isinstance(value, ast.Call):
        parts = chain(value.func)
        return parts is None or (parts[1] or parts)[-1] not in _HARMLESS_MAKERS
    return isinstance(value, ast.expr) and not isinstance(value, ast.Constant)

"""What a script imports, so that standbys can import it ahead of time."""

from __future__ import annotations

import ast

from arc_toolkit.errors import ArcError


def imported_modules(source: str, path: str) -> list[str]:
    """The modules that a script imports at its top level, in order; a standby passes over those that fail."""
    try:
        tree = ast.parse(source, path)
    except SyntaxError as error:
        raise ArcError(f"{path}:{error.lineno or 1}: not Python: {error.msg}") from None
    names: dict[str, None] = {}
    for node in tree.body:
        inner = node.body if isinstance(node, ast.Try) else [node]
        for statement in inner:
            if isinstance(statement, ast.Import):
                names.update(dict.fromkeys(alias.name for alias in statement.names))
            elif isinstance(statement, ast.ImportFrom) and statement.module and not statement.level:
                names[statement.module] = None
    return [name for name in names if name != "__future__"]

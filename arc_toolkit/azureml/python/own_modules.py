"""Other modules of the same project: whether a name that is imported from one may be a component there.

They are looked at by their text. Most of what pipelines import are helpers, about which nothing is to be said.
"""

from __future__ import annotations

import os.path
import re
from collections.abc import Callable, Iterator

from arc_toolkit.azureml.python import sdk_names as sdk

# A project is not deeper than that; the folder with `.git` is its top.
_FOLDERS = 8


def folders_around(folder: str) -> Iterator[str]:
    """The folder of a module and those around it: where its project may be run from."""
    for _ in range(_FOLDERS):
        yield folder
        if os.path.exists(os.path.join(folder, ".git")) or os.path.dirname(folder) == folder:
            return
        folder = os.path.dirname(folder)


def may_be_component(path: str, folder: str, read: Callable[[str], bytes]) -> bool:
    """Whether `package.module.name`, imported in a folder, may be a component: its module has an SDK, and it is not a
    plain function there."""
    module, _, name = path.rpartition(".")
    text = _text(module, folder, read)
    if text is None or not any(word in text for word in sdk.KEY_WORDS):
        return False
    defined = re.search(rb"^(.*)\r?\n(?:async[ \t]+)?def[ \t]+%s\b" % re.escape(name.encode()), text, re.MULTILINE)
    is_decorated = defined is not None and defined[1].startswith((b"@", b")"))
    return defined is None or is_decorated


def _text(module: str, folder: str, read: Callable[[str], bytes]) -> bytes | None:
    """The text of a module of the project; None if there is none."""
    above = len(module) - len(module.lstrip("."))
    inner = module[above:].replace(".", os.sep)
    places = folders_around(folder)
    if above:  # from .. import
        places = iter([os.path.normpath(os.path.join(folder, *[os.pardir] * (above - 1)))])
    for place in places:
        for file in (f"{inner}.py", os.path.join(inner, "__init__.py")):
            try:
                return read(os.path.join(place, file))
            except (OSError, ValueError):
                continue
    return None

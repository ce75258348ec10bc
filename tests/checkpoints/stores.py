"""Stores that say nothing, and what tests do with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from arc_toolkit.checkpoints import Store

CONTENT = bytes(range(256)) * 40


def quiet(root: Path, **options: Any) -> Store:
    return Store(root, report=lambda text: None, **options)


def save(store: Store, step: int, content: bytes = CONTENT) -> None:
    with store.save(step) as folder:
        (folder / "model.bin").write_bytes(content)


def newest_step(root: Path) -> int | None:
    newest = quiet(root).latest()
    return newest.step if newest is not None else None

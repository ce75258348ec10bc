"""Tests do not wait for stores that cannot be read, unless they say so."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARC_TOOLKIT_CHECKPOINT_PATIENCE", "0s")

"""Settings choose rules, settings and steps."""

from __future__ import annotations

from arc_toolkit.azureml.settings import Settings


def test_only_and_skip_choose_rules_and_settings() -> None:
    assert Settings().wants("threads")
    assert not Settings(skip=frozenset(["threads"])).wants("threads")
    assert not Settings(only=frozenset(["compute"])).wants("threads")
    assert Settings(only=frozenset(["compute"])).wants("compute")

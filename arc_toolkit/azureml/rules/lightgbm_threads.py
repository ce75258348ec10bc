"""LightGBM without thread settings, or with wrong ones."""

from __future__ import annotations

from functools import partial

from arc_toolkit.azureml.rules._threads import check_threads
from arc_toolkit.findings import Rule

RULE = Rule(
    "lightgbm-threads",
    "warning",
    language="yaml, python",
    check=partial(check_threads, framework="lightgbm"),
)

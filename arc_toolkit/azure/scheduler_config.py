"""Volcano's scheduler configuration: whether a job for a pool at zero nodes ever gets pods. Pure.

The extension's own configuration, and one for the autoscaler that has no effect because of its
indentation:
https://learn.microsoft.com/azure/machine-learning/how-to-troubleshoot-kubernetes-extension#volcano-scheduler
tests/cluster/test_from_zero.py has tried each of them on a real Volcano.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from arc_toolkit.azure.extension import RELEASE_NAMESPACE

# The setting of the extension that names a ConfigMap in its namespace, and the key in that.
SETTING = "volcanoScheduler.schedulerConfigMap"
KEY = "volcano-scheduler.conf"
NAME = "volcano-from-zero"
# Both only let a job in if the nodes that are there have room for it: JobEnqueueable in
# volcano-sh/volcano, pkg/scheduler/plugins.
HOLDING = ("overcommit", "proportion")


def config_map_text() -> str:
    """The ConfigMap for `kubectl apply`."""
    from arc_toolkit.resources import render

    return render("volcano_from_zero.yaml.j2", name=NAME, namespace=RELEASE_NAMESPACE)


def holding_problem(config_map: Mapping[str, Any] | None) -> str | None:
    """Why this configuration keeps a pool at zero nodes; None if it does not for long."""
    if config_map is None:
        return "there is no such ConfigMap"
    text = (config_map.get("data") or {}).get(KEY)
    if not text:
        return f"it has no {KEY}"
    import yaml

    try:
        config = yaml.safe_load(text)
        plugins = [row for tier in config["tiers"] for row in tier["plugins"] or ()]
        names = {row["name"]: row for row in plugins}
        actions = [word.strip() for word in config["actions"].split(",")]
    except (yaml.YAMLError, AttributeError, KeyError, TypeError):
        return f"its {KEY} is not a scheduler configuration"
    holding = [name for name in HOLDING if name in names]
    if "enqueue" not in actions or not holding:
        return None
    text = (
        f"its {' and '.join(holding)} keep a job without pods "
        "until the nodes that are there have room for it"
    )
    sla = names.get("sla")
    if sla is None:
        return text
    if isinstance(arguments := sla.get("arguments"), dict) and arguments.get("sla-waiting-time"):
        return None
    if "sla-waiting-time" in sla:
        return (
            f"{text}: sla-waiting-time is beside `arguments`, not in it, so that it has no effect"
        )
    return text

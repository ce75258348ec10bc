"""Preflight on spot pools and on pools at zero nodes. tests/cluster/test_from_zero.py tries what it says on Volcano."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from typing import Any

import pytest
import yaml

from arc_toolkit.azure import extension
from arc_toolkit.azure.preflight import Check
from arc_toolkit.azure.preflight_facts import UnknownFact
from tests.azure.objects import installed, node
from tests.azure.test_preflight import SPOT, ZERO, check, facts, fix
from tests.support import Result

ANNOTATION = "scheduler.alpha.kubernetes.io/defaultTolerations"
ROW = {"key": SPOT[0], "operator": "Equal", "value": "spot", "effect": "NoSchedule"}
# As the documentation of the extension prints them: its own, and the one for the autoscaler.
DEFAULT = """\
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
    - name: task-topology
    - name: priority
    - name: gang
    - name: conformance
- plugins:
    - name: overcommit
    - name: drf
    - name: predicates
    - name: proportion
    - name: nodeorder
    - name: binpack
"""
DOCUMENTED = """\
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: sla
    arguments:
    sla-waiting-time: 1m
- plugins:
  - name: conformance
- plugins:
    - name: overcommit
    - name: drf
    - name: predicates
    - name: proportion
    - name: nodeorder
    - name: binpack
"""
INDENTED = DOCUMENTED.replace("    sla-waiting-time", "      sla-waiting-time")


def spot(**changed: Any) -> Check:
    return check(
        "spot nodes", facts(nodes=[node("cpu-0"), node("spot-0", taints=[SPOT])], **changed)
    )


def test_a_namespace_without_the_annotation_gets_it_by_a_command_with_valid_json() -> None:
    row = spot()
    assert row.state == "not ok"
    words = shlex.split(fix(row) or "")
    assert words[:4] == ["kubectl", "annotate", "namespace", "team-a"]
    key, _, value = words[4].partition("=")
    assert key == ANNOTATION
    assert json.loads(value) == [ROW]


def test_a_spot_pool_without_nodes_counts() -> None:
    pools = {"properties": {"agentPoolProfiles": [{"name": "s", "scaleSetPriority": "Spot"}]}}
    assert check("spot nodes", facts(resource=pools)).state == "not ok"
    assert check("spot nodes", facts()).reason == "no spot nodes"


@pytest.mark.parametrize(
    ("text", "state", "part"),
    [
        (json.dumps([ROW]), "ok", "annotation"),
        (json.dumps([{"operator": "Exists"}]), "ok", "annotation"),
        (json.dumps([{"key": "a", "operator": "Exists"}]), "not ok", "add it to these"),
        (json.dumps([{**ROW, "effect": "NoExecute"}]), "not ok", "add it to these"),
        ("[{'key': 'a'}]", "not ok", "not valid JSON"),
        (json.dumps(ROW), "not ok", "not a list"),
        (json.dumps([{**ROW, "effect": "Never"}]), "not ok", "Never"),
    ],
)
def test_the_annotation_is_read_as_the_admission_plugin_reads_it(
    text: str, state: str, part: str
) -> None:
    row = spot(namespaces={"team-a": {ANNOTATION: text}})
    assert (row.state, part in row.reason) == (state, True)
    if state != "ok":
        assert (fix(row) or "").endswith(" --overwrite")


def test_nodes_that_the_annotation_opens_can_take_jobs() -> None:
    annotated = facts(
        nodes=[node("cpu-0", taints=[SPOT])], namespaces={"team-a": {ANNOTATION: json.dumps([ROW])}}
    )
    assert check("Ready nodes", annotated).reason == "1 of 1 nodes can take jobs"


def test_without_a_compute_any_namespace_with_the_annotation_will_do() -> None:
    assert spot(computes=[], namespaces={"other": {ANNOTATION: json.dumps([ROW])}}).state == "ok"
    row = spot(computes=UnknownFact("no az"))
    assert " namespace NAMESPACE " in str(fix(row))


def test_what_may_not_be_read_leaves_it_open() -> None:
    hidden = UnknownFact("hidden")
    tainted = facts(nodes=[node("spot-0", taints=[SPOT])])
    for row in (
        check("spot nodes", replace(tainted, namespaces=hidden)),
        check("spot nodes", replace(tainted, nodes=hidden, resource=hidden)),
    ):
        assert (row.state, row.reason) == ("cannot tell", "hidden")


# --- from zero -------------------------------------------------------------------------------------------------

POOLS = {"properties": {"agentPoolProfiles": [ZERO]}}


def from_zero(conf: str | None = None, **settings: str) -> Check:
    named = {extension.SCHEDULER_SETTING: "mine"} if conf is not None else {}
    maps = {"mine": conf} if conf else {}
    return check(
        "scale from zero",
        facts(resource=POOLS, extension=installed(**named, **settings), config_maps=maps),
    )


def test_the_extension_as_it_comes_never_starts_a_pool_at_zero() -> None:
    row = from_zero()
    assert row.state == "not ok"
    assert "overcommit and proportion" in row.reason
    setting = f"{extension.SCHEDULER_SETTING}={extension.SCHEDULER_CONFIG_NAME}"
    assert fix(row) == f"arc-toolkit cluster extension update --set {setting}"
    assert check("scale from zero", facts()).reason == "no pool scales from zero"


@pytest.mark.parametrize(
    ("conf", "state", "part"),
    [
        (DEFAULT, "not ok", "overcommit and proportion"),
        (DOCUMENTED, "not ok", "sla-waiting-time is beside `arguments`"),
        (INDENTED, "ok", ""),
        (DEFAULT.replace("enqueue, ", ""), "ok", ""),
        ("a: [", "not ok", "is not a scheduler configuration"),
        ("actions: 1", "not ok", "is not a scheduler configuration"),
        ("", "not ok", "no such ConfigMap"),
    ],
)
def test_a_configuration_of_ones_own_is_read(conf: str, state: str, part: str) -> None:
    row = from_zero(conf)
    assert (row.state, part in row.reason) == (state, True)


def test_the_configuration_that_is_offered_lets_jobs_in_and_keeps_gangs(arc: Any) -> None:
    result: Result = arc("cluster", "scheduler-config")
    assert result.code == 0
    offered = yaml.safe_load(result.out)
    assert (offered["metadata"]["namespace"], offered["metadata"]["name"]) == (
        "azureml",
        extension.SCHEDULER_CONFIG_NAME,
    )
    conf = offered["data"][extension.SCHEDULER_CONFIG_KEY]
    assert from_zero(conf).state == "ok"
    # The extension's own, without the two plugins.
    expected = yaml.safe_load(DEFAULT)
    for tier in expected["tiers"]:
        tier["plugins"] = [
            row for row in tier["plugins"] if row["name"] not in ("overcommit", "proportion")
        ]
    assert yaml.safe_load(conf) == expected


def test_a_volcano_of_ones_own_is_not_judged() -> None:
    assert from_zero(installVolcano="False").state == "cannot tell"

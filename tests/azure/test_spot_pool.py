"""`cluster spot-pool`: what is refused, the request against the real SDK, and the same pool in other languages."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from typing import Any

import pytest

from arc_toolkit.azure import session as azure_session
from arc_toolkit.azure.session import Session
from arc_toolkit.azure.spot_pool import (
    check_cluster,
    parse_price,
    pool_body,
    price_text,
    spot_pool,
)
from arc_toolkit.errors import ArcError
from tests.azure.arm_server import SUBSCRIPTION, Arm
from tests.azure.conftest import CLUSTER
from tests.support import Result, real_module

Arc = Callable[..., Result]
SCOPE = ("--subscription", SUBSCRIPTION, "--resource-group", "ml-rg", "--cluster", "gpu-aks")
POOL = ("cluster", "spot-pool", "spot", "--size", "Standard_D64s_v5", *SCOPE)
FULL = (
    *(
        "--min",
        "1",
        "--max",
        "9",
        "--count",
        "2",
        "--eviction-policy",
        "Deallocate",
        "--max-price",
        "0.98765",
    ),
    *(
        "--label",
        "team=vision",
        "--label",
        "example.com/use=train",
        "--taint",
        "team=vision:NoSchedule",
    ),
    *("--zone", "1", "--zone", "3"),
)
# The body that azure-mgmt-containerservice 41.8.0 makes of the same pool, recorded before this code was written.
SMALLEST: dict[str, dict[str, Any]] = {
    "properties": {
        "mode": "User",
        "osType": "Linux",
        "vmSize": "Standard_D64s_v5",
        "count": 0,
        "enableAutoScaling": True,
        "minCount": 0,
        "maxCount": 4,
        "scaleSetPriority": "Spot",
        "scaleSetEvictionPolicy": "Delete",
        "spotMaxPrice": -1.0,
    }
}


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--size", "Standard_B4ms"), "no spot VMs of the B-series"),
        (("--size", "Standard_B4als_v2"), "no spot VMs of the B-series"),
        (("--size", "Standard_D64s_v55"), "no VM size 'Standard_D64s_v55'"),
        (("--size", "Standard_A1_v2"), "at least 2 vCPUs"),
        (("--min", "3", "--max", "2"), "0 <= min <= max"),
        (("--min", "-1"), "0 <= min <= max"),
        (("--max", "0"), "a max of at least 1"),
        (("--max", "1001"), "<= 1000"),
        (("--count", "5"), "--count 5 is not between --min 0 and --max 4"),
        (("--min", "2", "--count", "1"), "not between"),
        (("--max-price", "0"), "above 0"),
        (("--max-price", "-2"), "use -1"),
        (("--max-price", "0.123456"), "at most 5 decimals"),
        (("--max-price", "nan"), "use -1"),
        (("--max-price", "inf"), "use -1"),
        (("--max-price", "cheap"), "use -1"),
        (("--label", "team"), "write KEY=VALUE"),
        (("--label", "a=b", "--label", "a=c"), "given twice"),
        (("--label", "kubernetes.azure.com/scalesetpriority=spot"), "AKS sets label and taint"),
        (("--label", "kubernetes.azure.com/mode=user"), "reserved for AKS"),
        (("--taint", "a=b"), "write KEY=VALUE:EFFECT"),
        (("--taint", "a=b:Never"), "write KEY=VALUE:EFFECT"),
        (
            ("--taint", "kubernetes.azure.com/scalesetpriority=spot:NoSchedule"),
            "AKS sets label and taint",
        ),
        (("--zone", "4"), "1, 2 or 3"),
        (("--cluster-type", "connectedClusters"), "no node pools in Azure"),
    ],
)
def test_what_azure_would_refuse_is_refused_before_a_sign_in(
    arc: Arc, words: tuple[str, ...], reason: str
) -> None:
    found = arc(*POOL, *words, "--yes")
    assert (found.code, found.out) == (2, "")
    assert reason in found.err
    assert len(found.err.splitlines()) == 1


@pytest.mark.parametrize("name", ["", "Spot", "spot-pool", "1spot", "spotpool12345", "späte"])
def test_a_name_that_aks_does_not_take_is_refused(arc: Arc, name: str) -> None:
    found = arc("cluster", "spot-pool", name, "--size", "D64s_v5", *SCOPE)
    assert found.code == 2
    assert "1 to 12 lower-case letters and digits" in found.err


@pytest.mark.parametrize(
    ("properties", "reason"),
    [
        ({"agentPoolProfiles": [{"name": "spot"}]}, "has a pool 'spot' already"),
        ({"agentPoolProfiles": [{"name": "a", "type": "AvailabilitySet"}]}, "availability sets"),
        ({"networkProfile": {"loadBalancerSku": "Basic"}}, "Standard one"),
        ({"powerState": {"code": "Stopped"}}, "az aks start"),
    ],
)
def test_a_cluster_that_cannot_have_the_pool_is_refused(
    properties: dict[str, Any], reason: str
) -> None:
    with pytest.raises(ArcError, match=reason):
        check_cluster({"name": "gpu-aks", "properties": properties}, "spot")


def test_prices_are_exact() -> None:
    assert [
        price_text(parse_price(text)) for text in ("-1", "-1.0", "1E-5", "10", "0.50", "100.00000")
    ] == [*("-1", "-1", "0.00001", "10", "0.5", "100")]


def test_what_may_surprise_is_a_warning(arc: Arc) -> None:
    found = arc(*POOL[:4], "Standard_D64ps_v5", *SCOPE, *FULL[6:10], "--format", "az")
    assert found.code == 0
    assert [line.startswith("warning: ") for line in found.err.splitlines()] == [True] * 3
    assert "arm64" in found.err


# --- the request --------------------------------------------------------------------------------------------------


@pytest.fixture
def _signed_in(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(azure_session, "open_session", lambda cloud=None: session)


@pytest.mark.real
@pytest.mark.usefixtures("_signed_in")
@pytest.mark.parametrize("words", [(), FULL])
def test_dry_run_prints_the_request_that_is_then_sent(
    arc: Arc, arm: Arm, words: tuple[str, ...]
) -> None:
    dry = arc(*POOL, *words, "--dry-run")
    assert (dry.code, arm.writes) == (0, [])
    done = arc(*POOL, *words, "--yes")
    assert (done.code, done.out) == (0, "added the spot pool spot to gpu-aks\n")
    head, _, body = dry.out.partition("\n")
    method, path, sent = arm.writes[0]
    assert (head, json.loads(body)) == (f"{method} {path}", sent)
    assert path.startswith(f"{CLUSTER.resource_id}/agentPools/spot?api-version=")
    assert len(arm.writes) == 1


@pytest.mark.real
@pytest.mark.usefixtures("_signed_in")
def test_the_body_is_what_the_sdk_makes_of_its_own_model(arc: Arc, arm: Arm) -> None:
    models = real_module("azure.mgmt.containerservice.models")
    arc(*POOL, *FULL, "--yes")
    model = models.AgentPool(
        mode="User",
        os_type="Linux",
        vm_size="Standard_D64s_v5",
        count=2,
        enable_auto_scaling=True,
        min_count=1,
        max_count=9,
        scale_set_priority="Spot",
        scale_set_eviction_policy="Deallocate",
        spot_max_price=0.98765,
        node_labels={"team": "vision", "example.com/use": "train"},
        node_taints=["team=vision:NoSchedule"],
        availability_zones=["1", "3"],
    )
    assert arm.writes[0][2] == model.as_dict()


@pytest.mark.real
@pytest.mark.usefixtures("_signed_in")
def test_refusals_of_azure_and_of_the_cluster_are_one_sentence(arc: Arc, arm: Arm) -> None:
    arm.fail_with = {"code": "QuotaExceeded", "message": "Low priority cores: 0 left."}
    failed = arc(*POOL, "--yes")
    assert failed.code == 2
    assert (
        "adding the node pool 'spot' to gpu-aks: QuotaExceeded: Low priority cores: 0 left"
        in failed.err
    )
    arm.resources[CLUSTER.resource_id.lower()]["properties"]["agentPoolProfiles"].append(
        {"name": "spot"}
    )
    again = arc(*POOL, "--yes")
    assert (again.code, len(arm.writes)) == (2, 1)
    assert "has a pool 'spot' already" in again.err


# --- the same in other languages ----------------------------------------------------------------------------------


def printed(arc: Arc, form: str, *words: str) -> str:
    found = arc(*POOL, *words, "--format", form)
    assert found.code == 0, found.err
    return found.out


def test_az_has_a_node_count_and_every_option(arc: Arc) -> None:
    words = shlex.split(printed(arc, "az", *FULL).replace("\\\n", " "))
    assert words[:6] == ["az", "aks", "nodepool", "add", "--subscription", SUBSCRIPTION]
    text = " ".join(words)
    for part in (
        "--priority Spot --eviction-policy Deallocate --spot-max-price 0.98765",
        "--enable-cluster-autoscaler --min-count 1 --max-count 9 --node-count 2",
        "--labels team=vision example.com/use=train --node-taints team=vision:NoSchedule --zones 1 3",
    ):
        assert part in text


def test_the_formats_need_neither_a_sign_in_nor_a_subscription(arc: Arc) -> None:
    for form in ("az", "bicep"):
        found = arc(*POOL[:5], *SCOPE[2:], "--format", form)
        assert (found.code, "--subscription" in found.out) == (0, False)


def bicep_value(text: str) -> Any:
    """A Bicep literal as data: an object, an array, a string, a number, true or json('...')."""
    tokens = re.findall(r"json\('[^']*'\)|'[^']*'|[{}\[\]:]|[^\s{}\[\]:]+", text)

    def value() -> Any:
        token = tokens.pop(0)
        if token == "{":
            mapping = {}
            while tokens[0] != "}":
                key = tokens.pop(0).strip("'")
                assert tokens.pop(0) == ":"
                mapping[key] = value()
            tokens.pop(0)
            return mapping
        if token == "[":
            rows = []
            while tokens[0] != "]":
                rows.append(value())
            tokens.pop(0)
            return rows
        if token.startswith("json("):
            return json.loads(token[6:-2])
        return (
            token.strip("'")
            if token.startswith("'") or (token.isidentifier() and token != "true")
            else json.loads(token)
        )

    return value()


@pytest.mark.parametrize("words", [(), FULL])
def test_bicep_has_the_properties_of_the_request(arc: Arc, words: tuple[str, ...]) -> None:
    text = printed(arc, "bicep", *words)
    resource = bicep_value(text.partition("agentPools@")[2].partition(" = ")[2])
    full = {
        "count": 2,
        "minCount": 1,
        "maxCount": 9,
        "scaleSetEvictionPolicy": "Deallocate",
        "spotMaxPrice": 0.98765,
        "nodeLabels": {"team": "vision", "example.com/use": "train"},
        "nodeTaints": ["team=vision:NoSchedule"],
        "availabilityZones": ["1", "3"],
    }
    properties = {**SMALLEST["properties"], **(full if words else {})}
    assert resource == {"parent": "aks", "name": "spot", "properties": properties}
    # Bicep has no decimal numbers.
    assert not re.search(r": -?\d+\.\d", text)


def test_the_body_of_the_smallest_pool() -> None:
    pool = spot_pool(
        "spot",
        "d64s_v5",
        minimum=0,
        maximum=4,
        count=None,
        eviction_policy="Delete",
        max_price="-1",
    )
    assert pool_body(pool) == SMALLEST

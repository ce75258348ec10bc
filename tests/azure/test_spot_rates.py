"""Eviction rate and spot price from Resource Graph: the real SDK pipeline against the loopback server."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date

import pytest

from arc_toolkit.azure import session as azure_session
from arc_toolkit.azure.operations import SpotFacts, spot_facts
from arc_toolkit.azure.session import NOT_SIGNED_IN, Session
from arc_toolkit.errors import ArcError
from tests.azure.arm_server import Arm
from tests.azure.conftest import StaticCredential
from tests.support import Result

pytestmark = pytest.mark.real

A100 = "standard_nc24ads_a100_v4"
RATE, PRICE = (
    f"microsoft.compute/skuspot{name}/location" for name in ("evictionrate", "pricehistory/ostype")
)


@pytest.fixture(autouse=True)
def _spot(arm: Arm, session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    arm.spot_resources = {
        (RATE, A100, "westeurope"): {"evictionRate": "5-10"},
        (PRICE, A100, "westeurope"): {"spotPrices": [{"priceUSD": 1.25}, {"priceUSD": 1.1}]},
        (RATE, A100, "eastus"): {"evictionRate": "20+"},
    }
    monkeypatch.setattr(azure_session, "open_session", lambda cloud=None: session)


def test_the_band_and_the_latest_price(arm: Arm, session: Session) -> None:
    assert spot_facts(session, "Standard_NC24ads_A100_v4", "WestEurope") == SpotFacts("5-10", 1.25)
    assert spot_facts(session, A100, "eastus") == SpotFacts("20+", None)
    assert [row[0] for row in arm.requests] == ["POST"] * 4
    with pytest.raises(ArcError, match=r"no eviction rate of .* in uksouth: use --eviction-rate"):
        spot_facts(session, A100, "uksouth")


def test_a_name_cannot_change_the_query(session: Session, arm: Arm) -> None:
    with pytest.raises(ArcError, match="not the name of a size or region"):
        spot_facts(session, A100, "x') or location in~ ('eastus")
    assert arm.requests == []


def test_cost_uses_both(arc: Callable[..., Result]) -> None:
    words = (
        "cost",
        "--sku",
        "Standard_NC24ads_A100_v4",
        "--hours",
        "40",
        "--from-azure",
        "--format",
        "json",
    )
    result = arc(*words, "--region", "westeurope")
    assert result.code == 0, result.err
    data = json.loads(result.out)
    assert data["eviction_rate"] == {
        "low": 0.05,
        "used": pytest.approx(0.075),
        "high": 0.1,
        "open_end": False,
        "source": "Azure Resource Graph",
    }
    assert (data["tiers"][1]["price_per_hour"], data["tiers"][1]["price_date"]) == (
        1.25,
        date.today().isoformat(),
    )
    east = arc(*words, "--region", "eastus")
    assert json.loads(east.out)["eviction_rate"]["open_end"] is True
    assert "has no upper bound" in east.err


def test_not_signed_in_is_one_sentence(
    session: Session, monkeypatch: pytest.MonkeyPatch, arc: Callable[..., Result]
) -> None:
    signed_out = Session(StaticCredential(None), session.cloud, session.options)
    monkeypatch.setattr(azure_session, "open_session", lambda cloud=None: signed_out)
    result = arc("cost", "--sku", "Standard_NC24ads_A100_v4", "--hours", "40", "--from-azure")
    assert (result.code, result.out) == (2, "")
    assert NOT_SIGNED_IN in result.err

"""Settings, plans and bodies, without Azure."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from arc_toolkit.azure import extension
from arc_toolkit.azure.extension import SettingChange
from arc_toolkit.errors import ArcError
from arc_toolkit.kube.taints import Toleration
from tests.azure.conftest import CLUSTER
from tests.azure.objects import installed

SPOT = Toleration.parse(extension.SPOT_TOLERATION)


def test_a_taint_becomes_the_settings_that_microsoft_s_repositories_use() -> None:
    assert extension.toleration_settings(SPOT, 1) == {
        "workLoadToleration[1].key": "kubernetes.azure.com/scalesetpriority",
        "workLoadToleration[1].operator": "Equal",
        "workLoadToleration[1].value": "spot",
        "workLoadToleration[1].effect": "NoSchedule",
    }
    assert extension.toleration_settings(Toleration.parse("nvidia.com/gpu:NoSchedule"), 0) == {
        "workLoadToleration[0].key": "nvidia.com/gpu",
        "workLoadToleration[0].operator": "Exists",
        "workLoadToleration[0].effect": "NoSchedule",
    }


@pytest.mark.parametrize("text", ["spot", "key=value", ":NoSchedule", "key:Never", ""])
def test_text_that_is_not_a_taint_is_refused(text: str) -> None:
    with pytest.raises(ArcError, match="is not a taint"):
        Toleration.parse(text)


@settings(max_examples=50, deadline=None)
@given(
    st.lists(
        st.builds(
            Toleration,
            st.from_regex(r"[a-z][a-z./-]{0,20}", fullmatch=True),
            st.none() | st.from_regex(r"[a-z0-9]{0,8}", fullmatch=True),
            st.sampled_from(["NoSchedule", "NoExecute", "PreferNoSchedule"]),
        ),
        max_size=5,
    )
)
def test_tolerations_read_back_as_written_and_are_added_once(wanted: list[Toleration]) -> None:
    written = extension.add_tolerations({}, wanted)
    assert list(extension.tolerations_of(written).values()) == list(dict.fromkeys(wanted))
    assert extension.add_tolerations(written, wanted) == {}


def test_a_new_toleration_goes_behind_those_that_are_there() -> None:
    there = extension.toleration_settings(Toleration("nvidia.com/gpu", None, "NoSchedule"), 3)
    assert min(extension.tolerations_of(extension.add_tolerations(there, [SPOT]))) == 4


def test_a_plan_holds_what_differs_and_ignores_the_case_of_a_switch() -> None:
    there = {"enableTraining": "true", "installVolcano": "False", "sslCname": "a"}
    wanted = {"enableTraining": "True", "installVolcano": "True", "sslCname": "A", "new": "1"}
    assert extension.changes(there, wanted) == [
        SettingChange("installVolcano", "False", "True"),
        SettingChange("sslCname", "a", "A"),
        SettingChange("new", None, "1"),
    ]
    toleration = SettingChange("workLoadToleration[0].key", None, "k")
    assert str(toleration) == "+ workLoadToleration[0].key = k  (undocumented by Microsoft)"
    change = SettingChange("installVolcano", "False", "True")
    assert str(change) == "~ installVolcano: False -> True"


def test_a_node_selector_escapes_the_dots_of_its_label_and_reads_back() -> None:
    key, value = extension.node_selector_setting("kubernetes.azure.com/mode=system")
    assert (key, value) == (r"nodeSelector.kubernetes\.azure\.com/mode", "system")
    assert extension.node_selector_of({key: value, "x": "y"}) == {
        "kubernetes.azure.com/mode": "system"
    }
    with pytest.raises(ArcError, match="is not a label"):
        extension.node_selector_setting("agentpool")


def test_an_install_carries_what_az_would_add_for_an_aks_cluster() -> None:
    found = extension.cluster_settings(
        CLUSTER, {"location": "WestEurope", "properties": {"agentPoolProfiles": [{"count": 3}]}}
    )
    assert found["clusterId"] == found["cluster_name"] == CLUSTER.resource_id
    assert found["prometheus.prometheusSpec.externalLabels.cluster_name"] == CLUSTER.resource_id
    assert (found["location"], found["domain"]) == ("westeurope", "westeurope.cloudapp.azure.com")
    assert (
        found["relayserver.enabled"],
        found["servicebus.enabled"],
        found["nginxIngress.enabled"],
    ) == (
        "false",
        "false",
        "true",
    )
    assert "clusterPurpose" not in found
    small = extension.cluster_settings(
        CLUSTER, {"location": "westeurope", "properties": {"agentPoolProfiles": [{"count": 2}]}}
    )
    assert (small["clusterPurpose"], small["inferenceRouterHA"]) == ("DevTest", "false")
    with pytest.raises(ArcError, match="no location"):
        extension.cluster_settings(CLUSTER, {})


def test_a_pinned_version_turns_automatic_upgrades_off_in_both_bodies() -> None:
    assert (
        extension.install_body({}, "stable", None)["properties"]["autoUpgradeMinorVersion"] is True
    )
    pinned = extension.install_body({}, "stable", "1.1.50")["properties"]
    assert (pinned["autoUpgradeMinorVersion"], pinned["version"]) == (False, "1.1.50")
    assert extension.update_body([], None, "1.1.51") == {
        "properties": {"autoUpgradeMinorVersion": False, "version": "1.1.51"}
    }


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"enableTraining": "False"}, "needs training or inference"),
        ({"enableInference": "True"}, "inferenceRouterServiceType"),
        (
            {"enableInference": "true", "inferenceRouterServiceType": "NodePort"},
            "allowInsecureConnections",
        ),
        (
            {"enableInference": "true", "inferenceRouterServiceType": "NodePort", "sslSecret": "s"},
            "sslCname",
        ),
    ],
)
def test_settings_that_the_extension_would_refuse_are_refused_at_once(
    given: dict[str, str], said: str
) -> None:
    with pytest.raises(ArcError, match=said):
        extension.check_settings(given)


def test_inference_settings_bring_the_names_that_the_chart_reads() -> None:
    given = {
        "inferenceRouterServiceType": "NodePort",
        "sslSecret": "tls",
        "internalLoadBalancerProvider": "azure",
    }
    assert extension.inference_settings(given) == {
        "scoringFe.serviceType.nodePort": "true",
        "scoringFe.serviceType.internalLoadBalancer": "true",
        "scoringFe.sslSecret": "tls",
    }
    assert extension.inference_settings({"enableTraining": "True"}) == {}


@pytest.mark.parametrize(
    ("properties", "ok", "reason"),
    [
        ({"provisioningState": "Succeeded", "currentVersion": "1.1.60"}, True, "azureml 1.1.60"),
        ({"provisioningState": "Creating"}, False, "azureml is Creating"),
        ({}, False, "azureml is unknown"),
        (
            {
                "provisioningState": "Failed",
                "errorInfo": {"code": "A", "message": "b", "details": [{"code": "C"}]},
            },
            False,
            "azureml is Failed; A: b; C",
        ),
        (
            {
                "provisioningState": "Succeeded",
                "statuses": [{"code": "X", "level": "Error", "message": "pods\ngone"}],
            },
            False,
            "azureml is Succeeded; X: pods gone",
        ),
        (
            {
                "provisioningState": "Succeeded",
                "statuses": [{"level": "Information", "message": "m"}],
            },
            True,
            "azureml",
        ),
    ],
)
def test_health_is_read_from_state_error_and_statuses(
    properties: dict[str, Any], ok: bool, reason: str
) -> None:
    assert extension.health({"name": "azureml", "properties": properties}) == extension.Health(
        ok, reason
    )


def test_known_failures_have_their_own_advice() -> None:
    assert "--no-volcano" in extension.advice(
        'CRD "jobs.batch.volcano.sh" ...: Invalid ownership metadata; ...'
    )
    assert "arcml-healthcheck" in extension.advice("something new")


def test_the_extension_is_found_by_its_type_in_any_case() -> None:
    other = {"name": "flux", "properties": {"extensionType": "microsoft.flux"}}
    mine = {"name": "aml", "properties": {"extensionType": "microsoft.azureml.kubernetes"}}
    assert extension.pick([other, mine]) is mine
    assert extension.pick([other]) is None


THERE: dict[str, Any] = {
    "name": "azureml",
    "properties": {
        "releaseTrain": "Stable",
        "version": "1.1.60",
        "autoUpgradeMinorVersion": False,
        "provisioningState": "Succeeded",
        "configurationSettings": {"enableTraining": "True"},
    },
}


def test_an_update_that_changes_nothing_has_no_plan() -> None:
    same = extension.PlanOptions({"enableTraining": "true"}, (), "stable", "1.1.60")
    assert extension.plan_update(CLUSTER, THERE, same) is None
    plan = extension.plan_update(
        CLUSTER, THERE, extension.PlanOptions({}, [SPOT], "preview", "1.1.61")
    )
    assert plan is not None
    assert plan.title.endswith(
        f"on {CLUSTER.name}, release train preview, pinned to version 1.1.61"
    )
    assert plan.body["properties"]["version"] == "1.1.61"
    assert plan.changes[0].key == "workLoadToleration[0].key"


def test_a_version_that_is_there_but_not_pinned_is_pinned() -> None:
    floating = {**THERE, "properties": {**THERE["properties"], "autoUpgradeMinorVersion": True}}
    plan = extension.plan_update(CLUSTER, floating, extension.PlanOptions({}, version="1.1.60"))
    assert plan is not None
    assert plan.body == {"properties": {"autoUpgradeMinorVersion": False, "version": "1.1.60"}}


def test_an_extension_is_installed_again_only_after_it_failed() -> None:
    resource = {"location": "westeurope", "properties": {"agentPoolProfiles": [{"count": 3}]}}
    options = extension.PlanOptions({})
    assert extension.plan_install(CLUSTER, resource, None, "mine", options).name == "mine"
    with pytest.raises(ArcError, match="installed already, as 'azureml'"):
        extension.plan_install(CLUSTER, resource, THERE, "mine", options)
    failed = {**THERE, "properties": {**THERE["properties"], "provisioningState": "Failed"}}
    plan = extension.plan_install(CLUSTER, resource, failed, "mine", options)
    assert (plan.name, plan.notes) == (
        "azureml",
        ["the extension 'azureml' is there, but Failed: installing it again"],
    )


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("inferenceRouterServiceType=LoadBlancer", "did you mean LoadBalancer?"),
        ("installNvidiaDevicePlugin=yes", "it is True or False"),
        ("amloperator.skipResourceValidation=ture", "it is True or False"),
    ],
)
def test_a_setting_with_a_fixed_set_of_values_is_checked(setting: str, said: str) -> None:
    with pytest.raises(ArcError, match=re.escape(said)):
        extension.chosen_settings({}, extra=[setting])


def test_an_odd_value_that_is_set_already_does_not_stop_an_update_of_another_setting() -> None:
    present = installed(internalLoadBalancerProvider="")
    settings = extension.chosen_settings({extension.SKIP_VALIDATION: True})
    assert extension.plan_update(CLUSTER, present, extension.PlanOptions(settings))

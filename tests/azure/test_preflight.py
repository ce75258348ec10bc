"""Each check of preflight: ok, not ok with what fixes it, and cannot tell."""

from __future__ import annotations

import shlex
from dataclasses import fields, replace
from typing import Any, cast

import pytest

from arc_toolkit.azure import preflight_facts
from arc_toolkit.azure.preflight import Check, checks, different_cluster
from arc_toolkit.azure.preflight_facts import Facts, UnknownFact, unknown
from arc_toolkit.cli.main import command_parser
from arc_toolkit.cluster.failures import Unreachable
from tests.azure.conftest import CLUSTER
from tests.azure.objects import FakeCluster, compute, installed, instance_type, node, pod

WHOLE = instance_type("whole", "15500m", "58Gi", agentpool="cpu")
SPOT = ("kubernetes.azure.com/scalesetpriority", "spot")


def facts(**changed: Any) -> Facts:
    """A cluster where all is well; what a test changes is said as the objects of Kubernetes or Azure."""
    nodes = changed.pop(
        "nodes",
        [
            node("system-0", cpu=4, gib=16, labels={"kubernetes.azure.com/mode": "system"}),
            node("cpu-0"),
        ],
    )
    pods = changed.pop("pods", [])
    types = changed.pop("types", [WHOLE])
    more = {name: changed.pop(name, None) for name in ("groups", "namespaces", "config_maps")}
    client = cast(Any, FakeCluster(nodes, pods, types, **more))
    azure: dict[str, Any] = {
        "provider": "Registered",
        "resource": {"properties": {"agentPoolProfiles": []}},
        "extension": installed(),
        "computes": [compute()],
        "cluster": CLUSTER,
        "workspace": "ml-ws",
    }
    azure |= {name: changed.pop(name) for name in azure if name in changed}
    live = preflight_facts.cluster_side(client, lambda _: None, azure)
    return replace(Facts(**azure, **live), **changed)


def fix(row: Check) -> str | None:
    return row.command.text if row.command else None


def check(name: str, found: Facts) -> Check:
    return next(row for row in checks(found) if row.name == name)


def test_all_is_well() -> None:
    rows = checks(facts())
    assert [(row.name, row.reason) for row in rows if row.state != "ok"] == []
    assert len(rows) == 12


def test_no_side_reachable_means_cannot_tell_everywhere_and_no_crash() -> None:
    nothing = Facts(**unknown("azure", "no az"), **unknown("cluster", "no kubeconfig"))
    assert {row.state for row in checks(nothing)} == {"cannot tell"}
    assert {row.reason for row in checks(nothing, "cluster")} == {"no kubeconfig"}
    assert {row.reason for row in checks(nothing, "azure")} == {"no az"}


@pytest.mark.parametrize(
    "name", [field.name for field in fields(Facts) if field.name not in ("cluster", "workspace")]
)
def test_one_unknown_fact_never_breaks_the_other_checks(name: str) -> None:
    hidden: dict[str, Any] = {name: UnknownFact("hidden")}
    rows = checks(replace(facts(), **hidden))
    assert "not ok" not in {row.state for row in rows}
    assert all(row.reason == "hidden" for row in rows if row.state == "cannot tell")


def test_a_cluster_that_does_not_answer_is_asked_once() -> None:
    class Silent(FakeCluster):
        asked = 0

        def get(self, path: str, params: Any = None) -> dict[str, Any]:
            self.asked += 1
            raise Unreachable("no answer")

    silent = Silent([], [], [])
    with pytest.raises(Unreachable):
        preflight_facts.cluster_side(cast(Any, silent), lambda _: None, unknown("azure", "no az"))
    assert silent.asked == 1


def test_an_unregistered_provider() -> None:
    row = check("provider registered", facts(provider="NotRegistered"))
    assert (row.state, fix(row)) == (
        "not ok",
        "az provider register --namespace Microsoft.KubernetesConfiguration",
    )


def test_a_missing_extension_and_one_that_failed() -> None:
    row = check("extension installed", facts(extension=None))
    assert (row.state, fix(row)) == ("not ok", "arc-toolkit cluster extension install")
    assert check("extension settings", facts(extension=None)).state == "cannot tell"
    failed = installed("Failed")
    failed["properties"]["statuses"] = [
        {"code": "InstallationFailed", "level": "Error", "message": "timed out waiting"}
    ]
    row = check("extension installed", facts(extension=failed))
    assert (row.state, fix(row)) == ("not ok", "arc-toolkit cluster extension show")
    assert "InstallationFailed: timed out waiting" in row.reason
    assert "kubectl get pods,events" in row.reason


ZERO = {"name": "gpu", "enableAutoScaling": True, "minCount": 0, "count": 0, "osType": "Linux"}


@pytest.mark.parametrize(
    ("changed", "said", "option"),
    [
        ({"extension": installed(enableTraining="False")}, "no job can run", "--training"),
        (
            {
                "extension": installed(installVolcano="False"),
                "groups": {"amlarc.azureml.com/v1alpha1": "instancetypes"},
            },
            "no Volcano",
            "--volcano",
        ),
        (
            {"extension": installed(**{"nodeSelector.agentpool": "gone"})},
            "(agentpool=gone) applies to jobs too, so no job can start on pool cpu",
            "--node-selector agentpool=cpu",
        ),
        (
            {"extension": installed(**{"nodeSelector.agentpool": "system"})},
            "(agentpool=system) applies to jobs too, so no job can start on pool cpu",
            "--node-selector agentpool=cpu",
        ),
        (
            {
                "extension": installed(
                    **{
                        "nodeSelector.agentpool": "system",
                        "amloperator.skipResourceValidation": "true",
                    }
                ),
                "nodes": [node("system-0", labels={"kubernetes.azure.com/mode": "system"})],
                "resource": {"properties": {"agentPoolProfiles": [ZERO]}},
            },
            "no job can start on pool",
            f"--node-selector agentpool={ZERO['name']}",
        ),
        (
            {"resource": {"properties": {"agentPoolProfiles": [ZERO]}}},
            "scales from zero",
            "--skip-resource-validation",
        ),
    ],
)
def test_settings_that_stop_jobs(changed: dict[str, Any], said: str, option: str) -> None:
    row = check("extension settings", facts(**changed))
    assert row.state == "not ok"
    assert said in row.reason
    assert fix(row) == f"arc-toolkit cluster extension update {option}"


def test_two_problems_of_the_settings_are_fixed_by_one_command() -> None:
    row = check(
        "extension settings",
        facts(
            extension=installed(enableTraining="False"),
            resource={"properties": {"agentPoolProfiles": [ZERO]}},
        ),
    )
    assert fix(row) == "arc-toolkit cluster extension update --training --skip-resource-validation"


def test_a_volcano_that_already_exists_need_not_come_with_the_extension() -> None:
    assert (
        check("extension settings", facts(extension=installed(installVolcano="False"))).state
        == "ok"
    )


def test_a_spot_pool_is_well_once_its_taint_is_tolerated() -> None:
    tolerating = installed(
        **{
            "workLoadToleration[0].key": SPOT[0],
            "workLoadToleration[0].operator": "Equal",
            "workLoadToleration[0].value": "spot",
        }
    )
    found = facts(nodes=[node("cpu-0", taints=[SPOT])], extension=tolerating)
    row = check("spot nodes", found)
    assert (row.state, "undocumented" in row.reason) == ("ok", True)
    assert check("Ready nodes", found).reason == "1 of 1 nodes can take jobs"
    assert check("instance types fit", found).state == "ok"


def test_missing_crds_are_named() -> None:
    row = check("CRDs", facts(groups={}))
    assert row.state == "not ok"
    assert (
        "instancetypes.amlarc.azureml.com and podgroups.scheduling.volcano.sh missing" in row.reason
    )
    assert (
        check("instance types", facts(groups={})).reason == "the CRD of instance types is missing"
    )


def test_crds_are_fixed_by_what_is_really_wrong() -> None:
    no_volcano = {"amlarc.azureml.com/v1alpha1": "instancetypes"}
    row = check("CRDs", facts(groups=no_volcano, extension=installed(installVolcano="False")))
    assert fix(row) == "arc-toolkit cluster extension update --volcano"
    assert fix(check("CRDs", facts(groups={}))) == "arc-toolkit cluster extension show"
    assert (
        fix(check("CRDs", facts(groups={}, extension=None)))
        == "arc-toolkit cluster extension install"
    )


def test_a_compute_is_recognised_by_its_resource_id_without_regard_to_case() -> None:
    assert check("compute attached", facts()).reason == "attached as gpu-pool (namespace team-a)"
    row = check("compute attached", facts(computes=[]))
    assert (row.state, fix(row)) == ("not ok", "arc-toolkit cluster attach NAME --workspace ml-ws")
    failed = compute(state="Failed")
    failed["properties"]["provisioningErrors"] = [{"error": {"message": "namespace not found"}}]
    row = check("compute attached", facts(computes=[failed]))
    assert row.reason == "compute gpu-pool is Failed; namespace not found"
    assert fix(row) == "arc-toolkit cluster attach gpu-pool --workspace ml-ws"


def test_nodes_that_cannot_take_jobs_are_named_with_the_reason() -> None:
    row = check("Ready nodes", facts(nodes=[node("cpu-0", ready=False)]))
    assert row.state == "not ok"
    assert "cpu-0: NotReady" in row.reason
    pool = "--cluster-name gpu-aks --resource-group ml-rg --name"
    size = "--node-count 1 --node-vm-size Standard_D8s_v5"
    assert fix(row) == f"az aks nodepool add {pool} jobs {size}"
    named = facts(nodes=[node("jobs-0", ready=False)])
    assert fix(check("Ready nodes", named)) == f"az aks nodepool add {pool} jobs1 {size}"
    stopped = {"name": "train", "count": 0, "osType": "Linux"}
    pools = facts(
        nodes=[node("cpu-0", ready=False)],
        resource={"properties": {"agentPoolProfiles": [stopped]}},
    )
    assert fix(check("Ready nodes", pools)) == f"az aks nodepool scale {pool} train --node-count 1"
    cordoned = node("cpu-1")
    cordoned["spec"]["unschedulable"] = True
    assert (
        fix(check("Ready nodes", facts(nodes=[node("a", ready=False), cordoned])))
        == "kubectl uncordon cpu-1"
    )
    assert check("Ready nodes", facts(nodes=[])).reason == "the cluster has no nodes"
    zero = facts(nodes=[], resource={"properties": {"agentPoolProfiles": [ZERO]}})
    assert check("Ready nodes", zero).state == "ok"


A100 = {"node.kubernetes.io/instance-type": "Standard_NC24ads_A100_v4"}


def test_a_second_device_plugin_is_never_advised() -> None:
    mixed = [node("gpu-0", gpus=1, labels=A100), node("gpu-1", labels=A100)]
    elsewhere = check("GPU device plugin", facts(nodes=mixed))
    assert elsewhere.state == "not ok"
    assert "1 of 2 GPU nodes show no GPU to Kubernetes (gpu-1)" in elsewhere.reason
    assert "the device plugin of the other nodes does not run there" in elsewhere.reason
    assert fix(elsewhere) == "kubectl get daemonsets --all-namespaces --output wide"
    plugin = pod("nvidia-device-plugin-daemonset", "gpu-1", "DaemonSet", namespace="gpu-resources")
    broken = check("GPU device plugin", facts(nodes=mixed, pods=[plugin]))
    assert "nvidia-device-plugin-daemonset runs there" in broken.reason
    assert fix(broken) == (
        "kubectl get pods --namespace gpu-resources --output wide --field-selector spec.nodeName=gpu-1"
    )
    alone = facts(nodes=[node("gpu-1", labels=A100)], pods=[plugin])
    assert "installNvidiaDevicePlugin" not in (fix(check("GPU device plugin", alone)) or "")


def test_a_node_whose_gpus_are_divided_has_a_device_plugin() -> None:
    divided = node("gpu-0", labels=A100)
    for amounts in (divided["status"]["capacity"], divided["status"]["allocatable"]):
        amounts |= {"nvidia.com/gpu": "0", "nvidia.com/mig-1g.10gb": "7"}
    alone = check("GPU device plugin", facts(nodes=[divided]))
    assert (alone.state, alone.reason, fix(alone)) == ("ok", "1 GPU nodes show 7 GPUs", None)
    # The plugin of the divided node does not run on the other one: a second plugin is not the answer.
    beside = check("GPU device plugin", facts(nodes=[divided, node("gpu-1", labels=A100)]))
    assert "the device plugin of the other nodes does not run there" in beside.reason
    slice_of_it = instance_type("slice", "2", "8Gi")
    slice_of_it["spec"]["resources"]["limits"]["nvidia.com/mig-1g.10gb"] = 1
    assert check("instance types fit", facts(nodes=[divided], types=[slice_of_it])).state == "ok"
    slice_of_it["spec"]["resources"]["limits"]["nvidia.com/mig-1g.10gb"] = 8
    assert (
        check("instance types fit", facts(nodes=[divided], types=[slice_of_it])).state == "not ok"
    )


def test_gpu_nodes_that_show_no_gpu_lack_a_device_plugin() -> None:
    blind = check(
        "GPU device plugin", facts(nodes=[node("gpu-0", labels=A100), node("gpu-1", labels=A100)])
    )
    assert blind.state == "not ok"
    assert blind.reason.endswith("no device plugin")
    assert fix(blind) == "arc-toolkit cluster extension update --set installNvidiaDevicePlugin=True"
    hidden = facts(nodes=[node("gpu-0", labels=A100)], occupants=UnknownFact("hidden"))
    assert fix(check("GPU device plugin", hidden)) is None
    assert (
        check("GPU device plugin", facts(nodes=[node("gpu-0", gpus=4)])).reason
        == "1 GPU nodes show 4 GPUs"
    )
    assert check("GPU device plugin", facts()).reason == "no node has a GPU"
    amd = {"node.kubernetes.io/instance-type": "Standard_ND96isr_MI300X_v5"}
    assert fix(check("GPU device plugin", facts(nodes=[node("amd-0", labels=amd)]))) is None
    by_label = {"kubernetes.azure.com/accelerator": "nvidia"}
    assert (
        check("GPU device plugin", facts(nodes=[node("gpu-0", labels=by_label)])).state == "not ok"
    )


def test_no_instance_types() -> None:
    row = check("instance types", facts(types=[]))
    assert row.state == "not ok"
    assert (
        fix(row)
        == "arc-toolkit gen-instance-types --from-cluster --share whole --share half --apply"
    )
    assert check("instance types fit", facts(types=[])).state == "cannot tell"


def test_a_type_that_does_not_fit_is_named_with_what_is_too_much() -> None:
    row = check("instance types fit", facts(types=[WHOLE, instance_type("too-big", "16", "60Gi")]))
    assert row.state == "not ok"
    assert row.reason.startswith("too-big: ")
    assert fix(row) == "arc-toolkit gen-instance-types --from-cluster --check"


def test_a_type_whose_pool_has_no_node_now_is_not_ok_unless_jobs_may_wait_for_one() -> None:
    away = [instance_type("gpu", "1", "1Gi", agentpool="gpu")]
    assert check("instance types fit", facts(types=away)).state == "not ok"
    waiting = facts(
        types=away, extension=installed(**{"amloperator.skipResourceValidation": "true"})
    )
    assert check("instance types fit", waiting).state == "cannot tell"


def test_a_request_below_its_limit_is_only_a_warning_of_validate() -> None:
    loose = instance_type("loose", "1", "1Gi")
    loose["spec"]["resources"]["limits"] = {"cpu": "2", "memory": "1Gi"}
    assert check("instance types fit", facts(types=[loose])).state == "ok"


def test_a_malformed_type_is_reported_by_the_rules_of_validate() -> None:
    broken = {"metadata": {"name": "broken"}, "spec": {"resources": {}, "requests": {"cpu": "1"}}}
    row = check("instance types fit", facts(types=[broken]))
    assert (row.state, row.reason.split(":")[0]) == ("not ok", "broken")


TAINT_CPU = (
    "az aks nodepool update --cluster-name gpu-aks --resource-group ml-rg --name cpu "
    "--node-taints ml.azure.com/amlarc-workload=true:NoSchedule"
)


def test_a_deployment_of_the_extension_on_a_whole_node_pool_is_found() -> None:
    row = check(
        "extension placement", facts(pods=[pod("gateway-1", "cpu-0", "ReplicaSet", cpu="900m")])
    )
    assert row.state == "not ok"
    assert row.reason == "whole does not fit on cpu-0 beside gateway-1"
    assert fix(row) == TAINT_CPU


def test_the_taint_leaves_the_others_of_the_pool_and_then_the_pods_move() -> None:
    guest = [pod("gateway-1", "cpu-0", "ReplicaSet", cpu="900m")]
    system = node("system-0", cpu=4, gib=16, labels={"kubernetes.azure.com/mode": "system"})
    team = ("ml.azure.com/amlarc", "true")
    row = check(
        "extension placement", facts(nodes=[system, node("cpu-0", taints=[team])], pods=guest)
    )
    assert fix(row) == TAINT_CPU.replace("taints ", "taints ml.azure.com/amlarc=true:NoSchedule,")
    arc = replace(CLUSTER, kind="connectedClusters")
    row = check("extension placement", facts(pods=guest, cluster=arc))
    assert fix(row) == "kubectl taint nodes cpu-0 ml.azure.com/amlarc-workload=true:NoSchedule"
    tainted = node("cpu-0", taints=[("ml.azure.com/amlarc-workload", "true")])
    row = check("extension placement", facts(nodes=[system, tainted], pods=guest))
    assert fix(row) == "kubectl rollout restart deployment --namespace azureml"


def test_a_label_of_the_extensions_selector_that_nodes_lack_keeps_jobs_off_them() -> None:
    system = {"kubernetes.azure.com/mode": "system", "role": "extension"}
    nodes = [node("system-0", cpu=4, gib=16, labels=system), node("cpu-0")]
    row = check(
        "extension settings",
        facts(nodes=nodes, extension=installed(**{"nodeSelector.role": "extension"})),
    )
    assert (row.state, fix(row)) == ("not ok", None)
    assert "no job can start on pool cpu; give its nodes that label" in row.reason


@pytest.mark.parametrize("pool", ["", "cpu"])
def test_a_selector_that_some_nodes_of_a_pool_match_is_meant(pool: str) -> None:
    zones = [node(f"cpu-{zone}", labels={"zone": zone, "agentpool": pool}) for zone in "12"]
    for nodes in (zones, zones[::-1]):
        found = facts(nodes=nodes, extension=installed(**{"nodeSelector.zone": "1"}), types=[])
        assert check("extension settings", found).state == "ok"


def test_without_azure_the_extensions_pods_say_which_nodes_take_jobs() -> None:
    operator = pod("aml-operator", "system-0", "ReplicaSet")
    operator["spec"]["nodeSelector"] = {"agentpool": "system"}
    unknown_side = unknown("azure", "no sign-in")
    row = check("Ready nodes", facts(pods=[operator], **unknown_side))
    assert row.reason.startswith("1 of 2 nodes can take jobs; cpu-0: outside of")


def test_a_taint_that_jobs_tolerate_keeps_the_extension_off_a_pool_if_another_can_take_it() -> None:
    """A nodeSelector of the extension would keep the jobs off that pool as well."""
    guest = [pod("gateway-1", "cpu-0", "ReplicaSet", cpu="900m")]
    system = {"kubernetes.azure.com/mode": "system"}
    dedicated = node("addons-0", labels=system, taints=[("CriticalAddonsOnly", "true")])
    nodes = [
        dedicated,
        node("cpu-0", labels=system),
        node("other-0"),
        node("second-0", labels=system),
    ]
    row = check("extension placement", facts(nodes=nodes, pods=guest))
    assert fix(row) == TAINT_CPU
    settings = installed(**{"nodeSelector.agentpool": "cpu"})
    row = check("extension placement", facts(nodes=nodes, pods=guest, extension=settings))
    assert (row.state, fix(row)) == ("not ok", None)
    only = check("extension placement", facts(nodes=[node("cpu-0", labels=system)], pods=guest))
    assert (only.state, fix(only)) == ("not ok", None)


def test_daemonsets_system_pools_and_small_deployments_are_fine() -> None:
    pods = [
        pod("fluent-bit", "cpu-0", "DaemonSet", cpu="10m", memory="100Mi"),
        pod("gateway-1", "system-0", "ReplicaSet", cpu="900m"),
        pod("small", "cpu-0", "ReplicaSet", cpu="10m", memory="10Mi"),
        pod("of-somebody-else", "cpu-0", "ReplicaSet", cpu="900m", namespace="default"),
    ]
    assert check("extension placement", facts(pods=pods)).state == "ok"


@pytest.mark.parametrize(
    "changed",
    [
        {"provider": "NotRegistered"},
        {"extension": None, "groups": {}},
        {
            "extension": installed("Failed", enableTraining="False", installVolcano="False"),
            "groups": {},
        },
        {
            "extension": installed(**{"nodeSelector.agentpool": "gone"}),
            "computes": [],
            "nodes": [node("spot-0", taints=[SPOT])],
        },
        {"types": []},
        {
            "types": [instance_type("too-big", "16", "60Gi")],
            "pods": [pod("gateway-1", "cpu-0", "ReplicaSet", cpu="15")],
        },
        {"types": [instance_type("away", "1", "1Gi", agentpool="gone")]},
        {"nodes": [node("gpu-0", labels={"kubernetes.azure.com/accelerator": "nvidia"})]},
        {"nodes": [], "resource": {"properties": {"agentPoolProfiles": [ZERO]}}},
    ],
)
def test_every_command_that_fixes_is_one_that_exists(changed: dict[str, Any]) -> None:
    commands = [fix(row) or "" for row in checks(facts(**changed)) if row.command]
    assert commands
    for command in commands:
        program, name, *words = shlex.split(command)
        if program == "arc-toolkit":
            command_parser(name).parse_args(words)  # raises ArcError where an option does not exist
        else:
            assert program in ("az", "kubectl")


def test_two_different_clusters_are_noticed_where_that_is_certain() -> None:
    resource = {"name": "gpu-aks", "properties": {"fqdn": "gpu-aks-1.hcp.westeurope.azmk8s.io"}}
    assert different_cluster("https://gpu-aks-1.hcp.westeurope.azmk8s.io:443", resource) is None
    said = different_cluster("https://other-2.hcp.westeurope.azmk8s.io:443", resource)
    assert said is not None
    assert said.startswith("the kubeconfig points to other-2")
    assert different_cluster("https://127.0.0.1:6443", resource) is None, (
        "a tunnel may lead anywhere"
    )

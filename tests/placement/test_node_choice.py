"""What `place` puts into one pod spec, beside what it already has: the semantics of the scheduler."""

from __future__ import annotations

from typing import Any

import pytest

from tests.placement.support import TOLERATION, expression, place, placed, pod, required


def spec_of(text: str, *args: Any, **settings: Any) -> Any:
    return placed(text, *args, **settings)[0]["spec"]


def test_require_tolerates_the_taint_and_requires_the_label() -> None:
    spec = spec_of(pod())
    assert spec["tolerations"] == [TOLERATION]
    assert spec["affinity"] == required(expression())


def test_prefer_can_fall_back() -> None:
    spec = spec_of(pod(), "prefer")
    assert spec["tolerations"] == [TOLERATION]
    (term,) = spec["affinity"]["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    assert term == {"weight": 100, "preference": {"matchExpressions": [expression()]}}


def test_avoid_excludes_spot_nodes_and_tolerates_nothing() -> None:
    spec = spec_of(pod(), "avoid")
    assert "tolerations" not in spec
    assert spec["affinity"] == required(expression("NotIn"))


# The label of spot nodes, by the documentation of each cloud: AKS (old and new), Karpenter, EKS, GKE.
@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("kubernetes.azure.com/scalesetpriority", "spot"),
        ("kubernetes.azure.com/priority", "spot"),
        ("karpenter.sh/capacity-type", "spot"),
        ("eks.amazonaws.com/capacityType", "SPOT"),
        ("cloud.google.com/gke-spot", "true"),
        ("cloud.google.com/gke-preemptible", "true"),
        ("cloud.google.com/gke-provisioning", "spot"),
        ("cloud.google.com/gke-provisioning", "preemptible"),
    ],
)
def test_a_selector_of_spot_nodes_of_any_cloud_is_known(key: str, value: str) -> None:
    selected = pod(f'  nodeSelector: {{{key}: "{value}"}}\n')
    assert "asks for spot nodes" in str(place(selected, "avoid").refused)
    other = pod(f'  nodeSelector: {{{key}: "other"}}\n')
    assert "keeps it off spot nodes" in str(place(other, "require").refused)


def test_node_auto_provisioning_of_aks_has_a_label_of_its_own_and_no_taint() -> None:
    (document,) = placed(pod(), cloud="aks-nap")
    assert document["spec"]["affinity"] == required(expression(key="karpenter.sh/capacity-type"))
    assert "tolerations" not in document["spec"]


def test_a_cloud_without_a_taint_gets_no_toleration() -> None:
    spec = spec_of(pod(), "require", "eks")
    assert "tolerations" not in spec
    assert spec["affinity"] == required(
        expression(key="eks.amazonaws.com/capacityType", value="SPOT")
    )
    assert 'value: "true"' in (place(pod(), "require", "gke").after or b"").decode()


def test_terms_are_alternatives_so_each_of_them_gets_the_expression() -> None:
    terms = (
        "  affinity:\n    nodeAffinity:\n      requiredDuringSchedulingIgnoredDuringExecution:\n"
        "        nodeSelectorTerms:\n"
        "        - matchExpressions:\n          - {key: zone, operator: In, values: [a]}\n"
        "        - matchExpressions:\n          - {key: zone, operator: In, values: [b]}\n"
    )
    after = spec_of(pod(terms))["affinity"]["nodeAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]
    assert [term["matchExpressions"][1] for term in after["nodeSelectorTerms"]] == [
        expression()
    ] * 2


@pytest.mark.parametrize(
    "toleration",
    [
        "{operator: Exists}",
        "{key: kubernetes.azure.com/scalesetpriority, operator: Exists}",
        "{key: kubernetes.azure.com/scalesetpriority, value: spot}",
        "{key: kubernetes.azure.com/scalesetpriority, operator: Equal, value: spot, effect: NoSchedule}",
    ],
)
def test_a_toleration_that_does_it_in_another_form_counts(toleration: str) -> None:
    spec = spec_of(pod(f"  tolerations:\n  - {toleration}\n"))
    assert len(spec["tolerations"]) == 1


def test_a_toleration_of_another_taint_stays_beside_the_new_one() -> None:
    spec = spec_of(pod("  tolerations:\n  - {key: sku, value: gpu, effect: NoSchedule}\n"))
    assert spec["tolerations"] == [
        {"key": "sku", "value": "gpu", "effect": "NoSchedule"},
        TOLERATION,
    ]


def test_a_selector_of_spot_nodes_needs_no_affinity() -> None:
    spec = spec_of(pod("  nodeSelector: {kubernetes.azure.com/scalesetpriority: spot}\n"))
    assert spec["tolerations"] == [TOLERATION]
    assert "affinity" not in spec


@pytest.mark.parametrize(
    ("spec", "spot", "reason"),
    [
        ("  nodeSelector: {agentpool: cpu}\n", "require", "pinned to one pool by agentpool=cpu"),
        (
            "  nodeSelector: {kubernetes.azure.com/scalesetpriority: regular}\n",
            "prefer",
            "keeps it off spot nodes",
        ),
        (
            "  nodeSelector: {kubernetes.azure.com/scalesetpriority: spot}\n",
            "prefer",
            "cannot fall back",
        ),
        (
            "  nodeSelector: {kubernetes.azure.com/scalesetpriority: spot}\n",
            "avoid",
            "asks for spot nodes",
        ),
        (
            "  nodeSelector: {karpenter.sh/capacity-type: on-demand}\n",
            "require",
            "keeps it off spot nodes",
        ),
        ("  nodeName: node-1\n", "require", "bound to the node node-1"),
    ],
)
def test_what_contradicts_is_refused_with_the_reason(spec: str, spot: str, reason: str) -> None:
    result = place(pod(spec), spot)
    assert result.after is None
    assert reason in (result.refused or "")
    (finding,) = result.findings
    assert finding.rule == "spot"


def test_the_pool_can_be_named_as_the_spot_pool() -> None:
    from arc_toolkit.kube.taints import Taint
    from arc_toolkit.placement.place_files import PlaceFiles
    from arc_toolkit.placement.place_plan import PlaceSettings
    from arc_toolkit.placement.spot import SpotCapacity, SpotPolicy

    capacity = SpotCapacity(("agentpool", "cheap"), Taint("cheap", "", "NoExecute"), 25)
    engine = PlaceFiles(PlaceSettings(spot=SpotPolicy.REQUIRE, capacity=capacity))
    result = engine.process(
        "x.yaml", pod("  nodeSelector: {agentpool: cheap}\n").encode(), in_folder=False
    )
    assert b"operator: Exists\n      effect: NoExecute" in (result.after or b"")
    assert b"affinity" not in (result.after or b"")


def test_the_grace_period_is_set_only_when_asked() -> None:
    assert spec_of(pod(), None, grace=25)["terminationGracePeriodSeconds"] == 25
    assert place(pod("  terminationGracePeriodSeconds: 25\n"), None, grace=25).after is None


@pytest.mark.parametrize("empty", ["{}", "{matchExpressions: []}"])
def test_an_empty_term_matches_no_node_and_does_not_begin_to(empty: str) -> None:
    """component-helpers, nodeaffinity: a term without expressions and without fields is skipped."""
    terms = (
        "  affinity:\n    nodeAffinity:\n      requiredDuringSchedulingIgnoredDuringExecution:\n"
        f"        nodeSelectorTerms:\n        - {empty}\n"
        "        - matchExpressions:\n          - {key: zone, operator: In, values: [a]}\n"
    )
    affinity = spec_of(pod(terms))["affinity"]["nodeAffinity"]
    first, second = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert not first.get("matchExpressions")
    assert second["matchExpressions"][1] == expression()


OTHER_CLOUD = "  nodeSelector: {cloud.google.com/gke-accelerator: nvidia-l4}\n"


def test_nodes_of_another_cloud_are_never_there() -> None:
    assert "gke-accelerator" in str(place(pod(OTHER_CLOUD)).refused)
    assert "--cloud" in str(place(pod(OTHER_CLOUD), "prefer", "eks").refused)
    assert place(pod(OTHER_CLOUD), "require", "gke").refused is None
    alternatives = (
        "  affinity:\n    nodeAffinity:\n      requiredDuringSchedulingIgnoredDuringExecution:\n"
        "        nodeSelectorTerms:\n"
        "        - matchExpressions: [{key: eks.amazonaws.com/nodegroup, operator: Exists}]\n"
        "        - matchExpressions: [{key: gpu, operator: Exists}]\n"
    )
    assert place(pod(alternatives)).refused is None
    only = alternatives.replace("{key: gpu,", "{key: alpha.eksctl.io/cluster-name,")
    assert "another cloud" in str(place(pod(only)).refused)


def test_what_is_refused_is_not_touched_at_all() -> None:
    """A database that stays where it is keeps its grace period."""
    selector = "  nodeSelector: {kubernetes.azure.com/priority: regular}\n"
    assert place(pod(selector), grace=25, retries=3).after is None
    assert place(pod().replace("busybox", "postgres:17"), grace=25, retries=3).after is None
    assert place(pod().replace("[{name: c, image: busybox}]", ""), grace=25).after is None


def test_a_grace_period_above_the_notice_is_set_and_said() -> None:
    result = place(pod(), grace=600)
    assert b"terminationGracePeriodSeconds: 600" in (result.after or b"")
    assert [finding.rule for finding in result.findings] == ["grace-longer-than-notice"]
    assert place(pod(), "require", "eks", grace=120).findings == ()
    assert place(pod(), "avoid", grace=600).findings == ()


@pytest.mark.parametrize("text", ["# apiVersion: v1\n", "---\n# apiVersion\n---\n"])
def test_a_file_of_comments_has_nothing_to_place(text: str) -> None:
    result = place(text)
    assert result.after is None
    assert result.skipped is not None


def test_a_role_that_is_kept_off_spot_nodes_keeps_its_grace_period() -> None:
    replica = "      template:\n        spec: {containers: [{name: c, image: train}]}\n"
    roles = f"    Master:\n{replica}    Worker:\n{replica}"
    head = "apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nmetadata: {name: x}\n"
    text = f"{head}spec:\n  pytorchReplicaSpecs:\n{roles}"

    def graces(spot: str | None, **settings: Any) -> dict[str, int | None]:
        (document,) = placed(text, spot, grace=25, **settings)
        replicas = document["spec"]["pytorchReplicaSpecs"].items()
        return {
            role: entry["template"]["spec"].get("terminationGracePeriodSeconds")
            for role, entry in replicas
        }

    assert graces("require") == {"Master": None, "Worker": 25}
    assert graces("require", roles=frozenset(["master"])) == {"Master": 25, "Worker": None}
    assert graces(None) == graces("avoid") == {"Master": 25, "Worker": 25}


def test_a_pod_spec_with_a_duplicate_key_is_not_changed() -> None:
    """One key would be enough for the change, and the API server would refuse the file all the same."""
    result = place(pod("  tolerations: []\n  tolerations: [{operator: Exists}]\n"))
    assert (result.after, result.refused) == (None, "duplicate key `tolerations` (line 7)")


@pytest.mark.parametrize("worker", ["template: *t", "<<: *m"])
def test_two_roles_that_share_a_pod_spec_are_not_changed(worker: str) -> None:
    text = f"""\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {{name: x}}
spec:
  pytorchReplicaSpecs:
    Master: &m
      template: &t
        spec: {{containers: [{{name: pytorch, image: train}}]}}
    Worker:
      {worker}
"""
    result = place(text)
    assert result.after is None
    assert [finding.reason for finding in result.findings] == [
        "master and worker are one object and belong on different nodes: give each its own"
    ]


@pytest.mark.parametrize(
    "spec",
    [
        "  containers: [{name: c, image: a, image: b}]",
        "  containers: [{name: c, image: a, resources: {limits: {cpu: 1, cpu: 2}}}]",
        "  containers: [{name: c, image: a}]\nspec: {}",
    ],
)
def test_a_duplicate_key_anywhere_is_one_sentence(spec: str) -> None:
    result = place(f"apiVersion: v1\nkind: Pod\nmetadata: {{name: p}}\nspec:\n{spec}\n")
    assert result.after is None
    assert [finding.reason.partition("`")[0] for finding in result.findings] == ["duplicate key "]


def test_an_experiment_without_a_trial_is_refused() -> None:
    text = "apiVersion: kubeflow.org/v1beta1\nkind: Experiment\nspec: {trialTemplate: {spec: {}}}\n"
    (finding,) = place(text).findings
    assert finding.reason == "it has no object at spec.trialTemplate.trialSpec"

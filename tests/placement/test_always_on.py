"""What is always on is passed over by `place`, placed if asked for, and refused where something shows a server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from arc_toolkit.cli.main import main
from arc_toolkit.placement.place_files import CheckedManifests, PlaceFiles
from arc_toolkit.placement.place_plan import PlaceSettings
from arc_toolkit.placement.spot import SpotPolicy
from tests.placement.support import TOLERATION, expression, place, placed, required

ASKED: dict[str, Any] = {"kinds": frozenset(["deployment"])}


def deployment(kind: str = "Deployment", **container: Any) -> str:
    template = {
        "metadata": {"labels": {"app": "web", "tier": "front"}},
        "spec": {"containers": [{"name": "c", "image": "train", **container}]},
    }
    spec = {"selector": {"matchLabels": {"app": "web"}}, "template": template}
    document = {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "web"}, "spec": spec}
    return str(yaml.safe_dump(document))


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "DaemonSet", "ReplicaSet"])
def test_a_controller_is_placed_only_by_its_kind_or_name(kind: str) -> None:
    result = place(deployment(kind), "prefer", grace=25, retries=3)
    assert (result.after, result.refused) == (None, None)
    assert [(entry.rule, entry.severity) for entry in result.findings] == [
        ("serving-on-spot", "note")
    ]
    assert result.unchanged.startswith(f"{kind}: it is always on")
    choices: list[dict[str, Any]] = [
        {"kinds": frozenset([kind.lower()])},
        {"names": frozenset(["web"])},
    ]
    for settings in choices:
        (document,) = placed(deployment(kind), "prefer", **settings)
        assert document["spec"]["template"]["spec"]["tolerations"] == [TOLERATION]


PROBE = {"httpGet": {"path": "/", "port": 80}}


@pytest.mark.parametrize(
    ("container", "reason"),
    [
        ({"ports": [{"containerPort": 80}], "readinessProbe": PROBE}, "ports and a readinessProbe"),
        ({"args": ["--leader-elect=true"]}, "elects a leader"),
        ({"image": "postgres:17"}, "keeps data"),
        ({"ports": [{"containerPort": 80}]}, ""),
        ({"livenessProbe": {"exec": {"command": ["true"]}}}, ""),
    ],
    ids=str,
)
def test_fields_of_its_pods_show_a_server(container: dict[str, Any], reason: str) -> None:
    result = place(deployment(**container), **ASKED)
    assert reason in (result.refused or "")
    assert (result.after is None) == bool(reason)


def test_a_deployment_with_a_claim_keeps_data() -> None:
    text = deployment().replace(
        "    spec:\n",
        "    spec:\n      volumes: [{name: v, persistentVolumeClaim: {claimName: c}}]\n",
    )
    assert "PersistentVolumeClaim" in str(place(text, **ASKED).refused)


SERVICE = "apiVersion: v1\nkind: Service\nmetadata: {name: s%s}\nspec: {selector: %s%s}\n"
SCALER = (
    "apiVersion: autoscaling/v2\nkind: HorizontalPodAutoscaler\nmetadata: {name: s}\n"
    "spec: {scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: %s}}\n"
)
BUDGET = (
    "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: s}\n"
    "spec: {selector: {matchLabels: {app: web}}}\n"
)


@pytest.mark.parametrize(
    ("other", "reason"),
    [
        (SERVICE % ("", "{app: web}", ""), "Service s selects its pods"),
        (SERVICE % ("", "{app: web, tier: front}", ""), "Service s selects its pods"),
        (SERVICE % ("", "{app: web, tier: back}", ""), ""),
        (SERVICE % ("", "{app: web}", ", clusterIP: None"), ""),
        (SCALER % "web", "HorizontalPodAutoscaler s scales it"),
        (SCALER % "other", ""),
        (BUDGET, "PodDisruptionBudget s selects its pods"),
    ],
)
def test_objects_in_other_files_show_a_server(other: str, reason: str) -> None:
    engine = PlaceFiles(PlaceSettings(spot=SpotPolicy.REQUIRE, **ASKED))
    engine.prepare("other.yaml", other.encode())
    result = engine.process("x.yaml", deployment().encode(), in_folder=True)
    assert reason in (result.refused or "")
    assert (result.after is None) == bool(reason)
    # `check` gives the same answer about one that is on spot nodes.
    on_spot = deployment().replace(
        "      containers", f"      nodeSelector: {{{TOLERATION['key']}: spot}}\n      containers"
    )
    checked = CheckedManifests(PlaceSettings())
    checked.prepare("other.yaml", other.encode())
    found = checked.process("x.yaml", on_spot.encode()).findings
    assert [entry.reason for entry in found if entry.rule == "serving-on-spot"] == (
        [reason] if reason else []
    )


def test_a_service_in_another_namespace_is_none_of_its_business() -> None:
    namespaced = deployment().replace("name: web\nspec", "name: web\n  namespace: a\nspec")
    service = SERVICE % (", namespace: b", "{app: web}", "")
    assert place(f"{service}---\n{namespaced}", **ASKED).after is not None


def pod_text(**fields: Any) -> str:
    container = {"name": "c", "image": "train", "ports": [{"containerPort": 1}]}
    spec = {"containers": [container], **fields}
    metadata = {"name": "p", "labels": {"app": "web"}}
    document = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    return str(yaml.safe_dump(document))


def test_a_pod_with_ports_that_always_restarts_is_a_server_and_one_that_ends_is_not() -> None:
    assert place(pod_text()).after is None
    assert place(pod_text()).refused is None
    assert place(pod_text(restartPolicy="Never")).after is not None
    service = SERVICE % ("", "{app: web}", "")
    assert place(f"{service}---\n{pod_text(restartPolicy='Never')}").after is None


@pytest.mark.parametrize(
    ("version", "kind"), [("batch/v1", "Job"), ("jobset.x-k8s.io/v1alpha2", "JobSet")]
)
def test_a_job_behind_a_service_is_still_a_job(version: str, kind: str) -> None:
    spec: Any = yaml.safe_load(deployment())["spec"]["template"]
    spec["spec"]["containers"][0] |= {"ports": [{"containerPort": 1}], "readinessProbe": PROBE}
    job: Any = {"template": spec}
    if kind == "JobSet":
        job = {"replicatedJobs": [{"name": "workers", "template": {"spec": job}}]}
    document = {"apiVersion": version, "kind": kind, "metadata": {"name": "x"}, "spec": job}
    service = SERVICE % ("", "{app: web}", "")
    assert place(f"{service}---\n{yaml.safe_dump(document)}").after is not None


def test_the_summary_says_how_many_and_why_and_the_run_is_green(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    notebook = "apiVersion: kubeflow.org/v1\nkind: Notebook\nmetadata: {name: n}\nspec: {}\n"
    (tmp_path / "a.yaml").write_text(f"{deployment()}---\n{deployment('StatefulSet')}")
    (tmp_path / "b.yaml").write_text(deployment())
    (tmp_path / "c.yaml").write_text(notebook)
    assert main(["place", str(tmp_path), "--spot", "require", "--check"]) == 0
    text = capsys.readouterr().err
    always_on = "it is always on; --kind or --name places it"
    assert f"not placed: 2 Deployments, 1 StatefulSet: {always_on}\n" in text
    assert "not placed: 1 Notebook: a person works in it" in text


def test_avoid_is_for_everything() -> None:
    (document,) = placed(deployment(), "avoid")
    spec = document["spec"]["template"]["spec"]
    assert spec["affinity"] == required(expression("NotIn"))


# --- intent --------------------------------------------------------------------------------------------------------

AVOID = "# arc-toolkit: spot=avoid because it must stay\n"
UNKNOWN = "apiVersion: a.b/v1\nkind: Thing\nmetadata: {name: x}\nspec: {containers: [{name: c, image: i}]}\n"
JOB = (
    "apiVersion: batch/v1\nkind: Job\nmetadata: {name: j}\n"
    "spec: {template: {spec: {containers: [{name: c, image: i}]}}}\n"
)


@pytest.mark.parametrize("text", [JOB, UNKNOWN, deployment()], ids=["Job", "unknown", "Deployment"])
def test_an_intent_to_avoid_settles_it(text: str) -> None:
    choices: list[dict[str, Any]] = [{}, {"kinds": frozenset(["job", "deployment"])}]
    for settings in choices:
        result = place(AVOID + text, **settings)
        assert (result.after, result.refused) == (None, None)
        assert all(finding.severity == "note" for finding in result.findings)


def test_an_intent_is_about_the_object_below_it_or_around_it() -> None:
    first, second = placed(f"{JOB}---\n{AVOID}{JOB}")
    assert "tolerations" in first["spec"]["template"]["spec"]
    assert "tolerations" not in second["spec"]["template"]["spec"]
    items = "".join(
        f"{comment}- {JOB.replace(chr(10), chr(10) + '  ').rstrip()}\n" for comment in ("", AVOID)
    )
    (document,) = placed(f"apiVersion: v1\nkind: List\nitems:\n{items}")
    assert ["affinity" in item["spec"]["template"]["spec"] for item in document["items"]] == [
        True,
        False,
    ]


def test_an_annotation_does_the_same() -> None:
    note = '{name: j, annotations: {arc-toolkit.local/spot: "avoid because it must stay"}}'
    assert place(JOB.replace("{name: j}", note)).after is None
    assert place(JOB.replace("{name: j}", note.replace(" because it must stay", ""))).after


def test_an_intent_to_allow_places_what_is_always_on() -> None:
    text = "# arc-toolkit: spot=allow because it only takes tasks from a queue\n" + deployment(
        image="postgres"
    )
    assert place(text).after is not None


def test_check_reports_what_is_on_spot_nodes_against_its_intent() -> None:
    on_spot = JOB.replace("containers", f"nodeSelector: {{{TOLERATION['key']}: spot}}, containers")
    checked = CheckedManifests(PlaceSettings())
    rules = {entry.rule for entry in checked.process("x.yaml", on_spot.encode()).findings}
    assert "serving-on-spot" not in rules
    (finding,) = [
        entry
        for entry in checked.process("y.yaml", (AVOID + on_spot).encode()).findings
        if entry.rule == "serving-on-spot"
    ]
    assert finding.reason == "its file says spot=avoid: it must stay"


def test_an_intent_without_a_reason_has_no_effect_and_is_reported() -> None:
    text = f"# arc-toolkit: spot=avoid\n{JOB}"
    assert place(text).after is not None
    found = CheckedManifests(PlaceSettings()).process("x.yaml", text.encode()).findings
    assert [(entry.rule, entry.line) for entry in found] == [("ignore-without-reason", 1)]


def test_a_deployment_in_code_is_passed_over_too() -> None:
    code = f"deployment = {yaml.safe_load(deployment())!r}\n"
    engine = PlaceFiles(PlaceSettings(spot=SpotPolicy.REQUIRE))
    result = engine.process("x.py", code.encode(), in_folder=False)
    assert (result.after, result.refused) == (None, None)
    assert result.unchanged == "Deployment: it is always on; --kind or --name places it"

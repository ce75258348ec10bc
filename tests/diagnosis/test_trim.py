"""What is kept of Kubernetes objects: enough for the same diagnosis, and no secret in any byte of the file."""

from __future__ import annotations

import base64
import itertools
import json
import re
import string
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from arc_toolkit.diagnosis import report
from arc_toolkit.diagnosis.model import ClusterFacts, Stats
from arc_toolkit.diagnosis.read import cluster_index, trim
from arc_toolkit.diagnosis.read.history import History, RecordedChange
from arc_toolkit.diagnosis.read.trim import known_parts, known_reason
from arc_toolkit.output.redaction import redact
from tests.diagnosis import incident_cases
from tests.diagnosis.sample import fleet

Json = dict[str, Any]
NODE = "aks-gpu-12345678-vmss000001"

# --- messages ---------------------------------------------------------------------------------------------------

# As Kubernetes, Volcano, AKS and NVIDIA write them, and what diagnose reads of it.
KEPT = {
    "The node was low on resource: ephemeral-storage. Threshold quantity: 13417728000, available: 9218004Ki. Container"
    " x-execution-wrapper was using 188743680Ki, request is 0, has larger consumption of ephemeral-storage. ": (
        "The node was low on resource: ephemeral-storage. Threshold quantity: 13417728000, available: 9218004Ki."
        " Container x-execution-wrapper was using 188743680Ki, request is 0, ***"
    ),
    "0/12 nodes are available: 4 node(s) had untolerated taint {kubernetes.azure.com/scalesetpriority: spot}, 8"
    " Insufficient nvidia.com/gpu. preemption: 0/12 nodes are available: 12 No preemption victims found.": (
        "0/12 nodes are available: 4 node(s) had untolerated taint {kubernetes.azure.com/scalesetpriority ***"
        " 8 Insufficient nvidia.com/gpu. preemption: 0/12 nodes are available:  ***"
    ),
    "2/4 tasks in gang unschedulable: pod group is not ready, 2 Pending, 2 Running, 4 minAvailable": (
        "*** tasks in gang *** pod group is not ready, 2 Pending, 2 Running, 4 minAvailable"
    ),
    "exceeded quota: team-b-9f3, requested: requests.nvidia.com/gpu=4, used: requests.nvidia.com/gpu=8": (
        "exceeded quota *** requested: requests.nvidia.com/gpu=4, used: requests.nvidia.com/gpu=8"
    ),
    'MountVolume.SetUp failed for volume "pv-b7k-blob" : timed out waiting for the condition': (
        '*** for volume "pv-b7k-blob" : timed out ***'
    ),
    'Node condition QpiErrors79 is now: True, reason: GPUErrors, message: "FaultCode: NHC2001"': (
        "Node condition QpiErrors79 is now: True, reason:  *** FaultCode: NHC2001\""
    ),
    "XID error-codes found: 48, 94. FaultCode: NHC2001": "XID error-codes found: 48, 94. FaultCode: NHC2001",
    "NVRM: Xid (PCI:0000:3b:00): 79, pid=1234, GPU has fallen off the bus.": (
        "NVRM: Xid (PCI:0000:3b:00): 79 *** GPU has fallen off the bus."
    ),
    "Preempt Scheduled: Sat, 25 Apr 2026 20:17:30 GMT. DurationInSeconds: -1.": "Preempt Scheduled ***",
    'Failed to pull image "mlreg7.azurecr.io/train:9": not found': "*** not found",
    "Stopping container 00cb2efdf7c01b69d0b1731863575b2c-execution-wrapper": "***",
    "the login is swordfish": "***",
}  # fmt: skip


@pytest.mark.parametrize("message", KEPT)
def test_of_a_message_the_known_parts_are_kept(message: str) -> None:
    assert known_parts(message) == KEPT[message]


def test_a_message_has_a_limit() -> None:
    assert len(known_parts("not found " * 1000)) <= 1000


@pytest.mark.parametrize(
    "text",
    [
        "password is 839201746512",
        "--pin 4829104756",
        "otp 4 digits: 48291047",
        "password 2 of 3 is 48291047",
        "pin: 4829",
        'db_password="839 201 746"',
        "the password of the user was set to 839201746512",
        "apiKey (12345678)",
        "token 839201746512m",
    ],
)
def test_figures_after_a_word_for_a_secret_are_masked(text: str) -> None:
    assert not re.search(r"\d", known_parts(text))
    assert known_parts("Container token was using 3104Ki, request is 0") == (
        "Container token was using 3104Ki, request is 0"
    )


@pytest.mark.parametrize(
    "reason",
    [
        "OOMKilled",
        "XIDErrors",
        "IBLinkFlapping",
        "FailedCreatePodSandBox",
        "OutOfnvidia.com/gpu",
        "FluxLost",
    ],
)
def test_reasons_are_kept_also_unknown_ones(reason: str) -> None:
    assert known_reason(reason) == reason


@pytest.mark.parametrize(
    "text", ["aGVsbG8gd29ybGQ", "Xk3Jf93kdQz", "the login is swordfish", "x7" * 20]
)
def test_reason_that_is_not_one_is_masked(text: str) -> None:
    assert known_reason(text) != text
    assert "swordfish" not in known_reason(text)


# --- secrets ----------------------------------------------------------------------------------------------------

plain = st.text(string.ascii_letters + string.digits, min_size=12, max_size=48)
typed = st.text(
    string.ascii_letters + string.digits + "!#$%^*()_+=.~-?/:|", min_size=8, max_size=30
)
quoted = st.text(
    string.ascii_letters + string.digits + "!#$%^*()_+=.~- ,;&'", min_size=8, max_size=30
).map(str.strip)
encoded = st.binary(min_size=9, max_size=64).map(lambda data: base64.b64encode(data).decode())
account_keys = st.binary(min_size=64, max_size=64).map(lambda data: base64.b64encode(data).decode())
safe = st.binary(min_size=12, max_size=60).map(
    lambda data: base64.urlsafe_b64encode(data).decode().rstrip("=")
)


def shape(template: str, values: st.SearchStrategy[str]) -> st.SearchStrategy[tuple[str, str]]:
    return values.map(lambda value: (template.replace("@@", value), value))


SECRETS = (
    shape(
        "Endpoint=sb://x.servicebus.windows.net/;SharedAccessKeyName=root;SharedAccessKey=@@",
        encoded,
    ),
    shape(
        "DefaultEndpointsProtocol=https;AccountName=x;AccountKey=@@;EndpointSuffix=core.windows.net",
        account_keys,
    ),
    shape("https://x.blob.core.windows.net/c?sv=2022&se=2026&sig=@@", safe),
    shape("SharedAccessSignature=sv=2022&sig=@@", safe),
    shape("SharedAccessSignature sr=x&sig=@@&se=1", safe),
    shape('{"user": "sa", "password": "@@"}', quoted.filter(lambda value: len(value) > 7)),
    shape('{\\"client_secret\\": \\"@@\\"}', plain),
    shape("eyJhbGciOiJIUzI1NiJ9.@@.c2ln", safe),
    shape("-----BEGIN RSA PRIVATE KEY-----\n@@\n-----END RSA PRIVATE KEY-----", encoded),
    shape("-----BEGIN OPENSSH PRIVATE KEY-----\\n@@", encoded),
    shape("ghp_@@", st.text(string.ascii_letters + string.digits, min_size=36, max_size=36)),
    shape(
        "github_pat_@@",
        st.text(string.ascii_letters + string.digits + "_", min_size=40, max_size=82),
    ),
    shape("@@", account_keys),
    shape("Server=tcp:x;Uid=sa;pwd=@@", typed),
    shape("mount --password @@ now", typed),
    shape("run --api-key=@@", typed),
    shape("DB_PASSWORD: @@", typed),
    shape("Authorization: Basic @@", encoded),
    shape('"authorization": "Bearer @@"', safe),
    shape("curl -H 'Authorization: SharedKey x:@@'", encoded),
    shape("https://sa:@@@x.example/c", plain),
    # Without a key before it, only the mix of letters and figures tells it from a message.
    shape("the login of the day is @@", plain.map(lambda value: f"k4Tz{value}7")),
)


def objects(texts: list[str]) -> list[tuple[str, Json]]:
    """One object of each kind with the texts in every field that can contain one."""
    at = itertools.cycle(texts)

    def meta(kind: str) -> Json:
        labels = {"ml.azure.com/run-id": "brave_sky", "role": next(at), "note": next(at)}
        annotations = {"note": next(at), "volcano.sh/task-spec": next(at), next(at): "x"}
        return {
            "name": f"{kind}-1",
            "namespace": "azureml",
            "uid": kind,
            "labels": labels,
            "annotations": annotations,
        }

    def conditions() -> list[Json]:
        return [{"type": "Ready", "status": "False", "reason": next(at), "message": next(at)}]

    def container() -> Json:
        env = [{"name": "KEY", "value": next(at)}]
        return {
            "name": "w",
            "image": next(at),
            "env": env,
            "args": [next(at)],
            "command": [next(at)],
        }

    def status() -> Json:
        ended = {"reason": next(at), "exitCode": 1, "message": next(at)}
        waits = {"waiting": {"reason": "ErrImagePull", "message": next(at)}}
        return {"name": "w", "image": next(at), "state": {"terminated": ended}, "lastState": waits}

    def pod_spec() -> Json:
        tolerations = [
            {"key": next(at), "value": next(at)},
            {"key": "node.kubernetes.io/not-ready", "value": next(at)},
        ]
        volumes = [
            {"name": "v", "emptyDir": {"medium": next(at)}},
            {"name": "s", "csi": {"volumeAttributes": next(at)}},
        ]
        spec = {
            "containers": [container()],
            "initContainers": [container()],
            "tolerations": tolerations,
        }
        return {**spec, "volumes": volumes, "nodeSelector": {"x": next(at)}}

    pod: Json = {"metadata": meta("pod"), "spec": pod_spec()}
    pod["status"] = {
        "phase": "Failed",
        "message": next(at),
        "reason": next(at),
        "conditions": conditions(),
    }
    pod["status"] |= {"containerStatuses": [status()], "initContainerStatuses": [status()]}
    node = {
        "metadata": meta("node"),
        "spec": {"taints": [{"key": "x", "value": next(at)}], "providerID": next(at)},
    }
    node["status"] = {"conditions": conditions(), "images": [{"names": [next(at)]}]}
    event: Json = {
        "metadata": meta("event"),
        "involvedObject": {"kind": "Pod", "name": "pod-1", "uid": "pod"},
    }
    event |= {
        "type": "Warning",
        "reason": next(at),
        "message": next(at),
        "note": next(at),
        "action": next(at),
    }
    group: Json = {
        "metadata": meta("group"),
        "spec": {"queue": "default", "minResources": {"cpu": next(at)}},
    }
    group["status"] = {"phase": "Pending", "conditions": conditions()}
    job: Json = {"metadata": meta("job"), "spec": {"plugins": {"env": [next(at)]}}}
    job["spec"]["tasks"] = [
        {"name": "worker", "template": {"metadata": meta("task"), "spec": pod_spec()}}
    ]
    job["status"] = {"state": {"phase": "Pending", "reason": next(at), "message": next(at)}}
    return [("Pod", pod), ("Node", node), ("Event", event), ("PodGroup", group), ("Job", job)]


TRIM = {
    "Pod": trim.pod,
    "Node": trim.node,
    "Event": trim.event,
    "PodGroup": trim.pod_group,
    "Job": trim.volcano_job,
}


def stored_bytes(texts: list[str]) -> bytes:
    """What is in the file of a history with these texts in all objects."""
    with (
        tempfile.TemporaryDirectory() as folder,
        History(f"{folder}/h.db", "https://127.0.0.1") as store,
    ):
        store.write([RecordedChange("x", kind, TRIM[kind](item)) for kind, item in objects(texts)])
        return b"".join(file.read_bytes() for file in Path(folder).iterdir())


@settings(
    max_examples=25, deadline=None, phases=(Phase.reuse, Phase.generate)
)  # a smaller example tells no more
@given(
    st.tuples(*SECRETS),
    st.sampled_from(["", "failed to mount volume: ", "Error: {", "x"]),
    st.integers(0, 50),
)
def test_no_secret_reaches_any_byte_of_the_file(
    chosen: tuple[tuple[str, str], ...], before: str, turn: int
) -> None:
    texts = [f"{before} {text} not found" for text, _ in chosen] + [text for text, _ in chosen]
    stored = stored_bytes(texts[turn % len(texts) :] + texts[: turn % len(texts)])
    own = stored_bytes(
        ["x"]
    )  # a secret may be drawn that is a word of every file, such as ContainerStatus
    for _, secret in chosen:
        # Nor a part of it; figures alone are allowed in messages.
        parts = {secret[start : start + 10] for start in range(max(1, len(secret) - 9))}
        forbidden = {secret, *(part for part in parts if len(set(part)) > 4)}
        assert not [
            part for part in forbidden if part.encode() in stored and part.encode() not in own
        ]


@settings(max_examples=30, deadline=None)
@given(st.tuples(*SECRETS[:-1]), st.sampled_from(["", "cannot read: ", "a "]))
def test_redact_masks_the_usual_shapes(chosen: tuple[tuple[str, str], ...], before: str) -> None:
    for text, secret in chosen:
        assert secret not in redact(f"{before}{text}")


# --- objects ----------------------------------------------------------------------------------------------------


def test_fields_of_volcano_are_kept() -> None:
    condition = {
        "type": "Unschedulable",
        "status": "True",
        "reason": "NotEnoughResources",
        "transitionID": "x",
    }
    group = {"metadata": {"name": "g", "uid": "1"}, "spec": {"minMember": 2, "queue": "default"}}
    group["status"] = {"phase": "Inqueue", "conditions": [condition]}
    kept = trim.pod_group(group)
    assert kept["spec"] == group["spec"]
    assert kept["status"]["conditions"][0]["reason"] == "NotEnoughResources"
    template = {
        "metadata": {"labels": {"ml.azure.com/run-id": "a"}},
        "spec": {"containers": [{"env": "x"}]},
    }
    job = {
        "metadata": {"name": "j", "uid": "2"},
        "spec": {"tasks": [{"name": "w", "template": template}]},
    }
    job["status"] = {"retryCount": 2, "state": {"phase": "Restarting"}}
    facts = ClusterFacts()
    facts.add("Job", trim.volcano_job(job))
    [read] = facts.volcano_jobs
    assert read["spec"]["tasks"][0]["template"] == {"metadata": template["metadata"]}
    assert read["status"] == job["status"]


@pytest.mark.parametrize(
    ("relevant", "kind", "version", "level"),
    [
        (True, "Deployment", "apps/v1", "Warning"),
        (False, "Deployment", "apps/v1", "Normal"),
        (True, "Node", "v1", "Normal"),
        (True, "Pod", "v1", "Normal"),
        (True, "PodGroup", "scheduling.volcano.sh/v1beta1", "Normal"),
        (True, "Job", "batch.volcano.sh/v1alpha1", "Normal"),
        (False, "Job", "batch/v1", "Normal"),
    ],
)
def test_every_warning_and_every_event_of_jobs_and_nodes_is_relevant(
    relevant: bool, kind: str, version: str, level: str
) -> None:
    raw = {"type": level, "involvedObject": {"kind": kind, "apiVersion": version}}
    assert trim.is_relevant_event(raw) is relevant


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)
parts = st.sampled_from(
    [
        "metadata",
        "spec",
        "status",
        "conditions",
        "containerStatuses",
        "involvedObject",
        "labels",
        "tasks",
        "state",
    ]
)


@settings(max_examples=40)
@given(
    st.dictionaries(
        parts, st.dictionaries(parts, json_values, max_size=4) | json_values, max_size=5
    )
)
def test_any_object_at_all_is_trimmed_without_a_fault(raw: Json) -> None:
    for keep in TRIM.values():
        json.dumps(keep(raw))


def trimmed(facts: ClusterFacts) -> ClusterFacts:
    return replace(
        facts,
        pods=[trim.pod(item) for item in facts.pods],
        nodes=[trim.node(item) for item in facts.nodes],
        events=[trim.event(item) for item in facts.events if trim.is_relevant_event(item)],
        pod_groups=[trim.pod_group(item) for item in facts.pod_groups],
        volcano_jobs=[trim.volcano_job(item) for item in facts.volcano_jobs],
        read_at=cluster_index.read([facts]).newest,  # heartbeats are not kept
    )


def test_what_is_kept_is_enough_for_the_same_diagnosis() -> None:
    whole = fleet()
    assert len(whole.pods) > 20
    kept = trimmed(whole)
    assert report.build([], [kept], [], [], [], Stats()) == report.build(
        [], [whole], [], [], [], Stats()
    )


@pytest.mark.parametrize(
    "path", sorted(incident_cases.CASES.glob("*.yaml")), ids=lambda path: path.stem
)
def test_what_is_kept_of_an_incident_gives_the_same_answer(path: Path) -> None:
    case = incident_cases.load(path)
    whole = []
    for key in ("pods", "nodes", "events", "podgroups", "vcjobs"):
        if (value := case.get(key)) is not None:
            document = (
                value
                if isinstance(value, dict)
                else {"apiVersion": "v1", "kind": "List", "items": value}
            )
            whole.append(cluster_index.parse_list(json.dumps(document).encode()))
    answers = [
        [
            [
                (item.node, item.outcome, item.cause, item.waiting and item.waiting.kind)
                for item in built.attempts
            ],
            [(item.node, item.level) for item in built.verdicts],
        ]
        for built in (report.build([], whole), report.build([], [trimmed(part) for part in whole]))
    ]
    assert answers[0] == answers[1]

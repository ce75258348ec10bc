"""The client on a real apiserver: pages, expired lists, watches that resume, and errors in one sentence."""

from __future__ import annotations

import base64
import json
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from socketserver import BaseRequestHandler, ThreadingTCPServer
from typing import Any

import pytest

from arc_toolkit.cluster import client as module
from arc_toolkit.cluster.client import Client, Gone, connect
from tests.cluster.certificates import Authority, Pair
from tests.cluster.control_plane import ControlPlane
from tests.cluster.objects import node
from tests.cluster.processes import free_ports
from tests.cluster.proxy import flaky_network
from tests.support import Result

pytestmark = pytest.mark.cluster

NODES = "/api/v1/nodes"
PODS = "/api/v1/namespaces/default/pods"


def pod(name: str) -> dict[str, Any]:
    """A pod that no scheduler looks at."""
    spec = {"schedulerName": "none", "containers": [{"name": "c", "image": "none"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def names(items: Any) -> list[str]:
    return [item["metadata"]["name"] for item in items]


# --- lists and watches ------------------------------------------------------------------------------------------


def test_a_list_is_read_in_pages_and_whole(
    cluster: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.create_all(pod(f"p-{number:02}") for number in range(25))
    client = connect(cluster.kubeconfig)
    asked = spy(client, monkeypatch)
    monkeypatch.setattr(module, "PAGE", 10)
    listing = client.list(PODS)
    assert names(listing) == [f"p-{number:02}" for number in range(25)]
    assert [bool(params.get("continue")) for params in asked] == [False, True, True]
    assert int(listing.resource_version) > 0


def test_a_list_that_expires_between_pages_is_read_again_and_each_item_is_given_once(
    cluster: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.create_all(pod(f"p-{number:02}") for number in range(25))
    client = connect(cluster.kubeconfig)
    monkeypatch.setattr(module, "PAGE", 10)
    cluster.compact_etcd()
    original, calls = client.get, []

    def expiring(path: str, params: Any = None) -> dict[str, Any]:
        calls.append(bool(params.get("continue")))
        if len(calls) == 2:
            params = {**params, "continue": aged(params["continue"])}
        return original(path, params)

    monkeypatch.setattr(client, "get", expiring)
    assert sorted(names(client.list(PODS))) == [f"p-{number:02}" for number in range(25)]
    assert calls == [False, True, False, True, True]


def aged(token: str) -> str:
    """The same place in a list of a version that etcd has thrown away; the server answers 410 to it."""
    found = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
    return base64.urlsafe_b64encode(json.dumps({**found, "rv": 1}).encode()).decode().rstrip("=")


def test_a_watch_goes_on_from_request_to_request_and_gives_each_event_once(
    cluster: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        module, "_WATCH_SECONDS", 1
    )  # three requests and more in the time of this test
    client = connect(cluster.kubeconfig)
    listing = client.list(PODS)
    assert names(listing) == []
    expected = [f"p-{number}" for number in range(8)]

    def create() -> None:
        for name in expected:
            time.sleep(0.4)
            cluster.create(pod(name))

    thread = threading.Thread(target=create)
    thread.start()
    seen = []
    for event in client.watch(PODS, listing.resource_version, seconds=30):
        if event["type"] == "ADDED":
            seen.append(event["object"]["metadata"]["name"])
        if seen == expected:
            break
    thread.join()
    assert seen == expected


def test_who_lists_again_on_gone_knows_the_truth_after_the_apiserver_was_restarted(
    cluster: ControlPlane,
) -> None:
    client = connect(cluster.kubeconfig)
    known: set[str] = set()
    done = threading.Event()

    def follow() -> None:
        while not done.is_set():
            listing = client.list(PODS)
            known.clear()
            known.update(names(listing))
            try:
                for event in client.watch(PODS, listing.resource_version, seconds=30):
                    name = event["object"]["metadata"]["name"]
                    (known.discard if event["type"] == "DELETED" else known.add)(name)
                    if done.is_set() or known == {"b"}:
                        return
            except Gone:
                continue

    thread = threading.Thread(target=follow)
    thread.start()
    cluster.create(pod("a"))
    cluster.wait("the first event", lambda: known == {"a"})
    cluster.restart_apiserver()
    cluster.create(pod("b"))
    cluster.delete("Pod", "a")
    try:
        cluster.wait("the truth", lambda: known == {"b"})
    finally:
        done.set()
        thread.join(60)
    assert not thread.is_alive()


def test_a_watch_from_a_version_that_is_gone_says_so(cluster: ControlPlane) -> None:
    cluster.create(pod("a"))
    cluster.compact_etcd()
    client = connect(cluster.kubeconfig)
    with pytest.raises(Gone):
        list(client.watch(PODS, "1", seconds=5))


def test_a_watch_ends_after_its_seconds(cluster: ControlPlane) -> None:
    client = connect(cluster.kubeconfig)
    listing = client.list(NODES)
    list(listing)
    assert list(client.watch(NODES, listing.resource_version, seconds=1)) == []


def spy(client: Client, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    asked: list[dict[str, Any]] = []
    original = client.get

    def get(path: str, params: Any = None) -> dict[str, Any]:
        asked.append(dict(params or {}))
        return original(path, params)

    monkeypatch.setattr(client, "get", get)
    return asked


# --- errors -----------------------------------------------------------------------------------------------------


@pytest.fixture
def sentence(arc: Callable[..., Result]) -> Callable[..., str]:
    """What a user reads, after it was seen to be one line and exit code 2."""

    def run(*words: object) -> str:
        result = arc("gen-instance-types", "--from-cluster", *words)
        assert result.code == 2, result.err
        assert result.err.count("\n") == 1
        return result.err

    return run


def test_a_server_that_does_not_run(
    control_plane: ControlPlane, sentence: Callable[..., str]
) -> None:
    config = control_plane.write_kubeconfig("admin", server=f"https://127.0.0.1:{free_ports(1)[0]}")
    said = sentence("--kubeconfig", config)
    assert "cannot reach the cluster arc-tests (https://127.0.0.1:" in said
    assert "connection refused" in said


@pytest.mark.parametrize("after_bytes", [0, 2500, 12000])
def test_a_connection_that_breaks_before_the_answer_is_complete(
    cluster: ControlPlane, sentence: Callable[..., str], after_bytes: int
) -> None:
    """In the TLS handshake, before the first byte of the answer, and in the middle of it: never the fault of TLS."""
    cluster.create_all(node(f"n-{number:02}", managed=False) for number in range(20))
    with flaky_network(cluster.server) as network:
        network.drop(after_bytes)
        said = sentence("--kubeconfig", cluster.write_kubeconfig("admin", server=network.url))
    assert (
        f"lost the connection to the cluster arc-tests ({network.url}) before its answer was complete"
        in said
    )
    assert "TLS" not in said


def test_a_server_that_hangs_is_announced_while_it_is_waited_for(cluster: ControlPlane) -> None:
    with flaky_network(cluster.server) as network:
        network.hang()
        config = cluster.write_kubeconfig("admin", server=network.url)
        command = [
            sys.executable,
            "-m",
            "arc_toolkit",
            "cluster",
            "nodes",
            "--quiet",
            "--kubeconfig",
            str(config),
        ]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert process.stderr is not None
        first = process.stderr.readline()  # comes before any answer does
        network.flow()
        _, rest = process.communicate(timeout=60)
    assert (
        first
        == f"warning: the cluster arc-tests ({network.url}) has not answered for 2 s; still waiting\n"
    )
    assert (process.returncode, rest) == (0, "")


def test_a_plain_http_server_at_the_address_is_what_does_not_speak_tls(
    control_plane: ControlPlane, sentence: Callable[..., str]
) -> None:
    class Plain(BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(100)
            self.request.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    with ThreadingTCPServer(("127.0.0.1", 0), Plain) as server:
        threading.Thread(
            target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True
        ).start()
        url = f"https://127.0.0.1:{server.server_address[1]}"
        said = sentence("--kubeconfig", control_plane.write_kubeconfig("admin", server=url))
        server.shutdown()
    assert "does not speak TLS as expected" in said


def test_a_server_certificate_that_has_expired(
    control_plane: ControlPlane, sentence: Callable[..., str], tmp_path: Path
) -> None:
    pair = control_plane.authority.issue("old", days=-1)
    with tls_server(pair, tmp_path) as url:
        said = sentence("--kubeconfig", control_plane.write_kubeconfig("admin", server=url))
    assert "the certificate of the cluster arc-tests" in said
    assert "has expired" in said


def test_a_server_certificate_of_another_address(
    control_plane: ControlPlane, sentence: Callable[..., str], tmp_path: Path
) -> None:
    with tls_server(control_plane.authority.issue("elsewhere"), tmp_path) as url:
        other = url.replace("127.0.0.1", "0.0.0.0")  # reaches it, and is not in its certificate
        said = sentence("--kubeconfig", control_plane.write_kubeconfig("admin", server=other))
    assert "is for another address" in said


def test_a_server_certificate_of_another_authority(
    control_plane: ControlPlane, sentence: Callable[..., str], tmp_path: Path
) -> None:
    with tls_server(Authority().issue("stranger"), tmp_path) as url:
        said = sentence("--kubeconfig", control_plane.write_kubeconfig("admin", server=url))
    assert "is not trusted" in said


def test_a_client_certificate_that_has_expired(
    control_plane: ControlPlane, sentence: Callable[..., str]
) -> None:
    config = control_plane.write_kubeconfig(
        "admin", control_plane.authority.issue("a", "system:masters", days=-1)
    )
    said = sentence("--kubeconfig", config)
    assert "does not accept these credentials (401)" in said
    assert "the client certificate of the kubeconfig expired on 20" in said


def test_credentials_that_are_wrong(
    control_plane: ControlPlane, sentence: Callable[..., str]
) -> None:
    said = sentence("--kubeconfig", control_plane.write_kubeconfig("a stranger"))
    assert "sign in again" in said


def test_no_credentials(control_plane: ControlPlane, sentence: Callable[..., str]) -> None:
    said = sentence("--kubeconfig", with_user(control_plane, {}))
    assert "the user of this context has no credentials" in said


def test_a_context_that_is_not_there(
    control_plane: ControlPlane, sentence: Callable[..., str]
) -> None:
    said = sentence("--kubeconfig", control_plane.kubeconfig, "--context", "prod")
    assert "no context 'prod' in" in said
    assert "there are: arc-tests" in said


def test_no_kubeconfig_at_all(
    sentence: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert "no kubeconfig: ~/.kube/config is not a file" in sentence()
    assert "no kubeconfig: /nowhere is not a file" in sentence("--kubeconfig", "/nowhere")


@pytest.mark.parametrize(
    "text", ["", "just words", "[1, 2]", "contexts: 3", "a: [", "contexts: [{}]"]
)
def test_a_file_that_is_not_a_kubeconfig(
    text: str, sentence: Callable[..., str], tmp_path: Path
) -> None:
    config = tmp_path / "config"
    config.write_text(text)
    assert str(config) in sentence("--kubeconfig", config)


def test_a_sign_in_command_that_fails(
    control_plane: ControlPlane, sentence: Callable[..., str]
) -> None:
    config = with_user(control_plane, exec_plugin("import sys; sys.exit('run az login')"))
    said = sentence("--kubeconfig", config)
    assert "the sign-in command of context arc-tests failed" in said
    assert "run az login" in said


def test_a_sign_in_command_that_hangs_is_announced(control_plane: ControlPlane) -> None:
    """kubelogin waits for a browser, and without a terminal nobody sees what it asks for."""
    config = with_user(control_plane, exec_plugin("import time; time.sleep(60)"))
    command = [
        sys.executable,
        "-m",
        "arc_toolkit",
        "cluster",
        "nodes",
        "--quiet",
        "--kubeconfig",
        str(config),
    ]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        first = process.stderr.readline()
        process.kill()
    assert (
        first
        == "warning: the sign-in command of the kubeconfig has not answered for 2 s; still waiting\n"
    )


def test_the_token_of_a_sign_in_command_is_used(control_plane: ControlPlane) -> None:
    token = control_plane.token("admin")
    status = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "kind": "ExecCredential",
        "status": {"token": token},
    }
    config = with_user(control_plane, exec_plugin(f"print({json.dumps(json.dumps(status))})"))
    assert connect(config).get("/version")["major"] == "1"


def test_in_a_pod_the_account_of_the_pod_is_used(
    control_plane: ControlPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kubernetes.config import incluster_config

    (tmp_path / "token").write_text(control_plane.token("admin"))
    (tmp_path / "ca.crt").write_bytes(control_plane.authority.certificate)
    host, port = control_plane.server.removeprefix("https://").split(":")
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", port)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(incluster_config, "SERVICE_TOKEN_FILENAME", str(tmp_path / "token"))
    monkeypatch.setattr(incluster_config, "SERVICE_CERT_FILENAME", str(tmp_path / "ca.crt"))
    client = connect()
    assert client.name == "in-cluster"
    assert client.get("/version")["major"] == "1"


def exec_plugin(code: str) -> dict[str, Any]:
    command = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": sys.executable,
        "args": ["-c", code],
    }
    return {"exec": {**command, "interactiveMode": "Never"}}


def with_user(plane: ControlPlane, user: dict[str, Any]) -> Path:
    path = plane.write_kubeconfig("admin")
    config = json.loads(path.read_text())
    config["users"][0]["user"] = user
    path.write_text(json.dumps(config))
    return path


@contextmanager
def tls_server(pair: Pair, folder: Path) -> Iterator[str]:
    """A server with that certificate, which never gets as far as an answer."""
    (folder / "c.crt").write_bytes(pair.certificate)
    (folder / "c.key").write_bytes(pair.key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "c.crt", folder / "c.key")

    class Handler(BaseRequestHandler):
        def handle(self) -> None:
            with suppress(OSError):  # the client turns away during the handshake
                context.wrap_socket(self.request, server_side=True).close()

    with ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield f"https://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()

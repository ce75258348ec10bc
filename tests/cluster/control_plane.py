"""A real Kubernetes for tests: etcd, apiserver, scheduler, controller manager and kwok, and Volcano when asked.

Everything listens on free loopback ports, with certificates and tokens of its own, and dies with the test run.
Objects go in and out as raw JSON; nothing here uses the code under test.
"""

from __future__ import annotations

import base64
import json
import secrets
import signal
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import urllib3

from tests.cluster.certificates import Authority, Pair, rsa_key
from tests.cluster.objects import MANAGED, NAMESPACED, node, path_for, path_of
from tests.cluster.processes import Server, free_ports

Object = dict[str, Any]

CRD = Path(__file__).with_name("instance_type_crd.json")
_TYPES = "/apis/amlarc.azureml.com/v1alpha1/instancetypes"
_FAST = [
    "--kube-api-qps=1000",
    "--kube-api-burst=2000",
]  # with the defaults, 1,000 nodes take minutes
_VOLCANO_CONF = """\
actions: "enqueue, allocate, backfill"
tiers:
- plugins: [{name: priority}, {name: gang}, {name: conformance}]
- plugins: [{name: predicates}, {name: proportion}, {name: nodeorder}]
"""


class ApiError(Exception):
    """An answer of 400 or more."""

    def __init__(self, status: int, body: Object) -> None:
        super().__init__(f"{status}: {body.get('message')}")
        self.status, self.body = status, body


class ControlPlane:
    """One cluster. `server` and `kubeconfig` are what the command under test gets."""

    def __init__(self, binaries: Mapping[str, Path], folder: Path, lease_seconds: int = 40) -> None:
        """Nodes renew their lease four times in `lease_seconds`, and are lost when they have not for so long."""
        self._binaries, self._folder, self._lease_seconds = binaries, folder, lease_seconds
        self._servers: dict[str, Server] = {}
        self._tokens = {"admin": secrets.token_hex(16)}
        self.authority = Authority()
        etcd, etcd_peer, api, scheduler, manager, kwok = free_ports(6)
        self._ports = {
            "etcd": etcd,
            "peer": etcd_peer,
            "scheduler": scheduler,
            "manager": manager,
            "kwok": kwok,
        }
        self.server = f"https://127.0.0.1:{api}"
        self._api_port = api
        self._write("ca.crt", self.authority.certificate)
        self._write_pair("apiserver", self.authority.issue("kube-apiserver"))
        self._write("accounts.key", rsa_key())
        self._pool = urllib3.PoolManager(
            maxsize=8, ca_certs=str(folder / "ca.crt"), retries=False, timeout=60
        )
        self.kubeconfig = self.write_kubeconfig(
            "admin", self.authority.issue("admin", "system:masters")
        )
        for user in ("reader", "applier", "nobody"):
            self._tokens[user] = secrets.token_hex(16)
        groups = {"admin": "system:masters"}
        lines = [
            f"{token},{user},{user},{groups.get(user, 'people')}"
            for user, token in self._tokens.items()
        ]
        self._write("tokens.csv", "\n".join(lines).encode())

    # --- running ----------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start all and return when the apiserver is ready and the InstanceType CRD is served."""
        self._start_etcd()
        self._start_apiserver()
        self._start_scheduler()
        self.restart_controller_manager()
        self.start_kwok()
        for name in ("azureml", "volcano-system"):
            self.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
        self.install_crd()

    def install_crd(self) -> None:
        """What installing the AzureML extension brings: InstanceTypes."""
        self.create(json.loads(CRD.read_text()))
        self.wait("the InstanceType CRD", lambda: self._served(_TYPES))

    def remove_crd(self) -> None:
        """As if the AzureML extension were not installed."""
        self.delete(
            "CustomResourceDefinition",
            "instancetypes.amlarc.azureml.com",
            "",
            "apiextensions.k8s.io/v1",
        )
        self.wait("the end of the InstanceType CRD", lambda: not self._served(_TYPES))

    def stop(self) -> None:
        """End everything; the apiserver's data is thrown away, so nothing needs a clean end."""
        for server in reversed(list(self._servers.values())):
            server.stop(signal.SIGKILL)

    def _run(self, name: str, *options: str) -> Server:
        command: list[str | Path] = [self._binaries[name], *options]
        self._servers[name] = Server(command, self._folder / f"{name}.log")
        return self._servers[name]

    def _start_etcd(self) -> None:
        client, peer = (f"http://127.0.0.1:{self._ports[name]}" for name in ("etcd", "peer"))
        options = [f"--data-dir={self._folder / 'etcd'}", "--unsafe-no-fsync", "--log-level=error"]
        options += [f"--listen-client-urls={client}", f"--advertise-client-urls={client}"]
        options += [f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}"]
        server = self._run("etcd", *options, f"--initial-cluster=default={peer}")
        server.wait_until(lambda: self._answers(f"{client}/health"))

    def _start_apiserver(self) -> None:
        file = self._file
        options = [
            f"--secure-port={self._api_port}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
        ]
        options += [
            f"--etcd-servers=http://127.0.0.1:{self._ports['etcd']}",
            "--endpoint-reconciler-type=none",
        ]
        options += [
            f"--tls-cert-file={file('apiserver.crt')}",
            f"--tls-private-key-file={file('apiserver.key')}",
        ]
        options += [f"--client-ca-file={file('ca.crt')}", f"--token-auth-file={file('tokens.csv')}"]
        options += ["--authorization-mode=RBAC,Node", "--disable-admission-plugins=ServiceAccount"]
        # As on AKS: https://learn.microsoft.com/azure/aks/faq
        options += ["--enable-admission-plugins=PodTolerationRestriction"]
        options += [
            "--service-account-issuer=https://127.0.0.1",
            "--service-cluster-ip-range=10.0.0.0/24",
        ]
        options += ["--delete-collection-workers=8"]
        options += [f"--service-account-key-file={file('accounts.key')}"]
        options += [f"--service-account-signing-key-file={file('accounts.key')}"]
        server = self._run("kube-apiserver", *options)
        server.wait_until(lambda: self._answers(f"{self.server}/readyz"))

    def _start_scheduler(self) -> None:
        options = [f"--kubeconfig={self.kubeconfig}", "--leader-elect=false", *_FAST]
        options += ["--bind-address=127.0.0.1", f"--secure-port={self._ports['scheduler']}"]
        options += [f"--cert-dir={self._folder}", "--authentication-skip-lookup"]
        self._run("kube-scheduler", *options)

    def restart_controller_manager(self, node_grace_seconds: int | None = None) -> None:
        """Start it (anew); a shorter grace makes a lost node NotReady sooner (kwok renews every 10 s)."""
        if "kube-controller-manager" in self._servers:
            self._servers["kube-controller-manager"].stop(signal.SIGKILL)
        options = [f"--kubeconfig={self.kubeconfig}", "--leader-elect=false", *_FAST]
        options += ["--bind-address=127.0.0.1", f"--secure-port={self._ports['manager']}"]
        options += [f"--cert-dir={self._folder}", "--authentication-skip-lookup"]
        grace = node_grace_seconds or self._lease_seconds
        options += [f"--node-monitor-grace-period={grace}s", "--node-monitor-period=2s"]
        options += [f"--service-account-private-key-file={self._file('accounts.key')}"]
        self._run("kube-controller-manager", *options, "--concurrent-gc-syncs=4")

    def restart_apiserver(self) -> None:
        """End the apiserver, wait for its exit (that takes seconds) and start it on the same port and data."""
        self.stop_apiserver()
        self._start_apiserver()

    def stop_apiserver(self) -> None:
        self._servers["kube-apiserver"].stop(signal.SIGKILL)

    def compact_etcd(self) -> None:
        """Throw old versions away, as the apiserver does every five minutes: lists and watches from them expire."""
        url = f"http://127.0.0.1:{self._ports['etcd']}/v3/kv"
        found = self._pool.request("POST", f"{url}/range", body=json.dumps({"key": "AA=="}))
        revision = json.loads(found.data)["header"]["revision"]
        self._pool.request("POST", f"{url}/compaction", body=json.dumps({"revision": revision}))

    def start_kwok(self) -> None:
        """kwok plays the kubelet of the nodes that `add_node` makes."""
        options = [
            f"--kubeconfig={self.kubeconfig}",
            "--manage-nodes-with-annotation-selector=" + _selector(MANAGED),
        ]
        options += [f"--server-address=127.0.0.1:{self._ports['kwok']}"]
        options += [f"--node-lease-duration-seconds={self._lease_seconds}"]
        self._run("kwok", *options)

    def stop_controllers(self) -> None:
        """Leave etcd and the apiserver alone with what is stored: nothing is scheduled, run or cleaned up."""
        for name in ("kwok", "kube-controller-manager", "kube-scheduler"):
            self._servers[name].stop(signal.SIGKILL)

    def stop_kwok(self) -> None:
        """All nodes are lost: no more heartbeats."""
        self._servers["kwok"].stop(signal.SIGKILL)

    def install_volcano_crds(self) -> None:
        """Volcano's kinds without anybody who acts on them."""
        import yaml

        for manifest in sorted(self._binaries["volcano-crds"].glob("*.yaml")):
            self.create_if_absent(yaml.safe_load(manifest.read_text()))
        for group in ("scheduling.volcano.sh/v1beta1", "batch.volcano.sh/v1alpha1"):
            self.wait("Volcano's CRDs", partial(self._served, f"/apis/{group}"))

    def start_volcano(self, conf: str = _VOLCANO_CONF) -> None:
        """Volcano's scheduler and controllers; a second call does nothing."""
        if "vc-scheduler" in self._servers:
            return
        self.install_volcano_crds()
        queue: Object = {"apiVersion": "scheduling.volcano.sh/v1beta1", "kind": "Queue"}
        queue |= {"metadata": {"name": "default"}, "spec": {"weight": 1, "reclaimable": True}}
        self.wait("the queue", lambda: self._accepted(queue))
        self._run_volcano("vc-controller-manager")
        self.restart_volcano_scheduler(conf)

    def restart_volcano_scheduler(self, conf: str) -> None:
        """Volcano's scheduler with another configuration."""
        if "vc-scheduler" in self._servers:
            self._servers.pop("vc-scheduler").stop(signal.SIGKILL)
        path = self._write("volcano.yaml", conf.encode())
        (listen,) = free_ports(1)
        options = [
            f"--listen-address=127.0.0.1:{listen}",
            f"--scheduler-conf={path}",
            "--schedule-period=500ms",
        ]
        self._run_volcano("vc-scheduler", *options)

    def _run_volcano(self, name: str, *more: str) -> None:
        (port,) = free_ports(1)
        options = [f"--kubeconfig={self.kubeconfig}", "--leader-elect=false", *_FAST]
        options += ["--enable-healthz", f"--healthz-address=127.0.0.1:{port}", *more]
        url = f"http://127.0.0.1:{port}/healthz"
        self._run(name, *options).wait_until(partial(self._answers, url))

    def stop_volcano(self) -> None:
        for name in ("vc-scheduler", "vc-controller-manager"):
            if name in self._servers:
                self._servers.pop(name).stop(signal.SIGKILL)

    # --- objects ----------------------------------------------------------------------------------------------

    def request(
        self,
        method: str,
        path: str,
        body: object = None,
        params: Mapping[str, object] | None = None,
        *,
        user: str = "admin",
        content: str = "application/json",
    ) -> Object:
        """One request as a user of the token file; raises ApiError."""
        url = f"{self.server}{path}" + (f"?{urlencode(params)}" if params else "")
        headers = {"authorization": f"Bearer {self._tokens[user]}", "content-type": content}
        answer = self._pool.request(
            method, url, body=json.dumps(body) if body is not None else None, headers=headers
        )
        try:
            found = json.loads(answer.data)
        except ValueError:
            found = {"message": answer.data.decode(errors="replace")}
        if answer.status >= 400:
            raise ApiError(answer.status, found)
        return found if isinstance(found, dict) else {"value": found}

    def create(self, manifest: Object) -> Object:
        return self.request("POST", path_for(manifest), manifest)

    def create_if_absent(self, manifest: Object) -> None:
        try:
            self.create(manifest)
        except ApiError as error:
            if error.status != 409:
                raise

    def create_all(self, manifests: Iterable[Object]) -> None:
        """Many objects over a few connections."""
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(self.create, manifests))

    def apply(self, manifest: Object, *, manager: str = "tests", force: bool = True) -> Object:
        """Server-side apply."""
        path = path_for(manifest, named=True)
        params = {"fieldManager": manager, "force": str(force).lower()}
        return self.request("PATCH", path, manifest, params, content="application/apply-patch+yaml")

    def patch(self, path: str, change: Object) -> Object:
        """Merge patch; end the path with `/status` for the status."""
        return self.request("PATCH", path, change, content="application/merge-patch+json")

    def get(
        self, kind: str, name: str, namespace: str = "default", api_version: str = "v1"
    ) -> Object:
        return self.request("GET", path_of(kind, api_version, namespace, name))

    def list(
        self, kind: str, namespace: str = "", api_version: str = "v1", **params: object
    ) -> list[Object]:
        """All objects of a kind; of all namespaces unless one is given."""
        found: list[Object] = self.request(
            "GET", path_of(kind, api_version, namespace), None, params
        )["items"]
        return found

    def delete(
        self, kind: str, name: str, namespace: str = "default", api_version: str = "v1"
    ) -> None:
        grace = {"gracePeriodSeconds": 0, "kind": "DeleteOptions", "apiVersion": "v1"}
        self.request("DELETE", path_of(kind, api_version, namespace, name), grace)

    def add_node(self, name: str, **options: Any) -> Object:
        """See `node`."""
        return self.create(node(name, **options))

    def wipe(self) -> None:
        """Leave the cluster as it was started: no nodes, pods, DaemonSets, events, types, and no Volcano."""
        self.stop_volcano()
        kinds = [
            ("DaemonSet", "apps/v1"),
            ("InstanceType", "amlarc.azureml.com/v1alpha1"),
            ("Pod", "v1"),
        ]
        kinds += [("Event", "v1"), ("Node", "v1")]
        if self._served("/apis/scheduling.volcano.sh/v1beta1"):
            kinds.insert(0, ("PodGroup", "scheduling.volcano.sh/v1beta1"))
        for kind, version in kinds:
            for space in ["default", "kube-system", "azureml"] if kind in NAMESPACED else [""]:
                self.wait(
                    f"the end of every {kind}",
                    partial(self._cleared, path_of(kind, version, space)),
                )
        self.wait(
            "an empty cluster",
            lambda: not self.list("Pod", limit=1) and not self.list("Node", limit=1),
        )

    def _cleared(self, path: str) -> bool:
        """Delete what is there. The server gives up on a request after a minute, so thousands may take several."""
        grace = {"gracePeriodSeconds": 0, "kind": "DeleteOptions", "apiVersion": "v1"}
        try:
            self.request("DELETE", path, grace)
            return not self.request("GET", path, None, {"limit": 1})["items"]
        except (ApiError, urllib3.exceptions.HTTPError):
            return False

    def wait(
        self, what: str, ready: Callable[[], bool], seconds: float = 120, every: float = 0.1
    ) -> None:
        """Poll until ready; a RuntimeError says what did not come.

        A server that swaps the storage of a changed CRD answers 503 for a moment: that is "not yet".
        """

        def is_ready() -> bool:
            try:
                return ready()
            except ApiError as error:
                if error.status != 503:
                    raise
                return False

        end = time.monotonic() + seconds
        while not is_ready():
            if time.monotonic() > end:
                raise RuntimeError(f"waited {seconds} s for {what}")
            time.sleep(every)

    def token(self, user: str) -> str:
        return self._tokens[user]

    def write_kubeconfig(self, user: str, pair: Pair | None = None, *, server: str = "") -> Path:
        """A kubeconfig with the context `arc-tests`: by certificate, or by the token of a user."""
        who: Object = {"token": self._tokens.get(user, "wrong")}
        if pair:
            who = {
                "client-certificate-data": _base64(pair.certificate),
                "client-key-data": _base64(pair.key),
            }
        there = {
            "server": server or self.server,
            "certificate-authority-data": _base64(self.authority.certificate),
        }
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "arc-tests",
            "clusters": [{"name": "tests", "cluster": there}],
            "users": [{"name": user, "user": who}],
            "contexts": [{"name": "arc-tests", "context": {"cluster": "tests", "user": user}}],
        }
        return self._write(f"kubeconfig-{user}-{secrets.token_hex(2)}", json.dumps(config).encode())

    # --- small things -----------------------------------------------------------------------------------------

    def _answers(self, url: str) -> bool:
        headers = {"authorization": f"Bearer {self._tokens['admin']}"}
        try:
            return bool(self._pool.request("GET", url, headers=headers).status == 200)
        except urllib3.exceptions.HTTPError:
            return False

    def _served(self, path: str) -> bool:
        return self._answers(f"{self.server}{path}")

    def _accepted(self, manifest: Object) -> bool:
        try:
            self.create_if_absent(manifest)
        except ApiError:
            return False
        return True

    def _file(self, name: str) -> Path:
        return self._folder / name

    def _write(self, name: str, data: bytes) -> Path:
        self._file(name).write_bytes(data)
        return self._file(name)

    def _write_pair(self, name: str, pair: Pair) -> None:
        self._write(f"{name}.crt", pair.certificate)
        self._write(f"{name}.key", pair.key)


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _selector(annotations: Mapping[str, str]) -> str:
    return ",".join(f"{key}={value}" for key, value in annotations.items())

"""The CRDs of ../shared/crds in a cluster, and the API server's own verdict on objects of any kind."""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from tests.cluster.control_plane import ApiError, ControlPlane
from tests.support import ROOT, unavailable

Object = dict[str, Any]
Kind = tuple[str, str]  # apiVersion, kind
CRDS = ROOT.parent / "shared" / "crds"
_CRD_API = "apiextensions.k8s.io/v1"
# Two versions of one CRD cannot be there at once: these are installed last, in place of the others.
_REPLACEMENTS = ("trainer-v2.0.1", "trainer-v2.1.0", "trainer-v2.2.1", "mpi-operator-v0.8.0")
_WITHOUT_SCHEMA = "argo-v4.1.2-minimal"


class KubernetesLoader(yaml.CSafeLoader):
    """YAML as the API server reads it: a date is text."""


KubernetesLoader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in rows if tag != "tag:yaml.org,2002:timestamp"]
    for first, rows in yaml.CSafeLoader.yaml_implicit_resolvers.items()
}


def read_yaml(data: bytes | str) -> list[Any]:
    return list(yaml.load_all(data, KubernetesLoader))


@dataclass(frozen=True)
class CrdFile:
    """A CRD of ../shared/crds."""

    path: Path
    kind: Kind  # with the group alone

    @property
    def release(self) -> str:
        """The project and its version."""
        return self.path.parent.name


def crd_rounds(kinds: Iterable[Kind]) -> list[list[CrdFile]]:
    """The CRDs of these kinds, by what can be installed together: all first, then each that replaces one of them."""
    if not CRDS.is_dir():
        unavailable(f"there are no CRDs in {CRDS}")
    needed = set(map(group_kind, kinds))
    files = []
    for line in (CRDS / "SOURCES.tsv").read_text(encoding="utf-8").splitlines()[1:]:
        name, *_, described = line.split("\t")
        kind, group, _ = described.split()
        files.append(CrdFile(CRDS / name, (group, kind)))
    files = [file for file in files if file.kind in needed and file.release != _WITHOUT_SCHEMA]
    first = [file for file in files if file.release not in _REPLACEMENTS]
    return [first, *([file] for file in files if file.release in _REPLACEMENTS)]


def group_kind(kind: Kind) -> Kind:
    return kind[0].rpartition("/")[0], kind[1]


def _crd(path: Path) -> Object:
    data = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    (document,) = filter(None, read_yaml(data))
    crd: Object = _without_descriptions(document)
    # Without a service for it there is no conversion; one of both versions is enough for a verdict.
    crd["spec"].pop("conversion", None)
    crd.pop("status", None)
    return crd


def _without_descriptions(value: Any) -> Any:
    """Most of the bytes of a CRD, and no part of its verdicts; a property of that name is a mapping, and stays."""
    if isinstance(value, dict):
        return {
            key: _without_descriptions(item)
            for key, item in value.items()
            if key != "description" or not isinstance(item, str)
        }
    return [_without_descriptions(item) for item in value] if isinstance(value, list) else value


class Verdicts:
    """What the API server says to objects, without keeping them: `kubectl apply --dry-run=server --validate=strict`."""

    def __init__(self, cluster: ControlPlane) -> None:
        self._cluster = cluster
        self._resources: dict[str, dict[str, Object]] = {}
        self._namespaces = {"default"}
        self._installed: set[str] = set()

    def install(self, files: Iterable[CrdFile]) -> None:
        """Install CRDs, in place of those of the same name, and wait until their kinds are served."""
        crds = [_crd(file.path) for file in files]
        for crd in crds:
            name, group = crd["metadata"]["name"], crd["spec"]["group"]
            if name in self._installed:
                self._cluster.delete("CustomResourceDefinition", name, "", _CRD_API)
                self._cluster.wait(f"the end of {name}", partial(self._gone, name), 60)
            self._installed.add(name)
            self._cluster.create(crd)
            for version in crd["spec"]["versions"]:
                self._resources.pop(f"{group}/{version['name']}", None)
        for crd in crds:
            self._cluster.wait(
                f"{crd['metadata']['name']}", partial(self._established, crd), 120, every=0.2
            )

    def of(self, manifest: Object) -> str | None:
        """Why it is rejected; empty if it is accepted, None if the cluster does not know its kind."""
        resource = self._resource(str(manifest["apiVersion"]), str(manifest["kind"]))
        if resource is None:
            return None
        version = manifest["apiVersion"]
        path = f"/api/{version}" if "/" not in version else f"/apis/{version}"
        if resource["namespaced"]:
            namespace = (manifest.get("metadata") or {}).get("namespace") or "default"
            self._make_namespace(namespace)
            path += f"/namespaces/{namespace}"
        strict = {"dryRun": "All", "fieldValidation": "Strict"}
        try:
            self._cluster.request("POST", f"{path}/{resource['name']}", manifest, strict)
        except ApiError as error:
            return str(error)
        return ""

    def _gone(self, name: str) -> bool:
        try:
            self._cluster.get("CustomResourceDefinition", name, "", _CRD_API)
        except ApiError as error:
            return error.status == 404
        return False

    def _established(self, crd: Object) -> bool:
        """Discovery has it and an empty list of each version is answered."""
        names = crd["spec"]["names"]
        for version in crd["spec"]["versions"]:
            path = f"/apis/{crd['spec']['group']}/{version['name']}"
            try:
                listed = self._cluster.request("GET", path)["resources"]
                self._cluster.request("GET", f"{path}/{names['plural']}", None, {"limit": 1})
            except ApiError:
                return False
            if names["plural"] not in [row["name"] for row in listed]:
                return False
        return True

    def _resource(self, api_version: str, kind: str) -> Object | None:
        if api_version not in self._resources:
            path = f"/api/{api_version}" if "/" not in api_version else f"/apis/{api_version}"
            try:
                rows = self._cluster.request("GET", path)["resources"]
            except ApiError:
                return None
            self._resources[api_version] = {
                row["kind"]: row for row in rows if "/" not in row["name"]
            }
        return self._resources[api_version].get(kind)

    def _make_namespace(self, name: str) -> None:
        if name not in self._namespaces:
            self._namespaces.add(name)
            self._cluster.create_if_absent(
                {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            )


def objects_in(document: Any) -> Iterator[Object]:
    """The objects of a document: items of a List, and also those inside of others, which no schema describes."""
    if isinstance(document, list):
        for item in document:
            yield from objects_in(item)
    elif isinstance(document, dict):
        named = isinstance(document.get("kind"), str) and isinstance(
            document.get("apiVersion"), str
        )
        if named and document["kind"] != "List":
            yield (
                document if "metadata" in document else {**document, "metadata": {"name": "inside"}}
            )
        for item in document.values():
            yield from objects_in(item)

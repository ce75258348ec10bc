"""Checkpoints on a disk that is lost with the spot node."""

from __future__ import annotations

import re
from collections.abc import Iterator

from arc_toolkit.edit.yaml.nodes import YamlNode, get, items_of, pairs, text_of
from arc_toolkit.findings import rule
from arc_toolkit.placement.decisions import shown_spec
from arc_toolkit.placement.manifests import PodSpec, Workload
from arc_toolkit.placement.place_plan import PlacePlan
from arc_toolkit.placement.rules.spot_rules import spot_pods

_NAMES_CHECKPOINTS = re.compile(r"(?i)check-?_?point|ckpt")
_PLACE = re.compile(r"/|[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_OPTION = re.compile(
    r"""--?([\w-]*(?:check[-_]?point|ckpt)[\w-]*)[= ]+(["']?)"""
    r"""((?:/|[a-z][a-z0-9+.-]*://)[^\s"']+)""",
    re.IGNORECASE,
)
# Names of a checkpoint that comes with the image: the training begins with it.
_READS = re.compile(r"(?:^|[-_])(?:init|initial|load|pretrained|base)(?:[-_]|$)", re.IGNORECASE)
# Volumes that go with the pod or with its node.
_LOCAL = ("emptyDir", "hostPath", "ephemeral")


@rule("warning")
def local_checkpoint_on_spot(plan: PlacePlan) -> None:
    for workload, spec in spot_pods(plan):
        lasting = _lasting(workload, spec)
        for container in items_of(spec.get("containers")):
            mounts = [
                text_of(get(mount, "mountPath")) or ""
                for mount in items_of(get(container, "volumeMounts"))
                if text_of(get(mount, "name")) in lasting
            ]
            places = list(_places(container))
            local = [(node, place) for node, place in places if not _is_kept(place, mounts)]
            if len(local) < len(places):
                continue  # another place is kept: the local one may be copied there
            for node, place in local:
                shown = shown_spec(workload, spec)
                message = f"{shown}: checkpoints go to {place}, which is lost with the node"
                reason = "mount a PersistentVolumeClaim there, or use a URL of a bucket"
                plan.report(local_checkpoint_on_spot, message, node, reason)


def _is_kept(place: str, mounts: list[str]) -> bool:
    """Whether it is a URL, or below a volume that outlives the node."""
    return "://" in place or any(
        place == at or place.startswith(at.rstrip("/") + "/") for at in mounts
    )


def _places(container: YamlNode) -> Iterator[tuple[YamlNode, str]]:
    """Absolute paths and URLs in variables and arguments about checkpoints, except for reading."""
    for variable in items_of(get(container, "env")):
        value = text_of(get(variable, "value")) or ""
        name = text_of(get(variable, "name")) or ""
        if _NAMES_CHECKPOINTS.search(name) and not _READS.search(name) and _PLACE.match(value):
            yield variable, value
    words = [*items_of(get(container, "command")), *items_of(get(container, "args"))]
    text = " ".join(text_of(word) or "" for word in words)
    for match in _OPTION.finditer(text):
        if not _READS.search(match[1]):
            yield words[0], match[3]


def _lasting(workload: Workload, spec: PodSpec) -> set[str | None]:
    """The names of volumes that outlive the node, claims of a StatefulSet included."""
    claims = items_of(workload.get("spec", "volumeClaimTemplates"))
    return {text_of(get(claim, "metadata", "name")) for claim in claims} | {
        text_of(get(volume, "name"))
        for volume in items_of(spec.get("volumes"))
        if not any(kind in pairs(volume) for kind in _LOCAL)
    }

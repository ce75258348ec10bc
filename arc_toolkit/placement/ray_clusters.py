"""A Ray cluster with an on-demand head and spot workers, as the definition that `ray up` or KubeRay
reads. Pure.

https://docs.ray.io/en/latest/cluster/vms/references/ray-cluster-configuration.html. `node_config`
is, on each cloud:
    azure   the parameters of ray/autoscaler/_private/_azure/azure-vm-template.json
    aws     the arguments of boto3's create_instances
    gcp     the body of https://cloud.google.com/compute/docs/reference/rest/v1/instances/insert
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from arc_toolkit.edit.yaml.writer import quoted
from arc_toolkit.errors import ArcError
from arc_toolkit.kube import quantities
from arc_toolkit.placement.spot import SpotCapacity
from arc_toolkit.resources import render

CLOUDS = ("azure", "aws", "gcp", "kubernetes")
HEAD_SIZES = {"azure": "Standard_D4s_v5", "aws": "m5.xlarge", "gcp": "n2-standard-4"}
# Images of VMs; none for AWS, where Ray has one per region. Docker is installed if it is missing.
VM_IMAGES = {
    "azure": "microsoft-dsvm:ubuntu-2204:2204-gen2:latest",
    "aws": "",
    "gcp": "projects/ubuntu-os-cloud/global/images/family/ubuntu-2204-lts",
}
DATA, SHARE = "/data", "/share"
# Which options a cloud needs, and which it has no use for, by the names of fields.
_NEEDED = {
    "azure": ("size", "region"),
    "aws": ("size", "region"),
    "gcp": ("size", "region", "zone", "project", "cpus"),
    "kubernetes": ("cpus", "memory"),
}
_VM = (
    "size",
    "head_size",
    "region",
    "zone",
    "resource_group",
    "project",
    "vm_image",
    "disk",
    "data_disk",
)
_USELESS = {
    "azure": ("project", "memory", "cpus", "gpus"),
    "aws": ("project", "resource_group", "memory", "cpus"),
    "gcp": ("resource_group", "memory"),
    "kubernetes": _VM,
}
_WHY_USELESS = {
    ("azure", "cpus"): "the size has them",
    ("azure", "gpus"): "the size has them",
    ("aws", "cpus"): "Ray asks EC2",
    ("kubernetes", "disk"): "a node has what its pool has",
    ("kubernetes", "data_disk"): "use --share with a PersistentVolumeClaim",
}

_NAME = re.compile(r"[a-z](?:[a-z0-9-]{0,38}[a-z0-9])?", re.ASCII)
_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*", re.ASCII)
_FORMS: dict[str, tuple[re.Pattern[str], str]] = {
    "name": (_NAME, "1 to 40 small letters, digits and hyphens, with a letter first"),
    "size": (_WORD, "the name of a size"),
    "head_size": (_WORD, "the name of a size"),
    "region": (
        re.compile(r"[a-z0-9-]+", re.ASCII),
        "the name of a region, such as westeurope or us-east-1",
    ),
    "zone": (re.compile(r"[a-z0-9-]+(?:,[a-z0-9-]+)*", re.ASCII), "zones with commas"),
    "resource_group": (re.compile(r"[A-Za-z0-9_.-]{1,90}", re.ASCII), "letters, digits, - _ and ."),
    "project": (re.compile(r"[a-z0-9.:-]+", re.ASCII), "the ID of a project"),
    "image": (
        re.compile(r"[a-z0-9][A-Za-z0-9._/:@-]*", re.ASCII),
        "an image such as rayproject/ray:2.60.0-py311",
    ),
    "ray": (re.compile(r"\d+\.\d+\.\d+", re.ASCII), "a version such as 2.60.0"),
    "python": (re.compile(r"3\.\d+", re.ASCII), "a version such as 3.11"),
}
_VM_IMAGE_FORMS = {
    "azure": (re.compile(r"(?:[\w.-]+:){3}[\w.-]+", re.ASCII), "publisher:offer:sku:version"),
    "aws": (re.compile(r"ami-[0-9a-f]+", re.ASCII), "an AMI such as ami-0123456789abcdef0"),
    "gcp": (
        re.compile(r"projects/[\w.:-]+/global/images/(?:family/)?[\w.-]+", re.ASCII),
        "projects/P/global/images/I",
    ),
}
_EXPORT = re.compile(r"[A-Za-z0-9.-]+:/[A-Za-z0-9._/-]*", re.ASCII)
_CLAIM = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?", re.ASCII)


def toolkit_packages(toolkit: str, cloud: str) -> tuple[list[str], list[str]]:
    """What pip installs as arc-toolkit, and the local wheels that nodes get; `none` is neither."""
    if not toolkit.endswith(".whl") or "://" in toolkit:
        return ([] if toolkit == "none" else [toolkit]), []
    if cloud == "kubernetes":
        raise ArcError(
            f"--arc-toolkit {toolkit}: pods cannot read a local file; "
            "use a URL, or put it into --image"
        )
    if not Path(toolkit).is_file():
        raise ArcError(f"--arc-toolkit {toolkit}: no such file")
    return [], [str(Path(toolkit).resolve())]


@dataclass(frozen=True)
class RayClusterPlan:
    """The options. `share`: an NFS export, in Kubernetes a claim; `packages`: for pip."""

    cloud: str
    name: str
    ray: str
    python: str
    most: int
    least: int = 0
    idle_minutes: int = 5
    size: str = ""
    head_size: str = ""
    region: str = ""
    zone: str = ""
    resource_group: str = ""
    project: str = ""
    cpus: int | None = None
    gpus: int | None = None
    memory: str = ""
    disk: int | None = None
    data_disk: int | None = None
    share: str = ""
    image: str = ""
    vm_image: str = ""
    packages: Sequence[str] = ()
    capacity: SpotCapacity | None = None  # what spot nodes look like, for Kubernetes

    def __post_init__(self) -> None:
        for name in _NEEDED[self.cloud]:
            if getattr(self, name) in ("", None):
                raise ArcError(f"--cloud {self.cloud} needs {_option(name)}")
        for field in fields(self):
            if field.name in _USELESS[self.cloud] and getattr(self, field.name) not in ("", None):
                why = _WHY_USELESS.get((self.cloud, field.name), "it has no such thing")
                raise ArcError(f"{_option(field.name)} is not for --cloud {self.cloud}: {why}")
        if not 0 <= self.least <= self.most or not self.most:
            raise ArcError(
                f"--min {self.least} --max {self.most}: use 0 <= min <= max, and max above 0"
            )
        for name in ("idle_minutes", "cpus", "disk", "data_disk"):
            if (count := getattr(self, name)) is not None and count < 1:
                raise ArcError(f"{_option(name)} {count}: use a number above 0")
        if self.gpus is not None and self.gpus < 0:
            raise ArcError(f"--gpus {self.gpus}: use 0 or more")
        if self.cloud == "azure" and self.data_disk:
            raise ArcError(
                "--data-disk: Ray's template for VMs of Azure has no data disks; "
                "use a larger --disk"
            )
        self._check_forms()

    def _check_forms(self) -> None:
        forms = dict(_FORMS)
        if self.cloud != "kubernetes":
            forms["vm_image"] = _VM_IMAGE_FORMS[self.cloud]
            forms["share"] = (_EXPORT, "an NFS export, such as 10.0.0.4:/train")
        else:
            forms["share"] = (_CLAIM, "the name of a PersistentVolumeClaim")
        for name, (pattern, form) in forms.items():
            text = getattr(self, name)
            if text and not pattern.fullmatch(text):
                raise ArcError(f"{_option(name)} {text!r}: use {form}")
        if self.cloud in ("aws", "gcp"):  # those of Azure are numbers
            for zone in filter(None, self.zone.split(",")):
                if not zone.startswith(self.region):
                    raise ArcError(f"--zone {zone} is not in --region {self.region}")
        if self.memory:
            try:
                quantities.bytes_requested(self.memory)
            except ValueError:
                raise ArcError(f"--memory {self.memory!r}: use a quantity such as 16Gi") from None
        for package in self.packages:
            if not package.isprintable() or package.startswith("-") or not package.strip():
                raise ArcError(
                    f"--pip {package!r}: use what pip installs, such as torch or a URL of a wheel"
                )


def definition(plan: RayClusterPlan, resources: dict[str, int], wheels: Sequence[str] = ()) -> str:
    """The YAML text. `resources` of a worker, for the autoscaler; `wheels` to copy to the nodes."""
    copies = [f"/tmp/wheels/{path.rpartition('/')[2]}" for path in wheels]  # noqa: S108
    pip = [*copies, *plan.packages]
    install = "pip install -q " + " ".join(map(shlex.quote, pip)) if pip else ""
    has_gpu = plan.gpus or resources.get("GPU")
    tag = f"{plan.ray}-py{plan.python.replace('.', '')}{'-gpu' if has_gpu else ''}"
    image = plan.image or f"rayproject/ray:{tag}"
    values: dict[str, Any] = {"plan": plan, "image": image, "install": install, "quoted": quoted}
    if plan.cloud == "kubernetes":
        assert plan.capacity is not None
        values["capacity"] = plan.capacity
        return render("ray_cluster_kubernetes.yaml.j2", **values)
    volumes = [path for path, used in ((DATA, plan.data_disk), (SHARE, plan.share)) if used]
    return render(
        "ray_cluster.yaml.j2",
        **values,
        group=plan.resource_group or f"{plan.name}-rg",
        head_size=plan.head_size or HEAD_SIZES[plan.cloud],
        vm_image=plan.vm_image or VM_IMAGES[plan.cloud],
        disk=plan.disk or 128,
        volumes=volumes,
        head_commands=_host_commands(plan, data_disk=False),
        worker_commands=_host_commands(plan, data_disk=True) if plan.data_disk else [],
        resources=resources,
        wheels={f"/tmp/wheels/{path.rpartition('/')[2]}": path for path in wheels},  # noqa: S108
    )


def _host_commands(plan: RayClusterPlan, *, data_disk: bool) -> list[str]:
    """Shell commands for a VM before its container starts."""
    text = render(
        "ray_host_commands.sh.j2",
        plan=plan,
        data_disk=data_disk,
        data_path=DATA,
        share_path=SHARE,
    )
    return [line for line in text.splitlines() if line]


def _option(name: str) -> str:
    names = {"idle_minutes": "idle", "least": "min", "most": "max"}
    return "--" + names.get(name, name).replace("_", "-")

"""One spot VM that trains: cloud-init, a systemd unit, and `az` commands, as files. Pure.

Custom data runs at the first boot only, so it installs a unit that starts the training at every
boot:
https://learn.microsoft.com/azure/virtual-machines/custom-data,
https://learn.microsoft.com/azure/virtual-machines/spot-vms
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from decimal import Decimal

from arc_toolkit.azure.spot_pool import EVICTION_POLICIES, ON_DEMAND_PRICE, check_size, price_text
from arc_toolkit.errors import ArcError
from arc_toolkit.resources import render
from arc_toolkit.sizing.vm_sizes import VmSize

DEFAULT_IMAGE = "Ubuntu2204"
DEFAULT_CHECKPOINTS = "/app/checkpoints"
# The first is the default, unlike in AKS: the disk of a single VM holds its checkpoints.
POLICIES = tuple(reversed(EVICTION_POLICIES))

_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,62}[A-Za-z0-9])?", re.ASCII)
_GROUP = re.compile(r"[A-Za-z0-9_-](?:[A-Za-z0-9._-]{0,88}[A-Za-z0-9_-])?", re.ASCII)
# An alias such as Ubuntu2204, or publisher:offer:sku:version, or a resource id of an image.
_IMAGE = re.compile(
    r"[A-Za-z0-9][A-Za-z0-9._-]*|(?:[\w.-]+:){3}[\w.-]+|/subscriptions/[\w./-]+", re.ASCII
)
_CONTAINER = re.compile(r"[a-z0-9][a-z0-9._/:@-]*", re.ASCII)
_CONTAINER_PATH = re.compile(r"/[A-Za-z0-9._/-]+", re.ASCII)


@dataclass(frozen=True)
class SpotVm:
    """A VM and what it runs: a command, or a container with or without one."""

    name: str
    size: VmSize
    region: str
    command: str = ""
    container: str = ""
    checkpoints: str = DEFAULT_CHECKPOINTS
    image: str = DEFAULT_IMAGE
    resource_group: str = ""
    eviction_policy: str = POLICIES[0]
    max_price: Decimal = ON_DEMAND_PRICE

    def __post_init__(self) -> None:
        _check("--name", self.name, _NAME, "1 to 64 letters, digits and hyphens")
        _check("--resource-group", self.group, _GROUP, "letters, digits, - _ and .")
        _check(
            "--region",
            self.region,
            re.compile(r"[a-z0-9]+"),
            "the name without spaces, such as westeurope",
        )
        _check(
            "--image",
            self.image,
            _IMAGE,
            f"an alias such as {DEFAULT_IMAGE}, or publisher:offer:sku:version",
        )
        if self.image == "UbuntuLTS":
            raise ArcError(f"--image UbuntuLTS: az has removed this alias; use {DEFAULT_IMAGE}")
        if self.container:
            _check(
                "--container",
                self.container,
                _CONTAINER,
                "an image such as registry.example.com/train:1",
            )
            _check(
                "--checkpoints",
                self.checkpoints,
                _CONTAINER_PATH,
                "a folder of the container, such as /app/out",
            )
        elif not self.command.strip():
            raise ArcError('what is to run? use --command "python train.py", or --container IMAGE')
        if not self.command.isprintable():
            raise ArcError(
                "--command: use one line without control characters; put more into a script"
            )
        try:
            shlex.split(self.command)
        except ValueError as error:
            raise ArcError(
                f"--command {self.command!r} is not a shell command: {str(error).lower()}"
            ) from None
        check_size(self.size)
        if self.size.architecture != "amd64" and ":" not in self.image and "/" not in self.image:
            raise ArcError(
                f"{self.size.name} is {self.size.architecture} and the image {self.image} is amd64: "
                "choose another size, or an image by publisher:offer:sku:version"
            )

    @property
    def group(self) -> str:
        """A resource group of its own, so that deleting it deletes this VM and nothing else."""
        return self.resource_group or f"{self.name}-rg"

    @property
    def notes(self) -> list[str]:
        notes = []
        if self.eviction_policy == "Delete":
            notes.append(
                "--eviction-policy Delete: the disk goes too, so write checkpoints to Blob storage"
            )
        if self.size.gpus:
            notes.append(
                f"{self.size.name} has a GPU: its driver must be in --image, or be installed with "
                "`az vm extension set --publisher Microsoft.HpcCompute --name NvidiaGpuDriverLinux`"
            )
        return notes


def files(vm: SpotVm) -> dict[str, str]:
    """The files by name; a Dockerfile only for a container."""
    values = {
        "vm": vm,
        "price": price_text(vm.max_price),
        "group": vm.group,
        "runner": render(
            "spot_vm_runner.sh.j2",
            vm=vm,
            words=[shlex.quote(word) for word in shlex.split(vm.command)],
        ),
        "unit": render("spot_vm.service.j2", vm=vm),
    }
    rendered = {
        "cloud-init.yaml": render("spot_vm_cloud_init.yaml.j2", **values),
        "spot-vm.sh": render("spot_vm.sh.j2", **values),
    }
    if vm.container:
        rendered["Dockerfile"] = render(
            "spot_vm.Dockerfile.j2", words=shlex.split(vm.command) or ["python", "train.py"]
        )
    return rendered


def _check(option: str, text: str, pattern: re.Pattern[str], form: str) -> None:
    if not pattern.fullmatch(text):
        raise ArcError(f"{option} {text!r}: use {form}")

"""`gen-ray-cluster`: a Ray cluster with an on-demand head and spot workers, for `ray up` or KubeRay."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from arc_toolkit.cli.console import Console
from arc_toolkit.cli.main import REPEATED
from arc_toolkit.errors import OK, ArcError

if TYPE_CHECKING:
    from arc_toolkit.placement.ray_clusters import RayClusterPlan

EPILOG = """\
examples:
  arc-toolkit gen-ray-cluster --cloud azure --name train --size Standard_D16s_v5 --region westeurope --max 8 -o ray.yaml
  arc-toolkit gen-ray-cluster --cloud aws --name train --size m5.4xlarge --region us-east-1 --max 8 \\
    --share fs-01234567.efs.us-east-1.amazonaws.com:/ -o ray.yaml
  arc-toolkit gen-ray-cluster --cloud kubernetes --name train --cpus 8 --memory 32Gi --max 8 | kubectl apply -f -

then: ray up ray.yaml; ray attach ray.yaml -p 10001; arc-toolkit elastic -f train.py -u ray://127.0.0.1:10001 -m 8
"""
RAY = "2.60.0"  # if none is installed here


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    parser.add_argument("--cloud", required=True, choices=["azure", "aws", "gcp", "kubernetes"])
    parser.add_argument("--name", required=True, help="name of the cluster")
    parser.add_argument("--max", type=int, required=True, metavar="N", help="most workers")
    parser.add_argument(
        "--min", type=int, default=0, metavar="N", help="least workers (default: 0)"
    )
    parser.add_argument(
        "--idle",
        type=int,
        default=5,
        metavar="MINUTES",
        help="how long a worker without work stays (default: 5)",
    )
    vms = parser.add_argument_group("VMs: azure, aws, gcp")
    vms.add_argument(
        "--size", default="", metavar="NAME", help="of workers: VM size, instance or machine type"
    )
    vms.add_argument(
        "--head-size", default="", metavar="NAME", help="of the head (default: 4 vCPUs)"
    )
    vms.add_argument("--region", default="", metavar="NAME", help="such as westeurope or us-east-1")
    vms.add_argument("--zone", default="", metavar="NAMES", help="zones with commas (gcp: needed)")
    vms.add_argument(
        "--resource-group",
        default="",
        metavar="NAME",
        help="azure (default: the name of the cluster and -rg)",
    )
    vms.add_argument("--project", default="", metavar="ID", help="gcp: needed")
    vms.add_argument("--disk", type=int, metavar="GIB", help="the disk of a VM (default: 128)")
    vms.add_argument(
        "--data-disk", type=int, metavar="GIB", help="aws, gcp: one more at /data of a worker"
    )
    vms.add_argument(
        "--vm-image", default="", metavar="IMAGE", help="of the VMs, an Ubuntu with cloud-init"
    )
    pods = parser.add_argument_group("what a worker has: kubernetes, gcp, aws")
    pods.add_argument("--cpus", type=int, metavar="N", help="CPUs (not for aws)")
    pods.add_argument("--gpus", type=int, metavar="N", help="GPUs; the image then has CUDA")
    pods.add_argument("--memory", default="", metavar="QUANTITY", help="kubernetes: such as 32Gi")
    pods.add_argument(
        "--nodes",
        choices=["aks", "aks-nap", "eks", "gke"],
        help="kubernetes: what spot nodes look like (default: aks)",
    )
    every = parser.add_argument_group("every node")
    every.add_argument(
        "--share",
        default="",
        metavar="EXPORT",
        help="at /share, for checkpoints: SERVER:/PATH of an NFS; kubernetes: a PersistentVolumeClaim",
    )
    every.add_argument(
        "--image",
        default="",
        help="container image (default: rayproject/ray for --ray and --python)",
    )
    every.add_argument(
        "--ray",
        default="",
        metavar="VERSION",
        help=f"of Ray (default: the one installed here, or {RAY})",
    )
    every.add_argument(
        "--python",
        default="",
        metavar="VERSION",
        help="of Python (default: the one that runs this)",
    )
    every.add_argument(
        "--arc-toolkit",
        default="arc-toolkit[blob]",
        metavar="PIP",
        help="what pip installs as arc-toolkit: a name, a URL, a wheel here; none: it is in the image "
        "(default: %(default)s)",
    )
    every.add_argument(
        "--pip", **REPEATED, metavar="PACKAGE", help="what pip installs too; repeat for more"
    )
    parser.add_argument(
        "-o", "--output", default="-", metavar="FILE", help="default: standard output"
    )


def run(args: argparse.Namespace, console: Console) -> int:
    from arc_toolkit.file_io import write_atomic
    from arc_toolkit.placement.ray_clusters import definition

    plan, wheels = _plan(args)
    resources = _resources(plan)
    text = definition(plan, resources, wheels)
    if args.output == "-":
        console.out(text, end="")
    else:
        write_atomic(Path(args.output), text)
        then = (
            f"kubectl apply -f {args.output}"
            if plan.cloud == "kubernetes"
            else f"ray up {args.output}"
        )
        console.note(f"wrote {args.output}; next: {then}")
    if not plan.image:
        console.note(
            f"clients need Ray {plan.ray} and Python {plan.python} too, as the nodes have them"
        )
    return OK


def _plan(args: argparse.Namespace) -> tuple[RayClusterPlan, list[str]]:
    import sys

    from arc_toolkit.placement.ray_clusters import RayClusterPlan
    from arc_toolkit.placement.spot import CLOUDS

    if args.nodes and args.cloud != "kubernetes":
        raise ArcError(
            f"--nodes {args.nodes} is not for --cloud {args.cloud}: it says what nodes of Kubernetes look like"
        )
    toolkit, wheels, packages = args.arc_toolkit, [], list(args.pip)
    if toolkit.endswith(".whl") and "://" not in toolkit:
        if args.cloud == "kubernetes":
            raise ArcError(
                f"--arc-toolkit {toolkit}: pods cannot read a file here; use a URL, or put it into --image"
            )
        if not Path(toolkit).is_file():
            raise ArcError(f"--arc-toolkit {toolkit}: no such file")
        wheels = [str(Path(toolkit).resolve())]
    elif toolkit != "none":
        packages.insert(0, toolkit)
    plan = RayClusterPlan(
        cloud=args.cloud,
        name=args.name,
        ray=args.ray or _installed_ray(),
        python=args.python or f"{sys.version_info.major}.{sys.version_info.minor}",
        most=args.max,
        least=args.min,
        idle_minutes=args.idle,
        size=args.size,
        head_size=args.head_size,
        region=args.region,
        zone=args.zone,
        resource_group=args.resource_group,
        project=args.project,
        cpus=args.cpus,
        gpus=args.gpus,
        memory=args.memory,
        disk=args.disk,
        data_disk=args.data_disk,
        share=args.share,
        image=args.image,
        vm_image=args.vm_image,
        packages=packages,
        capacity=CLOUDS[args.nodes or "aks"],
    )
    return plan, wheels


def _installed_ray() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("ray")
    except PackageNotFoundError:
        return RAY


def _resources(plan: RayClusterPlan) -> dict[str, int]:
    """What the autoscaler expects of a worker before it has seen one; of EC2's types Ray knows it."""
    if plan.cloud != "azure":
        counts = {"CPU": plan.cpus or 0, "GPU": plan.gpus or 0}
        return {name: count for name, count in counts.items() if count}
    from arc_toolkit.azure.spot_pool import check_size
    from arc_toolkit.sizing.vm_sizes import lookup

    size = lookup(plan.size)
    check_size(size)
    if plan.head_size:
        lookup(plan.head_size)
    return {"CPU": size.vcpus_available, **({"GPU": size.node_gpus} if size.gpus else {})}

"""`gen-ray-cluster`: a Ray cluster with an on-demand head and spot workers, also for KubeRay."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from arc_toolkit.cli.console import Console
from arc_toolkit.cli.option_table import OUTPUT, add_options
from arc_toolkit.errors import OK, ArcError

if TYPE_CHECKING:
    from arc_toolkit.placement.ray_clusters import RayClusterPlan

EPILOG = """\
examples:
  arc-toolkit gen-ray-cluster --cloud azure --name train --size Standard_D16s_v5 --region westeurope \\
    --max 8 -o ray.yaml
  arc-toolkit gen-ray-cluster --cloud aws --name train --size m5.4xlarge --region us-east-1 \\
    --max 8 --share fs-01234567.efs.us-east-1.amazonaws.com:/ -o ray.yaml
  arc-toolkit gen-ray-cluster --cloud kubernetes --name train --cpus 8 --memory 32Gi --max 8 |
    kubectl apply -f -

then: ray up ray.yaml; ray attach ray.yaml -p 10001
  arc-toolkit elastic -f train.py -u ray://127.0.0.1:10001 -m 8
"""
RAY = "2.60.0"  # if none is installed here


OPTIONS = f"""
  --cloud {{azure,aws,gcp,kubernetes}} required    where the cluster runs
  --name NAME required  name of the cluster
  --max=most N required     maximum number of workers
  --min=least N [0]     minimum number of workers
  --idle=idle_minutes MINUTES [5]    how long a worker without work stays
VMs (azure, aws, gcp):
  --size NAME []        VM size, instance type or machine type of the workers
  --head-size NAME []   the same for the head (default: 4 vCPUs)
  --region NAME []      such as westeurope or us-east-1
  --zone NAMES []       zones, separated by commas (gcp: needed)
  --resource-group NAME []      azure: resource group (default: the name of the cluster and -rg)
  --project ID []       gcp: project (needed)
  --disk GIB            disk of a VM (default: 128)
  --data-disk GIB       aws, gcp: another disk, at /data of a worker
  --vm-image IMAGE []   image of the VMs: an Ubuntu with cloud-init
resources of a worker (kubernetes, gcp, aws):
  --cpus N              number of CPUs (not for aws)
  --gpus N              number of GPUs; the image then has CUDA
  --memory QUANTITY []  kubernetes: such as 32Gi
  --nodes {{aks,aks-nap,eks,gke}}    kubernetes: labels and taints of spot nodes (default: aks)
every node:
  --share EXPORT []     mounted at /share, for checkpoints: SERVER:/PATH of an NFS server, or a
                        PersistentVolumeClaim for kubernetes
  --image IMAGE []      container image (default: rayproject/ray for --ray and --python)
  --ray VERSION []      version of Ray (default: the one installed here, or {RAY})
  --python VERSION []   version of Python (default: the one that runs this)
  --arc-toolkit PIP [arc-toolkit[blob]]
                        requirement that pip installs as arc-toolkit: a name, a URL or a local
                        wheel; none: the image has it
  --pip PACKAGE ...     another requirement for pip; repeat for more
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    add_options(parser, OPTIONS + OUTPUT)


def run(args: argparse.Namespace, console: Console) -> int:
    from arc_toolkit.placement.ray_clusters import definition

    plan, wheels = _plan(args)
    resources = _resources(plan)
    text = definition(plan, resources, wheels)
    command = "kubectl apply -f" if plan.cloud == "kubernetes" else "ray up"
    console.write(args.output, text, f"; next: {command} {args.output}")
    if not plan.image:
        console.note(
            f"clients need Ray {plan.ray} and Python {plan.python} too, as the nodes have them"
        )
    return OK


def _plan(args: argparse.Namespace) -> tuple[RayClusterPlan, list[str]]:
    import sys
    from dataclasses import fields

    from arc_toolkit.placement.ray_clusters import RayClusterPlan, toolkit_packages
    from arc_toolkit.placement.spot import CLOUDS

    if args.nodes and args.cloud != "kubernetes":
        raise ArcError(
            f"--nodes {args.nodes} is not for --cloud {args.cloud}: it is about Kubernetes nodes"
        )
    packages, wheels = toolkit_packages(args.arc_toolkit, args.cloud)
    names = {field.name for field in fields(RayClusterPlan)}
    derived = {
        "ray": args.ray or _installed_ray(),
        "python": args.python or f"{sys.version_info.major}.{sys.version_info.minor}",
        "packages": [*packages, *args.pip],
        "capacity": CLOUDS[args.nodes or "aks"],
    }
    options = {name: value for name, value in vars(args).items() if name in names}
    plan = RayClusterPlan(**{**options, **derived})
    return plan, wheels


def _installed_ray() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("ray")
    except PackageNotFoundError:
        return RAY


def _resources(plan: RayClusterPlan) -> dict[str, int]:
    """What the autoscaler expects of a worker before it sees one; Ray knows EC2's types."""
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

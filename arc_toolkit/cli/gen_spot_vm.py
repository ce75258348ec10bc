"""`gen-spot-vm`: cloud-init and a script of `az` commands for one spot VM that trains at every boot."""

from __future__ import annotations

import argparse
from pathlib import Path

from arc_toolkit.cli.console import Console
from arc_toolkit.errors import OK

EPILOG = """\
examples:
  arc-toolkit gen-spot-vm --name trainer --size Standard_D8s_v5 --region westeurope --command "python train.py" -o vm/
  arc-toolkit gen-spot-vm --name trainer --size Standard_D8s_v5 --region westeurope \\
    --container registry.example.com/train:1 --checkpoints /app/Saved_Model -o vm/

then: vm/spot-vm.sh create; vm/spot-vm.sh upload src/; vm/spot-vm.sh evict; vm/spot-vm.sh start; vm/spot-vm.sh delete
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    parser.add_argument("--name", required=True, help="name of the VM")
    parser.add_argument(
        "--size", required=True, metavar="NAME", help="VM size, such as Standard_D8s_v5"
    )
    parser.add_argument(
        "--region", required=True, metavar="NAME", help="Azure region, such as westeurope"
    )
    parser.add_argument(
        "--command", default="", metavar="TEXT", help="what trains, as a shell command"
    )
    parser.add_argument(
        "--container", default="", metavar="IMAGE", help="run it in this container image, by Docker"
    )
    parser.add_argument(
        "--checkpoints",
        default="/app/checkpoints",
        metavar="DIR",
        help="with --container: the folder in it that is kept on the disk of the VM (default: %(default)s)",
    )
    parser.add_argument(
        "--image", default="Ubuntu2204", help="image of the VM (default: %(default)s)"
    )
    parser.add_argument(
        "--resource-group",
        default="",
        metavar="NAME",
        help="a group for this VM alone (default: the name and -rg)",
    )
    parser.add_argument(
        "--eviction-policy",
        choices=["Deallocate", "Delete"],
        default="Deallocate",
        help="what happens to the evicted VM; Delete deletes its disk too (default: %(default)s)",
    )
    parser.add_argument(
        "--max-price",
        default="-1",
        metavar="DOLLARS",
        help="per hour; -1 is at most the on-demand price (default)",
    )
    parser.add_argument("-o", "--output", required=True, metavar="DIR", help="folder for the files")


def run(args: argparse.Namespace, console: Console) -> int:
    from arc_toolkit.azure.spot_pool import parse_price
    from arc_toolkit.azure.spot_vm import SpotVm, files
    from arc_toolkit.file_io import make_folder, write_all
    from arc_toolkit.sizing.vm_sizes import lookup

    vm = SpotVm(
        args.name,
        lookup(args.size),
        args.region,
        args.command,
        args.container,
        args.checkpoints,
        args.image,
        args.resource_group,
        args.eviction_policy,
        parse_price(args.max_price),
    )
    folder = Path(args.output)
    made = files(vm)
    make_folder(folder)
    write_all({folder / name: text for name, text in made.items()})
    script = folder / "spot-vm.sh"
    script.chmod(script.stat().st_mode | 0o111)
    for note in vm.notes:
        console.warn(note)
    console.note(f"wrote {', '.join(made)} to {folder}; next: {script} create")
    return OK

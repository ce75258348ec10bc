"""`gen-spot-vm`: cloud-init and `az` commands for one spot VM that trains at every boot."""

from __future__ import annotations

import argparse
from pathlib import Path

from arc_toolkit.cli.console import Console
from arc_toolkit.cli.option_table import add_options
from arc_toolkit.errors import OK

EPILOG = """\
examples:
  arc-toolkit gen-spot-vm --name trainer --size Standard_D8s_v5 --region westeurope \\
    --command "python train.py" -o vm/
  arc-toolkit gen-spot-vm --name trainer --size Standard_D8s_v5 --region westeurope \\
    --container registry.example.com/train:1 --checkpoints /app/Saved_Model -o vm/

then: vm/spot-vm.sh create|upload src/|evict|start|delete
"""


OPTIONS = """
  --name NAME required  name of the VM
  --size NAME required  VM size, such as Standard_D8s_v5
  --region NAME required    Azure region, such as westeurope
  --command TEXT []     shell command that trains
  --container IMAGE []  run it in this container image, with Docker
  --checkpoints DIR [/app/checkpoints]
                        with --container: folder of the container to keep on the disk of the VM
  --image IMAGE [Ubuntu2204]    image of the VM
  --resource-group NAME []      a group for this VM alone (default: the name and -rg)
  --eviction-policy {Deallocate,Delete} [Deallocate]
                        what happens to the evicted VM; Delete deletes its disk too
  --max-price DOLLARS [-1]      per hour; -1 is at most the on-demand price (default)
  -o, --output DIR required     folder for the files
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    add_options(parser, OPTIONS)


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

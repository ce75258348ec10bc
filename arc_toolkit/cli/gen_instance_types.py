"""`gen-instance-types`: InstanceTypes that fit, from VM sizes, saved nodes or a live cluster."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from arc_toolkit.cli import apply_types, cluster_options, node_options
from arc_toolkit.cli.console import Console
from arc_toolkit.cli.option_table import CLUSTER, add_options
from arc_toolkit.errors import FOUND, OK, ArcError
from arc_toolkit.kube.quantities import MI
from arc_toolkit.sizing.instance_types import GenerateOptions, generate
from arc_toolkit.sizing.node_selection import Selection
from arc_toolkit.sizing.shares import Share, Size
from arc_toolkit.sizing.type_names import DEFAULT_TEMPLATE

EPILOG = """\
examples:
  arc-toolkit gen-instance-types --sku Standard_D64s_v5 --share half --explain
  arc-toolkit gen-instance-types --sku D64s_v5 --share whole --share half -o types/
  kubectl get nodes -o json | arc-toolkit gen-instance-types --nodes - --share quarter
  arc-toolkit gen-instance-types --from-cluster --share whole --share half --apply --dry-run
  arc-toolkit gen-instance-types --from-cluster --check
"""


OPTIONS = f"""
from a live cluster:
  --from-cluster        size for the nodes of a live cluster
{CLUSTER.lstrip()}which types:
  --share SHARE ...     whole, half, quarter or 1/N (default: whole)
  --size SIZE ...       exact request, such as 32cpu128g, 12cpu110g-1gpu or 4cpu16g-1mig-1g.10gb
  --whole-cores         round cpu down to whole cores
  --name-template TEXT [{DEFAULT_TEMPLATE}]
                        with {{cpu}} {{memory}} {{gpu}} {{gpus}} {{size}} {{pool}} {{share}} {{n}}
  --node-selector auto|none|KEY=VALUE [auto]    auto: the label of the size
  --merge               types of one name become one that fits on every node
result:
  --format {{yaml,list,json,table}} [yaml]    output format
  -o, --output DIR|FILE [-]     a folder gets one file per type; a name that ends in .yaml or .json
                        gets all (default: standard output)
  --spot-namespace NAME     for spot nodes: also write the compute's namespace with the annotation
                        that lets its pods onto them
  --explain             show the waterfall from nominal to share
  --check DIR ?         exit 1 with a diff if DIR is not what would be written; without DIR and with
                        --from-cluster: if a type in the cluster no longer fits
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    node_options.add_node_options(parser)
    add_options(parser, OPTIONS + apply_types.OPTIONS, check={"const": ""})


def run(args: argparse.Namespace, console: Console) -> int:
    from arc_toolkit.sizing.type_formats import (
        folder_files,
        output_files,
        spot_notes,
        type_notes,
        types_text,
    )

    apply_types.check_options(args)
    namespace = spot_namespace(args)
    client = cluster_options.connect(args, console) if args.from_cluster or args.apply else None
    if client and apply_types.checks_cluster(args):
        return apply_types.check(args, client, console)
    selection = (
        cluster_options.collect(args, client, console)
        if client and args.from_cluster
        else node_options.collect(args)
    )
    if selection is None:
        raise ArcError(
            "no nodes: use --sku NAME, --nodes FILE (`kubectl get nodes -o json`) or --from-cluster"
        )
    requests: list[Share | Size] = [Share.parse(text) for text in args.share]
    requests += [Size.parse(text) for text in args.size]
    on_spot = spot_notes(selection, args.spot_namespace)
    if not selection.groups:
        for note in on_spot:
            console.note(note)
    selection.require_groups()
    present: dict[str, dict[str, Any]] = {}
    ours: dict[str, dict[str, Any]] = {}
    if client and args.apply:
        from arc_toolkit.cluster import live_types

        present = live_types.read(client)
        ours = {name: item for name, item in present.items() if live_types.is_ours(item)}
    choices = GenerateOptions(
        template=args.name_template,
        selector=args.node_selector,
        whole_cores=args.whole_cores,
        merge=args.merge,
        nodes=selection.nodes,
        tolerations=selection.tolerations,
        anywhere=args.yes,
        present=ours,
        repoint=args.repoint,
    )
    types, refused, notes = generate(
        selection.groups, requests or [Share(1)], selection.assumptions, choices
    )
    selection.notes += notes + type_notes(types, selection.groups, args.node_selector)
    selection.notes += on_spot
    report(selection, refused, console)
    if args.check:
        return check_folder(folder_files(types, namespace), Path(args.check), console)
    if args.output != "-":
        files = output_files(types, namespace, selection, args.output, args.format)
        write(files, len(types), args.output, console)
    if args.explain and args.format != "json":
        from arc_toolkit.sizing.waterfall import explain

        console.out("\n\n\n".join(explain(entry, console.style) for entry in types))
    elif args.output == "-" and not args.apply:
        console.out(types_text(types, namespace, selection, args.format), end="")
    if client and args.apply:
        return apply_types.apply(args, client, types, present, selection, console)
    return OK


def spot_namespace(args: argparse.Namespace) -> str:
    """The manifest of `--spot-namespace`, with which spot nodes are tolerated; else empty."""
    if args.spot_namespace is None:
        return ""
    from arc_toolkit.edit.yaml.writer import file_text
    from arc_toolkit.kube.taints import SPOT_TAINT, namespace_manifest

    if args.format != "yaml":
        raise ArcError(f"--spot-namespace writes a manifest: use --format yaml, not {args.format}")
    args.tolerate = [*args.tolerate, str(SPOT_TAINT)]
    return file_text(namespace_manifest(args.spot_namespace))


def report(selection: Selection, refused: list[str], console: Console) -> None:
    """Notes and what could not be made, on standard error."""
    for group in selection.groups:
        cpu, memory = group.tightest_cpu, group.tightest_memory
        console.detail(
            f"{group.title}: schedulable {cpu.cpu_m}m ({cpu.name}), {memory.memory // MI}Mi "
            f"({memory.name})"
        )
    node_options.say(selection, console)
    for reason in refused:
        console.warn(reason)


def write(files: dict[Path, str], count: int, output: str, console: Console) -> None:
    """Nothing is in place before all of it is written."""
    from arc_toolkit.file_io import make_folder, write_all
    from arc_toolkit.text import plural

    if Path(output) not in files:
        make_folder(Path(output))
    write_all(files, lambda done: console.progress(f"wrote {done} of {len(files)} files"))
    console.note(f"wrote {plural(count, 'instance type')} to {Path(output)}")


def check_folder(files: dict[str, str], folder: Path, console: Console) -> int:
    """Compare a folder with what would be written now."""
    from arc_toolkit.sizing.type_formats import folder_diffs

    diffs = folder_diffs(files, folder)
    for diff in diffs:
        console.out(diff, end="")
    if diffs:
        console.note(f"{len(diffs)} of {len(files)} files differ from what would be written now")
        return FOUND
    console.note(f"{len(files)} files are as they should be")
    return OK

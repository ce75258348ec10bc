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
from arc_toolkit.sizing.instance_types import MANAGED_BY, Choices, InstanceType, generate
from arc_toolkit.sizing.node_selection import Selection
from arc_toolkit.sizing.shares import Share, Size
from arc_toolkit.sizing.type_formats import folder_files, spot_notes, type_notes, types_text
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
  --spot-namespace NAME     for spot nodes: also write the compute's namespace with the annotation that
                        lets its pods onto them
  --explain             show the waterfall from nominal to share
  --check DIR ?         exit 1 with a diff if DIR is not what would be written; without DIR and with
                        --from-cluster: if a type in the cluster no longer fits
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    tables = node_options.OPTIONS + OPTIONS + apply_types.OPTIONS
    add_options(parser, tables, check={"const": ""})


def run(args: argparse.Namespace, console: Console) -> int:
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
            "say which nodes: --sku NAME, --nodes FILE (`kubectl get nodes -o json`) or --from-cluster"
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
        from arc_toolkit.cluster import live_types, outdated_types

        present = live_types.read(client)
        ours = {name: item for name, item in present.items() if outdated_types.is_ours(item)}
    choices = Choices(
        template=args.name_template,
        selector=args.node_selector,
        whole_cores=args.whole_cores,
        merge=args.merge,
        nodes=selection.nodes,
        tolerations=selection.tolerations,
        anywhere=args.yes,
        present=ours,
    )
    types, refused, notes = generate(
        selection.groups, requests or [Share(1)], selection.assumptions, choices
    )
    selection.notes += notes + type_notes(types, selection.groups, args.node_selector)
    selection.notes += on_spot
    report(selection, refused, console)
    if args.check:
        return check_folder(types, namespace, Path(args.check), console)
    if args.output != "-":
        write(types, namespace, selection, args.output, args.format, console)
    if args.explain and args.format != "json":
        from arc_toolkit.sizing.waterfall import explain

        console.out("\n\n\n".join(explain(entry, console.style) for entry in types))
    elif args.output == "-" and not args.apply:
        console.out(types_text(types, namespace, selection, args.format), end="")
    if client and args.apply:
        return apply_types.apply(args, client, types, present, selection, console)
    return OK


def spot_namespace(args: argparse.Namespace) -> str:
    """The manifest of `--spot-namespace`, empty without it; spot nodes are then tolerated, and types made for them."""
    if args.spot_namespace is None:
        return ""
    from arc_toolkit.edit.yaml.writer import file_text
    from arc_toolkit.kube.default_tolerations import namespace_manifest
    from arc_toolkit.kube.taints import SPOT_TAINT

    if args.format != "yaml":
        raise ArcError(
            f"--spot-namespace writes a manifest beside the types: use --format yaml, not {args.format}"
        )
    args.tolerate = [*args.tolerate, str(SPOT_TAINT)]
    return file_text(namespace_manifest(args.spot_namespace))


def report(selection: Selection, refused: list[str], console: Console) -> None:
    """Notes and what could not be made, on standard error."""
    for group in selection.groups:
        cpu, memory = group.tightest_cpu, group.tightest_memory
        console.detail(
            f"{group.title}: schedulable {cpu.cpu_m}m ({cpu.name}), {memory.memory // MI}Mi ({memory.name})"
        )
    node_options.say(selection, console)
    for reason in refused:
        console.warn(reason)


def write(
    types: list[InstanceType],
    namespace: str,
    selection: Selection,
    output: str,
    form: str,
    console: Console,
) -> None:
    """To a folder (one file per type) or to one file; nothing is in place before all of it is written."""
    from arc_toolkit.file_io import make_folder, write_all

    if not output:
        raise ArcError("-o: use a folder, a file or -")
    target = Path(output)
    if target.suffix in (".yaml", ".yml", ".json") and not target.is_dir():
        form = "json" if target.suffix == ".json" and form == "yaml" else form
        if form == "table" or (form == "json") != (target.suffix == ".json"):
            raise ArcError(
                f"-o {target}: a .json file gets --format json; a .yaml file yaml or list"
            )
        files = {target: types_text(types, namespace, selection, form)}
    else:
        if form != "yaml":
            suffix = "json" if form == "json" else "yaml"
            raise ArcError(f"--format {form} makes one file: give -o a name such as types.{suffix}")
        make_folder(target)
        files = {target / name: text for name, text in folder_files(types, namespace).items()}
    write_all(files, lambda count: console.progress(f"wrote {count} of {len(files)} files"))
    count = len(types)
    console.note(f"wrote {count} instance type{'s' if count > 1 else ''} to {target}")


def check_folder(types: list[InstanceType], namespace: str, folder: Path, console: Console) -> int:
    """Compare a folder with what would be written now."""
    import difflib

    from arc_toolkit.file_io import read_text

    if not folder.is_dir():
        raise ArcError(
            f"--check {folder}: not a folder with one file per type, as -o FOLDER writes it"
        )
    expected = folder_files(types, namespace)
    marks = [path for path in sorted(folder.glob("*.y*ml")) if path.is_file()]
    present = {path.name: read_text(path) for path in marks if path.name in expected or _ours(path)}
    differing = 0
    for name in sorted(expected.keys() | present.keys()):
        old, new = present.get(name), expected.get(name)
        if old == new:
            continue
        differing += 1
        diff = difflib.unified_diff(
            (old or "").splitlines(keepends=True),
            (new or "").splitlines(keepends=True),
            str(folder / name) if old is not None else "/dev/null",
            str(folder / name) if new is not None else "/dev/null",
        )
        console.out("".join(diff), end="")
    if differing:
        console.note(f"{differing} of {len(expected)} files differ from what would be written now")
        return FOUND
    console.note(f"{len(expected)} files are as they should be")
    return OK


def _ours(path: Path) -> bool:
    """Whether this tool made the file; others may lie in the folder too."""
    from arc_toolkit.file_io import read_bytes

    return f'{MANAGED_BY}: "arc-toolkit"'.encode() in read_bytes(path)

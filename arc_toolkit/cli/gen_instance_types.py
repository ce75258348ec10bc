"""`gen-instance-types`: InstanceTypes that fit, from VM sizes, saved nodes or a live cluster."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from arc_toolkit.cli import live, node_options
from arc_toolkit.cli.console import Console
from arc_toolkit.cli.main import REPEATED
from arc_toolkit.errors import FOUND, OK, ArcError
from arc_toolkit.kube.quantities import MI
from arc_toolkit.sizing.instance_types import Choices, InstanceType, generate
from arc_toolkit.sizing.shares import Share, Size
from arc_toolkit.sizing.type_names import DEFAULT_TEMPLATE

if TYPE_CHECKING:
    from arc_toolkit.sizing.node_group import NodeGroup
    from arc_toolkit.sizing.node_selection import Selection

EPILOG = """\
examples:
  arc-toolkit gen-instance-types --sku Standard_D64s_v5 --share half --explain
  arc-toolkit gen-instance-types --sku D64s_v5 --share whole --share half -o types/
  kubectl get nodes -o json | arc-toolkit gen-instance-types --nodes - --share quarter
  arc-toolkit gen-instance-types --from-cluster --share whole --share half --apply --dry-run
  arc-toolkit gen-instance-types --from-cluster --check
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    node_options.add_options(parser)
    live.add_options(parser, source=True)
    types = parser.add_argument_group("which types")
    types.add_argument(
        "--share", **REPEATED, metavar="SHARE", help="whole, half, quarter or 1/N (default: whole)"
    )
    types.add_argument(
        "--size",
        **REPEATED,
        metavar="SIZE",
        help="exact request, such as 32cpu128g, 12cpu110g-1gpu or 4cpu16g-1mig-1g.10gb",
    )
    types.add_argument("--whole-cores", action="store_true", help="round cpu down to whole cores")
    types.add_argument(
        "--name-template",
        default=DEFAULT_TEMPLATE,
        metavar="TEXT",
        help="with {cpu} {memory} {gpu} {gpus} {size} {pool} {share} {n} (default: %(default)s)",
    )
    types.add_argument(
        "--node-selector",
        default="auto",
        metavar="auto|none|KEY=VALUE",
        help="auto: the size's label (default)",
    )
    types.add_argument(
        "--merge", action="store_true", help="types of one name become one that fits on every node"
    )
    result = parser.add_argument_group("result")
    result.add_argument("--format", choices=["yaml", "list", "json", "table"], default="yaml")
    result.add_argument(
        "-o",
        "--output",
        default="-",
        metavar="DIR|FILE",
        help="a folder gets one file per type; a name that ends in .yaml or .json gets all",
    )
    result.add_argument(
        "--spot-namespace",
        metavar="NAME",
        help="for spot nodes: also write the compute's namespace with the annotation that lets its pods onto them",
    )
    result.add_argument(
        "--explain", action="store_true", help="show the waterfall from nominal to share"
    )
    result.add_argument(
        "--check",
        nargs="?",
        const=live.DRIFT,
        metavar="DIR",
        help="exit 1 with a diff if DIR is not what would be written; without DIR and with --from-cluster: "
        "if a type in the cluster no longer fits",
    )
    live.add_actions(parser)


def run(args: argparse.Namespace, console: Console) -> int:
    live.check_options(args)
    namespace = spot_namespace(args)
    client = live.connect(args, console) if args.from_cluster or args.apply else None
    if client and args.check == live.DRIFT:
        return live.check(args, client, console)
    selection = (
        live.collect(args, client, console)
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
    present = live.present_types(client) if client and args.apply else {}
    choices = Choices(
        template=args.name_template,
        selector=args.node_selector,
        whole_cores=args.whole_cores,
        merge=args.merge,
        nodes=selection.nodes,
        tolerations=selection.tolerations,
        anywhere=args.yes,
        present=live.made_here(present),
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
        console.out(text_of(types, namespace, selection, args.format), end="")
    if client and args.apply:
        return live.apply(args, client, types, present, selection, console)
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


def spot_notes(selection: Selection, namespace: str | None) -> list[str]:
    """That job pods stay Pending on spot nodes, and what helps; the command where types are made for such nodes."""
    from arc_toolkit.kube.default_tolerations import annotate_command
    from arc_toolkit.kube.taints import SPOT_TAINT

    text = "an InstanceType has no tolerations, so job pods stay Pending on spot nodes"
    sized = any(SPOT_TAINT in node.taints for group in selection.groups for node in group.members)
    if sized or namespace is not None:
        command = annotate_command(namespace or "NAMESPACE")
        other = "; the extension's setting workLoadToleration does it too, but is undocumented"
        manifest = "" if namespace else ", or the manifest of --spot-namespace NAME"
        return [f"{text} until their namespace gives them one: {command}{manifest}{other}"]
    if any(SPOT_TAINT in node.taints for node in selection.nodes):
        return [f"{text}: --spot-namespace NAME makes types for these, and what their pods need"]
    return []


def type_notes(types: list[InstanceType], groups: list[NodeGroup], node_selector: str) -> list[str]:
    """What to know about the types: that they may land on other nodes, or leave GPUs unused."""
    notes = []
    if node_selector != "auto" and groups[0].source == "sku":
        more = f" and {len(groups) - 1} more groups" if len(groups) > 1 else ""
        notes.append(
            f"--node-selector {node_selector}: the types fit only on {groups[0].title}{more}: "
            "see that no other node is selected"
        )
    return notes + [
        f"{entry.name} takes no GPU, though {entry.group.title} has {entry.group.gpus}"
        for entry in types
        if entry.group.gpus and not entry.gpus
    ]


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


def text_of(types: list[InstanceType], namespace: str, selection: Selection, form: str) -> str:
    """The result in one of the formats; `namespace` is the manifest of `--spot-namespace`."""
    from arc_toolkit.sizing import instance_types

    if form == "yaml":
        return instance_types.documents(types) + (f"---\n{namespace}" if namespace else "")
    if form == "list":
        return instance_types.type_list(types)
    if form == "json":
        from arc_toolkit.output.jsonout import document
        from arc_toolkit.sizing.waterfall import type_json

        payload = {
            "instance_types": [type_json(entry) for entry in types],
            "left_out": [{"node": row.node.name, "reason": str(row)} for row in selection.unusable],
            "notes": selection.notes,
        }
        return document("gen-instance-types", payload) + "\n"
    from arc_toolkit.output.table import table

    rows = [
        [
            entry.name,
            entry.cpu,
            entry.memory,
            str(entry.gpus or ""),
            str(entry.portion.per_node),
            str(entry.request or "merged"),
            entry.group.title,
        ]
        for entry in types
    ]
    headers = ["NAME", "CPU", "MEMORY", "GPUS", "PER NODE", "SHARE", "NODES"]
    return table(headers, rows, right=(1, 2, 3, 4)) + "\n"


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
        files = {target: text_of(types, namespace, selection, form)}
    else:
        if form != "yaml":
            suffix = "json" if form == "json" else "yaml"
            raise ArcError(f"--format {form} makes one file: give -o a name such as types.{suffix}")
        make_folder(target)
        files = {target / name: text for name, text in folder_files(types, namespace).items()}
    write_all(files, lambda count: console.progress(f"wrote {count} of {len(files)} files"))
    count = len(types)
    console.note(f"wrote {count} instance type{'s' if count > 1 else ''} to {target}")


def folder_files(types: list[InstanceType], namespace: str) -> dict[str, str]:
    """File name -> text."""
    from arc_toolkit.sizing import instance_types

    return instance_types.files(types) | ({"spot-namespace.yaml": namespace} if namespace else {})


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
    from arc_toolkit.sizing.instance_types import MANAGED_BY

    return f'{MANAGED_BY}: "arc-toolkit"'.encode() in read_bytes(path)

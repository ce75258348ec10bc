"""`gen-instance-types`: InstanceTypes that fit, from VM sizes, saved nodes or a live cluster."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from arc_toolkit.cli import live, supplies
from arc_toolkit.console import Console
from arc_toolkit.errors import FOUND, OK, ArcError
from arc_toolkit.sizing.instance_types import DEFAULT_TEMPLATE, InstanceType, generate
from arc_toolkit.sizing.shares import Share, Size

if TYPE_CHECKING:
    from arc_toolkit.cli.supplies import Selection

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
    supplies.add_options(parser)
    live.add_options(parser, source=True)
    types = parser.add_argument_group("which types")
    types.add_argument(
        "--share",
        action="append",
        default=[],
        metavar="SHARE",
        help="whole, half, quarter or 1/N (default: whole)",
    )
    types.add_argument(
        "--size",
        action="append",
        default=[],
        metavar="SIZE",
        help="exact request, such as 32cpu128g or 12cpu110g-1gpu",
    )
    types.add_argument("--whole-cores", action="store_true", help="round cpu down to whole cores")
    types.add_argument(
        "--name-template",
        default=DEFAULT_TEMPLATE,
        metavar="TEXT",
        help="with {cpu} {memory} {gpu} {gpus} {size} {pool} {share} {n} (default: %(default)s)",
    )
    types.add_argument(
        "--node-selector", default="auto", metavar="auto|none|KEY=VALUE", help="auto: the size's label (default)"
    )
    types.add_argument("--merge", action="store_true", help="types of one name become one that fits on every node")
    result = parser.add_argument_group("result")
    result.add_argument("--format", choices=["yaml", "list", "json", "table"], default="yaml")
    result.add_argument("-o", "--output", default="-", metavar="DIR|FILE", help="a folder gets one file a type")
    result.add_argument("--explain", action="store_true", help="show the waterfall from nominal to share")
    result.add_argument(
        "--check",
        nargs="?",
        const=live.DRIFT,
        metavar="DIR",
        help="exit 1 with a diff where DIR is not what would be written; without DIR and with --from-cluster: "
        "where a type in the cluster no longer fits",
    )
    live.add_actions(parser)


def run(args: argparse.Namespace, console: Console) -> int:
    live.check_options(args)
    client = live.connect(args) if args.from_cluster or args.apply else None
    if client and args.check == live.DRIFT:
        return live.check(args, client, console)
    selection = live.collect(args, client, console) if client and args.from_cluster else supplies.collect(args)
    if selection is None:
        raise ArcError("say which nodes: --sku NAME, --nodes FILE (`kubectl get nodes -o json`) or --from-cluster")
    types = make_types(args, selection, console)
    if args.check:
        return check_folder(types, Path(args.check), console)
    if args.output != "-":
        write(types, args, console)
    if args.explain and args.format != "json":
        from arc_toolkit.output.waterfall import explain

        console.out("\n\n\n".join(explain(entry, console.style) for entry in types))
    elif args.output == "-" and not args.apply:
        console.out(text_of(types, selection, args.format), end="")
    if client and args.apply:
        return live.apply(args, client, types, selection, console)
    return OK


def make_types(args: argparse.Namespace, selection: Selection, console: Console) -> list[InstanceType]:
    """The types that the options ask for; notes and refusals go to standard error."""
    wanted: list[Share | Size] = [Share.parse(text) for text in args.share]
    wanted += [Size.parse(text) for text in args.size]
    types, refused = generate(
        selection.groups,
        wanted or [Share(1)],
        selection.assumptions,
        template=args.name_template,
        selector=args.node_selector,
        whole_cores=args.whole_cores,
        merge=args.merge,
    )
    supplies.say(selection, console)
    for reason in refused:
        console.warn(reason)
    return types


def text_of(types: list[InstanceType], selection: Selection, form: str) -> str:
    """The result in one of the formats."""
    from arc_toolkit.sizing import manifests

    if form == "yaml":
        return manifests.documents(types)
    if form == "list":
        return manifests.type_list(types)
    if form == "json":
        from arc_toolkit.output.jsonout import document
        from arc_toolkit.output.waterfall import type_json

        payload = {
            "instance_types": [type_json(entry) for entry in types],
            "left_out": [{"node": node.name, "reason": reason} for node, reason in selection.left_out],
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
            str(entry.wanted),
            ", ".join(group.title for group in entry.groups),
        ]
        for entry in types
    ]
    headers = ["NAME", "CPU", "MEMORY", "GPUS", "PER NODE", "SHARE", "NODES"]
    return table(headers, rows, right=(1, 2, 3, 4)) + "\n"


def write(types: list[InstanceType], args: argparse.Namespace, console: Console) -> None:
    """To a folder (one file a type) or to one file, each whole or not at all."""
    from arc_toolkit.files import make_folder, write_atomic
    from arc_toolkit.sizing import manifests

    target = Path(args.output)
    if target.suffix in (".yaml", ".yml", ".json") and not target.is_dir():
        if args.format == "table":
            raise ArcError("--format table goes to standard output; for a file choose yaml, list or json")
        form = "json" if target.suffix == ".json" and args.format == "yaml" else args.format
        write_atomic(target, manifests.type_list(types) if form == "list" else _file_text(types, form))
        console.note(f"wrote {len(types)} instance type{'s' if len(types) > 1 else ''} to {target}")
        return
    if args.format != "yaml":
        raise ArcError(
            f"--format {args.format} makes one file: give -o a file name such as types.{_suffix(args.format)}"
        )
    make_folder(target)
    for count, (name, text) in enumerate(manifests.files(types).items(), 1):
        write_atomic(target / name, text)
        console.progress(f"wrote {count} of {len(types)} files")
    console.note(f"wrote {len(types)} file{'s' if len(types) > 1 else ''} to {target}")


def _suffix(form: str) -> str:
    return "json" if form == "json" else "yaml"


def _file_text(types: list[InstanceType], form: str) -> str:
    if form == "json":
        import json

        return json.dumps([entry.manifest() for entry in types], indent=2) + "\n"
    from arc_toolkit.sizing import manifests

    return manifests.documents(types)


def check_folder(types: list[InstanceType], folder: Path, console: Console) -> int:
    """Compare a folder with what would be written now."""
    import difflib

    from arc_toolkit.files import read_text
    from arc_toolkit.sizing import manifests
    from arc_toolkit.sizing.instance_types import MANAGED_BY

    if not folder.is_dir():
        raise ArcError(f"--check {folder}: no such folder; write it with -o {folder}")
    expected = manifests.files(types)
    present = {path.name: read_text(path) for path in sorted(folder.glob("*.yaml"))}
    differing = 0
    for name in sorted(expected.keys() | present.keys()):
        old, new = present.get(name), expected.get(name)
        if new is None and old is not None and f'{MANAGED_BY}: "arc-toolkit"' not in old:
            continue  # somebody else's file
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

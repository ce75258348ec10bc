"""`checkpoints`: look after the checkpoints of a run."""

from __future__ import annotations

import argparse
import math
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any

from arc_toolkit.cli.console import Console
from arc_toolkit.cli.option_table import add_options
from arc_toolkit.errors import FOUND, OK, ArcError
from arc_toolkit.output.redaction import show_source
from arc_toolkit.text import printable

if TYPE_CHECKING:
    from arc_toolkit.checkpoints import Checkpoint, InvalidCheckpoint
    from arc_toolkit.checkpoints.remote import RemoteFolder

EPILOG = """\
examples:
  arc-toolkit checkpoints list outputs/checkpoints
  arc-toolkit checkpoints verify outputs/checkpoints --format json
  arc-toolkit checkpoints list az://container/jobs/one
  arc-toolkit checkpoints prune outputs/checkpoints --keep 3 --yes
  folder=$(arc-toolkit checkpoints resume outputs/checkpoints) || {
    code=$?; [ $code -eq 1 ] || exit $code; }
  python train.py --resume "$folder"

exit codes: 0 done, 1 damaged, or resume: a new run without checkpoints, 2 a folder that cannot be
used; resume: 65 there are checkpoints, but none is valid, 75 unreadable for longer than --patience:
try again later
"""
ACTIONS = {
    "list": "list the checkpoints, without reading their files",
    "verify": "compare every byte of every checkpoint with its manifest",
    "prune": "delete all but the newest valid ones",
    "resume": "print the folder of the newest valid one",
}


OPTIONS = """
  folder DIR|URL        folder or URL of the store
  --format {table,json} [table]    output format
  --keep N [3] >=2      prune: how many to keep, because the newest may turn out to be damaged
  -y, --yes             prune: delete (default: show what would be deleted)
  --patience TIME       resume: how long to wait for a folder or URL that cannot be read
                        (default: $ARC_TOOLKIT_CHECKPOINT_PATIENCE or 10m)
  --fresh               resume: exit with 1 instead of 65 or 75, to start anew
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    actions = "; ".join(f"{name}: {text}" for name, text in ACTIONS.items())
    parser.add_argument("action", choices=list(ACTIONS), help=actions)
    add_options(parser, OPTIONS)


def run(args: argparse.Namespace, console: Console) -> int:
    from arc_toolkit.checkpoints import InvalidCheckpoint
    from arc_toolkit.checkpoints.local_checkpoints import LocalCheckpoints

    remote = _remote(args.folder)
    if args.action == "resume":
        return _resume(args, console)
    if remote is None and _is_missing(args.folder):
        raise ArcError(f"{_shown(args.folder)} is not a folder")
    try:
        if remote is not None:
            entries = sorted(remote.listing(), key=lambda entry: entry.order, reverse=True)
        else:
            entries = LocalCheckpoints(Path(args.folder), args.keep, console.note).listing()
    except OSError as error:
        raise ArcError(f"cannot read {_shown(args.folder)}: {error}") from None
    if args.action == "list":
        states = [entry if isinstance(entry, InvalidCheckpoint) else None for entry in entries]
    else:
        states = _verified(entries, console, remote)
    if args.action == "prune":
        return _prune(entries, states, args, console, remote)
    _show(entries, states, args, console)
    damaged = sum(state is not None for state in states)
    good = "committed" if args.action == "list" else "valid"
    console.note(f"{len(states) - damaged} {good}, {damaged} damaged or not committed")
    return FOUND if damaged else OK


def _remote(place: str) -> RemoteFolder | None:
    if "://" not in place:
        return None
    from arc_toolkit.checkpoints.remote import RemoteFolder

    return RemoteFolder(place)


def _verified(
    entries: list[Checkpoint | InvalidCheckpoint],
    console: Console,
    remote: RemoteFolder | None = None,
) -> list[InvalidCheckpoint | None]:
    from arc_toolkit.checkpoints import InvalidCheckpoint
    from arc_toolkit.checkpoints.manifest import verify

    states: list[InvalidCheckpoint | None] = []
    for entry in entries:
        console.progress(f"reading {entry.folder.name}")
        if isinstance(entry, InvalidCheckpoint):
            states.append(entry)
        else:
            states.append(verify(entry) if remote is None else remote.verify_copy(entry))
    return states


def _is_missing(folder: str) -> bool:
    """A folder that cannot be looked at is not a missing one."""
    try:
        return not stat.S_ISDIR(os.stat(folder).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False


def _resume(args: argparse.Namespace, console: Console) -> int:
    """The newest valid one, of a URL and of its local copy, downloaded if it is not here."""
    from arc_toolkit.checkpoints import Store, StoreUnavailable

    try:
        newest = Store(
            args.folder,
            read_only=True,
            fresh=args.fresh,
            patience=args.patience,
            report=lambda text: console.warn(printable(text)),
        ).latest()
    except StoreUnavailable as problem:  # already reported
        return problem.exit_code
    except ValueError as error:  # in the environment
        raise ArcError(str(error)) from None
    if newest is None:
        console.note(f"no valid checkpoint in {_shown(args.folder)}")
        return FOUND
    _print_newest(newest, args, console)
    return OK


def _print_newest(
    entry: Checkpoint | InvalidCheckpoint, args: argparse.Namespace, console: Console
) -> None:
    if args.format == "json":
        from arc_toolkit.output.json_document import document

        console.out(document("checkpoints", {"checkpoints": [_row(entry, None)]}))
    else:
        console.out(str(entry.folder))


def _prune(
    entries: list[Checkpoint | InvalidCheckpoint],
    states: list[InvalidCheckpoint | None],
    args: argparse.Namespace,
    console: Console,
    remote: RemoteFolder | None,
) -> int:
    from arc_toolkit.checkpoints.manifest import remove

    valid = [entry for entry, damage in zip(entries, states, strict=True) if damage is None]
    for entry in valid[args.keep :]:
        if args.yes and remote is not None:
            remote.remove(entry.folder.name)
        elif args.yes and not remove(entry.folder):
            raise ArcError(f"{_shown(entry.folder)} cannot be deleted")
        console.out(f"{'deleted' if args.yes else 'would delete'} {_shown(entry.folder)}")
    for damage in (damage for damage in states if damage is not None):
        console.warn(printable(f"{damage.folder.name} is kept: {damage.reason}"))
    if valid[args.keep :] and not args.yes:
        console.note("nothing was deleted: use --yes")
    return OK


def _show(
    entries: list[Checkpoint | InvalidCheckpoint],
    states: list[InvalidCheckpoint | None],
    args: argparse.Namespace,
    console: Console,
) -> None:
    rows = [_row(entry, state) for entry, state in zip(entries, states, strict=True)]
    if args.format == "json":
        from arc_toolkit.output.json_document import document

        console.out(document("checkpoints", {"checkpoints": rows}))
        return
    from arc_toolkit.output.table import table

    columns = ("step", "created", "reason", "bytes", "state")
    cells = [
        ["" if row[name] is None else printable(str(row[name])) for name in (*columns, "folder")]
        for row in rows
    ]
    console.out(table([name.upper() for name in (*columns, "folder")], cells, right=(0, 3)))


def _shown(place: object) -> str:
    """On one line, without secrets of a URL. Only `resume` prints a path as it is, for scripts."""
    return printable(show_source(str(place)))


def _row(entry: Checkpoint | InvalidCheckpoint, damage: InvalidCheckpoint | None) -> dict[str, Any]:
    from arc_toolkit.checkpoints import Checkpoint

    manifest = entry.manifest if isinstance(entry, Checkpoint) else {}
    return {
        "folder": str(entry.folder),
        "step": manifest.get("step"),
        "epoch": manifest.get("epoch"),
        "created": manifest.get("created"),
        "reason": manifest.get("reason"),
        "bytes": entry.size if isinstance(entry, Checkpoint) else None,
        "world_size": manifest.get("world_size"),
        "metrics": _json_numbers(manifest.get("metrics")),
        "state": damage.reason if damage else "committed",
    }


def _json_numbers(metrics: dict[str, Any] | None) -> dict[str, Any] | None:
    """JSON has no word for a loss of NaN or infinity; it is shown as text."""
    if metrics is None:
        return None
    return {
        name: str(value) if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in metrics.items()
    }

"""`run`: supervise a training process: eviction notices, saves, restarts, exit codes."""

from __future__ import annotations

import argparse
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from arc_toolkit.cli.console import Console
from arc_toolkit.cli.live import add_options
from arc_toolkit.errors import ArcError
from arc_toolkit.stderr import say

if TYPE_CHECKING:
    from arc_toolkit.notices.sources import NoticeSource

EPILOG = """\
examples:
  arc-toolkit run -- python train.py --epochs 10
  arc-toolkit run --checkpoints outputs/checkpoints --max-restarts 3 -- python train.py
  arc-toolkit run --on-notice SIGUSR1 --grace 25s -- ./trainer --config c.toml
  arc-toolkit run --drain-node
  touch /tmp/stop; arc-toolkit run --cloud none --notice-file /tmp/stop -- sleep 100

A process that uses arc_toolkit.checkpoints needs no option: it saves and ends by itself. Any other is notified
as --on-notice says; without it, SIGTERM is sent as soon as there is a notice.

exit codes: that of the process, 128 + N if signal N ended it; 143 evicted, resumable; 2 it cannot be started
"""
# The variable is set in every case, and a running process cannot get another one: both mean the file that it names.
_BY_FILE = ("file", "env")


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    parser.add_argument(
        "command", nargs="*", metavar="COMMAND", help="the process and its arguments, after --"
    )
    parser.add_argument(
        "--checkpoints",
        metavar="DIR",
        help="its checkpoints: says when a save is done, and which step it has",
    )
    parser.add_argument(
        "--max-restarts",
        type=int,
        default=0,
        metavar="N",
        help="start again after a crash, at most N times; evictions do not count (default: 0)",
    )
    parser.add_argument(
        "--grace",
        default="25s",
        metavar="TIME",
        help="from SIGTERM, or a notice without a time, to the end (default: 25s)",
    )
    parser.add_argument(
        "--on-notice",
        metavar="SIGNAL|file|env",
        help="how to notify the process: a signal such as SIGUSR1; file or env: no signal, only the file that "
        "$ARC_TOOLKIT_NOTICE names",
    )
    where = parser.add_argument_group("where notices come from")
    where.add_argument(
        "--cloud",
        choices=["auto", "azure", "aws", "gcp", "none"],
        default="auto",
        help="whose metadata service is asked (default: auto, by the firmware of the machine)",
    )
    where.add_argument(
        "--metadata",
        metavar="URL",
        help="the address of the metadata service, instead of the cloud's",
    )
    where.add_argument("--notice-file", metavar="FILE", help="a file whose existence is a notice")
    parser.add_argument(
        "--drain-node",
        action="store_true",
        help="run no process: on a notice cordon the node in $NODE_NAME and evict its pods (for a DaemonSet)",
    )
    add_options(parser)


def run(args: argparse.Namespace, console: Console) -> int:
    from arc_toolkit.durations import parse_seconds

    try:
        grace = parse_seconds(args.grace)
    except ValueError as error:
        raise ArcError(f"--grace {error}") from None
    if args.max_restarts < 0:
        raise ArcError(f"--max-restarts {args.max_restarts}: use a number from 0 on")
    check_metadata(args.metadata)
    if args.drain_node:
        return _drain_node(args, console, grace)
    if not args.command:
        raise ArcError(
            "no COMMAND: write it after --, such as `arc-toolkit run -- python train.py`"
        )
    return _supervise(args, console, grace)


def check_metadata(endpoint: str | None) -> None:
    """Of --metadata, also if no cloud is found here."""
    from arc_toolkit.notices.metadata import host_of

    if endpoint is None:
        return
    try:
        host_of(endpoint)
    except ValueError as error:
        raise ArcError(f"--metadata {error}") from None


def _sources(args: argparse.Namespace, console: Console) -> list[NoticeSource]:
    from arc_toolkit.notices.sources import cloud_source, find_cloud
    from arc_toolkit.notices.sources.notice_file import NoticeFile

    cloud = find_cloud() if args.cloud == "auto" else args.cloud
    sources: list[NoticeSource] = []
    if cloud not in (None, "none"):
        sources.append(cloud_source(cloud, args.metadata))
    elif args.cloud == "auto":
        console.note("this machine is in no known cloud, so that only SIGTERM announces its end")
    if args.notice_file:
        sources.append(NoticeFile(args.notice_file))
    return sources


def _supervise(args: argparse.Namespace, console: Console, grace: float) -> int:
    import tempfile

    from arc_toolkit.notices.supervisor import Supervisor
    from arc_toolkit.notices.watcher import Watcher

    tell = _signal_number(args.on_notice)
    with tempfile.TemporaryDirectory(prefix="arc-toolkit-run-") as folder:
        return Supervisor(
            args.command,
            watcher=Watcher(_sources(args, console)),
            folder=folder,
            grace=grace,
            max_restarts=args.max_restarts,
            tell=tell,
            takes_part=args.on_notice in _BY_FILE,
            saved=_newest_step(args.checkpoints),
            environment={"ARC_TOOLKIT_CHECKPOINTS": args.checkpoints} if args.checkpoints else {},
            node=os.environ.get("NODE_NAME", ""),
        ).run()


def _drain_node(args: argparse.Namespace, console: Console, grace: float) -> int:
    """Until it is stopped: drain the node on a notice, and take the cordon back if the notice is withdrawn."""
    from arc_toolkit.cli.live import connect
    from arc_toolkit.cluster.drain import NodeDrain
    from arc_toolkit.notices.node_agent import NodeAgent
    from arc_toolkit.notices.watcher import Watcher

    node = os.environ.get("NODE_NAME", "")
    if not node or args.command:
        raise ArcError(
            "--drain-node takes no COMMAND, and needs the node in $NODE_NAME (from spec.nodeName)"
        )
    sources = _sources(args, console)
    if not sources:
        raise ArcError("--drain-node: there is nothing to watch here; use --cloud")
    drain = NodeDrain(connect(args, console), node)
    drain.check()
    return NodeAgent(drain, Watcher(sources), node=node, grace=grace).run()


def _signal_number(word: str | None) -> int | None:
    """The number of a signal by its name, with or without SIG; None for `file`, `env` and for nothing."""
    if word is None or word in _BY_FILE:
        return None
    name = word.upper() if word.upper().startswith("SIG") else f"SIG{word.upper()}"
    try:
        return signal.Signals[name]
    except KeyError:
        raise ArcError(
            f"--on-notice {word}: use the name of a signal, such as SIGUSR1, file or env"
        ) from None


def _newest_step(folder: str | None) -> Callable[[float], int | None]:
    """The step of the newest checkpoint that was committed since a time."""

    said: set[str] = set()

    def say_once(text: str) -> None:  # it is looked at five times per second
        if text not in said:
            said.add(text)
            say(text)

    def newest(since: float) -> int | None:
        from arc_toolkit.checkpoints import Checkpoint, Store

        for entry in Store(folder or "", report=say_once).listing():
            if isinstance(entry, Checkpoint):
                with suppress(OSError):  # the process has just moved or deleted it
                    return (
                        entry.step
                        if os.path.getmtime(entry.folder / "checkpoint.json") >= since
                        else None
                    )
        return None

    return newest if folder else lambda since: None

"""`run`: supervise a training process: eviction notices, saves, restarts, exit codes."""

from __future__ import annotations

import argparse
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from arc_toolkit.cli.console import Console
from arc_toolkit.cli.option_table import CLUSTER, add_options
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

A process that uses arc_toolkit.checkpoints needs no option: it saves and ends by itself. Any other
is notified as --on-notice says; without it, SIGTERM is sent as soon as there is a notice.

exit codes: that of the process; 128 + N: ended by signal N; 143: evicted, resumable; 2: not started
"""
# The variable is always set, and a process cannot get another one: both mean the file it names.
_BY_FILE = ("file", "env")


OPTIONS = """
  command COMMAND *     the process and its arguments, after --
  --checkpoints DIR     checkpoint folder, watched to see when a save is complete
  --max-restarts N [0] >=0      restarts after a crash; evictions do not count
  --grace TIME [25s]    time between SIGTERM (or a notice without a deadline) and SIGKILL
  --on-notice SIGNAL|file|env   how to notify the process: a signal such as SIGUSR1; file or env:
                        no signal, only the file that $ARC_TOOLKIT_NOTICE names
  --drain-node          run no process: on a notice cordon the node in $NODE_NAME and evict its
                        pods (for a DaemonSet)
where notices come from:
  --cloud {auto,azure,aws,gcp,none} [auto]
                        whose metadata service is asked; auto: by the firmware of the machine
  --metadata URL        address of the metadata service, instead of the cloud's
  --notice-file FILE    a file whose existence is a notice
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    add_options(parser, OPTIONS + CLUSTER, metadata={"type": metadata_address})


def run(args: argparse.Namespace, console: Console) -> int:
    if args.drain_node:
        return _drain_node(args, console)
    if not args.command:
        raise ArcError(
            "no COMMAND: write it after --, such as `arc-toolkit run -- python train.py`"
        )
    return _supervise(args, console)


def metadata_address(text: str) -> str:
    """The value of --metadata; checked even if no cloud is found here."""
    from arc_toolkit.notices.metadata import host_of

    try:
        host_of(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def _sources(args: argparse.Namespace, console: Console) -> list[NoticeSource]:
    from arc_toolkit.notices.sources import cloud_source, find_cloud
    from arc_toolkit.notices.sources.notice_file import NoticeFile

    cloud = find_cloud() if args.cloud == "auto" else args.cloud
    sources: list[NoticeSource] = []
    if cloud not in (None, "none"):
        sources.append(cloud_source(cloud, args.metadata))
    elif args.cloud == "auto":
        console.note("no known cloud detected: only SIGTERM is treated as an eviction notice")
    if args.notice_file:
        sources.append(NoticeFile(args.notice_file))
    return sources


def _supervise(args: argparse.Namespace, console: Console) -> int:
    import tempfile

    from arc_toolkit.notices.supervisor import Supervisor
    from arc_toolkit.notices.watcher import Watcher

    with tempfile.TemporaryDirectory(prefix="arc-toolkit-run-") as folder:
        return Supervisor(
            args.command,
            watcher=Watcher(_sources(args, console)),
            folder=folder,
            grace=args.grace,
            max_restarts=args.max_restarts,
            notify_signal=_signal_number(args.on_notice),
            cooperative=args.on_notice in _BY_FILE,
            saved=_newest_step(args.checkpoints),
            environment={"ARC_TOOLKIT_CHECKPOINTS": args.checkpoints} if args.checkpoints else {},
            node=os.environ.get("NODE_NAME", ""),
        ).run()


def _drain_node(args: argparse.Namespace, console: Console) -> int:
    """Until it is stopped: drain the node on a notice, and uncordon it if that is withdrawn."""
    from arc_toolkit.cli.cluster_options import connect
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
    return NodeAgent(drain, Watcher(sources), node=node, grace=args.grace).run()


def _signal_number(word: str | None) -> int | None:
    """The number of a signal by its name, with or without SIG; None for `file` and `env`."""
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
    reports: set[str] = set()

    def report_once(text: str) -> None:  # it is looked at five times per second
        if text not in reports:
            reports.add(text)
            say(text)

    def newest(since: float) -> int | None:
        from arc_toolkit.checkpoints import Checkpoint, Store

        for entry in Store(folder or "", report=report_once).listing():
            if isinstance(entry, Checkpoint):
                with suppress(OSError):  # the process has just moved or deleted it
                    committed = os.path.getmtime(entry.folder / "checkpoint.json")
                    return entry.step if committed >= since else None
        return None

    return newest if folder else lambda since: None

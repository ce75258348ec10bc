"""`elastic`: one training script on a changing set of spot workers, on Ray."""

from __future__ import annotations

import argparse
import math
import os
import re
import time
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from arc_toolkit.cli.console import Console
from arc_toolkit.cli.option_table import add_options
from arc_toolkit.cli.run_command import metadata_address
from arc_toolkit.errors import OK, ArcError

if TYPE_CHECKING:
    from arc_toolkit.elastic.run_config import RunConfig

EPILOG = """\
examples:
  arc-toolkit elastic -f train.py -m 4                                    # a Ray on this machine
  arc-toolkit elastic -f train.py -u ray://head:10001 -m 16 --checkpoints az://data/run -- --epochs 10
  arc-toolkit elastic -u ray://head:10001 --attach brave-fig              # look at a run again
  arc-toolkit elastic -u ray://head:10001 --stop brave-fig                # end it after a save

exit codes: that of the script; 143 stopped after a save; 2 it cannot start; --stop: 0 it has ended
"""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*", re.ASCII)  # also of folders


OPTIONS = """
  arguments ARGS *          arguments of the script, after --
  -f, --file FILE           the script, run as __main__ in every worker
  -u, --uri ray://HEAD:10001    the Ray cluster (default: a Ray on this machine)
  -m, --max-cluster-size=most N
                            maximum number of workers
  --min=least N [1]               minimum number of workers
  --cpus NUMBER [1]         CPUs per worker
  --gpus NUMBER [0]         GPUs per worker
  -d, --working-dir DIR     folder to copy to every node; FILE may be relative to it
                            (default: the folder of the script)
  --env K=V ...             environment variable for the script; repeat for more
  --name NAME               name of the run (default: generated)
  --attach NAME             show a run that is in progress
  --stop NAME               end a run after a save, and wait for that
  --format {text,json} [text]    format of events
checkpoints:
  --checkpoints DIR|URL     storage that every node can reach (default: copies on the head and
                            another node; without -u ./checkpoints/NAME)
  --checkpoint-timeout TIME [120]
                            how long to wait for a checkpoint before resizing; then the previous
                            one is used
changes:
  --cluster-rescale-timeout=rescale_timeout TIME [60]
                            how long to wait for more nodes before continuing with those available
  --max-failures N [3] >=0  errors of the script after which the run ends; evictions do not count
  --efficiency=threshold SHARE [0.5]
                            grow only while a worker keeps this share of its throughput; 0: always
eviction notices:
  --cloud {auto,azure,aws,gcp,none} [auto]    whose metadata service the nodes ask
  --metadata URL            address of the metadata service
  --notice-dir DIR          folder to watch: a file named after a Ray node ID is an eviction
                            notice for it
"""


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = EPILOG
    add_options(
        parser,
        OPTIONS,
        exclusive=("--attach", "--stop"),
        efficiency={"type": float},
        metadata={"type": metadata_address},
    )


def run(args: argparse.Namespace, console: Console) -> int:
    from arc_toolkit.elastic import ray_cluster

    if args.attach or args.stop:
        return _existing(args, console)
    config, working_dir = _config(args)
    if args.uri:
        ray = ray_cluster.connect(args.uri, console.note, working_dir)
    else:
        ray = ray_cluster.start_local(working_dir, args.cpus, args.gpus, config.most)
    try:
        controller = ray_cluster.start(ray, config, args.cpus, args.gpus)
        console.note(f"run {config.name}; {_again(config.name)}" if args.uri else config.name)
        return _follow(ray, controller, config.name, args, console)
    finally:
        ray.shutdown()


def _existing(args: argparse.Namespace, console: Console) -> int:
    """Look at a run, or end it."""
    from arc_toolkit.elastic import ray_cluster

    if args.file or args.most is not None:
        option = "--attach" if args.attach else "--stop"
        raise ArcError(f"{option} is for a run in progress: leave out -f and -m")
    ray = ray_cluster.connect(args.uri or "auto", console.note)
    name = args.attach or args.stop
    controller = ray_cluster.attach(ray, name)
    if args.attach:
        return _follow(ray, controller, name, args, console)
    console.note(f"run {name} stops after a save, for which it has its --checkpoint-timeout")
    _follow(ray, controller, name, args, console, ray_cluster.stop(ray, controller))
    return OK


def _again(name: str) -> str:
    return f"look at it again with --attach {name}, end it with --stop {name}"


def _config(args: argparse.Namespace) -> tuple[RunConfig, str]:
    from arc_toolkit.elastic.run_config import (
        RunConfig,
        checkpoint_place,
        find_script,
        imported_modules,
    )
    from arc_toolkit.file_io import read_text

    if not args.file or args.most is None:
        raise ArcError("-f FILE and -m N are needed, or --attach NAME, or --stop NAME")
    if not 1 <= args.least <= args.most:
        raise ArcError(f"--min {args.least} -m {args.most}: use 1 <= min <= max")
    if not (0 <= args.cpus < math.inf and 0 <= args.gpus < math.inf and args.cpus + args.gpus > 0):
        raise ArcError("a worker needs --cpus or --gpus above 0")
    if args.gpus > 1 and args.gpus % 1:
        raise ArcError(f"--gpus {args.gpus:g}: use a whole number, or a part of one GPU")
    if not 0 <= args.threshold <= 1:
        raise ArcError(f"--efficiency {args.threshold:g}: use a share from 0 to 1")
    if args.name and not _NAME.fullmatch(args.name):
        raise ArcError(
            f"--name {args.name!r}: use letters, digits, - _ and ., with a letter or digit first"
        )
    script, working_dir = find_script(args.file, args.working_dir)
    for pair in args.env:
        if pair.find("=") < 1:
            raise ArcError(f"--env {pair}: write NAME=VALUE")
    name = args.name or f"run-{time.strftime('%m%d-%H%M%S')}"
    derived: dict[str, Any] = {
        "name": name,
        "script": os.path.relpath(script, working_dir),
        "working_dir": "" if args.uri else working_dir,
        "modules": imported_modules(read_text(script), args.file),
        "checkpoints": checkpoint_place(args.checkpoints or "", name, is_local=not args.uri),
        "environment": dict(pair.partition("=")[::2] for pair in args.env),
    }
    options = {field.name: getattr(args, field.name, None) for field in fields(RunConfig)}
    return RunConfig(**{**options, **derived}), working_dir


def _follow(
    ray: Any,
    controller: Any,
    name: str,
    args: argparse.Namespace,
    console: Console,
    seen: tuple[int, int] = (0, 0),
) -> int:
    """Show a run until it has ended, without the events and lines `seen`.

    Ctrl-C ends a local run after a save; a run in a cluster goes on.
    """
    from arc_toolkit.elastic import ray_cluster
    from arc_toolkit.elastic.timeline import summary_line

    client, wait = ray_cluster.client_name(), 1.0 if console.has_progress else 5.0
    while True:
        try:
            for status in ray_cluster.follow(ray, controller, wait, client, seen):
                _show(status, args, console)
                seen = status.get("seen", seen)
            break
        except KeyboardInterrupt:
            if args.stop:
                console.note(f"run {name} stops all the same")
                raise
            if args.uri or args.attach:
                console.note(f"the run goes on; {_again(name)}")
                raise
            console.note("stopping after a save")
            ray_cluster.stop(ray, controller)
    summary, code = status["summary"], int(status["code"])
    if args.format == "json":
        from arc_toolkit.output.json_document import document

        console.out(document("elastic", summary, indent=None))
    else:
        console.note(summary_line(summary))
    ray_cluster.end(ray, controller, client)
    return code


def _show(status: dict[str, Any], args: argparse.Namespace, console: Console) -> None:
    if args.format == "json":
        import json

        if "silent" in status:
            console.out(json.dumps({"event": "silent", "seconds": round(status["silent"], 1)}))
            return
        for event in status["events"]:
            console.out(json.dumps(event))
        for rank, text in status["output"]:
            console.out(json.dumps({"event": "output", "rank": rank, "text": text}))
        return
    from arc_toolkit.elastic.timeline import status_line
    from arc_toolkit.notices.run_log import utc

    if "silent" in status:
        console.note(
            f"no answer of the controller for {status['silent']:.0f} s; Ray may be restarting it"
        )
        return
    for rank, text in status["output"]:
        console.out(text if rank == 0 else f"[{rank}] {text}")
    for event in status["events"]:
        facts = [f" {name}={event[name]}" for name in event if name not in ("time", "event")]
        time_text = utc(event["time"])
        console.note(f"arc-toolkit-elastic {time_text} {event['event']}{''.join(facts)}")
    if status["code"] is None:
        console.progress(status_line(status["state"]))

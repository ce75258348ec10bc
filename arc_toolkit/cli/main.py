"""Parse and dispatch; turn errors into exit codes. A command is imported when it is named.

A command is a module with two functions:

    def configure(parser: argparse.ArgumentParser) -> None: ...      # its options, help and example
    def run(args: argparse.Namespace, console: Console) -> int: ...  # its exit code
"""

from __future__ import annotations

import errno
import sys

from arc_toolkit import __version__
from arc_toolkit.errors import FAULT, INTERRUPTED, OK, USAGE, ArcError
from arc_toolkit.stderr import say

TYPE_CHECKING = False  # `typing` alone would take as long to import as all the rest
if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence
    from types import ModuleType

# name -> (module below arc_toolkit.cli, what it does)
COMMANDS = {
    "gen-instance-types": (
        "gen_instance_types",
        "write InstanceTypes that fit on a node the first time",
    ),
    "validate": ("validate", "check hand-written InstanceTypes, and whether they fit"),
    "patch": (
        "patch",
        "set instance types, counts and threads in AzureML YAML, Python and notebooks",
    ),
    "check": ("check", "find what is wrong in AzureML files, and change nothing"),
    "rules": ("rules", "list the rules of patch and check, or explain one"),
    "place": ("place_command", "put Kubernetes workloads onto spot nodes, or keep them off"),
    "gen-compute": (
        "gen_compute",
        "write an AmlCompute cluster of low-priority VMs that azure-ai-ml accepts",
    ),
    "gen-spot-vm": ("gen_spot_vm", "write cloud-init and az commands for one spot VM that trains"),
    "gen-ray-cluster": (
        "gen_ray_cluster",
        "write a Ray cluster with an on-demand head and spot workers",
    ),
    "run": (
        "run_command",
        "supervise a training process: eviction notices, saves, restarts, exit codes",
    ),
    "elastic": (
        "elastic_command",
        "run one training script on a changing set of spot workers, on Ray",
    ),
    "checkpoints": (
        "checkpoints_command",
        "list, verify or prune checkpoints, or find the one to resume from",
    ),
    "cost": (
        "cost",
        "estimate what spot saves for a job, how often to save, and what a deadline costs",
    ),
    "diagnose": (
        "diagnose",
        "show on which nodes a job ran, why it was retried, and which nodes are bad",
    ),
    "cluster": ("cluster", "look at a cluster and set it up for AzureML"),
    "completion": ("completion", "print a completion script for bash, zsh or fish"),
}

LINUX_COMMANDS = ("run", "elastic")  # they need its signals, sessions and process groups

# As in cli/option_table.py.
COMMON_OPTIONS = """
messages:
  -q, --quiet           print only the result
  -v, --verbose         print more detail
  --color {auto,always,never}    use colour (default: auto, which obeys NO_COLOR and FORCE_COLOR)
configuration:
  --config FILE         defaults for options (default: arc-toolkit.toml or pyproject.toml here or
                        in a folder above; none: no file)
  --show-config         print every option, its value and where it comes from
"""

OVERVIEW = f"""\
arc-toolkit {__version__}: AzureML training on Kubernetes, without the guesswork.

  Size       InstanceTypes that fit the first time, every MiB explained
             arc-toolkit gen-instance-types --sku Standard_D64s_v5 --share half --explain

  Patch      instance types, counts and threads into hundreds of files, no other line touched
             arc-toolkit patch components/ --instance-type 32cpu128g --threads auto

  Diagnose   job -> attempt -> node -> cause, and which nodes are bad
             arc-toolkit diagnose downloaded-logs/

  Set up     what AzureML needs on this cluster, and what is missing
             arc-toolkit cluster preflight

`arc-toolkit COMMAND --help` explains a command:
"""


def overview() -> str:
    """What `arc-toolkit` alone prints."""
    rows = "\n".join(f"  {name:<20} {summary}" for name, (_, summary) in COMMANDS.items())
    return f"{OVERVIEW}\n{rows}\n"


def command_module(name: str) -> ModuleType:
    """The module of a command, imported now."""
    import importlib

    return importlib.import_module(f"arc_toolkit.cli.{COMMANDS[name][0]}")


def command_parser(name: str) -> argparse.ArgumentParser:
    """The parser of one command, with the options that every command has."""
    from arc_toolkit.cli.option_table import Parser

    summary = COMMANDS[name][1]
    description = summary[0].upper() + summary[1:] + "."
    parser = Parser(prog=f"arc-toolkit {name}", description=description)
    command_module(name).configure(parser)
    add_common_options(parser)
    return parser


def add_common_options(parser: argparse.ArgumentParser) -> None:
    """--quiet, --verbose and --color; also for the parsers of subcommands."""
    from arc_toolkit.cli.option_table import add_options

    add_options(parser, COMMON_OPTIONS, is_common=True)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code and raises nothing but SystemExit from --help."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        code = _dispatch(words)
        if sys.stdout is not None:  # else it was closed before the start
            sys.stdout.flush()
        return code
    except ArcError as error:
        say(f"arc-toolkit: {error}")
        return USAGE
    except KeyboardInterrupt:
        say("arc-toolkit: interrupted; no file was left partially written")
        return INTERRUPTED
    except BrokenPipeError:
        # The reader (`| head`) has what it wants: end as the shell's own tools do, 128 + SIGPIPE.
        _drop_output()
        return 141
    except Exception as error:
        if isinstance(error, OSError) and (
            sys.stdout is None or error.errno in (errno.ENOSPC, errno.EBADF)
        ):
            say(f"arc-toolkit: cannot write standard output: {error.strerror}")
            _drop_output()
            return USAGE
        say(_fault(words, error))
        return FAULT


def entry() -> None:
    """The console script."""
    sys.exit(main())


def _dispatch(words: list[str]) -> int:
    # --quiet and its kind may also be before the command.
    leading: list[str] = []
    while words and words[0].partition("=")[0] in ("-q", "--quiet", "-v", "--verbose", "--color"):
        take = 2 if words[0] == "--color" else 1
        leading, words = leading + words[:take], words[take:]
    if words[:1] == ["help"] and words[1:2]:
        words = [*words[1:], "--help"]
    if not words or words[0] in ("-h", "--help", "help"):
        sys.stdout.write(overview())
        return OK
    if words[0] in ("--version", "-V"):
        sys.stdout.write(f"arc-toolkit {__version__}\n")
        return OK
    name = words[0]
    if name not in COMMANDS:
        from arc_toolkit.text import nearest

        near = nearest(name, COMMANDS)
        hint = f"did you mean `{near}`?" if near else f"there are {', '.join(COMMANDS)}"
        raise ArcError(f"no command `{name}`: {hint}")
    # What is after `--` belongs to another program.
    end = words.index("--") if "--" in words else len(words)
    options, rest = words[1:end], words[end:]
    if name in LINUX_COMMANDS and sys.platform != "linux":
        raise ArcError(f"`arc-toolkit {name}` supervises processes on Linux, not on {sys.platform}")
    parser, words = command_parser(name), _negatives(options) + leading
    if "-h" in words or "--help" in words:
        parser.parse_args(words)

    from arc_toolkit.cli import config
    from arc_toolkit.cli.console import Console

    file = config.apply(parser, name, words, COMMANDS)
    if "--show-config" in words:
        sys.stdout.write(config.show(file, parser, name, words) + "\n")
        return OK
    args = parser.parse_args([*words, *rest])
    args.folders = file.folders

    console = Console(
        quiet=getattr(args, "quiet", False),
        verbose=getattr(args, "verbose", False),
        color=getattr(args, "color", "auto"),
    )
    try:
        code: int = command_module(name).run(args, console)
        return code
    finally:
        console.clear_progress()


def _negatives(words: list[str]) -> list[str]:
    """`--reserve -5%` as `--reserve=-5%`: argparse would take -5% for an option."""
    joined: list[str] = []
    for word in words:
        if (
            joined
            and word[:1] == "-"
            and word[1:2].isdigit()
            and joined[-1][:2] == "--"
            and "=" not in joined[-1]
        ):
            joined[-1] += f"={word}"
        else:
            joined.append(word)
    return joined


def _drop_output() -> None:
    """Drop what is still buffered for standard output: Python would complain at its end."""
    import os

    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _fault(words: list[str], error: Exception) -> str:
    import platform
    import tempfile
    import traceback

    from arc_toolkit.output.redaction import redact

    with tempfile.NamedTemporaryFile(
        "w",
        prefix="arc-toolkit-fault-",
        suffix=".log",
        delete=False,
        encoding="utf-8",
        errors="replace",
    ) as log:
        log.write(
            f"arc-toolkit {__version__}, Python {platform.python_version()}, "
            f"{platform.platform()}\n"
        )
        log.write(redact(f"arguments: {words}\n\n" + "".join(traceback.format_exception(error))))
    summary = redact(f"{type(error).__name__}: {error}".splitlines()[0])
    return f"arc-toolkit: a fault in the toolkit ({summary}); please attach {log.name} to an issue"

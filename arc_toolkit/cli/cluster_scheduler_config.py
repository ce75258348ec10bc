"""`cluster scheduler-config`: a configuration of Volcano with which pools start from zero nodes."""

from __future__ import annotations

import argparse

from arc_toolkit.azure import extension
from arc_toolkit.cli.console import Console
from arc_toolkit.errors import OK


def configure(parser: argparse.ArgumentParser) -> None:
    parser.epilog = (
        "Prints a ConfigMap; nothing is changed. The extension uses it after\n"
        "  arc-toolkit cluster extension update --set "
        f"{extension.SCHEDULER_SETTING}={extension.SCHEDULER_CONFIG_NAME}\n\n"
        "example:\n  arc-toolkit cluster scheduler-config | kubectl apply --filename -"
    )


def run(args: argparse.Namespace, console: Console) -> int:
    console.out(extension.config_map_text(), end="")
    return OK

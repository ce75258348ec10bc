"""docs/cluster-azure.md: its examples are what the commands print, and it names every option.

ARC_TOOLKIT_WRITE_DOCS=1 writes the examples anew.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
from collections.abc import Callable

import pytest

from arc_toolkit.azure import session as azure_session
from arc_toolkit.azure.session import Session
from arc_toolkit.cli import cluster_options
from arc_toolkit.cli.cluster import Subparser
from arc_toolkit.cli.main import command_parser
from tests.azure.arm_server import Arm
from tests.azure.conftest import CLUSTER
from tests.azure.objects import FakeCluster, installed, node
from tests.support import ROOT, Result

PAGE = ROOT / "docs" / "cluster-azure.md"
_EXAMPLE = re.compile(
    r"<!-- (?P<scene>\w+) -->\n```console\n\$ arc-toolkit (?P<words>.*)\n(?P<shown>[^`]*)```\n"
)

_API = re.compile(r"api-version=[-\w]+")


def set_scene(scene: str, arm: Arm, monkeypatch: pytest.MonkeyPatch) -> None:
    """`fresh`: a new AKS cluster with a spot pool; `ready`: the extension is there."""
    system = node("system-0", cpu=4, gib=16, labels={"kubernetes.azure.com/mode": "system"})
    spot = node("spot-0", taints=[("kubernetes.azure.com/scalesetpriority", "spot")])
    groups: dict[str, str] | None = {} if scene == "fresh" else None
    monkeypatch.setattr(
        cluster_options,
        "connect",
        lambda args, console: FakeCluster([system, node("cpu-0"), spot], [], [], groups),
    )
    if scene == "ready":
        item = installed()
        arm.extensions[item["id"].lower()] = item


def print_of(result: Result, words: list[str]) -> str:
    """As on a terminal: the plan comes before the result, the summary of preflight after it."""
    return result.out + result.err if "preflight" in words else result.err + result.out


@pytest.mark.real
def test_the_examples_are_what_the_commands_print(
    arc: Callable[..., Result], arm: Arm, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(azure_session, "open_session", lambda cloud=None: session)
    text = PAGE.read_text()
    examples = list(_EXAMPLE.finditer(text))
    assert len(examples) == 5
    made = text
    for example in examples:
        arm.extensions.clear()
        set_scene(example["scene"], arm, monkeypatch)
        words = shlex.split(example["words"])
        shown = print_of(arc(*words), words)
        made = made.replace(
            example[0], example[0].replace(f"\n{example['shown']}```\n", f"\n{shown}```\n")
        )
    if os.environ.get("ARC_TOOLKIT_WRITE_DOCS"):
        PAGE.write_text(made)
    # azure-ai-ml moves to newer API versions now and then; that alone does not make the page untrue.
    assert _API.sub("api-version", made) == _API.sub("api-version", PAGE.read_text())
    assert not arm.writes
    assert CLUSTER.subscription in made


def test_every_option_is_on_the_page() -> None:
    page = PAGE.read_text()

    def options(parser: argparse.ArgumentParser) -> set[str]:
        if isinstance(parser, Subparser):
            parser.load()
        found: set[str] = set()
        for action in parser._actions:
            found |= {text for text in action.option_strings if text.startswith("--")}
            if isinstance(action, argparse._SubParsersAction):
                found = found.union(
                    *(options(parser) for name, parser in action.choices.items() if name in MINE)
                )
        return found - {"--help"}

    missing = [text for text in sorted(options(command_parser("cluster"))) if text not in page]
    assert missing == []


# The subcommands of this page, and those of `extension`.
MINE = {"preflight", "extension", "attach", "spot-pool", "show", "install", "update"}

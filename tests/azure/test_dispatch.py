"""`arc-toolkit cluster` itself: what it prints alone, and what it imports."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest

from arc_toolkit.cli.cluster import SUBCOMMANDS
from tests.support import Result

Arc = Callable[..., Result]


def test_cluster_alone_prints_every_subcommand_with_an_example(arc: Arc) -> None:
    found = arc("cluster")
    assert found.code == 0
    for name, (_, summary, example) in SUBCOMMANDS.items():
        assert f"  {name} " in found.out
        assert summary in found.out
        assert example in found.out


def test_naming_a_subcommand_imports_only_its_module() -> None:
    code = (
        "import sys; from arc_toolkit.cli.main import main\n"
        "try: main(['cluster', 'attach', '--help'])\n"
        "except SystemExit: pass\n"
        "heavy = ('azure.', 'kubernetes', 'yaml', 'arc_toolkit.cli.cluster_preflight')\n"
        "wrong = [m for m in sys.modules if m.startswith(heavy)]\n"
        "assert 'arc_toolkit.cli.cluster_attach' in sys.modules and not wrong, wrong"
    )
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)


@pytest.mark.parametrize(
    "words", [("preflight",), ("extension",), ("extension", "install"), ("attach",)]
)
def test_help_has_an_example_that_begins_with_the_command(arc: Arc, words: tuple[str, ...]) -> None:
    found = arc("cluster", *words, "--help")
    assert found.code == 0
    assert f"\n  arc-toolkit cluster {' '.join(words)}" in found.out.partition("example")[2]


@pytest.mark.parametrize("place", ["before", "after"])
def test_quiet_may_be_before_and_behind_the_subcommand(arc: Arc, place: str) -> None:
    words = ["cluster", "preflight", "--only", "cluster", "--kubeconfig", "/nowhere/config"]
    found = arc(*(["--quiet", *words] if place == "before" else [*words, "--quiet"]))
    assert (found.code, found.err) == (1, "")


def test_an_option_that_does_not_exist_is_one_sentence(arc: Arc) -> None:
    found = arc("cluster", "attach", "x", "--colour")
    assert found.code == 2
    assert (
        found.err == "arc-toolkit: unrecognized arguments: --colour: did you mean --color? "
        "(see `arc-toolkit cluster --help`)\n"
    )

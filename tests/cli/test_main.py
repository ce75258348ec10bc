"""The command line itself: what it says, what it imports, how it fails."""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import io
import os
import struct
import subprocess
import sys
import termios
from collections.abc import Callable
from pathlib import Path

import pytest

from arc_toolkit import __version__
from arc_toolkit.cli import main as cli
from arc_toolkit.cli.console import Console, wants_color
from tests.support import ROOT, Result

Arc = Callable[..., Result]
HEAVY = (
    "kubernetes",
    "azure",
    "jinja2",
    "yaml",
    "rich",
    "sqlite3",
    "argparse",
    "subprocess",
    "http",
    "ssl",
)


def test_alone_it_shows_the_four_jobs_with_an_example_each(arc: Arc) -> None:
    result = arc()
    assert result.code == 0
    for job, example in [
        ("Size", "gen-instance-types --sku"),
        ("Patch", "patch components/"),
        ("Diagnose", "diagnose downloaded-logs/"),
        ("Set up", "cluster preflight"),
    ]:
        assert job in result.out
        assert f"arc-toolkit {example}" in result.out
    assert arc("--help").out == result.out
    assert arc("--version").out == f"arc-toolkit {__version__}\n"


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys; from arc_toolkit.cli.main import main; main(['--help']); "
        f"print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == "[]\n"


@pytest.mark.parametrize("name", list(cli.COMMANDS))
def test_the_help_of_a_command_imports_no_optional_package(name: str) -> None:
    code = (
        "import sys\nfrom arc_toolkit.cli.main import main\n"
        f"try: main([{name!r}, '--help'])\nexcept SystemExit: pass\n"
        "print([m for m in ('kubernetes', 'azure', 'jinja2', 'fsspec', 'mlflow') if m in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == "[]\n"
    assert "example" in done.stdout


def test_an_unknown_command_gets_the_nearest_one(arc: Arc) -> None:
    result = arc("daignose")
    assert (result.code, result.err) == (
        2,
        "arc-toolkit: no command `daignose`: did you mean `diagnose`?\n",
    )


def test_common_options_may_be_before_the_command(arc: Arc) -> None:
    result = arc("--quiet", "--color", "never", "gen-instance-types", "--sku", "D64s_v5")
    assert (result.code, result.err) == (0, "")


def test_a_fault_is_one_sentence_and_a_log_without_secrets(
    arc: Arc, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def broken(args: argparse.Namespace, console: object) -> int:
        raise RuntimeError("AccountKey=abcdefghijklmnop went wrong")

    monkeypatch.setattr("arc_toolkit.cli.completion.run", broken)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    result = arc("completion", "bash")
    assert result.code == 3
    assert len(result.err.splitlines()) == 1
    (log,) = tmp_path.iterdir()
    assert str(log) in result.err
    text = log.read_text()
    assert "RuntimeError" in text
    assert "abcdefghijklmnop" not in text + result.err


@pytest.mark.parametrize(
    ("choice", "no_color", "colored"),
    [("always", "1", True), ("auto", "", False), ("never", "", False)],
)
def test_colour_obeys_the_option_and_no_color(
    arc: Arc, monkeypatch: pytest.MonkeyPatch, choice: str, no_color: str, colored: bool
) -> None:
    monkeypatch.setenv("NO_COLOR", no_color)
    result = arc("gen-instance-types", "--sku", "D64s_v5", "--explain", "--color", choice)
    assert ("\x1b[" in result.out) == colored


@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("gen-instance-types --exp", "--explain"),
        ("gen-instance-types --format j", "json"),
        ("cluster pre", "preflight"),
        ("cluster nodes --wat", "--watch"),
        ("diag", "diagnose"),
        ("--ver", "--version"),
    ],
)
def test_bash_takes_the_completion_script_and_completes_with_it(
    arc: Arc, typed: str, completed: str
) -> None:
    script = arc("completion", "bash").out
    words = f"COMP_WORDS=(arc-toolkit {typed}); COMP_CWORD={len(typed.split())}"
    probe = f"{script}\n{words}; _arc_toolkit; echo ${{COMPREPLY[@]}}"
    done = subprocess.run(["bash", "-c", probe], capture_output=True, text=True, check=True)
    assert done.stdout == f"{completed}\n"


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_other_shells_name_every_command(arc: Arc, shell: str) -> None:
    script = arc("completion", shell).out
    assert all(name in script for name in cli.COMMANDS)


def parsers(parser: argparse.ArgumentParser) -> list[argparse.ArgumentParser]:
    found = [parser]
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for choice in action.choices.values():
                getattr(choice, "load", lambda: None)()
                found += parsers(choice)
    return found


@pytest.mark.parametrize("name", list(cli.COMMANDS))
def test_every_option_of_a_command_is_documented(name: str) -> None:
    pages = "\n".join(
        page.read_text(encoding="utf-8") for page in sorted((ROOT / "docs").glob("**/*.md"))
    )
    assert f"arc-toolkit {name}" in pages
    for parser in parsers(cli.command_parser(name)):
        for action in parser._actions:
            options = [option for option in action.option_strings if option.startswith("--")]
            assert not options or any(f"`{option}" in pages for option in options), (
                parser.prog,
                options,
            )


def test_the_module_runs_as_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "arc_toolkit", "--version"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == f"arc-toolkit {__version__}\n"


def test_files_are_written_whole_keep_their_mode_and_leave_no_litter(tmp_path: Path) -> None:
    from arc_toolkit.errors import ArcError
    from arc_toolkit.file_io import write_atomic

    file = tmp_path / "a.yaml"
    file.write_text("old")
    file.chmod(0o640)
    write_atomic(file, "new\r\n")
    assert (file.read_bytes(), file.stat().st_mode & 0o777) == (b"new\r\n", 0o640)
    link = tmp_path / "link.yaml"
    link.symlink_to(file)
    write_atomic(link, "through the link")
    assert link.is_symlink()
    assert file.read_text() == "through the link"
    with pytest.raises(ArcError, match="cannot write"):
        write_atomic(tmp_path / "no" / "folder.yaml", "x")
    assert sorted(os.listdir(tmp_path)) == ["a.yaml", "link.yaml"]


@pytest.mark.parametrize(("columns", "shown"), [(40, 39), (300, 100), (0, 79)])
def test_a_progress_line_fits_into_one_line_of_the_terminal(
    monkeypatch: pytest.MonkeyPatch, columns: int, shown: int
) -> None:
    reader, terminal = os.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    with open(terminal, "w") as stream, open(reader, "rb", buffering=0) as screen:
        monkeypatch.setattr(sys, "stderr", stream)
        console = Console()
        console._started -= 2
        console.progress("x" * 200)
        monkeypatch.undo()
        assert screen.read(1000) == b"\r\x1b[2K" + b"x" * shown


@pytest.mark.parametrize("mode", [[], ["--write"], ["--check"]])
def test_standard_output_may_take_only_text_as_in_jupyter(tmp_path: Path, mode: list[str]) -> None:
    job = tmp_path / "job.yml"
    job.write_text("command: python t.py\nenvironment: e\ncompute: azureml:aks\n")
    words = ["patch", str(job), "--instance-type", "8cpu32g", *mode, "-q"]
    with contextlib.redirect_stdout(io.StringIO()) as out:
        code = cli.main(words)
    assert code == (1 if mode == ["--check"] else 0)
    expected = {"": "+  instance_type: 8cpu32g\n", "--write": "wrote", "--check": "would change"}
    assert expected["".join(mode)] in out.getvalue()


def test_standard_input_goes_to_a_standard_output_of_text(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "command: python t.py\nenvironment: e\ncompute: azureml:aks\n"
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    with contextlib.redirect_stdout(io.StringIO()) as out:
        code = cli.main(["patch", "-", "--instance-type", "8cpu32g", "--write", "-q"])
    assert code == 0
    assert "instance_type: 8cpu32g" in out.getvalue()


@pytest.mark.parametrize(
    "words",
    [
        ("gen-instance-types", "--sku", "D64s_v55"),
        ("patch", "nowhere.yml", "--instance-type", "x y"),
        ("cost", "--sku", "D64s_v5", "--hours", "long"),
        ("no-command",),
    ],
)
def test_quiet_still_says_why_it_ends_with_2(arc: Arc, words: tuple[str, ...]) -> None:
    for quiet in (["-q", *words], [*words, "-q"]):
        result = arc(*quiet)
        assert (result.code, result.out) == (2, "")
        assert result.err.startswith("arc-toolkit: ")
        assert result.err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("gen-instance-types", "--skus", "D64s_v5"), "did you mean --sku?"),
        (("gen-instance-types", "--format", "tabel"), "did you mean table?"),
        (("cluster", "extension", "instal"), "did you mean install?"),
        (("cluster", "nodes", "--contxt", "a"), "did you mean --context?"),
    ],
)
def test_a_mistyped_option_choice_or_subcommand_gets_a_suggestion(
    arc: Callable[..., Result], words: tuple[str, ...], hint: str
) -> None:
    result = arc(*words)
    assert (result.code, result.out) == (2, "")
    assert hint in result.err


@pytest.mark.parametrize(
    ("variables", "colored"),
    [({"FORCE_COLOR": "1"}, True), ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False), ({}, False)],
)
def test_force_color_is_obeyed_without_a_terminal(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], colored: bool
) -> None:
    for name in ("FORCE_COLOR", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert wants_color("auto", io.StringIO()) is colored

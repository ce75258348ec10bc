"""Every diff applies with git, and gives the new text."""

from __future__ import annotations

import difflib
import random
import subprocess
from pathlib import Path

import pytest

from arc_toolkit.edit.files.diff import unified


def apply(folder: Path, diff: str) -> None:
    data = diff.encode(errors="surrogateescape")
    done = subprocess.run(
        ["git", "apply", "--whitespace=nowarn", "-"], cwd=folder, input=data, capture_output=True
    )
    assert done.returncode == 0, done.stderr.decode()


def _edited(lines: list[bytes], dice: random.Random) -> list[bytes]:
    lines = list(lines)
    for _ in range(dice.choice((1, 1, 2, 30))):
        start = dice.randrange(len(lines) + 1)
        end = min(len(lines), start + dice.choice((0, 0, 1, 5, 90)))
        lines[start:end] = [
            dice.choice((b"a", b"b", b"new")) for _ in range(dice.choice((0, 1, 3, 90)))
        ]
    return lines


def test_diffs_of_many_files_apply_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    dice = random.Random(7)
    expected, diffs = {}, []
    for number in range(150):
        name = f"{number} with blanks.yml" if number % 10 == 0 else f"{number}.yml"
        lines = [
            dice.choice((b"a", b"b", b"c", b"", b"\xff"))
            for _ in range(dice.choice((0, 1, 4, 60, 600)))
        ]
        newline, last = dice.choice((b"\n", b"\r\n")), dice.choice((b"", b"\n"))
        before, after = (
            newline.join(text) + (last if text else b"") for text in (lines, _edited(lines, dice))
        )
        if number % 7:
            Path(name).write_bytes(before)
        if after or not number % 7:
            diffs.append(unified(name, before if number % 7 else None, after))
            expected[name] = after
    apply(tmp_path, "".join(diffs))
    assert {name: Path(name).read_bytes() for name, after in expected.items() if after} == {
        name: after for name, after in expected.items() if after
    }


def test_equal_texts_have_no_diff() -> None:
    assert unified("a.yml", b"a\nb", b"a\nb") == ""


def test_a_file_outside_of_the_folder_is_named_from_the_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    assert f"+++ b{tmp_path}/x.yml\n" in unified("../x.yml", b"a\n", b"b\n")


def test_a_long_file_with_repeated_lines_is_not_left_to_difflib(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def slow(*_: object) -> None:
        raise AssertionError("its time is quadratic")

    monkeypatch.setattr(difflib.SequenceMatcher, "find_longest_match", slow)
    old = b"  s:\n    type: command\n    inputs:\n" * 2000
    new = old.replace(b"command\n", b"command\n    resources:\n      a: 1\n")
    assert unified("p.yml", old, new).count("\n+") == 4001


def test_a_long_file_with_every_second_line_changed_costs_as_much_per_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked_at = 0
    find = difflib.SequenceMatcher.find_longest_match

    def count(matcher: difflib.SequenceMatcher[str], *limits: int) -> difflib.Match:
        nonlocal looked_at
        looked_at += limits[1] - limits[0]
        return find(matcher, *limits)

    monkeypatch.setattr(difflib.SequenceMatcher, "find_longest_match", count)
    costs = []
    for steps in (500, 1000, 1500):
        looked_at = 0
        old = "".join(f"s_{i} = train()\ns_{i}.count = 1\n" for i in range(steps))
        diff = unified("p.py", old.encode(), old.replace("count = 1", "count = 2").encode())
        assert diff.count("\n+s_") == diff.count("\n-s_") == steps
        costs.append(looked_at)
    assert costs[2] - costs[1] < 1.1 * (costs[1] - costs[0])


def test_lines_that_are_far_apart_are_found_again() -> None:
    old = "".join(f"line {i}\n" for i in range(300))
    new = old.replace("line 100\n", "".join(f"new {i}\n" for i in range(200)) + "line 100\n")
    diff = unified("p.yml", old.encode(), new.encode())
    assert diff.count("\n+new") == 200
    assert "\n-line" not in diff

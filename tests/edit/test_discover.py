"""Which files a run sees: .gitignore as git reads it, links, and a reason for everything left out."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from arc_toolkit.edit.files.discover import InputFile, Problem, Skipped, discover


def found(*paths: object) -> list[str]:
    return [item.path for item in discover(map(str, paths)) if isinstance(item, InputFile)]


def test_folders_are_walked_in_order_and_files_named_count_once(tmp_path: Path) -> None:
    for name in ("b.yml", "a.yaml", "c.py", "d.txt", "sub/e.ipynb", "node_modules/f.yml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    names = [os.path.relpath(path, tmp_path) for path in found(tmp_path, tmp_path / "b.yml")]
    assert names == ["a.yaml", "b.yml", "c.py", "sub/e.ipynb"]


def test_folders_that_tools_make_are_entered_only_if_named(tmp_path: Path) -> None:
    for name in (
        "venv/a.yml",
        ".tox/b.py",
        ".nox/c.py",
        "build/d.yml",
        "lib/site-packages/e.py",
        "sub/f.yml",
    ):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text("")
    assert [os.path.relpath(path, tmp_path) for path in found(tmp_path)] == ["sub/f.yml"]
    skipped = [item for item in discover([str(tmp_path)]) if isinstance(item, Skipped)]
    assert len(skipped) == 5
    assert found(tmp_path / "build") == [str(tmp_path / "build" / "d.yml")]


def test_gitignore_is_obeyed_below_folders_and_not_for_named_files(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".gitignore").write_text("build/\n*.gen.yml\n!keep.gen.yml\n")
    for name in ("build/a.yml", "sub/b.gen.yml", "sub/keep.gen.yml", "sub/c.yml"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    items = list(discover([str(tmp_path / "sub"), str(tmp_path)]))
    assert [os.path.basename(item.path) for item in items if isinstance(item, InputFile)] == [
        "c.yml",
        "keep.gen.yml",
    ]
    left = {os.path.basename(item.path): item.reason for item in items if isinstance(item, Skipped)}
    assert left == {"b.gen.yml": "ignored by .gitignore", "build": "ignored by .gitignore"}
    assert found(tmp_path / "build" / "a.yml") == [str(tmp_path / "build" / "a.yml")]


PATTERNS = """\
*
*.yml
*.gen.yml
keep.gen.yml
x.yml
/x.yml
[xy].*
[!x].yml
q?.yml
*.py   \

\\#hash.yml
# x.yml
sp\\ ace.yml
a
a/
/a
/a/
a/b
a/b/c/
a/*/c
a/**
a/**/x.yml
**/b
**/a/**
b/*
b/x.yml
*/
*/b
/*
/*/
**
**/
/
//
[a
""".splitlines()
FOLDERS = ("", "a", "b", "a/b", "a/b/c", "c")
FILES = ("x.yml", "y.py", "keep.gen.yml", "q1.yml", "#hash.yml", "sp ace.yml")


def test_what_is_ignored_is_what_git_ignores(tmp_path: Path) -> None:
    """Generated .gitignore files: nested, negated, anchored, of folders. Each case is a folder of one repository."""
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / ".gitignore").write_bytes(b"\xef\xbb\xbfq1.yml\r\n!q1.yml\r\n")
    choose = random.Random(7)
    for case in range(150):
        top = tmp_path / f"case-{case}"
        for folder in FOLDERS:
            (top / folder).mkdir(parents=True, exist_ok=True)
            for name in FILES:
                (top / folder / name).touch()
        for folder in choose.sample(FOLDERS[:4], choose.randint(1, 3)):
            lines = [
                choose.choice(("", "", "!")) + pattern
                for pattern in choose.choices(PATTERNS, k=choose.randint(1, 5))
            ]
            (top / folder / ".gitignore").write_text("\n".join(lines) + "\n")
    listed = subprocess.run(
        ["git", "-C", str(tmp_path), "ls-files", "-o", "--exclude-standard", "-z"],
        capture_output=True,
        check=True,
    )
    names = set(listed.stdout.decode().split("\0"))
    expected = {name for name in names if name.endswith((".yml", ".py"))}
    assert 1000 < len(expected) < 4000  # of 5400
    assert {os.path.relpath(path, tmp_path) for path in found(tmp_path)} == expected


def test_an_ignored_folder_that_is_named_is_read_with_the_rules_for_its_files(
    tmp_path: Path,
) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".gitignore").write_text("out/\n*.gen.yml\n")
    (tmp_path / "out" / "sub").mkdir(parents=True)
    for name in ("a.yml", "b.gen.yml", "sub/c.yml"):
        (tmp_path / "out" / name).touch()
    names = [os.path.relpath(path, tmp_path) for path in found(tmp_path / "out")]
    assert names == ["out/a.yml", "out/sub/c.yml"]


def test_pathspec_is_imported_for_folders_only(tmp_path: Path) -> None:
    (tmp_path / "a.yml").touch()
    program = (
        "import sys; from arc_toolkit.edit.files.discover import discover;"
        f"list(discover([{str(tmp_path / 'a.yml')!r}])); print('pathspec' in sys.modules)"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert result.stdout == "False\n"


def test_links_are_followed_once_and_circles_are_reported(tmp_path: Path) -> None:
    (tmp_path / "a.yml").write_text("")
    (tmp_path / "b.yml").symlink_to("a.yml")
    (tmp_path / "loop.yml").symlink_to("loop.yml")
    (tmp_path / "folder").symlink_to(tmp_path)
    items = list(discover([str(tmp_path)]))
    assert [os.path.basename(item.path) for item in items if isinstance(item, InputFile)] == [
        "a.yml"
    ]
    reasons = {
        os.path.basename(item.path): item.reason for item in items if isinstance(item, Skipped)
    }
    assert "circle" in reasons["loop.yml"]
    assert reasons["folder"] == "a symbolic link to a folder"


@pytest.mark.parametrize("name", ["missing.yml", "loop.yml"])
def test_a_named_path_that_cannot_be_read_is_a_problem(tmp_path: Path, name: str) -> None:
    (tmp_path / "loop.yml").symlink_to("loop.yml")
    [item] = discover([str(tmp_path / name)])
    assert isinstance(item, Problem)
    assert str(tmp_path / name) in item.message


def test_a_link_that_leaves_the_folder_is_skipped_and_one_inside_is_read(tmp_path: Path) -> None:
    top, outside = tmp_path / "top", tmp_path / "outside.yml"
    top.mkdir()
    outside.write_text("a: 1\n")
    (top / "leaves.yml").symlink_to(outside)
    (top / "real.yml").write_text("a: 1\n")
    (top / "stays.yml").symlink_to(top / "real.yml")
    found = {os.path.basename(entry.path): entry for entry in discover([str(top)])}
    assert isinstance(found["leaves.yml"], Skipped)
    assert "outside of the folder" in found["leaves.yml"].reason
    assert isinstance(found["real.yml"], InputFile)
    named = list(discover([str(top / "leaves.yml")]))
    assert isinstance(named[0], InputFile)

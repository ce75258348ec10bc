"""Which files a run sees: .gitignore as git reads it, links, and a reason for everything left out."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from arc_toolkit.edit.files.discover import InputFile, Problem, Skipped, discover
from arc_toolkit.edit.files.gitignore import Gitignore


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


GITIGNORE = (
    """\
# comment
*.log
/root.yml
folder/
deep/**/x.yml
**/any.yml
a/b
!a/b/c.yml
[xy].yml
sp\\ ace.yml
\\#hash.yml
q?.yml
"""
    + "trailing.yml   \n"
)
PATHS = [
    "root.yml", "sub/root.yml", "a.log", "folder/x.yml", "sub/folder/x.yml", "deep/x.yml", "deep/1/2/x.yml", "any.yml",
    "s/any.yml", "a/b/c.yml", "x.yml", "z.yml", "sp ace.yml", "#hash.yml", "q1.yml", "q12.yml", "trailing.yml", "s/a/b",
]  # fmt: skip


def test_patterns_mean_what_git_means(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    (tmp_path / ".gitignore").write_text(GITIGNORE)
    for name in PATHS:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        if not (tmp_path / name).exists():
            (tmp_path / name).write_text("")
    listed = subprocess.run(
        ["git", "-C", str(tmp_path), "ls-files", "-o", "-i", "--exclude-standard", "-z"],
        capture_output=True,
        check=True,
    )
    ignored = set(listed.stdout.decode().split("\0")) - {""}
    rules = Gitignore().within(str(tmp_path))

    def ours(name: str) -> bool:
        parts = name.split("/")
        folders = ["/".join(parts[: index + 1]) for index in range(len(parts) - 1)]
        return any(rules.ignores(str(tmp_path / part), True) for part in folders) or rules.ignores(
            str(tmp_path / name), False
        )

    assert {name for name in PATHS if ours(name)} == {name for name in PATHS if name in ignored}


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

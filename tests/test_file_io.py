"""Files are written whole or not at all, wherever the writing is interrupted."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from arc_toolkit import file_io
from arc_toolkit.errors import ArcError
from arc_toolkit.file_io import write_all


class Interruption:
    """Ctrl-C at the nth line that is run to write files, the removal of temporary files excepted."""

    def __init__(self, at: int) -> None:
        self.lines_left = at

    def __call__(self, frame: FrameType, event: str, argument: Any) -> Any:
        if frame.f_code.co_filename != file_io.__file__:
            return None
        if event == "line":
            self.lines_left -= 1
            if self.lines_left == 0:
                raise KeyboardInterrupt
        return self


def test_ctrl_c_at_any_line_leaves_no_temporary_file_and_no_half_file(tmp_path: Path) -> None:
    first, second = tmp_path / "a.yml", tmp_path / "b.yml"
    interrupted = 0
    for line in range(1, 200):
        first.write_text("old")
        second.unlink(missing_ok=True)
        sys.settrace(Interruption(line))
        try:
            write_all({first: "new" * 1000, second: "new"})
        except KeyboardInterrupt:
            interrupted += 1
        finally:
            sys.settrace(None)
        assert {path.name for path in tmp_path.iterdir()} <= {"a.yml", "b.yml"}, line
        assert first.read_text() in ("old", "new" * 1000)
        assert not second.exists() or second.read_text() == "new"
        if first.read_text() != "old" and second.exists() and line > interrupted:
            break
    assert interrupted > 20


def test_one_file_that_cannot_be_written_keeps_all_as_they_were(tmp_path: Path) -> None:
    first, folder = tmp_path / "a.yml", tmp_path / "folder"
    first.write_text("old")
    folder.mkdir()
    with pytest.raises(ArcError, match="it is a folder"):
        write_all({first: "new", folder: "new"})
    assert first.read_text() == "old"
    assert {path.name for path in tmp_path.iterdir()} == {"a.yml", "folder"}

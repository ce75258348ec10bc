"""Compressed input has the same limits wherever it comes from, and a refusal is one sentence."""

from __future__ import annotations

import gzip
import io
import json
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest

from arc_toolkit.diagnosis.read import unpack
from arc_toolkit.errors import ArcError
from tests.support import Result

Arc = Callable[..., Result]
MIB = 1 << 20
BOMB = gzip.compress(b" " * (100 * MIB))
OPTIONS = ["--pods", "--nodes", "--events", "--metrics"]


@pytest.mark.parametrize("option", [*OPTIONS, None], ids=[*OPTIONS, "SOURCE"])
@pytest.mark.parametrize("name", ["x.json.gz", "x.json", "-"])
def test_a_gz_bomb_is_refused_with_one_sentence(
    arc: Arc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, option: str | None, name: str
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BufferedReader(io.BytesIO(BOMB))))
    (tmp_path / "x.json").write_bytes(BOMB)
    (tmp_path / "x.json.gz").write_bytes(BOMB)
    source = name if name == "-" else str(tmp_path / name)
    result = arc("diagnose", *([option] if option else []), source)
    assert (result.code, result.out) == (2, "")
    assert unpack.BOMB in result.err
    assert len(result.err.strip().splitlines()) == 1


def test_a_bomb_is_refused_long_before_it_fills_the_memory() -> None:
    tracemalloc.start()
    try:
        with pytest.raises(unpack.TooLarge):
            unpack.read_whole(io.BytesIO(BOMB))
        assert tracemalloc.get_traced_memory()[1] < 80 * MIB
    finally:
        tracemalloc.stop()


def test_plain_input_has_a_limit_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unpack, "MAX_WHOLE_BYTES", MIB)
    (tmp_path / "pods.json").write_bytes(b" " * MIB)
    assert len(unpack.read_input(str(tmp_path / "pods.json"))) == MIB
    (tmp_path / "pods.json").write_bytes(b" " * (MIB + 1))
    with pytest.raises(ArcError, match=r"pods\.json: larger than 1 GiB"):
        unpack.read_input(str(tmp_path / "pods.json"))


@pytest.mark.parametrize("cut", [5, -5])
def test_damaged_compressed_input_is_one_sentence(tmp_path: Path, cut: int) -> None:
    (tmp_path / "pods.json").write_bytes(gzip.compress(json.dumps({"kind": "List"}).encode())[:cut])
    with pytest.raises(ArcError, match="truncated or damaged compressed data"):
        unpack.read_input(str(tmp_path / "pods.json"))


def test_compressed_metrics_are_read(arc: Arc, tmp_path: Path) -> None:
    rows = "key,value,step,timestamp\n" + "".join(
        f"loss,1,{step},{1.78e9 + 10 * step}\n" for step in range(50)
    )
    (tmp_path / "m.csv.gz").write_bytes(gzip.compress(rows.encode()))
    result = arc("diagnose", "--metrics", tmp_path / "m.csv.gz")
    assert result.code == 0
    assert "1 run, 50 points" in result.out + result.err


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ArcError, match=r"cannot read .*none\.json: no such file or directory"):
        unpack.read_input(str(tmp_path / "none.json"))

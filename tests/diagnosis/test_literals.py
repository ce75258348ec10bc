"""The search by the C library gives what `bytearray.find` gives, and changes nothing."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from arc_toolkit.diagnosis.read import scan
from arc_toolkit.diagnosis.read.scan import finders

# Few different bytes, so that parts of the literal are everywhere; NUL is where strstr stops.
BYTES = st.lists(
    st.sampled_from([b"a", b"b", b"ab", b"aab", b"\0", b"\xff", b"x" * 70]), max_size=60
).map(b"".join)


LITERALS = (b"a", b"ab", b"aab", b"abaab", b"\xffa")


@given(BYTES, st.sampled_from(LITERALS), st.data())
@example(b"aab", b"aab", None)
def test_it_finds_what_find_finds(text: bytes, literal: bytes, draw: st.DataObject | None) -> None:
    data = bytearray(text + b"a")  # what is after the end continues the literal
    start = draw.draw(st.integers(0, len(text))) if draw else 0
    end = draw.draw(st.integers(0, len(text))) if draw else len(text)
    in_text, anywhere = finders(data)
    for search in (anywhere, in_text) if 0 not in data[start:end] else (anywhere,):
        assert search.find(literal, start, end) == data.find(literal, start, end)
        here = [each for each in LITERALS if each in data[start:end]]
        assert search.among(LITERALS, start, end) == here
    assert data == text + b"a"


@pytest.mark.parametrize("nul", [b"", b"\0", b"\0" * 5000])
@pytest.mark.parametrize("away", range(-13, 14))
def test_a_literal_at_the_border_of_the_range_is_found_only_if_it_is_inside(
    away: int, nul: bytes
) -> None:
    literal = b"Run on node:"
    data = bytearray(nul + b"." * 100_000)
    in_text, anywhere = finders(data)
    search = (anywhere if nul else in_text).find
    for border in (len(nul) + 64, 65_536, len(data) - 26):
        at = border + away
        data[at : at + len(literal)] = literal
        for start, end in ((0, border), (border, len(data) - 1)):
            assert search(literal, start, end) == data.find(literal, start, end)
        data[at : at + len(literal)] = b"." * len(literal)


def test_a_python_without_the_library_finds_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scan, "_library", lambda: None)
    data = bytearray(b"one two one ")
    for find, among in finders(data):
        assert [find(b"one", 0, 11), find(b"one", 1, 11), find(b"one", 9, 11)] == [0, 8, -1]
        assert among((b"one", b"two"), 5, 12) == [b"one"]


def test_the_c_library_of_this_machine_is_used() -> None:
    assert scan._library() is not None

"""The YAML editor: every other byte stays, what cannot be proved is refused."""

from __future__ import annotations

import difflib
from dataclasses import replace
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from arc_toolkit.edit.files.edits import Refused, Unreadable
from arc_toolkit.edit.yaml.editor import YamlEditor
from arc_toolkit.edit.yaml.nodes import MAX_BYTES, KeyPath, read
from arc_toolkit.edit.yaml.writer import YamlStyle
from tests.support import CORPUS

STYLE = YamlStyle(neighbours={"resources": ("compute", "type")})


def edit(text: str, *sets: tuple[KeyPath, Any]) -> str:
    editor = YamlEditor(read(text.encode()), STYLE)
    for path, value in sets:
        editor.set((0, *path), value)
    return editor.finish()[0]


# --- set -------------------------------------------------------------------------------------------------------

MERGED = "d: &d {x: 1}\ns:\n  <<: *d\n  y: 2\n"
CASES = {
    "a scalar keeps its comment": ("a: 1 # one\nb: 2\n", (("a",), "x"), "a: x # one\nb: 2\n"),
    "single quotes stay": ("a: 'it''s'\n", (("a",), "they're"), "a: 'they''re'\n"),
    "double quotes stay": ('a: "x"\n', (("a",), "y"), 'a: "y"\n'),
    "a value that YAML would misread is quoted": ("a: x\n", (("a",), "yes"), 'a: "yes"\n'),
    "a number that is text is quoted": ("a: x\n", (("a",), "12"), 'a: "12"\n'),
    "a number is plain": ("a: '1'\n", (("a",), 2), "a: 2\n"),
    "an empty value is filled": ("a:\nb: 1\n", (("a",), "x"), "a: x\nb: 1\n"),
    "an empty mapping gets lines below": ("r:  # none\nb: 1\n", (("r", "x"), 1), "r:  # none\n  x: 1\nb: 1\n"),
    "null becomes a flow mapping": ("r: null\n", (("r", "x"), 1), "r: {x: 1}\n"),
    "an empty flow mapping is filled": ("r: {}\n", (("r", "x"), 1), "r: {x: 1}\n"),
    "an empty flow mapping with a blank is filled": ("r: { }\n", (("r", "x"), 1), "r: {x: 1}\n"),
    "a flow mapping grows at its end": ("r: { a: b }\n", (("r", "x"), 1), "r: { a: b, x: 1 }\n"),
    "after a trailing comma": ("r: {a: b, }\n", (("r", "x"), 1), "r: {a: b, x: 1, }\n"),
    "after an alias": ("k: &k {l: 1}\nr: {a: *k}\n", (("r", "x"), 1), "k: &k {l: 1}\nr: {a: *k, x: 1}\n"),
    "after a key without a value": ("r: {a: b, c}\n", (("r", "x"), 1), "r: {a: b, c, x: 1}\n"),
    "a flow mapping with a key per line": (
        "r: {\n  a: b, # one\n  c: d  # two\n}\n",
        (("r", "x"), 1),
        "r: {\n  a: b, # one\n  c: d,  # two\n  x: 1\n}\n",
    ),
    "JSON with a key per line": (
        '{\n  "r": {\n    "a": [\n      1\n    ]\n  }\n}\n',
        (("r", "x"), "y"),
        '{\n  "r": {\n    "a": [\n      1\n    ],\n    "x": "y"\n  }\n}\n',
    ),
    "JSON with a key per line gets lines for a new mapping": (
        '{\n  "r": {\n    "a": 1\n  },\n  "e": {}\n}\n',
        (("r", "x"), {"y": [1]}),
        '{\n  "r": {\n    "a": 1,\n    "x": {\n      "y": [\n        1\n      ]\n    }\n  },\n'
        '  "e": {}\n}\n',
    ),
    "an empty mapping in JSON with a key per line": (
        '{\n  "r": 1,\n  "e": {}\n}\n',
        (("e", "x"), "y"),
        '{\n  "r": 1,\n  "e": {\n    "x": "y"\n  }\n}\n',
    ),
    "a key beside a key that is a collection": ("? [a]\n: 1\nb: 2\n", (("b",), 3), "? [a]\n: 1\nb: 3\n"),
    "a binding inside of a flow mapping is quoted": ("r: {a: b}\n", (("r", "a"), "${{x.y}}"), 'r: {a: "${{x.y}}"}\n'),
    "JSON stays JSON": ('{"r": {"a": "b"}}', (("r", "x"), "y"), '{"r": {"a": "b", "x": "y"}}'),
    "no final newline stays none": ("a: 1", (("b",), 2), "a: 1\nb: 2"),
    "CRLF stays CRLF": ("a: 1\r\nb: 2\r\n", (("c", "d"), 3), "a: 1\r\nb: 2\r\nc:\r\n  d: 3\r\n"),
    "the file's own indent is used": ("m:\n    x: 1\n", (("o", "p"), 2), "m:\n    x: 1\no:\n    p: 2\n"),
    "a list item's mapping": ("l:\n- a: 1\n- b: 2\n", (("l", 0, "c"), 3), "l:\n- a: 1\n  c: 3\n- b: 2\n"),
    "after a block scalar": ("c: |\n  one\n  two\n", (("d",), 1), "c: |\n  one\n  two\nd: 1\n"),
    "before a block scalar that keeps blank lines": ("# a\na: |+\n  x\n\n", (("d",), 1), "d: 1\n# a\na: |+\n  x\n\n"),
    "before a block scalar without an end": ("m:\n  c: |\n    x", (("m", "d"), 1), "m:\n  d: 1\n  c: |\n    x"),
    "after a folded scalar with blank lines": ("c: >-\n  one\n\n# end\n", (("d",), 1), "c: >-\n  one\nd: 1\n\n# end\n"),
    "after a mapping at the end": ("m:\n  x:\n    y: 1\n# end\n", (("o",), 1), "m:\n  x:\n    y: 1\no: 1\n# end\n"),
    "an anchor on the value stays": ("a: &t x\nb: 1\n", (("a",), "z"), "a: &t z\nb: 1\n"),
    "non-ASCII text before it": ("ä: ü # ö\nb: 1\n", (("b",), 2), "ä: ü # ö\nb: 2\n"),
    "a merge key beside it": (MERGED, (("s", "z"), 3), MERGED + "  z: 3\n"),
    "a key that overrides a merged one": (MERGED, (("s", "x"), 3), MERGED + "  x: 3\n"),
    "a block value stays one": ("a: >-\n  export A=1\n  B=2\nb: 1\n", (("a",), "x y"), "a: >-\n  x y\nb: 1\n"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_set(name: str) -> None:
    before, change, after = CASES[name]
    assert edit(before, change) == after


def test_several_new_keys_of_one_mapping_come_as_one_block() -> None:
    sets = [(("resources", "instance_type"), "32cpu128g"), (("resources", "instance_count"), 2)]
    expected = (
        "compute: a\nresources:\n  instance_type: 32cpu128g\n  instance_count: 2\ncommand: c\n"
    )
    assert edit("compute: a\ncommand: c\n", *sets) == expected


def test_an_equal_value_is_not_a_change() -> None:
    editor = YamlEditor(read(b"a: x\n"))
    editor.set((0, "a"), "x")
    assert editor.empty


def test_the_second_document_is_edited_and_the_first_is_not() -> None:
    editor = YamlEditor(read(b"a: 1\n---\na: 1\n...\n"))
    editor.set((1, "a"), 2)
    assert editor.finish()[0] == "a: 1\n---\na: 2\n...\n"


def test_a_bom_is_kept() -> None:
    source = read(b"\xef\xbb\xbfa: 1\n")
    editor = YamlEditor(source)
    editor.set((0, "a"), 2)
    assert replace(source, text=editor.finish()[0]).encode() == b"\xef\xbb\xbfa: 2\n"


# --- what it refuses -------------------------------------------------------------------------------------------

REFUSALS = {
    "a duplicate key": ("a: 1\na: 2\n", (("a",), 3), "duplicate key"),
    "a mapping that comes from a merge key": (
        "d: &d {r: {x: 1}}\ns:\n  <<: *d\n  y: 2\n",
        (("s", "r", "z"), 1),
        "merge key",
    ),
    "a value that an anchor shares": ("a: &t {x: 1}\nb: *t\n", (("a", "x"), 2), "anchor"),
    "a scalar where a mapping is wanted": ("a: text\n", (("a", "x"), 1), "not a mapping"),
    "a list where a value is wanted": ("a: [1]\n", (("a",), 1), "not a single value"),
    "a mapping without brackets in a list": ("a: [b: 1]\n", (("a", 0, "c"), 1), "without brackets"),
    "lines that end with carriage returns": ("a: 1\rb: 2\r", (("a",), 2), "carriage returns"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_refusals(name: str) -> None:
    text, change, reason = REFUSALS[name]
    with pytest.raises(Refused, match=reason):
        edit(text, change)


def test_an_anchor_is_edited_where_the_same_is_asked_for_all_its_aliases() -> None:
    text = "a: &t {x: 1}\nb: *t\n"
    assert edit(text, (("a", "x"), 2), (("b", "x"), 2)) == "a: &t {x: 2}\nb: *t\n"


# --- remove, rename, replace, prepend --------------------------------------------------------------------------


def test_remove_takes_whole_lines() -> None:
    editor = YamlEditor(read(b"a: 1\nb:\n  c: 2 # two\n# about d\nd: 3"))
    editor.remove((0, "b"))
    assert editor.finish()[0] == "a: 1\n# about d\nd: 3"


def test_remove_of_the_last_line_without_newline() -> None:
    editor = YamlEditor(read(b"a: 1\nb: 2"))
    editor.remove((0, "b"))
    assert editor.finish()[0] == "a: 1"


@pytest.mark.parametrize("text", ["b: 1\n", "{a: 1, b: 2}\n"])
def test_remove_refuses_the_only_key_and_flow_mappings(text: str) -> None:
    editor = YamlEditor(read(text.encode()))
    with pytest.raises(Refused):
        editor.remove((0, "b"))


def test_rename_keeps_the_quotes_of_the_key() -> None:
    editor = YamlEditor(read(b'"a": 1\n'))
    editor.rename((0, "a"), "b")
    assert editor.finish()[0] == '"b": 1\n'


def test_rename_refuses_a_name_that_is_there() -> None:
    with pytest.raises(Refused, match="already exists"):
        YamlEditor(read(b"a: 1\nb: 2\n")).rename((0, "a"), "b")
    editor = YamlEditor(read(b"a: 1\nb: 2\n"))
    editor.rename((0, "a"), "c")
    with pytest.raises(Refused, match="`c` already exists"):
        editor.rename((0, "b"), "c")


@pytest.mark.parametrize("style", ["{}", "'{}'", '"{}"', ">-\n  {}", "|\n  {}"])
def test_replace_works_in_every_style(style: str) -> None:
    text = f"c: {style.format('run OLD now')}\n"
    editor = YamlEditor(read(text.encode()))
    editor.replace((0, "c"), "OLD", "NEW")
    assert editor.finish()[0] == text.replace("OLD", "NEW")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("c: run --x 1\n", "c: |-\n  first\n  run --x 1\n"),
        ("c: run", "c: |-\n  first\n  run"),
        ("c: run  # why\nd: 1\n", "c: |-  # why\n  first\n  run\nd: 1\n"),
        ("c: run\r\nd: 1\r\n", "c: |-\r\n  first\r\n  run\r\nd: 1\r\n"),
        ("c: 'it''s'\n", "c: |-\n  first\n  it's\n"),
        ('c: "a\\nb"\n', "c: |-\n  first\n  a\n  b\n"),
        (
            "a:\n    c: run\n      --x\n    d: 1\n",
            "a:\n    c: >-\n        first\n\n        run\n        --x\n    d: 1\n",
        ),
        ("c: |\n  run\n    more\n", "c: |\n  first\n  run\n    more\n"),
        ("c: >-\n  run\n  --x\n", "c: >-\n  first\n\n  run\n  --x\n"),
        ("{c: run, d: 1}\n", '{c: "first\\nrun", d: 1}\n'),
    ],
)
def test_a_line_goes_before_the_text_in_every_style(before: str, after: str) -> None:
    path = (0, "a", "c") if before.startswith("a:") else (0, "c")
    editor = YamlEditor(read(before.encode()))
    editor.prepend(path, "first")
    assert editor.finish()[0] == after


@pytest.mark.parametrize(
    ("before", "value", "after"),
    [
        ("c: |-\n  a\nd: 1\n", "b\nx", "c: |-\n  b\n  x\nd: 1\n"),
        ("c: |  # why\n  a\nd: 1\n", "b", "c: |-  # why\n  b\nd: 1\n"),
        ("c: >-\n  a\n  b\n", "b\nx\n", "c: >\n  b\n\n  x\n"),
        ("c: |2-\n   a\n", "b", "c: |-\n   b\n"),
        ("c: |-\n  a\n", " b", 'c: " b"\n'),
    ],
)
def test_a_block_scalar_stays_one(before: str, value: str, after: str) -> None:
    editor = YamlEditor(read(before.encode()))
    editor.set((0, "c"), value)
    assert editor.finish()[0] == after


# --- what cannot be read ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"a: [1\nb: 2\n", "broken YAML"),
        (b"a: \xff\n", "not UTF-8"),
        (b"a: {{ name }}\n", "template"),
        (b"{% if x %}\na: 1\n{% endif %}\n", "template"),
        (b"[" * 100_000, "nested deeper"),
        (b"- " * 100_000, "nested deeper"),
        (b"a: &a [*a]\n", "contains itself"),
        (b"a: \x01\n", "control character"),
    ],
)
def test_text_that_is_not_usable_has_a_reason(data: bytes, reason: str) -> None:
    with pytest.raises(Unreadable, match=reason):
        read(data)


def test_too_large_a_file_is_not_parsed() -> None:
    with pytest.raises(Unreadable, match="larger than 16 MiB"):
        read(b" " * (MAX_BYTES + 1))


def test_a_bomb_of_anchors_is_refused_in_no_time() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 30)]
    with pytest.raises(Unreadable, match="expand to more than"):
        read("\n".join(lines).encode())


# --- properties ------------------------------------------------------------------------------------------------

KEYS = st.sampled_from(["a", "b", "resources", "compute", "type", "x y", "12", "yes", "ключ"])
SCALARS = st.one_of(
    st.integers(-5, 5),
    st.booleans(),
    st.none(),
    st.floats(allow_nan=False, allow_infinity=False, width=16),
    st.text(alphabet="ab:#-{}'\"\n&* é", max_size=12),
)
DATA = st.recursive(
    SCALARS,
    lambda children: st.one_of(
        st.lists(children, max_size=3), st.dictionaries(KEYS, children, max_size=4)
    ),
    max_leaves=12,
)
DOCUMENTS = st.dictionaries(KEYS, DATA, min_size=1, max_size=5)
VALUES = st.one_of(st.integers(0, 99), st.text(alphabet="ab:#{}'\"` $=é\\", max_size=12))


@settings(max_examples=100, deadline=None)
@given(
    DOCUMENTS,
    KEYS,
    st.sampled_from(["x", "y"]),
    VALUES,
    st.sampled_from([None, True, False]),
    st.sampled_from([None, '"', "'"]),
    st.sampled_from([2, 4]),
    st.sampled_from(["\n", "\r\n"]),
    st.booleans(),
)
def test_set_is_exact_or_refused_on_any_document(
    data: dict[str, Any],
    key: str,
    below: str,
    value: Any,
    flow: bool | None,
    quotes: str | None,
    indent: int,
    newline: str,
    final: bool,
) -> None:
    text = yaml.safe_dump(
        data,
        default_flow_style=flow,
        default_style=quotes,
        indent=indent,
        allow_unicode=True,
        sort_keys=False,
    )
    text = text.replace("\n", newline) if final else text.replace("\n", newline).rstrip()
    try:
        old = yaml.safe_load(text)
    except yaml.YAMLError:
        return  # without its last newline it is something else
    expected = {**old} if isinstance(old, dict) else None
    try:
        result = edit(text, ((key, below), value))
    except (Refused, Unreadable):
        return
    assert expected is not None
    inner = expected.get(_same_key(expected, key)) or {}
    expected[_same_key(expected, key)] = {**inner, below: value}
    found = yaml.safe_load(result)
    if isinstance(found.get(key), dict) and str(found[key].get(below)) == str(value):
        found[key][below] = value  # equal text is not a change, whatever its type
    assert found == expected
    assert result.endswith(newline) == text.endswith(newline)
    assert edit(result, ((key, below), value)) == result
    removed = [
        line
        for line in difflib.ndiff(text.splitlines(), result.splitlines())
        if line.startswith("- ")
    ]
    assert len(removed) <= 1


def _same_key(data: dict[Any, Any], key: str) -> Any:
    """The key as YAML reads it back: `12` unquoted is a number."""
    return next((name for name in data if str(name) == key), key)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_mutated_real_files_are_edited_exactly_or_refused(data: st.DataObject) -> None:
    texts = sorted(CORPUS.rglob("*.yml"))[:60] if CORPUS.is_dir() else []
    seed = data.draw(
        st.sampled_from(
            [path.read_text() for path in texts] or ["type: command\ncompute: a\ninputs:\n  x: 1\n"]
        )
    )
    lines = seed.split("\n")
    at = data.draw(st.integers(0, len(lines) - 1))
    lines[at] = data.draw(
        st.sampled_from(
            [
                "",
                lines[at] + "  # c",
                lines[at][:-1],
                "  " + lines[at],
                lines[at].upper(),
                "\t" + lines[at],
            ]
        )
    )
    text = "\n".join(lines)
    try:
        old = yaml.safe_load(text)
        result = edit(text, (("resources", "instance_type"), "32cpu128g"))
    except (Refused, Unreadable, yaml.YAMLError):
        return
    expected = {**old, "resources": {**(old.get("resources") or {}), "instance_type": "32cpu128g"}}
    assert yaml.safe_load(result) == expected
    assert edit(result, (("resources", "instance_type"), "32cpu128g")) == result

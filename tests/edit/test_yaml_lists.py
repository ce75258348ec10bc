"""Booleans, lists and `append` in the YAML editor: exact, proved, and the same on a second run."""

from __future__ import annotations

import copy
import difflib
from dataclasses import replace
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from arc_toolkit.edit.files.edits import Edit, Refused, Unreadable, apply_edits
from arc_toolkit.edit.yaml.editor import YamlEditor
from arc_toolkit.edit.yaml.layout import YamlLayout
from arc_toolkit.edit.yaml.nodes import KeyPath, read
from tests.support import CORPUS, needs_corpus

TOLERATION = {"key": "spot", "operator": "Exists"}


def append(text: str, path: KeyPath, *items: Any, document: int = 0) -> str:
    editor = YamlEditor(read(text.encode()))
    for item in items:
        editor.append((document, *path), item)
    return editor.finish()[0]


def put(text: str, path: KeyPath, value: Any) -> str:
    editor = YamlEditor(read(text.encode()))
    editor.set((0, *path), value)
    return editor.finish()[0]


# --- set -------------------------------------------------------------------------------------------------------

SETS = {
    "a boolean": ("a: 1\n", ("a",), True, "a: true\n"),
    "a boolean in place of a word that only YAML 1.1 reads so": ("a: yes\n", ("a",), True, "a: true\n"),
    "a boolean that is there": ("a: True\n", ("a",), True, "a: True\n"),
    "text that looks like the number that is there": ("a: 8\n", ("a",), "8", 'a: "8"\n'),
    "a number in place of text": ('a: "8"\n', ("a",), 8, "a: 8\n"),
    "a new list of words": ("a: 1\n", ("b",), ["x", "y z"], 'a: 1\nb:\n  - x\n  - "y z"\n'),
    "a new list of numbers": ("a: 1\n", ("b",), [1, 2], "a: 1\nb: [1, 2]\n"),
    "an empty list": ("a: 1\n", ("b",), [], "a: 1\nb: []\n"),
    "an empty mapping": ("a: 1\n", ("b",), {}, "a: 1\nb: {}\n"),
    "a new list of mappings": (
        "a: 1\n",
        ("b", "c"),
        [{"x": True, "w": ["z"]}, {"x": None}],
        "a: 1\nb:\n  c:\n    - x: true\n      w:\n        - z\n    - x: null\n",
    ),
    "a new list where lists are flush with their key": (
        "l:\n- a\nm:\n  n: 1\n",
        ("m", "o"),
        [{"p": ["q"]}],
        "l:\n- a\nm:\n  n: 1\n  o:\n  - p:\n    - q\n",
    ),
    "a list in an empty value": ("b:\na: 1\n", ("b",), ["x"], "b:\n  - x\na: 1\n"),
    "a mapping in an empty value": ("b:\na: 1\n", ("b",), {"x": 1}, "b:\n  x: 1\na: 1\n"),
    "a list in a written null": ("b: ~\n", ("b",), ["x"], "b: [x]\n"),
    "a list in a JSON null": ('{"b": null}\n', ("b",), ["x"], '{"b": ["x"]}\n'),
    "a list in a flow mapping": ("b: {c: 1}\n", ("b", "d"), ["x"], "b: {c: 1, d: [x]}\n"),
    "a key in an empty JSON mapping": ('{"b": {}}\n', ("b", "d"), ["x"], '{"b": {"d": ["x"]}}\n'),
    "a list that is there": ("b: [x,  y]\n", ("b",), ["x", "y"], "b: [x,  y]\n"),
    "a value of a list": ("l:\n  - a # one\n  - b\n", ("l", 0), "c", "l:\n  - c # one\n  - b\n"),
    "a key of a mapping in a list": (
        "l:\n- name: x\n  env:\n  - name: A\n- name: y\n",
        ("l", 0, "env", 0, "value"),
        "1",
        'l:\n- name: x\n  env:\n  - name: A\n    value: "1"\n- name: y\n',
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SETS)
def test_set(name: str) -> None:
    before, path, value, after = SETS[name]
    assert put(before, path, value) == after
    assert put(after, path, value) == after


# --- append ----------------------------------------------------------------------------------------------------

APPENDS = {
    "indented": ("l:\n  - a\nm: 1\n", ("l",), "b", "l:\n  - a\n  - b\nm: 1\n"),
    "flush with its key": ("l:\n- a\nm: 1\n", ("l",), "b", "l:\n- a\n- b\nm: 1\n"),
    "an empty flow list with a blank": ("l: [ ]\n", ("l",), {"a": 1}, "l: [{a: 1}]\n"),
    "an empty flow list": ("l: []\nm: 1\n", ("l",), "b", "l: [b]\nm: 1\n"),
    "a flow list": ("l: [a]  # all\n", ("l",), "b", "l: [a, b]  # all\n"),
    "a flow list with a trailing comma": ("l: [a, ]\n", ("l",), "b", "l: [a, b, ]\n"),
    "a flow list over several lines": (
        "l: [\n  a, # one\n  b  # two\n]\n",
        ("l",),
        "c",
        "l: [\n  a, # one\n  b,  # two\n  c\n]\n",
    ),
    "a flow list over several lines with a trailing comma": (
        "l: [\n  a,\n  b, # two\n]\n",
        ("l",),
        "c",
        "l: [\n  a,\n  b, # two\n  c,\n]\n",
    ),
    "JSON": (
        '{\n  "l": [\n    {"key": "a"},\n    {"key": "b"}\n  ]\n}',
        ("l",),
        TOLERATION,
        '{\n  "l": [\n    {"key": "a"},\n    {"key": "b"},\n    {"key": "spot", "operator": "Exists"}\n  ]\n}',
    ),
    "an empty list in JSON": ('{"l": []}', ("l",), "a", '{"l": ["a"]}'),
    "a list of numbers in JSON": ('{"l": [1]}', ("l",), "a", '{"l": [1, "a"]}'),
    "an empty value": ("l:  # none yet\nm: 1\n", ("l",), "a", "l:  # none yet\n  - a\nm: 1\n"),
    "a null": ("l: null\n", ("l",), "a", "l: [a]\n"),
    "a missing list": ("m: 1\n", ("l",), "a", "m: 1\nl:\n  - a\n"),
    "a missing list in a missing mapping": ("m: 1\n", ("o", "l"), "a", "m: 1\no:\n  l:\n    - a\n"),
    "comments in between and after": (
        "l:\n  # first\n  - a # one\n  # second\n  - b # two\n  # end of l\nm: 1\n",
        ("l",),
        "c",
        "l:\n  # first\n  - a # one\n  # second\n  - b # two\n  - c\n  # end of l\nm: 1\n",
    ),
    "CRLF": ("l:\r\n- a\r\nm: 1\r\n", ("l",), TOLERATION, "l:\r\n- a\r\n- key: spot\r\n  operator: Exists\r\nm: 1\r\n"),
    "CRLF in a flow list": ("l: [\r\n  a\r\n]\r\n", ("l",), "b", "l: [\r\n  a,\r\n  b\r\n]\r\n"),
    "no final newline": ("l:\n- a", ("l",), "b", "l:\n- a\n- b"),
    "after a mapping": ("l:\n- k: a\n  v:\n    w: 1\nm: 1\n", ("l",), "b", "l:\n- k: a\n  v:\n    w: 1\n- b\nm: 1\n"),
    "after an empty item": ("l:\n- a\n-\nm: 1\n", ("l",), "b", "l:\n- a\n-\n- b\nm: 1\n"),
    "after a block scalar": ("l:\n- |\n  a\n  b\nm: 1\n", ("l",), "c", "l:\n- |\n  a\n  b\n- c\nm: 1\n"),
    "after a block scalar without its newline": ("l:\n- |\n  a", ("l",), "b", "l:\n- |-\n  a\n- b"),
    "after a folded scalar with an indent": ("l:\n- >2+ # c\n  a", ("l",), "b", "l:\n- >2- # c\n  a\n- b"),
    "after a block scalar that strips": ("l:\n- k: |-\n    a", ("l",), "b", "l:\n- k: |-\n    a\n- b"),
    "a list in a list": ("l:\n- - a\n  - b\n- c\n", ("l", 0), "d", "l:\n- - a\n  - b\n  - d\n- c\n"),
    "a new list in a list": ("l:\n- a\n", ("l",), ["b", ["c"]], "l:\n- a\n-\n  - b\n  -\n    - c\n"),
    "a list in an item": (
        "c:\n- name: x\n  env:\n  - name: A\n- name: y\n",
        ("c", 0, "env"),
        {"name": "B", "value": "1"},
        'c:\n- name: x\n  env:\n  - name: A\n  - name: B\n    value: "1"\n- name: y\n',
    ),
    "a missing list in an item": (
        "c:\n- name: x\n- name: y\n",
        ("c", 1, "env"),
        {"name": "B"},
        "c:\n- name: x\n- name: y\n  env:\n  - name: B\n",
    ),
    "an anchored list that nothing else uses": ("l: &l\n- a\nm: 1\n", ("l",), "b", "l: &l\n- a\n- b\nm: 1\n"),
    "a second document follows": ("l:\n- a\n---\nm: 1\n", ("l",), "b", "l:\n- a\n- b\n---\nm: 1\n"),
    "an item that is there": ("- {operator: Exists, key: spot}\n", (), TOLERATION, "- {operator: Exists, key: spot}\n"),
    "true is not 1": ("l: [1]\n", ("l",), True, "l: [1, true]\n"),
    "the document itself": ("- a\n- b\n", (), "c", "- a\n- b\n- c\n"),
}  # fmt: skip


@pytest.mark.parametrize("name", APPENDS)
def test_append(name: str) -> None:
    before, path, item, after = APPENDS[name]
    assert append(before, path, item) == after
    assert append(after, path, item) == after


def test_several_items_and_the_same_one_twice() -> None:
    assert append("l:\n- a\n", ("l",), "b", "c", "b") == "l:\n- a\n- b\n- c\n"
    assert append("m: 1\n", ("l",), "b", "c", "b") == "m: 1\nl:\n  - b\n  - c\n"
    assert append("l: []\n", ("l",), 1, True, 1) == "l: [1, true]\n"


@pytest.mark.parametrize("text", ["m: 1\n", "m: 1\nl:\n"])
def test_append_to_a_list_that_was_set(text: str) -> None:
    value = ["a"]
    editor = YamlEditor(read(text.encode()))
    editor.set((0, "l"), value)
    editor.append((0, "l"), "b")
    editor.append((0, "l"), "a")
    assert editor.finish()[0] == "m: 1\nl:\n  - a\n  - b\n"
    assert value == ["a"]


def test_append_to_a_list_inside_a_mapping_that_was_set() -> None:
    editor = YamlEditor(read(b"m: 1\n"))
    editor.set((0, "spec"), {"env": ["a"], "name": "x"})
    editor.append((0, "spec", "env"), "b")
    assert editor.finish()[0] == "m: 1\nspec:\n  env:\n    - a\n    - b\n  name: x\n"
    with pytest.raises(Refused, match=r"two changes want `spec.name`"):
        editor.append((0, "spec", "name"), "b")


def test_lines_that_go_to_the_same_place_are_in_the_order_of_their_depth() -> None:
    text = "spec:\n  containers:\n  - name: x\n    env:\n    - name: A\n"
    editor = YamlEditor(read(text.encode()))
    editor.set((0, "kind"), "Pod")
    editor.set((0, "spec", "restartPolicy"), "Never")
    editor.append((0, "spec", "containers"), {"name": "z"})
    editor.set((0, "spec", "containers", 0, "tty"), True)
    editor.append((0, "spec", "containers", 0, "env"), {"name": "B"})
    editor.set((0, "spec", "containers", 0, "env", 0, "value"), "a")
    assert editor.finish()[0] == (
        "spec:\n  containers:\n  - name: x\n    env:\n    - name: A\n      value: a\n    - name: B\n"
        "    tty: true\n  - name: z\n  restartPolicy: Never\nkind: Pod\n"
    )


def test_edits_of_an_operation_can_be_asked_for() -> None:
    source = read(b"l: [a]\n")
    editor = YamlEditor(source)
    editor.append((0, "l"), "b")
    (edit,) = editor.edits()
    assert (edit.start, edit.end, edit.text) == (5, 5, ", b")


def test_edits_include_the_newline_that_a_removed_last_line_leaves() -> None:
    for text, expected in (("a: 1\nb: 2\nc: 3", "a: 1"), ("a: 1\r\nb: 2\r\nc: 3", "a: 1")):
        editor = YamlEditor(read(text.encode()))
        editor.remove((0, "b"))
        editor.remove((0, "c"))
        assert apply_edits(text, editor.edits()) == expected == editor.finish()[0]
    editor = YamlEditor(read(b"a: 1\nb: 2"))
    editor.remove((0, "b"))
    editor.set((0, "d"), 4)
    assert editor.finish()[0] == "a: 1\nd: 4"


# --- what it refuses -------------------------------------------------------------------------------------------

SHARED = "a: &l\n- x\nb: *l\n"
REFUSALS = {
    "a list that an anchor shares": (SHARED, ("a",), "y", "anchor"),
    "the alias of a list": (SHARED, ("b",), "y", "anchor"),
    "a list that comes from a merge key": (
        "d: &d {l: [x]}\ns:\n  <<: *d\n  y: 2\n",
        ("s", "l"),
        "y",
        "merge key",
    ),
    "a list of a shared mapping": ("d: &d\n  l: [x]\ns: *d\n", ("d", "l"), "y", "anchor"),
    "a mapping": ("l: {a: 1}\n", ("l",), "y", "already exists"),
    "text": ("l: a\n", ("l",), "y", "already exists"),
    "a list that ends with an alias": ("a: &x 1\nl:\n- 2\n- *x\n", ("l",), "y", "alias|not clear"),
    "a flow list that ends with an alias": ("a: &x 1\nl: [2, *x]\n", ("l",), "y", "not clear"),
    "an alias inside of the list": ("l:\n- &x a\n- *x\n", ("l",), "y", "not clear"),
    "a block scalar that keeps its newlines": (
        "l:\n- |+\n  a\n\nm: 1\n",
        ("l",),
        "y",
        "keeps the blank lines",
    ),
    "an item that is not there": ("l:\n- a\n", ("l", 3), "y", "there is no"),
    "an index of a missing list": ("m: 1\n", ("l", 0, "x"), "y", "there is no"),
    "an empty item": ("l:\n-\n", ("l", 0), "y", "empty item"),
    "a duplicate key": ("l: [a]\nl: [b]\n", ("l",), "y", "duplicate key"),
    "bytes": ("l: [a]\n", ("l",), b"y", "bytes"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_append_refuses(name: str) -> None:
    text, path, item, reason = REFUSALS[name]
    with pytest.raises(Refused, match=reason):
        append(text, path, item)


def test_anchors_are_blamed_only_where_there_is_an_alias(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "---\n---\nc: &a a*b\n---\nl:\n- a *b\n"
    with pytest.raises(Refused, match="an anchor"):
        append("d: &d\n  l: [x]\ns: *d\n", ("d", "l"), "y")
    monkeypatch.setattr(YamlLayout, "appending", lambda *_: [Edit(len(text), len(text), "m: 1\n")])
    with pytest.raises(Refused, match=r"not asked for$"):
        append(text, ("l",), "y", document=2)


def test_a_shared_list_is_refused_even_if_both_places_ask_for_the_same() -> None:
    editor = YamlEditor(read(SHARED.encode()))
    editor.append((0, "a"), "y")
    with pytest.raises(Refused, match="anchor"):
        editor.append((0, "b"), "y")


@pytest.mark.parametrize(
    ("text", "value"),
    [("a: [1]\n", [2]), ("a: {b: 1}\n", {"b": 2}), ("a: x\n", ["x"]), ("a: x\n", {"b": 1})],
)
def test_set_replaces_no_list_and_no_mapping_and_makes_none_of_a_value(
    text: str, value: Any
) -> None:
    with pytest.raises(Refused, match="already exists"):
        put(text, ("a",), value)


# --- properties ------------------------------------------------------------------------------------------------

TEXT = st.text(alphabet="ab:#-{}[],'\"\n&* é\\0", max_size=10) | st.sampled_from(
    ["yes", "1e5", "0x1", "null", "~", ""]
)
SCALARS = st.one_of(st.integers(-5, 99), st.booleans(), TEXT)
KEYS = st.sampled_from(["a", "b", "key", "operator", "nvidia.com/gpu", "x y"])
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=3)),
    max_leaves=6,
)
TREES = st.recursive(
    st.one_of(SCALARS, st.none()),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=3)),
    max_leaves=12,
)


class _Flush(yaml.SafeDumper):
    pass


class _Indented(yaml.SafeDumper):
    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)


def places(data: Any, at: KeyPath = ()) -> list[KeyPath]:
    """The path of every list and null, and of a missing key of every mapping."""
    found: list[KeyPath] = [at] if isinstance(data, list) or data is None else []
    if isinstance(data, list):
        for index, item in enumerate(data):
            found += places(item, (*at, index))
    elif isinstance(data, dict):
        found.append((*at, "missing"))
        for key, value in data.items():
            found += places(value, (*at, key))
    return found


def with_item(data: Any, path: KeyPath, item: Any) -> Any:
    """The data with the item at the end of the list at the path."""
    data = copy.deepcopy(data)
    if not path:
        return data if _has(data, item) else [*data, item]
    parent = data
    for step in path[:-1]:
        parent = parent[step]
    old = parent.get(path[-1]) if isinstance(parent, dict) else parent[path[-1]]
    if not _has(old or [], item):
        parent[path[-1]] = [*(old or []), item]
    return data


def _has(items: list[Any], item: Any) -> bool:
    return any(_exact(old) == _exact(item) for old in items)


def _exact(value: Any) -> Any:
    """The value with the type of each scalar: True is not 1."""
    if isinstance(value, dict):
        return {key: _exact(item) for key, item in value.items()}
    return [_exact(item) for item in value] if isinstance(value, list) else (type(value), value)


@settings(max_examples=150, deadline=None)
@given(
    st.dictionaries(KEYS, TREES, min_size=1, max_size=4),
    VALUES,
    st.data(),
    st.sampled_from([None, True, False]),
    st.sampled_from([_Flush, _Indented]),
    st.sampled_from(["\n", "\r\n"]),
    st.booleans(),
    st.booleans(),
)
def test_append_is_exact_or_refused_on_any_document(
    tree: dict[str, Any],
    item: Any,
    data: st.DataObject,
    flow: bool | None,
    dumper: Any,
    newline: str,
    final: bool,
    comments: bool,
) -> None:
    text = yaml.dump(
        tree, Dumper=dumper, default_flow_style=flow, allow_unicode=True, sort_keys=False
    )
    if comments and "|" not in text and ">" not in text and '"' not in text and "'" not in text:
        text = "".join(f"{line} # c\n# d\n" for line in text.splitlines())
    text = text.replace("\n", newline) if final else text.replace("\n", newline).rstrip("\r\n")
    try:
        before = yaml.safe_load(text)
    except yaml.YAMLError:
        return
    path = data.draw(st.sampled_from([found for found in places(before) if found]))
    try:
        result = append(text, path, item)
    except (Refused, Unreadable):
        return
    assert _exact(yaml.safe_load(result)) == _exact(with_item(before, path, item))
    assert append(result, path, item) == result
    assert result.endswith(newline) == text.endswith(newline)
    assert len(removed_lines(text, result)) <= 2  # the last item of a flow list, and its comma


@settings(max_examples=100, deadline=None)
@given(
    st.dictionaries(KEYS, TREES, min_size=1, max_size=4),
    KEYS,
    VALUES,
    st.sampled_from([None, True, False]),
)
def test_set_of_any_value_is_exact_or_refused(
    tree: dict[str, Any], key: str, value: Any, flow: bool | None
) -> None:
    text = yaml.safe_dump(tree, default_flow_style=flow, allow_unicode=True, sort_keys=False)
    try:
        result = put(text, (key, "new"), value)
    except (Refused, Unreadable):
        return
    expected = copy.deepcopy(tree)
    expected[key] = {**(tree.get(key) or {}), "new": value}
    assert _exact(yaml.safe_load(result)) == _exact(expected)
    assert put(result, (key, "new"), value) == result


def removed_lines(before: str, after: str) -> list[str]:
    lines = difflib.ndiff(before.splitlines(), after.splitlines())
    return [line for line in lines if line.startswith("- ")]


# --- real files ------------------------------------------------------------------------------------------------


def pod_specs(data: Any, at: KeyPath) -> list[tuple[KeyPath, dict[str, Any]]]:
    """Every mapping with containers, and its path."""
    items = (
        enumerate(data)
        if isinstance(data, list)
        else data.items()
        if isinstance(data, dict)
        else ()
    )
    found = (
        []
        if not isinstance(data, dict) or not isinstance(data.get("containers"), list)
        else [(at, data)]
    )
    return found + [spec for key, value in items for spec in pod_specs(value, (*at, key))]


@needs_corpus
def test_real_manifests_get_tolerations_and_variables_and_nothing_else() -> None:
    specs = refused = 0
    for path in sorted((CORPUS / "kubernetes").rglob("*.y*ml")):
        data = path.read_bytes()
        try:
            source = read(data)
            documents = list(yaml.safe_load_all(source.text))
        except (Unreadable, yaml.YAMLError):
            continue  # templates
        for at, _ in pod_specs(documents, ()):
            specs += 1
            expected = copy.deepcopy(documents)
            pod: Any = expected
            for step in at:
                pod = pod[step]
            variable = {"name": "ARC_TEST", "value": "8"}
            pod["tolerations"] = [*(pod.get("tolerations") or []), TOLERATION]
            pod["hostNetwork"] = True
            container = pod["containers"][0]
            container["env"] = [*(container.get("env") or []), variable]
            after = source
            try:
                for _ in range(2):
                    editor = YamlEditor(after)
                    editor.append((*at, "tolerations"), TOLERATION)
                    editor.append((*at, "containers", 0, "env"), variable)
                    editor.set((*at, "hostNetwork"), True)
                    text, _nodes = editor.finish()
                    assert after is source or editor.empty, path
                    after = read(replace(after, text=text).encode())
            except Refused:
                refused += 1
                continue
            assert list(yaml.safe_load_all(after.text)) == expected, path
            # Only a flow list, or a value that was there, is written into a line of the author; and the header of a
            # block scalar that the file ends in without a newline.
            for line in removed_lines(source.text, after.text):
                header = line.endswith("|") and not source.text.endswith("\n")
                assert set("[{") & set(line) or "hostNetwork" in line or header, path
    assert specs > 100
    assert refused <= specs // 50

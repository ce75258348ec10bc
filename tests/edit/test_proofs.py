"""Editors that lie: whatever their edits do beside what was asked, the proof refuses it."""

from __future__ import annotations

import ast
import json
from collections.abc import Callable

import pytest

from arc_toolkit.edit.code import notebook
from arc_toolkit.edit.code.code_text import prove
from arc_toolkit.edit.code.editor import Changes, StatementSite
from arc_toolkit.edit.code.source import Source, parse
from arc_toolkit.edit.files.edits import Edit, Refused, apply_edits
from arc_toolkit.edit.yaml.editor import YamlEditor
from arc_toolkit.edit.yaml.nodes import read
from arc_toolkit.edit.yaml.proof import APPENDED, Change, Drop, Named, Put, is_same_but_for


def replacing(text: str, old: str, new: str) -> Edit:
    start = text.index(old)
    return Edit(start, start + len(old), new)


# --- YAML ------------------------------------------------------------------------------------------------------

YAML = "a: 1\nb:\n  c: x\n  d: [1, 2]\nl:\n- p: 1\n- q\ne: &t {u: 1}\nf: *t\n---\ng: 1\n"
YAML_LIES = {
    "drops a line": ("  c: x\n", ""),
    "drops an item": ("- q\n", ""),
    "drops an item of a flow list": ("1, 2", "1"),
    "drops a document": ("---\ng: 1\n", ""),
    "changes another value": ("c: x", "c: y"),
    "changes the type of another value": ("g: 1", 'g: "1"'),
    "changes an item": ("- q", "- r"),
    "changes what an alias gives": ("u: 1", "u: 2"),
    "renames a key": ("g: 1", "h: 1"),
    "adds a key": ("g: 1\n", "g: 1\nh: 2\n"),
    "adds an item": ("- q\n", "- q\n- r\n"),
    "adds an item to a flow list": ("1, 2", "1, 2, 3"),
    "adds a document": ("g: 1\n", "g: 1\n---\nh: 1\n"),
    "changes the order of keys": ("  c: x\n  d: [1, 2]\n", "  d: [1, 2]\n  c: x\n"),
    "changes the order of items": ("- p: 1\n- q\n", "- q\n- p: 1\n"),
    "moves a key into another mapping": ("  d: [1, 2]\n", "d: [1, 2]\n"),
    "makes broken YAML": ("[1, 2]", "[1, 2"),
    "makes the value text": ("c: x", 'c: "x\\n"'),
}
OPERATIONS: dict[str, Callable[[YamlEditor], None]] = {
    "set": lambda editor: editor.set((0, "a"), 2),
    "a new key": lambda editor: editor.set((0, "b", "new"), [{"x": True}]),
    "append": lambda editor: editor.append((0, "new"), {"x": 1}),
    "rename": lambda editor: editor.rename((0, "a"), "z"),
    "remove": lambda editor: editor.remove((0, "a")),
    "replace": lambda editor: editor.replace((0, "b", "c"), "x", "z"),
    "prepend": lambda editor: editor.prepend((0, "b", "c"), "z"),
}


def editor_after(operation: Callable[[YamlEditor], None]) -> YamlEditor:
    editor = YamlEditor(read(YAML.encode()))
    operation(editor)
    return editor


@pytest.mark.parametrize("operation", OPERATIONS)
def test_the_operations_are_proved_without_a_lie(operation: str) -> None:
    assert editor_after(OPERATIONS[operation]).finish()[0] != YAML


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("lie", YAML_LIES)
def test_a_yaml_editor_that_does_more_is_refused(
    lie: str, operation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    editor = editor_after(OPERATIONS[operation])
    edits = (*editor.edits(), replacing(YAML, *YAML_LIES[lie]))
    monkeypatch.setattr(YamlEditor, "edits", lambda self: edits)
    with pytest.raises(Refused):
        editor.finish()


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_yaml_editor_that_does_nothing_is_refused(
    operation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    editor = editor_after(OPERATIONS[operation])
    monkeypatch.setattr(YamlEditor, "edits", lambda self: ())
    with pytest.raises(Refused, match="not asked for"):
        editor.finish()


WRONG = {
    "another value": (lambda editor: editor.set((0, "a"), 2), "a: 1", "a: 3"),
    "another type": (lambda editor: editor.set((0, "a"), "2"), "a: 1", "a: 2"),
    "another key": (lambda editor: editor.set((0, "b", "new"), 1), "c: x", "c: x\n  now: 1"),
    "another mapping": (lambda editor: editor.set((0, "b", "new"), 1), "a: 1", "a: 1\nnew: 1"),
    "an item too many": (lambda editor: editor.append((0, "l"), "s"), "- q\n", "- q\n- s\n- s\n"),
    "another item": (lambda editor: editor.append((0, "l"), "s"), "- q\n", "- q\n- t\n"),
    "an item in front": (lambda editor: editor.append((0, "l"), "s"), "- p: 1\n", "- s\n- p: 1\n"),
    "an item instead of the last": (lambda editor: editor.append((0, "l"), "s"), "- q\n", "- s\n"),
    "an item of another type": (lambda editor: editor.append((0, "l"), "1"), "- q\n", "- q\n- 1\n"),
    "another name": (lambda editor: editor.rename((0, "a"), "z"), "a: 1", "w: 1"),
    "a name with another value": (lambda editor: editor.rename((0, "a"), "z"), "a: 1", "z: 2"),
    "another key removed": (lambda editor: editor.remove((0, "a")), "  c: x\n", ""),
    "true for 1": (lambda editor: editor.set((0, "a"), True), "a: 1", "a: yes"),
    "1 for true": (lambda editor: editor.append((0, "l"), True), "- q\n", "- q\n- 1\n"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_yaml_editor_that_does_something_else_is_refused(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    operation, old, new = WRONG[name]
    editor = editor_after(operation)
    monkeypatch.setattr(YamlEditor, "edits", lambda self: (replacing(YAML, old, new),))
    with pytest.raises(Refused, match="not asked for"):
        editor.finish()


# --- Python ----------------------------------------------------------------------------------------------------

PYTHON = "import os\n\n# keep\nx = 1\nstep = f(a=1)\n\n\ndef g(y):\n    z = y\n    return z\n"
PYTHON_LIES = {
    "drops a line": ("    z = y\n", ""),
    "drops a comment": ("# keep\n", ""),
    "changes another value": ("x = 1", "x = 2"),
    "changes the type of another value": ("x = 1", "x = True"),
    "changes the same call": ("a=1", "a=2"),
    "adds a statement": ("x = 1\n", "x = 1\nw = 2\n"),
    "adds an argument": ("a=1", "a=1, b=2"),
    "adds a parameter": ("g(y)", "g(y, w=1)"),
    "changes the block of a statement": ("    return z\n", "return_ = 1\n"),
    "makes broken code": ("g(y):", "g(y:"),
}


def changed_python() -> tuple[Source, Changes]:
    source = Source(PYTHON, parse(PYTHON))
    stmt = source.body[2]
    assert isinstance(stmt, ast.Assign)
    assert isinstance(stmt.value, ast.Call)
    changes = Changes()
    changes.set(StatementSite(source, source.body, stmt), stmt.value, "c", "3")
    return source, changes


def test_a_python_editor_that_does_what_was_asked_is_proved() -> None:
    source, changes = changed_python()
    ((_, edits),) = changes.edits().values()
    (after,) = prove(changes, [source], [edits])
    assert after.text == PYTHON.replace("a=1", "a=1, c=3")


@pytest.mark.parametrize("lie", PYTHON_LIES)
def test_a_python_editor_that_does_more_is_refused(lie: str) -> None:
    source, changes = changed_python()
    ((_, edits),) = changes.edits().values()
    with pytest.raises(Refused):
        prove(changes, [source], [[*edits, replacing(PYTHON, *PYTHON_LIES[lie])]])


@pytest.mark.parametrize(
    ("old", "new"), [("a=1", "a=1, c=4"), ("a=1", "a=1, d=3"), ("a=1", "c=3"), ("a=1", "a=1")]
)
def test_a_python_editor_that_does_something_else_is_refused(old: str, new: str) -> None:
    source, changes = changed_python()
    with pytest.raises(Refused, match="not asked for"):
        prove(changes, [source], [[replacing(PYTHON, old, new)]])


@pytest.mark.parametrize(
    ("text", "refused"), [("x = f(a=1, b=2)\n", True), ("x = f(a=1, b=2)\nreturn x\n", False)]
)
def test_a_change_that_was_asked_for_and_does_not_compile_is_refused(
    text: str, refused: bool
) -> None:
    """`ast.parse` takes an argument twice; a file that did not compile before is nobody's fault."""
    source = Source(text, parse(text))
    stmt = source.body[0]
    assert isinstance(stmt, ast.Assign)
    assert isinstance(stmt.value, ast.Call)
    changes = Changes()
    changes.replace(StatementSite(source, source.body, stmt), stmt.value.keywords[1], "a")
    ((_, edits),) = changes.edits().values()
    if refused:
        with pytest.raises(Refused, match="does not compile"):
            prove(changes, [source], [edits])
    else:
        assert prove(changes, [source], [edits])[0].text.startswith("x = f(a=1, a=2)")


def test_every_source_is_proved() -> None:
    source, changes = changed_python()
    other = Source("v = 1\n", parse("v = 1\n"))
    ((_, edits),) = changes.edits().values()
    with pytest.raises(Refused):
        prove(changes, [source, other], [edits, [Edit(4, 5, "2")]])


# --- notebooks -------------------------------------------------------------------------------------------------

CELLS = [
    {"cell_type": "markdown", "metadata": {}, "source": ["# Title\n", "text"]},
    {
        "cell_type": "code",
        "metadata": {},
        "outputs": [{"text": "seen"}],
        "source": ["x = 1\n", "y = 2\n", "z = 3"],
    },
    {"cell_type": "code", "metadata": {}, "outputs": [], "source": "w = 4\n"},
]
NOTEBOOK = json.dumps({"cells": CELLS, "metadata": {"name": "n"}, "nbformat": 4}, indent=1) + "\n"
NOTEBOOK_LIES = {
    "drops a line": ('    "y = 2\\n",\n', ""),
    "changes another line": ("z = 3", "z = 4"),
    "changes another cell": ("w = 4", "w = 5"),
    "changes text": ("# Title", "# Other"),
    "changes an output": ("seen", "unseen"),
    "adds a key": ('"nbformat": 4', '"nbformat": 4, "extra": 1'),
    "drops a key": ('"name": "n"', ""),
    "makes broken JSON": ('"nbformat": 4', '"nbformat": 4,'),
    "makes a cell that is not a cell": ('"source": "w = 4\\n"', '"source": 1'),
    "makes the changed cell something else": ('"x = 1\\n"', '1, "x = 1\\n"'),
}
FIRST = "x = 9\ny = 2\nz = 3"


def changed_notebook() -> str:
    cells = notebook.read_cells(NOTEBOOK)
    return notebook.change_cells(NOTEBOOK, cells, [FIRST, "w = 4\n"])


def test_a_notebook_editor_that_does_what_was_asked_is_proved() -> None:
    assert changed_notebook() == NOTEBOOK.replace("x = 1", "x = 9")


@pytest.mark.parametrize("lie", NOTEBOOK_LIES)
def test_a_notebook_editor_that_does_more_is_refused(
    lie: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    true_splice = notebook.splice
    edit = replacing(NOTEBOOK, *NOTEBOOK_LIES[lie])
    if edit.start == NOTEBOOK.index('"x = 1'):  # in place of the true edit
        monkeypatch.setattr(notebook, "splice", lambda *_: [edit])
    else:
        monkeypatch.setattr(notebook, "splice", lambda *given: [*true_splice(*given), edit])
    with pytest.raises(Refused, match="changed notebook"):
        changed_notebook()


def test_a_notebook_editor_that_does_nothing_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(notebook, "splice", lambda *_: [])
    with pytest.raises(Refused, match="changed notebook"):
        changed_notebook()


def test_lies_are_changes() -> None:
    """Each lie makes another text: one that does not would prove nothing."""
    for text, lies in ((YAML, YAML_LIES), (PYTHON, PYTHON_LIES), (NOTEBOOK, NOTEBOOK_LIES)):
        for old, new in lies.values():
            assert text.count(old) >= 1
            assert apply_edits(text, [replacing(text, old, new)]) != text


# Old text, the asked change of its first document, a new text, and whether that is the asked one.
COMPARISONS: dict[str, tuple[str, Change | Put | None, str, bool]] = {
    "nothing asked, nothing done": ("a: 1\nb: [x]\n", None, "a: 1\nb: [x]\n", True),
    "another form of the same": ("a: 'x'\nb: [y]\n", None, 'a: "x"\nb:\n- y\n', True),
    "a document that is gone": ("a: 1\n", None, "", False),
    "a document that is new": ("", None, "a: 1\n", False),
    "no document": ("", None, "", True),
    "text for a number": ("a: 1\n", None, "a: '1'\n", False),
    "another value": ("a: 1\n", None, "a: 2\n", False),
    "another key": ("a: 1\nb: 2\n", {"b": Put(3)}, "c: 1\nb: 3\n", False),
    "another key beside a new one": ("a: 1\n", {"n": Put(2)}, "c: 1\nn: 2\n", False),
    "a key that is a collection": ("[a]: 1\nb: 2\n", {"b": Put(3)}, "[a]: 1\nb: 3\n", True),
    "another collection as key": ("[a]: 1\nb: 2\n", {"b": Put(3)}, "[c]: 1\nb: 3\n", False),
    "another order": ("a: 1\nb: 2\n", None, "b: 2\na: 1\n", False),
    "a new key anywhere": ("a: 1\nb: 2\n", {"n": Put(3)}, "a: 1\nn: 3\nb: 2\n", True),
    "a new key twice": ("a: 1\n", {"n": Put(3), "m": Put(3)}, "a: 1\nn: 3\nn: 3\n", False),
    "a new key that is missing": ("a: 1\n", {"n": Put(3)}, "a: 1\n", False),
    "a new key with another value": ("a: 1\n", {"n": Put(3)}, "a: 1\nn: 4\n", False),
    "a new key that was not asked for": ("a: 1\n", {"a": Put(2)}, "a: 2\nn: 4\n", False),
    "a key that is gone": ("a: 1\nb: 2\n", {"a": Drop()}, "b: 2\n", True),
    "a key that is not gone": ("a: 1\nb: 2\n", {"a": Drop()}, "a: 1\nb: 2\n", False),
    "a key with a new name": ("a: [1]\nb: 2\n", {"a": Named("c")}, "c: [1]\nb: 2\n", True),
    "a new name and another value": ("a: 1\n", {"a": Named("c")}, "c: 2\n", False),
    "a new name with a value": ("a: 1\n", {"a": Named("c", "x")}, "c: x\n", True),
    "another name": ("a: 1\n", {"a": Named("c")}, "d: 1\n", False),
    "an item more": ("[a]\n", {APPENDED: ["b"]}, "[a, b]\n", True),
    "two items more": ("[a]\n", {APPENDED: ["b"]}, "[a, b, b]\n", False),
    "an item less": ("[a, b]\n", None, "[a]\n", False),
    "an item changed and one more": ("[a, b]\n", {0: Put(1), APPENDED: [2]}, "[1, b, 2]\n", True),
    "another item more": ("[a]\n", {APPENDED: ["b"]}, "[a, c]\n", False),
    "a mapping in an empty value": ("a:\n", {"a": {"b": Put(1)}}, "a: {b: 1}\n", True),
    "a list for a mapping": ("a: {}\n", None, "a: []\n", False),
    "a change below that is not made": ("a: x\n", {"a": {"b": Put(1)}}, "a: x\n", False),
    "shared nodes": ("a: &x {y: 1}\nb: *x\n", None, "a: &x {y: 1}\nb: {y: 1}\n", True),
    "shared nodes of which one changes": ("a: &x {y: 1}\nb: *x\n", None, "a: {y: 1}\nb: {y: 2}\n", False),
}  # fmt: skip


@pytest.mark.parametrize("name", COMPARISONS)
def test_two_readings_are_compared_exactly(name: str) -> None:
    before, change, after, expected = COMPARISONS[name]
    [old], [new] = (read(text.encode()).documents or (None,) for text in (before, after))
    assert is_same_but_for(change, old, new, set()) is expected

"""A text that is read again in parts has the nodes that PyYAML gives for the whole of it, or is read as a whole."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from arc_toolkit.edit.files.edits import Edit, Refused, Unreadable, apply_edits
from arc_toolkit.edit.yaml import parts as yaml_parts
from arc_toolkit.edit.yaml.editor import Editor
from arc_toolkit.edit.yaml.nodes import YamlNode, compose, read
from arc_toolkit.edit.yaml.parts import compose_around

LINES = (
    "    - name: one\n      image: registry.example/one:1\n      args: [a, b]\n    - name: two\n"
)
POD = f"    containers:\n{LINES}    volumes:\n    - name: v\n"
JOB = f"kind: Job\nmetadata:\n  name: j\nspec:\n  template:\n{POD}status: {{}}\n"
NEW = [{"key": "pool", "operator": "Equal", "value": "spot", "effect": "NoSchedule"}] * 2
PLACE = (0, "spec", "template", "tolerations")


def tree(node: YamlNode | None) -> Any:
    """All that a node means."""
    if isinstance(node, yaml.MappingNode):
        return node.tag, [(tree(key), tree(value)) for key, value in node.value]
    if isinstance(node, yaml.SequenceNode):
        return node.tag, [tree(item) for item in node.value]
    return None if node is None else (node.tag, node.value, getattr(node, "style", None))


def around(before: str, changes: dict[Any, Any], *edits: Edit) -> bool:
    """Whether the text is read in parts; what is read must then be what PyYAML reads."""
    after = apply_edits(before, edits)
    parts = compose_around(before, compose(before), changes, edits, after)
    if parts is not None:
        assert [tree(root) for root in parts] == [tree(root) for root in compose(after)], after
    return parts is not None


def test_old_parts_are_not_read_again_and_new_lines_only_once() -> None:
    editor = Editor(read(JOB.encode())).apply(lambda editor: editor.set(PLACE, NEW))
    assert around(JOB, {0: {"spec": {"template": {"tolerations": ...}}}}, *editor.edits())
    old = read(JOB.encode())
    text, documents = Editor(old).apply(lambda editor: editor.set(PLACE, NEW)).finish(marks=False)
    template = [
        document.value[2][1].value[0][1]
        for document in (old.documents[0], documents[0])
        if document
    ]
    assert template[0].value[0][1] is template[1].value[0][1]
    again = (
        Editor(read(JOB.encode()))
        .apply(lambda editor: editor.set(PLACE, NEW))
        .finish(marks=False)[1][0]
    )
    assert again is not None
    assert again.value[2][1].value[0][1].value[-1][1] is template[1].value[-1][1]
    assert list(map(tree, documents)) == list(map(tree, compose(text)))


def test_marks_are_true_where_they_are_wanted() -> None:
    text, (root,) = Editor(read(JOB.encode())).apply(lambda editor: editor.set(PLACE, NEW)).finish()
    assert root is not None
    assert [key.start_mark.line for key, _ in root.value] == [
        text[: text.index(f"{name}:")].count("\n")
        for name in ("kind", "metadata", "spec", "status")
    ]


def test_a_document_without_a_change_is_not_read_again() -> None:
    old = read(f"{JOB}---\n{POD}".encode())
    _, documents = Editor(old).apply(lambda editor: editor.set(PLACE, NEW)).finish(marks=False)
    assert documents[1] is old.documents[1]


LIES = {
    "changes a part": ("one:1", "one:2"),
    "takes a line out of a part": ("      args: [a, b]\n", ""),
    "adds a line to a part": ("      args: [a, b]\n", "      args: [a, b]\n      tty: true\n"),
    "adds an item at the end of a part": (
        "    - name: two\n",
        "    - name: two\n    - name: three\n",
    ),
    "adds a key at the end of a part": ("    - name: two\n", "    - name: two\n      tty: true\n"),
    "indents a part": (f"containers:\n{LINES}", "containers:\n" + LINES.replace("    -", "     -")),
    "moves a part": (f"    containers:\n{LINES}", f"  containers:\n{LINES}"),
    "renames the key of a part": ("containers:", "initContainers:"),
    "quotes what is beside a part": ("kind: Job", "kind: 'Jobs'"),
    "ends the document": ("    volumes:", "---\n    volumes:"),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_is_refused(lie: str, monkeypatch: pytest.MonkeyPatch) -> None:
    editor = Editor(read(JOB.encode())).apply(lambda editor: editor.set(PLACE, NEW))
    old, new = LIES[lie]
    assert JOB.count(old) == 1
    edits = (*editor.edits(), Edit(JOB.index(old), JOB.index(old) + len(old), new))
    monkeypatch.setattr(Editor, "edits", lambda self: edits)
    with pytest.raises(Refused):
        editor.finish(marks=False)


WRONG: dict[str, Callable[[str], str]] = {
    "another value": lambda text: text.replace("value: spot", "value: other", 1),
    "a key too many": lambda text: f"{text}    more: 1\n",
    "a collection as a key": lambda text: f"{text}    [a]: 1\n",
    "the end of the document": lambda text: f"{text}...\n",
    "a tag in front": lambda text: f"    !!map\n{text}",
    "lines further in": lambda text: "".join(f" {line}" for line in text.splitlines(keepends=True)),
    "an anchor": lambda text: text.replace("tolerations:", "tolerations: &a"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_lines_are_read_as_they_are(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    editor = Editor(read(JOB.encode())).apply(lambda editor: editor.set(PLACE, NEW))
    (edit,) = editor.edits()
    wrong = Edit(edit.start, edit.end, WRONG[name](edit.text))
    assert wrong.text != edit.text
    monkeypatch.setattr(Editor, "edits", lambda self: (wrong,))
    try:
        text, documents = editor.finish(marks=False)
    except Refused:
        assert name != "an anchor"
    else:  # an anchor without an alias changes nothing
        assert list(map(tree, documents)) == list(map(tree, compose(text)))
        assert name == "an anchor"


@pytest.mark.parametrize("blanks", range(1, 6))
def test_a_key_that_is_moved_away_from_its_part(
    blanks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(yaml_parts, "_SHORT", 1)
    before = "a:\n  b:\n    c: 1\n    d: 2\n"
    assert around(before, {0: {"a": {}}})
    assert not around(before, {0: {"a": {}}}, Edit(3, 3, " " * blanks))


# What comes behind a part may become a part of it, or take something from it.
SCRIPT = "a:\n  b:\n  - x: {}\n    y: |{}\n      run\n      more{}c: 1\n"
TRAPS = {
    "a comment in the column of a script": ("", "\n", "      # not a comment\n"),
    "blanks in the column of a script": ("", "\n", "        \n"),
    "line breaks before those that are kept": ("+", "\n\n", "\n"),
    "new lines before those that are kept": ("+", "\n\n\n", "d: 1\n"),
    "new lines where the file ends": ("", "", "\nd: 1\n"),
    "a blank line with a tab": ("-", "\n", "  \t\n"),
}


@pytest.mark.parametrize("name", TRAPS)
@pytest.mark.parametrize("end", ["c: 1\n", ""])
def test_what_comes_behind_a_script(name: str, end: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yaml_parts, "_SHORT", 1)
    keeps, breaks, new = TRAPS[name]
    before = SCRIPT.format("1", keeps, breaks).removesuffix("c: 1\n") + end * bool(breaks)
    at = before.index("more") + len("more") + bool(breaks)
    edit = Edit(at, at, new)
    try:
        is_valid = bool(compose(apply_edits(before, (edit,))))
    except Unreadable:
        is_valid = False
    parts = compose_around(before, compose(before), {0: {}}, (edit,), apply_edits(before, (edit,)))
    assert parts is None or (is_valid and around(before, {0: {}}, edit))


def test_a_tab_behind_a_part_is_an_error_of_the_whole_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yaml_parts, "_SHORT", 1)
    before = "a:\n  b:\n  - x: 1\n    y: 2\nc: 1\n"
    edit = Edit(before.index("c:"), before.index("c:"), "    \t\n")
    after = apply_edits(before, (edit,))
    with pytest.raises(Unreadable):
        compose(after)
    assert compose_around(before, compose(before), {0: {}}, (edit,), after) is None


# --- many texts ------------------------------------------------------------------------------------------------

VALUES = (
    " 1\n",
    ' "x\n   y"\n',
    "\n",
    " {a: [1]}\n",
    " plain\n@  goes on\n",
    " |\n@  text\n@    more\n",
    " |+\n@  kept\n\n\n",
    " >\n@ folded\n@   \n\n",
    " |-\n@   s\n   \n",
)
BETWEEN = ("\n", "   \n", "# c\n", "@# c\n", "@   # deep\n", "\n\n")
ADDED = (
    *(
        "a: 1\n",
        "- x\n",
        "key:\n- a\n- b\n",
        "key:\n  sub: 1\n  t: [1, 2]\n",
        "# c\n",
        "\n",
        "   \n",
        "word\n",
    ),
    *(
        "s: |\n  text\n",
        "s: |+\n  text\n\n",
        "s: >-\n  folded\n  more\n",
        "p: plain\n  goes on\n",
        "? c\n: d\n",
    ),
    *(
        "...\n",
        "---\n",
        "%TAG ! x\n",
        "\t\n",
        "n:\n",
        "t: !!str 1\n",
        "u: &x 1\n",
        "v: *x\n",
        "  : x\n",
    ),
    *(
        "{a: b}\n",
        "[\n",
        "!!map\n",
        "\u2028",
        "\x85a: 1\n",
        "l:\n  - |\n    deep\n  - k: |+\n      kept\n\n",
    ),
)


class _Texts:
    """Random texts of YAML, and random edits of them: most at the beginning of a line, and indented as one nearby."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def block(self, depth: int, column: int) -> str:
        pick, blanks, pieces = self.random, " " * column, []
        for name in pick.sample("abcdefgh", pick.randint(1, 4)):
            kind = pick.random() if depth < 4 else 1
            if kind < 0.35:
                pieces.append(
                    f"{blanks}{name}:\n{self.block(depth + 1, column + pick.choice([1, 2, 4]))}"
                )
            elif kind < 0.6:
                dash = column + pick.choice([0, 2])
                items = [
                    self.block(depth + 1, dash + 2)[dash + 2 :] for _ in range(pick.randint(1, 2))
                ]
                items += [
                    pick.choice(VALUES).replace("@", " " * dash).lstrip(" ")
                    for _ in range(pick.randint(0, 1))
                ]
                pieces.append(
                    f"{blanks}{name}:\n" + "".join(f"{' ' * dash}- {item}" for item in items)
                )
            else:
                pieces.append(f"{blanks}{name}:{pick.choice(VALUES)}".replace("@", blanks))
            if pick.random() < 0.2:
                pieces.append(pick.choice(BETWEEN).replace("@", blanks))
        return "".join(pieces)

    def change(self, node: YamlNode | None, share: float) -> dict[Any, Any]:
        """Which collections have a change inside."""
        pairs = enumerate(getattr(node, "value", ()))
        inner = (
            (pair[0].value, pair[1]) if isinstance(node, yaml.MappingNode) else (at, pair)
            for at, pair in pairs
        )
        return {
            step: self.change(child, share * 0.6)
            for step, child in inner
            if isinstance(child, yaml.CollectionNode) and self.random.random() < share
        }

    def edit(self, text: str) -> Edit:
        pick = self.random
        if pick.random() < 0.2:
            at = pick.randint(0, len(text))
            return Edit(
                at,
                min(len(text), at + pick.choice([0, 0, 3])),
                pick.choice(["\n", "x", " ", "#", "- ", ""]),
            )
        at = pick.choice(
            [0, *(place + 1 for place, character in enumerate(text) if character == "\n")]
        )
        beside = (
            text[at:].split("\n")[0]
            if pick.random() < 0.5
            else text[:at].rstrip("\n").split("\n")[-1]
        )
        blanks = " " * pick.choice([len(beside) - len(beside.lstrip(" ")), pick.randint(0, 8)])
        added = "".join(pick.choice(ADDED) for _ in range(pick.choice([1, 1, 2])))
        return Edit(at, at, "".join(blanks + line for line in added.splitlines(keepends=True)))


@pytest.mark.parametrize("short", [1, 20])
def test_random_edits_of_random_texts(short: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yaml_parts, "_SHORT", short)
    texts, read_in_parts = _Texts(short), 0
    for _ in range(2000):
        parting = texts.random.choice(["---\n", "...\n---\n", "--- # c\n\n"])
        before = parting.join(texts.block(0, 0) for _ in range(texts.random.choice([1, 2, 3])))
        before = before.replace("\n", texts.random.choice(["\n"] * 9 + ["\r\n"]))
        before = before.rstrip("\n") if texts.random.random() < 0.1 else before
        documents = compose(before)
        changed = [at for at in range(len(documents)) if texts.random.random() < 0.8]
        changes: dict[Any, Any] = {at: texts.change(documents[at], 0.8) for at in changed}
        edits = tuple(texts.edit(before) for _ in range(texts.random.choice([1, 1, 2])))
        try:
            after = apply_edits(before, edits)
        except Refused:  # they overlap
            continue
        parts = compose_around(before, documents, changes, edits, after)
        if parts is not None:
            assert [tree(root) for root in parts] == [tree(root) for root in compose(after)], (
                before,
                edits,
            )
            read_in_parts += 1
    assert read_in_parts > 200

"""Reading a changed text again without what no edit touches, and without reading the same new lines many times.

A part is the value of a key in a block mapping, with all lines up to the next key. What these lines mean depends on
themselves, on the column of their key, and on anchors and directives, but on nothing else: what comes before them ends
with their key, and they end at the first line that is not indented further than it. So the text is read with a word in
place of each part. Where that word is the value of the same key at the same column, the text has the part there: its
nodes are those of the old text, or, for new lines, those of the lines read by themselves. A document without a
change is a part, too.

Whatever is not as expected gives None: then the text has to be read as a whole.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate
from typing import Any

from yaml.nodes import CollectionNode, MappingNode, ScalarNode, SequenceNode

from arc_toolkit.edit.files.edits import Edit, Unreadable, apply_edits
from arc_toolkit.edit.yaml.nodes import YamlNode, compose, has_anchor, last_scalar

# The key that a word is the value of, its column (-1 for a whole document), and the value that it stands for.
_Part = tuple[str, int, YamlNode]
_WORD = "part-that-is-known-"
# A shorter part is read sooner than left out.
_SHORT = 80
# After any line break of YAML 1.1. What is before the sign is looked at last, because a search for it is fast.
_DIRECTIVE = re.compile("%(?<![^\n\r\x85\u2028\u2029]%)")
# A line with more than a comment.
_LINE = re.compile(r"( *)[^\s#]")
_DOCUMENT = re.compile(r"^(?:---|\.\.\.)", re.MULTILINE)


def compose_around(
    before: str,
    documents: tuple[YamlNode | None, ...],
    changes: dict[Any, Any],
    edits: Sequence[Edit],
    after: str,
) -> tuple[YamlNode | None, ...] | None:
    """The documents of the text `after` the edits, with the known nodes of its parts; None if it has to be read as a
    whole. The marks of its nodes are not those of that text."""
    # Behind some parts a line of blanks and a tab is an error.
    if (
        _WORD in after
        or "\t" in after
        or any(has_anchor(text) or _has_directive(text) for text in (before, after))
    ):
        return None
    finder = _PartFinder(before, after, edits)
    for index, root in enumerate(documents):
        if index in changes:
            finder.look_into(root, changes[index])
        else:
            finder.leave_out(root)
    if not finder.parts:
        return None
    try:
        result = compose(apply_edits(before, finder.edits))
    except Unreadable:
        return None
    if len(result) != len(documents):
        return None
    for index, change in changes.items():
        _put_back(result[index], change, finder.parts)
    whole = tuple(_document(root, finder.parts) for root in result)
    return None if finder.parts else whole


class _PartFinder:
    """Finds the parts of a text that can be left out."""

    def __init__(self, before: str, after: str, edits: Sequence[Edit]) -> None:
        self._before, self._after = before, after
        ordered = sorted(edits, key=lambda edit: (edit.start, edit.end))
        self._starts = [edit.start for edit in ordered]
        self._ends = [edit.end for edit in ordered]
        # By how much a place is moved by so many edits before it.
        self._moved = [0, *accumulate(len(edit.text) - (edit.end - edit.start) for edit in ordered)]
        self.parts: dict[str, _Part] = {}
        self.edits = [self._shortened(edit) for edit in edits]

    def _word(self, key: YamlNode | None, value: YamlNode) -> str:
        word = f"{_WORD}{len(self.parts)}"
        self.parts[word] = (
            ("", -1, value) if key is None else (key.value, key.start_mark.column, value)
        )
        return word

    def _shortened(self, edit: Edit) -> Edit:
        """An edit that inserts lines of new keys, with words for their values."""
        at, text = edit.start, edit.text
        if (
            at < edit.end
            or len(text) < _SHORT
            or not at
            or self._before[at - 1] != "\n"
            or not text.endswith("\n")
        ):
            return edit
        lines = [f"{head}: {self._word(key, value)}\n" for head, key, value in _new_keys(text)]
        return Edit(at, at, "".join(lines)) if lines else edit

    def look_into(self, node: YamlNode | None, change: Any) -> None:
        """The parts of a collection that has a change inside."""
        if not isinstance(change, dict) or not isinstance(node, CollectionNode) or node.flow_style:
            return
        if isinstance(node, SequenceNode):
            for index, leaf in change.items():
                if isinstance(index, int) and index < len(node.value):
                    self.look_into(node.value[index], leaf)
            return
        for number, (key, value) in enumerate(node.value):
            if isinstance(value, CollectionNode) and isinstance(key, ScalarNode):
                leaf = change.get(key.value)
                if leaf is not None:
                    self.look_into(value, leaf)
                elif (end := self._end(node, number, key, value)) is not None:
                    self.edits.append(
                        Edit(key.end_mark.index, end, f": {self._word(key, value)}\n")
                    )

    def leave_out(self, root: YamlNode | None) -> None:
        """A whole document, if there is no edit from the beginning of its first line to the line after its last one."""
        if not isinstance(root, CollectionNode) or root.flow_style:
            return
        mark, after = root.start_mark, root.end_mark
        start, end = mark.index - mark.column, after.index - after.column
        edit = bisect_left(self._starts, start)
        is_kept = not (edit and self._ends[edit - 1] > start)
        if (
            is_kept
            and (edit == len(self._starts) or self._starts[edit] > end)
            and self._before[end - 1] == "\n"
        ):
            self.edits.append(Edit(mark.index, end, f"{self._word(None, root)}\n"))

    def _end(
        self, mapping: YamlNode, number: int, key: YamlNode, value: CollectionNode
    ) -> int | None:
        """Where a part ends; None if it cannot be left out."""
        following = (
            mapping.value[number + 1][0].start_mark
            if number + 1 < len(mapping.value)
            else value.end_mark
        )
        start, end = key.end_mark.index, following.index - following.column
        if end - start < _SHORT or value.flow_style:
            return None
        edit = bisect_left(self._starts, start)
        if edit and self._ends[edit - 1] > start:
            return None
        if edit < len(self._starts) and self._starts[edit] < end:
            end = self._starts[edit]
        if self._before[end - 1] != "\n":
            return None
        last = last_scalar(value)
        if isinstance(last, ScalarNode) and last.style in ("|", ">"):
            is_all = self._is_block(last, end) and self._is_closed(
                end + self._moved[edit], key.start_mark.column
            )
        else:
            is_all = last.end_mark.index <= end
        return end if is_all else None

    def _is_block(self, last: YamlNode, end: int) -> bool:
        """Whether nothing of a block scalar is behind a place; line breaks are of those that keep them (`+`) only."""
        start, own_end = last.start_mark.index, last.end_mark.index
        if own_end <= end:
            return True
        header = self._before[start : self._before.find("\n", start)]
        return "+" not in header and not self._before[end:own_end].strip("\r\n")

    def _is_closed(self, place: int, column: int) -> bool:
        """Whether a block scalar ends at a place of the new text: with the file, or by a line that is not its own."""
        line = _LINE.match(self._after, place)
        return place == len(self._after) if line is None else len(line[1]) <= column


@lru_cache(maxsize=256)
def _new_keys(text: str) -> tuple[tuple[str, YamlNode, YamlNode], ...]:
    """The keys of lines that are a block mapping by themselves: each as it is written, with its blanks, and its nodes.

    New lines are the same for many workloads.
    """
    if _DOCUMENT.search(text):
        return ()
    try:
        (root,) = compose(text)
    except (Unreadable, ValueError):
        return ()
    if not isinstance(root, MappingNode) or not all(
        isinstance(key, ScalarNode) for key, _ in root.value
    ):
        return ()
    last = last_scalar(root)
    if (
        last is root
        or text[: root.value[0][0].start_mark.index].strip(" ")
        or getattr(last, "style", "") in ("|", ">")
    ):
        return ()
    marks = [(key, key.start_mark, value) for key, value in root.value]
    return tuple(
        (text[start.index - start.column : key.end_mark.index], key, value)
        for key, start, value in marks
    )


def _document(root: YamlNode | None, parts: dict[str, _Part]) -> YamlNode | None:
    """The old root in place of the word for it."""
    if isinstance(root, ScalarNode) and root.value in parts and parts[root.value][1] < 0:
        return parts.pop(root.value)[2]
    return root


def _put_back(new: YamlNode | None, change: Any, parts: dict[str, _Part]) -> None:
    """Put the nodes of parts in the places of their words, as far as each is where it should be."""
    if not isinstance(change, dict) or not isinstance(new, CollectionNode) or new.flow_style:
        return
    if isinstance(new, SequenceNode):
        for index, leaf in change.items():
            if isinstance(index, int) and index < len(new.value):
                _put_back(new.value[index], leaf, parts)
        return
    for place, (key, value) in enumerate(new.value):
        if isinstance(value, ScalarNode):
            part = parts.get(value.value)
            if part is not None and (key.value, key.start_mark.column) == part[:2]:
                new.value[place] = (key, part[2])
                del parts[value.value]
        elif isinstance(key, ScalarNode) and (leaf := change.get(key.value)) is not None:
            _put_back(value, leaf, parts)


def _has_directive(text: str) -> bool:
    return "%" in text and _DIRECTIVE.search(text) is not None

"""Where new YAML text goes so that it looks as if the author had written it. Text spans only: no
plan, no proof.

Everything is found by the marks of the nodes. What has no clear place raises `Refused`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Container, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import yaml

from arc_toolkit.edit.files.edits import Edit, Refused
from arc_toolkit.edit.yaml.nodes import STR, YamlNode, YamlText, last_scalar, pairs, walk
from arc_toolkit.edit.yaml.writer import Writer, YamlStyle, quoted

_PROPERTIES = re.compile(r"(?:[&!]\S*\s+)*")
_ALIAS = re.compile(r"[ \t]*:[ \t]+\*[^\s,\[\]{}]+(?=[\s,}]|\Z)")
_BEFORE_KEY = re.compile(r"[ ]*(?:-[ ]+)*")
_COMMENT = re.compile(r"([ ]*)#")
_BLOCK_HEADER = re.compile(r"[|>]([-+0-9]*)([ \t]*(?:#[^\r\n]*)?)\r?\n(?:[ \t]*\r?\n)*[ ]*")
# What may be between the last item of a flow collection and its bracket: blanks, comments and one
# comma.
_FLOW_TAIL = re.compile(r"(?:\s|(?<=\s)#[^\n]*)*(,?)(?:\s|(?<=\s)#[^\n]*)*")
# The blanks by which a file may indent; deeper means that something else is between.
_MAX_INDENT = 8


@dataclass(frozen=True, slots=True)
class JsonStyle:
    """How a JSON document is written."""

    # What each level is indented by; empty if everything is on one line.
    unit: str
    # After a comma on the same line, and after a colon.
    comma: str
    colon: str
    newline: str

    @classmethod
    def of(cls, text: str, document: YamlNode | None, newline: str) -> JsonStyle | None:
        """The style of a document that is a JSON object; None for any other."""
        is_flow = isinstance(document, yaml.MappingNode) and document.flow_style
        if document is None or not is_flow or not document.value:
            return None
        key, value = document.value[0]
        if not isinstance(key, yaml.ScalarNode) or key.style != '"':
            return None
        before = text[text.rfind("\n", 0, key.start_mark.index) + 1 : key.start_mark.index]
        is_compact = text[key.end_mark.index : value.start_mark.index] == ":"
        unit = "" if before.strip() else before
        return cls(unit, "," if is_compact else ", ", ":" if is_compact else ": ", newline)

    def text(self, value: Any, indent: str | None) -> str:
        """A value, on lines of its own that begin with `indent`; on one line if that is None."""
        levels = self.unit if indent is not None and self.unit else None
        separators = (self.comma if levels is None else ",", self.colon)
        written = json.dumps(value, indent=levels, separators=separators, ensure_ascii=False)
        return written.replace("\n", self.newline + (indent or ""))


class Lines(NamedTuple):
    """An edit that inserts whole lines, and the column that they begin at."""

    edit: Edit
    column: int


class YamlLayout:
    """The places of one file, and the text that goes there in the style of the file."""

    def __init__(self, source: YamlText, style: YamlStyle) -> None:
        self._source, self._style, self._text = source, style, source.text
        self._newline = "\r\n" if "\r\n" in source.text else "\n"
        # For scalars and flow collections, which no indent matters to.
        self._plain_writer = Writer(style)

    # --- scalars and keys -----------------------------------------------------------------------

    def scalar(self, node: yaml.ScalarNode, value: Any, *, flow: bool, block: bool = True) -> Edit:
        """Another value in place of a scalar; quotes stay, and so does a block scalar, if asked.

        "y" in `a: 'x' # why` gives `'y'` for `'x'`; in `a: |` with a line `  x` it gives `|-` with
        a line `  y`.
        """
        start, end = self._scalar_slice(node)
        is_text = isinstance(value, str)
        text = self._block_scalar(node, value) if block and is_text else None
        if text is None and is_text and node.style == "'" and value.isprintable():
            text = "'" + value.replace("'", "''") + "'"
        if text is None:
            text = self._plain_writer.scalar(value, flow=flow, quote=node.style == '"')
        return Edit(start, end, text if start < end else f" {text}")

    def _block_scalar(self, node: yaml.ScalarNode, value: str) -> str | None:
        """Other text in the form of a block scalar; None where that form does not have it."""
        header = self._block_header(node)
        body = value.removesuffix("\n")
        # Indented lines are text as they are in a literal, and paragraphs in a folded scalar.
        special = r"\A\s|\s\Z" if node.style == "|" else r"\A\s|\n\s|\s\Z"
        is_plain = body.replace("\n", "").isprintable() and not re.search(special, body)
        if header is None or not body or not is_plain:
            return None
        blank = self._text[self._line_start(header.end()) : header.end()]
        lines = self._paragraph_break(node).join(
            blank + line if line else "" for line in body.split("\n")
        )
        return f"{node.style}{'-' * (body == value)}{header[2]}{self._newline}{lines}"

    def word(self, node: YamlNode, old: str, new: str) -> Edit:
        """Another word inside a key or scalar."""
        start, end = node.start_mark.index, node.end_mark.index
        piece = self._text[start:end]
        if old not in piece:
            raise Refused(f"`{old}` is folded or escaped in the text")
        return Edit(start, end, piece.replace(old, new))

    def line_before(self, key: YamlNode | None, node: yaml.ScalarNode, line: str) -> Edit:
        """A line before the text of a scalar; `key` is the scalar's, if it is in a block mapping.

        "export A=1" before `command: python a.py  # train` gives

            command: |-  # train
              export A=1
              python a.py
        """
        start, end = self._scalar_slice(node)
        if _is_block_scalar(node):
            header = self._block_header(node)
            if header is None:
                raise Refused("a block scalar without a first line")
            blank = self._text[self._line_start(header.end()) : header.end()]
            return Edit(header.end(), header.end(), line + self._paragraph_break(node) + blank)
        if key is None or not self._begins_line(key):
            return Edit(start, end, quoted(f"{line}\n{node.value}"))
        written = self._text[start:end].splitlines()
        if len(written) > 1 and not node.style:
            head, lines = ">-", [line, "", *(part.strip() for part in written)]
        else:
            head, lines = "|-", [line, *node.value.split("\n")]
        # A comment behind the text goes behind the header.
        line_end = self._line_end(end)
        line_end -= self._text.startswith("\r\n", line_end - 1)
        blank = " " * (key.start_mark.column + self._indent)
        body = self._newline.join(f"{blank}{part}" if part else "" for part in lines)
        return Edit(start, line_end, f"{head}{self._text[end:line_end]}{self._newline}{body}")

    def removal(self, key: YamlNode, value: YamlNode) -> Edit:
        """A key and its value taken out, as whole lines."""
        start = self._line_start(key.start_mark.index)
        if self._text[start : key.start_mark.index].strip():
            raise Refused(f"`{key.value}` shares its line with something else")
        end = self._content_end(key, value)
        if end is None:
            raise Refused(f"the end of `{key.value}` is not clear")
        return Edit(start, min(self._line_end(end) + 1, len(self._text)), "")

    # --- new keys and items ---------------------------------------------------------------------

    def insertion(
        self,
        node: yaml.MappingNode,
        key: YamlNode | None,
        tree: dict[str, Any],
        removed: Container[int],
    ) -> Sequence[Edit | Lines]:
        """New keys in a mapping: next to the neighbours that the style prefers, or at the end.

        {"resources": {"instance_count": 2}} in `compute: a`, `command: c` goes after `compute` as
        two lines, where the style prefers that neighbour. A flow mapping grows at its end:
        `{a: 1}` becomes `{a: 1, resources: {...}}`.
        """
        if node.flow_style:
            return self._flow_growth(node, key, tree)
        neighbour, end = self._neighbour(node, next(iter(tree)), removed)
        column = neighbour.start_mark.column
        lines = self._writer(tree).lines(tree, column)
        if end is not None:
            return [self._lines_after(end, column, lines)]
        start = self._comments_above(neighbour)
        return [Lines(Edit(start, start, "".join(line + self._newline for line in lines)), column)]

    def filling(self, key: YamlNode | None, child: YamlNode, value: Any) -> Edit | Lines:
        """A null value becomes a collection: lines below an empty one, `{...}` or `[...]` for a
        written one.
        """
        if key is None:
            raise Refused("an empty item of a list")
        if child.start_mark.index != child.end_mark.index:
            text = self._plain_writer.flow(value, quote=_is_json(key, child))
            return Edit(child.start_mark.index, child.end_mark.index, text)
        if not self._begins_line(key):
            raise Refused(f"`{key.value}` is empty inside a flow mapping")
        writer, column = self._writer(value), key.start_mark.column
        if isinstance(value, dict):
            column += writer.indent
            lines = writer.lines(value, column)
        else:
            column += writer.list_indent
            lines = writer.items(value, column)
        return self._lines_after(child.end_mark.index, column, lines)

    def appending(
        self, node: yaml.SequenceNode, key: YamlNode | None, items: list[Any]
    ) -> Sequence[Edit | Lines]:
        """More items at the end of a list, in the form of the list."""
        if node.flow_style:
            return self._flow_growth(node, key, items)
        # The first dash; an anchor or a tag may be before it.
        dash = self._opening(node, "-")
        if node.value[-1].start_mark.index <= dash:
            raise Refused("the list ends with an alias")
        end = self._content_end(node.value[-2] if len(node.value) > 1 else None, node.value[-1])
        if end is None:
            raise Refused("the end of the list is not clear")
        column = dash - self._line_start(dash)
        lines = self._lines_after(end, column, self._writer(items).items(items, column))
        return [*self._closing(last_scalar(node), end), lines]

    def _neighbour(
        self, node: yaml.MappingNode, new: str, removed: Container[int]
    ) -> tuple[YamlNode, int | None]:
        """The key after whose value new lines go, and where that value ends; no end: before the
        first key.

        The latter is for a mapping that ends with a block scalar which takes everything behind it
        for its own.
        """
        preferred = self._style.neighbours.get(new, ())
        node_pairs = pairs(node) if preferred else {}
        candidates = [node_pairs[name] for name in preferred if name in node_pairs]
        if isinstance(preferred, frozenset):
            candidates.sort(key=lambda pair: pair[0].start_mark.index, reverse=True)
        for key, value in (*candidates, *reversed(node.value)):
            end = self._content_end(key, value)
            if end is None or id(key) in removed or not self._begins_line(key):
                continue
            last = last_scalar(value)
            if not _is_block_scalar(last) or not self._absorbs_lines(last, end):
                return key, end
        key = node.value[0][0]
        start = self._line_start(key.start_mark.index)
        if id(key) not in removed and not self._text[start : key.start_mark.index].strip():
            return key, None
        raise Refused(f"there is no line after which `{new}` could be added")

    def _absorbs_lines(self, last: YamlNode, end: int) -> bool:
        """Whether lines after a block scalar change it: the blank lines behind it, or its missing
        newline.
        """
        return "+" in self._block_indicators(last) or self._line_end(end) == len(self._text)

    def _closing(self, last: YamlNode, end: int) -> list[Edit]:
        """What keeps the value of a block scalar when lines follow it.

        If the file ends in it without a newline, its value has none either: `|` becomes `|-`.
        """
        if not _is_block_scalar(last) or not self._absorbs_lines(last, end):
            return []
        indicators = self._block_indicators(last)
        if self._line_end(end) < len(self._text):
            raise Refused(
                "the list ends with a block scalar that keeps the blank lines after it (`+`)"
            )
        start = self._scalar_slice(last)[0] + 1
        return [Edit(start, start + len(indicators), re.sub("[-+]", "", indicators) + "-")]

    def _lines_after(self, end: int, column: int, lines: list[str]) -> Lines:
        body = self._newline.join(lines)
        line_end = self._line_end(end)
        # Comments further in are about the lines before them.
        while (comment := _COMMENT.match(self._text, line_end + 1)) and len(comment[1]) > column:
            line_end = self._line_end(line_end + 1)
        if line_end == len(self._text):
            return Lines(Edit(line_end, line_end, self._newline + body), column)
        return Lines(Edit(line_end + 1, line_end + 1, body + self._newline), column)

    # --- flow collections -----------------------------------------------------------------------

    def _flow_texts(
        self,
        node: YamlNode,
        key: YamlNode | None,
        new: dict[str, Any] | list[Any],
        indent: str | None,
    ) -> list[str]:
        """New keys or items as text, for lines that begin with `indent`; on one line if None."""
        quote = _is_json(key, node)
        style = self._json if quote else None

        def write(value: Any) -> str:
            if style is not None:
                return style.text(value, indent)
            return self._plain_writer.flow(value, quote=quote)

        if isinstance(new, list):
            return [write(item) for item in new]
        if style is None:
            return [write({name: value})[1:-1] for name, value in new.items()]
        return [f"{write(name)}{style.colon}{write(value)}" for name, value in new.items()]

    def _flow_growth(
        self, node: yaml.CollectionNode, key: YamlNode | None, new: dict[str, Any] | list[Any]
    ) -> list[Edit]:
        """New items or keys at the end of a flow collection.

        `c` in `[a, b]` gives `[a, b, c]`; with an item per line it gets a line too, after the
        comment behind `b`:

            [                [
              a,               a,
              b  # two         b,  # two
            ]                  c
                             ]
        """
        text, close = self._text, node.end_mark.index - 1
        is_mapping = isinstance(node, yaml.MappingNode)
        start = self._opening(node, "{" if is_mapping else "[")
        comma = ", " if self._json is None else self._json.comma
        if not node.value:
            return [self._first_in_flow(node, key, new, start + 1, comma)]
        # Where the last one begins and ends.
        first, value = node.value[-1] if is_mapping else (node.value[-1], node.value[-1])
        end = self._content_end(first if is_mapping else None, value)
        tail = None if end is None else _FLOW_TAIL.fullmatch(text, end, close)
        if first.start_mark.index <= start or end is None or tail is None:
            raise Refused(f"the end of the {'mapping' if is_mapping else 'list'} is not clear")
        before = text[self._line_start(first.start_mark.index) : first.start_mark.index]
        if before.strip():
            items = self._flow_texts(node, key, new, None)
            return [Edit(end, end, "".join(comma + item for item in items))]
        # A collection on one line is followed by one on one line.
        is_short = (
            isinstance(value, yaml.CollectionNode)
            and value.value
            and "\n" not in text[value.start_mark.index : end]
        )
        items = self._flow_texts(node, key, new, None if is_short else before)
        gap = self._newline + before
        behind = tail.end(1) if tail[1] else end
        place = text.find("\n", behind, close)
        place = behind if place < 0 else place - text.startswith("\r\n", place - 1)
        if tail[1]:  # a trailing comma stays
            return [Edit(place, place, "".join(f"{gap}{item}," for item in items))]
        return [Edit(end, end, ","), Edit(place, place, ",".join(gap + item for item in items))]

    def _first_in_flow(
        self,
        node: yaml.CollectionNode,
        key: YamlNode | None,
        new: dict[str, Any] | list[Any],
        start: int,
        comma: str,
    ) -> Edit:
        """The first items between two brackets; in JSON with a key per line they get lines too."""
        close = node.end_mark.index - 1
        has_comment = bool(self._text[start:close].strip())
        if has_comment or self._json is None or not self._json.unit:
            items = self._flow_texts(node, key, new, None)
            return Edit(start, start if has_comment else close, comma.join(items))
        line = self._text[self._line_start(start) : start]
        outer = line[: len(line) - len(line.lstrip(" \t"))]
        inner = outer + self._json.unit
        items = self._flow_texts(node, key, new, inner)
        lines = ",".join(self._newline + inner + item for item in items)
        return Edit(start, close, lines + self._newline + outer)

    # --- finding places -------------------------------------------------------------------------

    def _line_start(self, index: int) -> int:
        return self._text.rfind("\n", 0, index) + 1

    def _line_end(self, index: int) -> int:
        """Where the newline of a line is, or the end of the text."""
        end = self._text.find("\n", index)
        return len(self._text) if end < 0 else end

    def _begins_line(self, key: YamlNode) -> bool:
        """Whether only blanks and dashes are before a key."""
        start = key.start_mark.index
        return bool(_BEFORE_KEY.fullmatch(self._text, self._line_start(start), start))

    def _comments_above(self, key: YamlNode) -> int:
        """Where the line of a key begins, or the comments of its indent right above it."""
        start, mark = self._line_start(key.start_mark.index), " " * key.start_mark.column + "#"
        while start and self._text.startswith(mark, above := self._line_start(start - 1)):
            start = above
        return start

    def _opening(self, node: YamlNode, bracket: str) -> int:
        """Where the bracket or first dash of a collection is, after its anchor and tag."""
        match = _PROPERTIES.match(self._text, node.start_mark.index)
        assert match is not None  # it may be empty
        if not self._text.startswith(bracket, match.end()):
            raise Refused(
                "a collection without brackets inside a flow collection, "
                "or with a comment before it"
            )
        return match.end()

    def _content_end(self, before: YamlNode | None, value: YamlNode) -> int | None:
        """Where the last character of a value is; None where it is not clear. `before` is its key
        or the item before.

        In `a: [x]  # why` that is the bracket, in `a: |` its last line with text, in `a: *b` the
        end of the alias, which has the marks of its anchor, so that it seems to begin before its
        key.
        """
        start = value.start_mark.index
        if before is not None and start < before.end_mark.index:
            alias = _ALIAS.match(self._text, before.end_mark.index)
            return alias.end() if alias else None
        if _is_block_scalar(value):
            return self._scalar_slice(value)[1]
        if not isinstance(value, yaml.CollectionNode) or value.flow_style or not value.value:
            return int(value.end_mark.index)
        if isinstance(value, yaml.MappingNode):
            return self._content_end(*value.value[-1])
        return self._content_end(before, value.value[-1])

    def _scalar_slice(self, node: YamlNode) -> tuple[int, int]:
        """Where a scalar is, without its anchor and tag and without the newlines after a block
        scalar.
        """
        start, end = node.start_mark.index, node.end_mark.index
        match = _PROPERTIES.match(self._text, start, end)
        start = match.end() if match else start
        if _is_block_scalar(node):
            end = start + len(self._text[start:end].rstrip())
        return start, end

    def _block_header(self, node: YamlNode) -> re.Match[str] | None:
        """From `|` or `>` to the first character of the text.

        None if there is no text, or no block scalar.
        """
        start, end = self._scalar_slice(node)
        match = _BLOCK_HEADER.match(self._text, start)
        return match if match and match.end() < end and _is_block_scalar(node) else None

    def _block_indicators(self, node: YamlNode) -> str:
        """`2-` of `|2-`."""
        start = self._scalar_slice(node)[0]
        match = re.compile("[|>]([-+0-9]*)").match(self._text, start)
        assert match is not None
        return match[1]

    def _paragraph_break(self, node: yaml.ScalarNode) -> str:
        """What is between two lines of a block scalar's text: in a folded one, a blank line keeps
        them apart.
        """
        return self._newline * (1 if node.style == "|" else 2)

    # --- the style of the file ------------------------------------------------------------------

    @cached_property
    def _json(self) -> JsonStyle | None:
        return JsonStyle.of(self._text, self._source.documents[0], self._newline)

    def _writer(self, value: Any) -> Writer:
        # The lists of a file are looked for only where the indent of a new one matters.
        list_indent = self._list_indent if _has_list(value) else 0
        return Writer(self._style, self._indent, list_indent)

    @cached_property
    def _indent(self) -> int:
        """The blanks by which this file indents a mapping in a mapping."""
        for root in self._source.documents:
            if isinstance(root, yaml.MappingNode) and not root.flow_style:
                for key, value in root.value:
                    if isinstance(value, yaml.MappingNode) and (step := _step(key, value)):
                        return step
        return 2

    @cached_property
    def _list_indent(self) -> int:
        """The blanks by which this file indents the dashes of a list below their key: most often
        none or two.
        """
        for node in walk(self._source.documents):
            for key, value in node.value if isinstance(node, yaml.MappingNode) else ():
                step = _step(key, value) if isinstance(value, yaml.SequenceNode) else None
                if step is not None:
                    return step
        return 2


def _step(key: YamlNode, value: yaml.CollectionNode) -> int | None:
    """How far a block collection is indented below its key; None if it is not on lines below it."""
    step = value.start_mark.column - key.start_mark.column
    is_below = value.start_mark.line > key.start_mark.line and not value.flow_style
    return int(step) if is_below and 0 <= step <= _MAX_INDENT else None


def _is_block_scalar(node: YamlNode) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.style in ("|", ">")


def _is_json(key: YamlNode | None, node: YamlNode) -> bool:
    """Whether text in this flow collection is in double quotes, as in JSON: its first text says so,
    else its key.
    """
    while isinstance(node, yaml.CollectionNode) and node.value:
        node = node.value[0][0] if isinstance(node, yaml.MappingNode) else node.value[0]
    if isinstance(node, yaml.ScalarNode) and node.tag == STR:
        return bool(node.style == '"')
    return isinstance(key, yaml.ScalarNode) and key.style == '"'


def _has_list(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_has_list, value.values()))
    return isinstance(value, list)

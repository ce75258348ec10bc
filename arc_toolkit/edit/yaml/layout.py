"""Where new YAML text goes so that it looks as if the author had written it. Text spans only: no plan, no proof.

Everything is found by the marks of the nodes. What has no clear place raises `Refused`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Sequence
from functools import cached_property
from typing import Any, NamedTuple

import yaml

from arc_toolkit.edit.files.edits import Edit, Refused
from arc_toolkit.edit.yaml.json_layout import JsonStyle
from arc_toolkit.edit.yaml.nodes import STR, YamlNode, YamlText, last_scalar, pairs, walk
from arc_toolkit.edit.yaml.writer import Writer, YamlStyle, quoted, writer_of

_PROPERTIES = re.compile(r"(?:[&!]\S*\s+)*")
_ALIAS = re.compile(r"[ \t]*:[ \t]+\*[^\s,\[\]{}]+(?=[\s,}]|\Z)")
_BEFORE_KEY = re.compile(r"[ ]*(?:-[ ]+)*")
_COMMENT = re.compile(r"([ ]*)#")
_BLOCK_HEADER = re.compile(r"[|>][-+0-9]*[ \t]*(?:#[^\n]*)?\r?\n(?:[ \t]*\r?\n)*[ ]*")
_BLOCK_INDICATORS = re.compile(r"[|>]([-+0-9]*)")
# What may be between the last item of a flow collection and its bracket: blanks, comments and one comma.
_FLOW_TAIL = re.compile(r"(?:\s|(?<=\s)#[^\n]*)*(,?)(?:\s|(?<=\s)#[^\n]*)*")


# Texts of new items, for lines of their own that begin with the given blanks; for one line if None.
FlowTexts = Callable[[str | None], list[str]]


class Lines(NamedTuple):
    """An edit that inserts whole lines, and the column that they begin at."""

    edit: Edit
    column: int


class YamlLayout:
    """The places of one file, and the text that goes there in the style of the file."""

    def __init__(self, source: YamlText, style: YamlStyle) -> None:
        self._source, self._style, self._text = source, style, source.text

    # --- scalars and keys --------------------------------------------------------------------------------------

    def scalar(self, node: yaml.ScalarNode, value: Any, *, flow: bool, block: bool = True) -> Edit:
        """Another value in place of a scalar; quotes stay, and so does a block scalar, if asked."""
        start, end = self._scalar_slice(node)
        if start == end:  # an empty value: `key:` with nothing behind it
            text = " " + self._plain_writer.scalar(value, flow=flow)
        elif (
            block
            and isinstance(value, str)
            and node.style in ("|", ">")
            and (lines := self._block(node, value))
        ):
            text = lines
        elif isinstance(value, str) and node.style == "'" and value.isprintable():
            text = "'" + value.replace("'", "''") + "'"
        else:
            text = self._plain_writer.scalar(value, flow=flow, quote=node.style == '"')
        return Edit(start, end, text)

    def _block(self, node: yaml.ScalarNode, value: str) -> str | None:
        """Other text in the form of a block scalar; None where that form does not have it."""
        start, end = self._scalar_slice(node)
        header = _BLOCK_HEADER.match(self._text, start)
        body = value.removesuffix("\n")
        plain = body.replace("\n", "").isprintable() and not re.search(r"\A\s|\n\s|\s\Z", body)
        if header is None or header.end() >= end or not body or not plain:
            return None
        blank = self._text[self._text.rfind("\n", 0, header.end()) + 1 : header.end()]
        rest = (
            self._text[start : self._text.find("\n", start)].rstrip("\r").lstrip("|>-+0123456789")
        )
        gap = self._newline * (1 if node.style == "|" else 2)
        lines = gap.join(blank + line for line in body.split("\n"))
        return f"{node.style}{'-' * (body == value)}{rest}{self._newline}{lines}"

    def word(self, node: YamlNode, old: str, new: str) -> Edit:
        """Another word inside a key or scalar."""
        start, end = node.start_mark.index, node.end_mark.index
        piece = self._text[start:end]
        if old not in piece:
            raise Refused(f"`{old}` is folded or escaped in the text")
        return Edit(start, end, piece.replace(old, new))

    def line_before(self, key: YamlNode | None, node: yaml.ScalarNode, line: str) -> Edit:
        """A line before the text of a scalar; `key` is the scalar's, if it is in a block mapping."""
        start, end = self._scalar_slice(node)
        if node.style in ("|", ">"):
            header = _BLOCK_HEADER.match(self._text, start)
            if header is None or header.end() >= end:
                raise Refused("a block scalar without a first line")
            place = header.end()
            # In a folded scalar, a blank line is what keeps two lines apart.
            gap = self._newline * (1 if node.style == "|" else 2)
            return Edit(
                place,
                place,
                f"{line}{gap}{self._text[self._text.rfind(chr(10), 0, place) + 1 : place]}",
            )
        if key is None or not _BEFORE_KEY.fullmatch(
            self._text, self._line_start(key), key.start_mark.index
        ):
            return Edit(start, end, quoted(f"{line}\n{node.value}"))
        written = self._text[start:end].splitlines()
        if len(written) > 1 and not node.style:
            head, lines = ">-", [line, "", *(part.strip() for part in written)]
        else:
            head, lines = "|-", [line, *node.value.split("\n")]
        # A comment behind the text goes behind the header.
        line_end = self._text.find("\n", end)
        line_end = (
            len(self._text) if line_end < 0 else line_end - (self._text[line_end - 1] == "\r")
        )
        blank = " " * (key.start_mark.column + self._indent)
        body = self._newline.join(f"{blank}{part}" if part else "" for part in lines)
        return Edit(start, line_end, f"{head}{self._text[end:line_end]}{self._newline}{body}")

    def removal(self, key: YamlNode, value: YamlNode, *, comments: bool = False) -> Edit:
        """A key and its value taken out, as whole lines; if asked, with the comments of its indent right above it."""
        start = self._comments_above(key) if comments else self._line_start(key)
        if self._text[self._line_start(key) : key.start_mark.index].strip():
            raise Refused(f"`{key.value}` shares its line with something else")
        end = self._content_end(key, value)
        if end is None:
            raise Refused(f"the end of `{key.value}` is not clear")
        line_end = self._text.find("\n", end)
        return Edit(start, len(self._text) if line_end < 0 else line_end + 1, "")

    # --- new keys ----------------------------------------------------------------------------------------------

    def insertion(
        self,
        node: yaml.MappingNode,
        key: YamlNode | None,
        tree: dict[str, Any],
        removed: Container[int],
    ) -> Sequence[Edit | Lines]:
        """New keys in a mapping: next to the neighbours that the style prefers, or at the end. A flow mapping grows at
        its end."""
        if node.flow_style:
            last = node.value[-1] if node.value else None
            return self._flow_growth(node, "{", last, self._flow_pairs(key, node, tree))
        key, end = self._neighbour(node, next(iter(tree)), removed)
        column = key.start_mark.column
        lines = self._writer(tree).new_lines(tree, column)
        if end is None:
            start = self._comments_above(key)
            return [
                Lines(Edit(start, start, "".join(line + self._newline for line in lines)), column)
            ]
        return [self._lines_after(end, column, lines)]

    def filling(self, key: YamlNode | None, child: YamlNode, value: Any) -> Edit | Lines:
        """A null value becomes a collection: lines below an empty one, `{...}` or `[...]` for a written one."""
        if key is None:
            raise Refused("an empty item of a list")
        if child.start_mark.index != child.end_mark.index:
            text = self._plain_writer.flow(value, quote=_is_json(key, child))
            return Edit(child.start_mark.index, child.end_mark.index, text)
        if not _BEFORE_KEY.fullmatch(self._text, self._line_start(key), key.start_mark.index):
            raise Refused(f"`{key.value}` is empty inside a flow mapping")
        writer = self._writer(value)
        if isinstance(value, dict):
            column = key.start_mark.column + writer.indent
            lines = writer.lines(value, column)
        else:
            column = key.start_mark.column + writer.list_indent
            lines = writer.items(value, column)
        return self._lines_after(child.end_mark.index, column, lines)

    def _neighbour(
        self, node: yaml.MappingNode, new: str, removed: Container[int]
    ) -> tuple[YamlNode, int | None]:
        """The key after whose value new lines go, and where that value ends; no end: before the first key.

        The latter is for a mapping that ends with a block scalar which takes everything behind it for its own.
        """
        preferred = self._style.neighbours.get(new, ())
        own = pairs(node) if preferred else {}
        candidates = [own[name] for name in preferred if name in own]
        if isinstance(preferred, frozenset):
            candidates.sort(key=lambda pair: pair[0].start_mark.index, reverse=True)
        for key, value in (*candidates, *reversed(node.value)):
            if (end := self._place_after(key, value, removed)) is not None:
                return key, end
        key = node.value[0][0]
        if (
            id(key) not in removed
            and not self._text[self._line_start(key) : key.start_mark.index].strip()
        ):
            return key, None
        raise Refused(f"there is no line after which `{new}` could be added")

    def _place_after(self, key: YamlNode, value: YamlNode, removed: Container[int]) -> int | None:
        """Where a value ends; None where no line can be put after it."""
        end = self._content_end(key, value)
        if end is None or id(key) in removed:
            return None
        if not _BEFORE_KEY.fullmatch(self._text, self._line_start(key), key.start_mark.index):
            return None
        last = last_scalar(value)
        if isinstance(last, yaml.ScalarNode) and last.style in ("|", ">"):
            header = self._text[last.start_mark.index : end].split("\n", 1)[0]
            if "+" in header.partition("#")[0] or self._text.find("\n", end) < 0:
                return None  # blank lines behind it, or the missing newline, are part of its value
        return end

    # --- new items ---------------------------------------------------------------------------------------------

    def appending(
        self, node: yaml.SequenceNode, key: YamlNode | None, items: list[Any]
    ) -> Sequence[Edit | Lines]:
        """More items at the end of a list, in the form of the list."""
        if node.flow_style:
            last = (node.value[-1],) * 2 if node.value else None
            return self._flow_growth(node, "[", last, self._flow_items(key, node, items))
        # The first dash; an anchor or a tag may be before it.
        dash = self._opening(node, "-")
        if any(item.start_mark.index <= dash for item in node.value[-1:]):
            raise Refused("the list ends with an alias")
        end = self._content_end(node.value[-2] if len(node.value) > 1 else None, node.value[-1])
        if end is None:
            raise Refused("the end of the list is not clear")
        column = dash - self._text.rfind("\n", 0, dash) - 1
        lines = self._lines_after(end, column, self._writer(items).items(items, column))
        return [*self._closing(last_scalar(node), end), lines]

    def _closing(self, last: YamlNode, end: int) -> list[Edit]:
        """What keeps the value of a block scalar when lines follow it.

        If the file ends in it without a newline, its value has none either: `|` becomes `|-`.
        """
        if not isinstance(last, yaml.ScalarNode) or last.style not in ("|", ">"):
            return []
        indicators = _BLOCK_INDICATORS.match(self._text, self._scalar_slice(last)[0])
        assert indicators is not None
        if self._text.find("\n", end) < 0:
            strip = re.sub("[-+]", "", indicators[1]) + "-"
            return [Edit(*indicators.span(1), strip)] if strip != indicators[1] else []
        if "+" in indicators[1]:
            raise Refused(
                "the list ends with a block scalar that keeps the blank lines after it (`+`)"
            )
        return []

    def _flow_pairs(self, key: YamlNode | None, node: YamlNode, tree: dict[str, Any]) -> FlowTexts:
        """New keys of a flow mapping as text."""
        quote, style, writer = _is_json(key, node), self._json, self._plain_writer
        if quote and style is not None:
            return lambda indent: [style.pair(name, value, indent) for name, value in tree.items()]
        return lambda indent: [
            writer.flow({name: value}, quote=quote)[1:-1] for name, value in tree.items()
        ]

    def _flow_items(self, key: YamlNode | None, node: YamlNode, items: list[Any]) -> FlowTexts:
        quote, style, writer = _is_json(key, node), self._json, self._plain_writer
        if quote and style is not None:
            return lambda indent: [style.text(item, indent) for item in items]
        return lambda indent: [writer.flow(item, quote=quote) for item in items]

    def _flow_growth(
        self,
        node: yaml.CollectionNode,
        bracket: str,
        last: tuple[YamlNode, YamlNode] | None,
        texts: FlowTexts,
    ) -> list[Edit]:
        """New items or keys at the end of a flow collection; `last` is where its last one begins and ends."""
        text, close = self._text, node.end_mark.index - 1
        start = self._opening(node, bracket)
        comma = ", " if self._json is None else self._json.comma
        if last is None:
            blank = not text[start + 1 : close].strip()
            if self._json is not None and self._json.unit and blank:
                line = text[self._line_start(node) :]
                gap = self._newline + line[: len(line) - len(line.lstrip(" \t"))]
                inner = gap + self._json.unit
                new = texts(inner[len(self._newline) :])
                return [Edit(start + 1, close, ",".join(inner + item for item in new) + gap)]
            return [Edit(start + 1, close if blank else start + 1, comma.join(texts(None)))]
        first, value = last
        end = self._content_end(first if first is not value else None, value)
        tail = None if end is None else _FLOW_TAIL.fullmatch(text, end, close)
        if first.start_mark.index <= start or end is None or tail is None:
            raise Refused(f"the end of the {'list' if bracket == '[' else 'mapping'} is not clear")
        before = text[self._line_start(first) : first.start_mark.index]
        if before.strip():
            return [Edit(end, end, "".join(f"{comma}{item}" for item in texts(None)))]
        # A collection on one line is followed by one on one line.
        is_short = (
            isinstance(value, yaml.CollectionNode)
            and value.value
            and "\n" not in text[value.start_mark.index : end]
        )
        new = texts(None if is_short else before)
        # One item per line: the new ones too, after a comment behind the last one; a trailing comma stays.
        gap = self._newline + before
        behind = tail.end(1) if tail[1] else end
        place = text.find("\n", behind, close)
        place = behind if place < 0 else place - text.startswith("\r\n", place - 1)
        if tail[1]:
            return [Edit(place, place, "".join(f"{gap}{item}," for item in new))]
        return [Edit(end, end, ","), Edit(place, place, ",".join(gap + item for item in new))]

    # --- finding places ----------------------------------------------------------------------------------------

    def _line_start(self, node: YamlNode) -> int:
        return self._text.rfind("\n", 0, node.start_mark.index) + 1

    def _comments_above(self, key: YamlNode) -> int:
        """Where the line of a key begins, or the comments of its indent right above it."""
        start, mark = self._line_start(key), " " * key.start_mark.column + "#"
        while start and self._text.startswith(
            mark, above := self._text.rfind("\n", 0, start - 1) + 1
        ):
            start = above
        return start

    def _opening(self, node: YamlNode, bracket: str) -> int:
        """Where the bracket or first dash of a collection is, after its anchor and tag."""
        match = _PROPERTIES.match(self._text, node.start_mark.index)
        start = match.end() if match else node.start_mark.index
        if self._text[start : start + 1] != bracket:
            raise Refused(
                "a collection without brackets inside a flow collection, or with a comment before it"
            )
        return start

    def _content_end(self, before: YamlNode | None, value: YamlNode) -> int | None:
        """Where the last character of a value is; None where it is not clear. `before` is its key or the item before.

        An alias has the marks of its anchor, which is before.
        """
        start = value.start_mark.index
        if before is not None and start < before.end_mark.index:
            alias = _ALIAS.match(self._text, before.end_mark.index)
            return alias.end() if alias else None
        if isinstance(value, yaml.ScalarNode):
            if value.style in ("|", ">"):
                return int(start + len(self._text[start : value.end_mark.index].rstrip()))
            return int(value.end_mark.index)
        if not isinstance(value, yaml.CollectionNode) or value.flow_style or not value.value:
            return int(value.end_mark.index)
        if isinstance(value, yaml.MappingNode):
            return self._content_end(*value.value[-1])
        return self._content_end(before, value.value[-1])

    def _scalar_slice(self, node: yaml.ScalarNode) -> tuple[int, int]:
        """Where a scalar is, without its anchor and tag and without the newlines after a block scalar."""
        start, end = node.start_mark.index, node.end_mark.index
        match = _PROPERTIES.match(self._text, start, end)
        start = match.end() if match else start
        if node.style in ("|", ">"):
            end = start + len(self._text[start:end].rstrip())
        return start, end

    # --- the style of the file ---------------------------------------------------------------------------------

    def _lines_after(self, end: int, column: int, lines: list[str]) -> Lines:
        body = self._newline.join(lines) + self._newline
        line_end = self._text.find("\n", end)
        # Comments further in are about what is before them.
        while (
            line_end >= 0
            and (comment := _COMMENT.match(self._text, line_end + 1))
            and len(comment[1]) > column
        ):
            line_end = self._text.find("\n", line_end + 1)
        if line_end < 0:
            size = len(self._text)
            return Lines(Edit(size, size, self._newline + body.removesuffix(self._newline)), column)
        return Lines(Edit(line_end + 1, line_end + 1, body), column)

    @cached_property
    def _newline(self) -> str:
        return "\r\n" if "\r\n" in self._text else "\n"

    @cached_property
    def _json(self) -> JsonStyle | None:
        return JsonStyle.of(self._text, self._source.documents[0], self._newline)

    @cached_property
    def _plain_writer(self) -> Writer:
        """For scalars and flow collections, which no indent matters to."""
        return Writer(self._style)

    def _writer(self, value: Any) -> Writer:
        return self._list_writer if _has_list(value) else self._mapping_writer

    @cached_property
    def _mapping_writer(self) -> Writer:
        return writer_of(self._style, self._indent, 0)

    @cached_property
    def _list_writer(self) -> Writer:
        """Lists have to be looked for to know their indent."""
        return writer_of(self._style, self._indent, self._list_indent())

    @cached_property
    def _indent(self) -> int:
        """The blanks by which this file indents a mapping in a mapping."""
        for root in self._source.documents:
            if isinstance(root, yaml.MappingNode) and not root.flow_style:
                for key, value in root.value:
                    if isinstance(value, yaml.MappingNode) and not value.flow_style and value.value:
                        step = value.start_mark.column - key.start_mark.column
                        if value.start_mark.line > key.start_mark.line and 1 <= step <= 8:
                            return int(step)
        return 2

    def _list_indent(self) -> int:
        """The blanks by which this file indents the dashes of a list below their key: most often none or two."""
        for node in walk(self._source.documents):
            for key, value in node.value if isinstance(node, yaml.MappingNode) else ():
                if isinstance(value, yaml.SequenceNode) and not value.flow_style:
                    step = value.start_mark.column - key.start_mark.column
                    if value.start_mark.line > key.start_mark.line and 0 <= step <= 8:
                        return int(step)
        return 2


def _is_json(key: YamlNode | None, node: YamlNode) -> bool:
    """Whether text in this flow collection is in double quotes, as in JSON: its first text says so, else its key."""
    while isinstance(node, yaml.CollectionNode) and node.value:
        node = node.value[0][0] if isinstance(node, yaml.MappingNode) else node.value[0]
    if isinstance(node, yaml.ScalarNode) and node.tag == STR:
        return bool(node.style == '"')
    return isinstance(key, yaml.ScalarNode) and key.style == '"'


def _has_list(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_has_list, value.values()))
    return isinstance(value, list)

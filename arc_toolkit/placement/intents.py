"""What a file says about one of its objects and spot nodes.

    # arc-toolkit: spot=avoid because the NFS server must stay
    apiVersion: apps/v1

or the annotation `arc-toolkit.local/spot: avoid because the NFS server must stay`. `avoid` keeps
`place` away from an object, `allow` lets it place one that is always on.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import Enum

from arc_toolkit.edit.files.plan import Ignores
from arc_toolkit.edit.yaml.nodes import YamlNode, get, text_of

ANNOTATION = "arc-toolkit.local/spot"
_COMMENT = re.compile(r"#[ \t]*arc-toolkit:[ \t]*spot=([^\n]*)")
_INTENT = re.compile(r"(avoid|allow)[ \t]+because[ \t]+(\S.*)")
# Lines to which a comment above an object does not belong.
_BETWEEN = re.compile(r"[ \t]*(?:#.*|---.*)?\r?")


class SpotIntent(Enum):
    AVOID = "avoid"
    ALLOW = "allow"


@dataclass(frozen=True, slots=True)
class Intent:
    spot: SpotIntent
    reason: str


class Intents:
    """The intents in the comments of a text, by the lines that they are about, from 0."""

    def __init__(self, text: str) -> None:
        self.lines: dict[int, Intent] = {}
        # Lines, from 1, of comments that have no effect: without a reason, or with another word.
        self.without_reason: list[int] = []
        for line, subject, words in _comments(text) if "arc-toolkit:" in text else ():
            intent = _intent(words)
            if intent is None:
                self.without_reason.append(line + 1)
            else:
                self.lines[subject] = intent

    def of(self, node: YamlNode, texts: Iterable[YamlNode] = ()) -> Intent | None:
        """That of an object: by its annotation, or by a comment above it or in it.

        Comments in `texts`, which are manifests themselves, are about those.
        """
        value = text_of(get(node, "metadata", "annotations", ANNOTATION))
        if value is not None:
            return _intent(value)
        inner = list(texts)
        for line, intent in self.lines.items():
            if _covers(node, line) and not any(_covers(text, line) for text in inner):
                return intent
        return None


def _covers(node: YamlNode, line: int) -> bool:
    first, last = node.start_mark.line, node.end_mark.line
    return first <= line < last or line == first


def _comments(text: str) -> Iterator[tuple[int, int, str]]:
    """The line of each comment, the line that it is about, and its words."""
    lines = text.split("\n")
    for number, line in enumerate(lines):
        match = _COMMENT.search(line)
        if match is None:
            continue
        subject = number
        if not line[: match.start()].strip():
            while subject < len(lines) - 1 and _BETWEEN.fullmatch(lines[subject]):
                subject += 1
        yield number, subject, match[1]


def _intent(words: str) -> Intent | None:
    match = _INTENT.fullmatch(words.strip())
    return Intent(SpotIntent(match[1]), match[2]) if match else None


def is_avoided(intent: Intent | None) -> bool:
    return intent is not None and intent.spot is SpotIntent.AVOID


def with_intents(ignores: Ignores, text: str) -> Ignores:
    """The ignores of a text, where an intent to avoid spot nodes is one of the setting `spot`."""
    intents = Intents(text)
    lines = dict(ignores.lines)
    for line, intent in intents.lines.items():
        if is_avoided(intent):
            lines[line + 1] = lines.get(line + 1, frozenset()) | {"spot"}
    return replace(
        ignores, lines=lines, without_reason=(*ignores.without_reason, *intents.without_reason)
    )

"""The parts of a foreign text that may be kept: listed words, figures and known shapes.

The message of an event or a container may contain anything that a program printed, secrets
included. So it is not searched for secrets but rebuilt from what is allowed: the words that
Kubernetes, Volcano and Azure use in their messages (data/message_words.txt), numbers and
quantities, names of AKS nodes, and the names that the same object has anyway. Everything else
becomes `***`. Patterns match the result as they match the original, so a better table of signals
can be applied to old records.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache

from arc_toolkit.output.redaction import redact
from arc_toolkit.resources import data_file

LONGEST = 1000
_LONGEST_READ = 20_000
MASK = "***"

# Shapes that are kept whole, each with an example.
_SHAPES = (
    r"(?:aks|ask|k8s)-[a-z0-9]{1,12}-\d{8}-vmss[0-9a-zA-Z]{0,6}",  # aks-gpu-12345678-vmss000001
    # 2026-07-01T10:00:00Z
    r"\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:Z|[+-]\d\d:\d\d)?",
    r"GPU-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}",  # the UUID of a GPU
    r"PCI:[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}",  # NVRM: Xid (PCI:0000:3b:00): 79
    # 61Gi 500m 120s 16000
    r"\d{1,12}(?:\.\d{1,9})?(?:[numkMGTPE]|[KMGTPE]i|[num]?s|min|h|d|B|[kKMG]B)?",
    r"(?:\d{1,4}h)?\d{1,4}m(?:\d{1,4}(?:\.\d{1,9})?s)?",  # 3m12s
    r"[A-Z]{1,4}\d{1,5}",  # codes of AKS and AzureML: NHC2009, E45004
    r"(?:eth|sd[a-z]|nvme|nvidia|md|v|k8s|ipv|tty)\d{0,2}",  # devices and versions
    r"[A-Za-z]",
)
# Names that messages of Kubernetes and the node problem detector have in a fixed place.
_NAME = r"([a-z0-9][a-z0-9.-]{0,62})"
_NAMED = [
    re.compile(
        r"(?:exceeded quota: |for volume \"|webhook \"|plugin type=\"|queue \")"
        rf"{_NAME}(?![\w./+=-])"
    ),
    re.compile(rf"Container {_NAME} (?:was using|exceeded its local)"),
]
_CONDITION = re.compile(r"Node condition ([A-Z][A-Za-z0-9]{2,63}) is now: ")
# Figures after a word for a secret, up to six words or figures later: `password is 839201746512`,
# `--pin 4829104756`, `otp 4 digits: 48291047`. A short one with a unit is an amount: `a container
# with token in its name was using 3104Ki`.
_SECRET_WORD = re.compile(
    r"(?:passw(?:or)?[dt]|passphrase|(?:pass|pin)code|pwd|pin|secret|token|key|credential|otp)s?\b",
    re.IGNORECASE,
)
_AFTER_IT = re.compile(
    r"(?:[^\w\n]{1,8}(?:[A-Za-z_]{1,20}\b|\d+(?![A-Za-z\d])|\d{8,}[A-Za-z]{1,2}\b)){0,7}"
)
_FIGURE = re.compile(r"(?<!\w)\d(?:[\d .,-]*\d)?(?:(?![A-Za-z\d])|(?<=\d{8})[A-Za-z]{1,2}\b)")
_SHAPE = re.compile("|".join(f"(?:{shape})" for shape in _SHAPES))
_PIECE = re.compile(
    rf"(?<![^\W_])(?:{_SHAPES[0]}|{_SHAPES[1]}|{_SHAPES[2]}|{_SHAPES[3]})(?![^\W_])|[^\W_]+"
)
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_REASON = re.compile(r"[A-Za-z][A-Za-z0-9]{0,63}|OutOf[a-z0-9./-]{1,60}")


def allowed_text(text: str, names: Iterable[str] = ()) -> str:
    """The allowed parts of a text. `names`, from other fields of the object, are allowed too."""
    text = _without_secret_figures(redact(text[:_LONGEST_READ]))
    keep = {name for name in names if name and name in text}
    keep.update(name for pattern in _NAMED for name in pattern.findall(text))
    keep.update(filter(_is_reason, _CONDITION.findall(text)))
    named = re.compile(
        "|".join(rf"(?<![\w-]){re.escape(name)}(?![\w-])" for name in sorted(keep, reverse=True))
    )
    parts, at = [], 0
    for match in named.finditer(text) if keep else ():
        parts += [_masked(text[at : match.start()]), match[0]]
        at = match.end()
    return "".join([*parts, _masked(text[at:])])[:LONGEST]


def _without_secret_figures(text: str) -> str:
    for word in reversed(list(_SECRET_WORD.finditer(text))):
        after = _AFTER_IT.match(text, word.end())
        if after and after[0]:
            text = text[: word.end()] + _FIGURE.sub(MASK, after[0]) + text[after.end() :]
    return text


def allowed_reason(text: str) -> str:
    """A reason in CamelCase as it is, even an unknown one; Azure sometimes writes sentences."""
    return (
        text
        if _REASON.fullmatch(text) and (text.startswith("OutOf") or _is_reason(text))
        else allowed_text(text)
    )


def _is_reason(text: str) -> bool:
    """The words of a random string are shorter and its digits more."""
    words = _WORD.findall(text)
    return bool(words) and sum(map(len, words)) >= max(3 * len(words) - 1, len(text) - 4)


def _masked(text: str) -> str:
    """Mask from the first to the last word of each token that is not allowed."""
    return re.sub(r"\S+", _mask_token, text)


def _mask_token(match: re.Match[str]) -> str:
    token = match[0]
    bad = [piece.span() for piece in _PIECE.finditer(token) if not _is_plain(piece[0])]
    return token if not bad else token[: bad[0][0]] + MASK + token[bad[-1][1] :]


def _is_plain(piece: str) -> bool:
    if _SHAPE.fullmatch(piece) or piece.lower() in _words():
        return True
    parts = _WORD.findall(piece)
    return sum(map(len, parts)) == len(piece) and all(part.lower() in _words() for part in parts)


@cache
def _words() -> frozenset[str]:
    lines = data_file("message_words.txt").read_text(encoding="utf-8").split("\n")
    return frozenset(line for line in lines if line and not line.startswith("#"))

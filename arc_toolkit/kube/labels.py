"""Names, labels and selectors by the rules of the API server, and as text."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

# The name of an InstanceType is the name of a custom resource, which the API server holds to a
# DNS-1123 subdomain: `IsDNS1123Subdomain` of k8s.io/apimachinery/pkg/util/validation. Microsoft's
# page on instance types states the same rule (lower-case RFC 1123) and no other limit, so the 63
# characters of a label value do not apply.
MAX_NAME = 253
NO_LABELS: Mapping[str, str] = {}
_PART = r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?"
_NAME = re.compile(rf"{_PART}(?:\.{_PART})*", re.ASCII)
# https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/
_LABEL_VALUE = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?", re.ASCII)
_LABEL_KEY = re.compile(rf"(?:{_NAME.pattern}/)?{_LABEL_VALUE.pattern}", re.ASCII)


def name_problem(name: str) -> str | None:
    """One sentence about why this cannot be the name of an object; None if it can."""
    if len(name) > MAX_NAME:
        return (
            f"{name!r} is not valid in Kubernetes: "
            f"it has {len(name)} characters, and {MAX_NAME} are allowed"
        )
    if _NAME.fullmatch(name):
        return None
    valid = re.sub(r"[^a-z0-9.-]+", "-", name.lower()).strip("-.")
    hint = f"; {valid} would be valid" if _NAME.fullmatch(valid) else ""
    return (
        f"{name!r} is not valid in Kubernetes: use lower-case letters, digits, - and . only{hint}"
    )


def is_namespace(name: str) -> bool:
    """Whether a namespace can have this name: a DNS-1123 label of 63 characters at most."""
    return len(name) <= 63 and re.fullmatch(_PART, name, re.ASCII) is not None


def parse_label(text: str) -> tuple[str, str] | None:
    """`KEY=VALUE` as key and value; None where it is not a label. A value may be empty."""
    key, equals, value = text.partition("=")
    return (key, value) if equals and is_label(key, value) else None


def parse_labels(text: str) -> tuple[tuple[str, str], ...] | None:
    """`KEY=VALUE`, or several of them with commas; None where one is not a label."""
    labels = [parse_label(part) for part in text.split(",")]
    valid = tuple(label for label in labels if label)
    return valid if len(valid) == len(labels) else None


def is_label(key: str, value: str) -> bool:
    """Whether a node can have this label."""
    return bool(_LABEL_KEY.fullmatch(key) and (not value or _LABEL_VALUE.fullmatch(value)))


def matches(selector: Mapping[str, str], labels: Mapping[str, str]) -> bool:
    """Whether a nodeSelector selects these labels; case counts, and an empty one selects all."""
    return all(labels.get(key) == value for key, value in selector.items())


def labels_text(labels: Mapping[str, str]) -> str:
    """`a=b, c=d`."""
    return ", ".join(f"{key}={value}" for key, value in labels.items())


def some_names(names: Sequence[str], most: int = 3) -> str:
    """`a, b, c and 4 more`."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")

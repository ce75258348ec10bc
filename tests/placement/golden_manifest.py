"""What `place --spot require` must make of a manifest, as data: where its pods go onto spot nodes, and where not."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import yaml

from tests.placement.support import TOLERATION, expression, required

Place = tuple[str | int, ...]


@dataclass(frozen=True)
class Golden:
    """One manifest. `crd` is the folder of ../shared/crds that has its kind; empty for kinds of Kubernetes itself."""

    name: str
    text: str
    on: tuple[Place, ...]
    off: tuple[Place, ...] = ()
    crd: str = ""
    kinds: frozenset[str] = frozenset()
    trainer: str | None = None

    def expected(self) -> Any:
        """The document after `--spot require`."""
        document = deepcopy(yaml.safe_load(self.text))
        for place in self.on:
            spec = self.at(document, place)
            spec["tolerations"] = [TOLERATION]
            spec["affinity"] = required(expression())
        for place in self.off:
            self.at(document, place)["affinity"] = required(expression("NotIn"))
        return document

    @staticmethod
    def at(document: Any, place: Place) -> Any:
        for step in place:
            document = document.setdefault(step, {}) if isinstance(step, str) else document[step]
        return document

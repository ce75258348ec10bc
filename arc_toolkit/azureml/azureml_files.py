"""The engine of `patch` and `check` for `batch.run`: each file to the editor of its language."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Protocol

from arc_toolkit.azureml.library import Library
from arc_toolkit.azureml.settings import Settings
from arc_toolkit.azureml.yaml_engine import patch_yaml
from arc_toolkit.edit.files.discover import ENDINGS, Problem, foreign_yaml
from arc_toolkit.edit.files.edits import SkipCause
from arc_toolkit.file_io import is_missing, read_raw
from arc_toolkit.findings import FileResult

if TYPE_CHECKING:
    from arc_toolkit.azureml.python.python_engine import MakePlan

# Standard input has no ending to go by: no YAML mapping has an import at the start of a line.
_PYTHON = re.compile(rb"^(?:from[ \t]+[\w.]+[ \t]+import|import[ \t]+[A-Za-z_])", re.MULTILINE)


class Conversions(Protocol):
    """Older generations to v2, which `migrate` has and this package does not know."""

    def convert_spec(
        self, path: str, data: bytes, settings: Settings, library: Library
    ) -> FileResult | None:
        """The result for a YAML file with something to convert."""

    def plan_code(self, settings: Settings) -> MakePlan | None:
        """The plan of the conversions in code, which comes before that of the settings."""


class AzureMLFiles:
    """Patches AzureML YAML, Python and notebooks in memory."""

    subject = "AzureML jobs, components or pipelines"
    endings = ENDINGS

    def __init__(
        self,
        settings: Settings,
        by_folder: Mapping[str, Settings] | None = None,
        conversions: Conversions | None = None,
    ) -> None:
        self._settings = settings
        self._conversions = conversions
        # The closest folder first: its settings hold for the files below it.
        self._by_folder = sorted(
            (by_folder or {}).items(), key=lambda item: len(item[0]), reverse=True
        )
        self._library = Library(read_raw, is_missing)

    def prepare(self, path: str, data: bytes) -> None:
        self._library.note_uses(path, data)

    def _settings_for(self, path: str) -> Settings:
        if not self._by_folder:
            return self._settings
        place = os.path.abspath(path)
        return next(
            (
                settings
                for folder, settings in self._by_folder
                if place.startswith(os.path.join(folder, ""))
            ),
            self._settings,
        )

    def process(
        self, path: str, data: bytes, *, in_folder: bool, named: bool = False
    ) -> FileResult:
        settings = self._settings_for(path)
        ending = path.rpartition(".")[2].lower()
        is_source = ending == "py" or (path == "-" and _PYTHON.search(data))
        is_notebook = ending == "ipynb" or (
            path == "-" and data.lstrip()[:1] == b"{" and b'"cells"' in data
        )
        if not is_source and not is_notebook:
            result = patch_yaml(path, data, settings, self._library, in_folder)
            if self._conversions is not None and result.skipped is None:
                converted = self._conversions.convert_spec(path, data, settings, self._library)
                return converted or result
            if result.skipped is None or result.skipped.cause is not SkipCause.FOREIGN:
                return result
            return FileResult(
                path, data, skipped=foreign_yaml(path, data, result.skipped.reason, named=named)
            )
        from arc_toolkit.azureml.python.python_engine import patch_notebook, patch_source

        patch = patch_source if is_source else patch_notebook
        convert = self._conversions.plan_code(settings) if self._conversions is not None else None
        return patch(path, data, settings, self._library, convert)

    def finish(self) -> Iterator[Problem]:
        for option, names, known in (
            ("--step", self._settings.steps, self._library.steps),
            ("--kind", self._settings.kinds, self._library.families),
        ):
            for name in (name for name in names if name not in known):
                there = ", ".join(sorted(known)) or "none"
                yield Problem("", f"{option} {name} matches nothing; there are: {there}")

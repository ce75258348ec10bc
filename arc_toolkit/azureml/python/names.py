"""The scopes of a module, and which of its lines may be about AzureML.

`read_names.py` fills this in. What a name *means* for AzureML is decided in `meaning.py`.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from dataclasses import dataclass, field
from functools import cached_property

from arc_toolkit.edit.code.names import CodeScopes, Statement

# Words that a call worth looking at has, and the names that these were imported as.
WORDS = (
    *("command", "parallel_run_function", "sweep", "set_resources", "ParallelRun"),
    *("CommandJob", "SweepJob", "ParallelJob", "ScriptRunConfig", "Step(", "Estimator("),
    *("PyTorch(", "TensorFlow(", "SKLearn("),
)
_NAME_AT_END = re.compile(r"\w*\Z")
_LONGEST_NAME = 100
_RENAMED = re.compile(r"(?:command|parallel_run_function|ParallelRun\w+)[ \t]+as[ \t]+(\w+)")


@dataclass(eq=False)
class Module(CodeScopes):
    """One file or notebook, with the names that make steps in it."""

    # Calls of what makes steps here: `train(`, and `self.train(`.
    makers: set[str] = field(default_factory=set)
    held_makers: set[str] = field(default_factory=set)

    @cached_property
    def _mentions(self) -> dict[int, list[int]]:
        words = [*WORDS, *self.held_makers]
        for source in self.sources:
            if " as " in source.text:
                words += _RENAMED.findall(source.text)
        return {id(source): source.lines_with(words, self.makers) for source in self.sources}

    @cached_property
    def read_steps(self) -> set[str]:
        """Names whose `.outputs` are read somewhere."""
        # An expression for the name and the word together would try every character of the text.
        befores = (
            before for source in self.sources for before in source.text.split(".outputs")[:-1]
        )
        return {
            match[0]
            for before in befores
            if (match := _NAME_AT_END.search(before[-_LONGEST_NAME:]))
        }

    def mentions(self, statement: Statement) -> bool:
        """Whether a word of interest is in the lines of a statement: only then its expressions are walked."""
        lines = self._mentions[id(statement.source)]
        index = bisect_left(lines, statement.stmt.lineno)
        return index < len(lines) and lines[index] <= (
            statement.stmt.end_lineno or statement.stmt.lineno
        )

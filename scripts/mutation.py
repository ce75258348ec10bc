"""Mutation: one place of the code is broken at a time, and a fast test has to notice.

scripts/mutate arc_toolkit/edit/yaml --sample 40      40 random mutants; another --seed, others
scripts/mutate arc_toolkit/data/signals.csv           every row of a table is deleted once
scripts/mutate arc_toolkit/batch.py --tests tests/azureml tests/cli

The tests are those of the folder that mirrors the package (`arc_toolkit/edit/yaml/x.py`:
`tests/edit`), the ones that name the module first, until one fails. They run in a temporary copy of
the tree. A mutant without a failing test is a survivor: it is printed as a diff, and the exit code
is 1. A survivor is not always a fault (`i < n` and `i != n` may be the same); it is a question to a
person. Mutants that were noticed are remembered in build/mutation.jsonl.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
RESULTS = TOP / "build" / "mutation.jsonl"
FAST = "not slow and not cluster and not real"
LEFT_OUT = shutil.ignore_patterns(
    ".git", ".venv", "build", "dist", "site", "__pycache__", ".*_cache", ".hypothesis"
)
OTHER_OPERATOR = {
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.In: "not in",
    ast.NotIn: "in",
    ast.Is: "is not",
    ast.IsNot: "is",
}


@dataclass(frozen=True, slots=True)
class Mutant:
    """One file with one change."""

    path: str
    line: int
    before: str
    after: str

    @property
    def key(self) -> str:
        return hashlib.sha256(f"{self.path}\0{self.after}".encode()).hexdigest()[:16]

    def diff(self) -> str:
        lines = difflib.unified_diff(
            self.before.splitlines(), self.after.splitlines(), self.path, self.path, "", "", 1, ""
        )
        return "\n".join(lines)


# --- making mutants -----------------------------------------------------------------------------


def mutants_of(path: str) -> Iterator[Mutant]:
    """All mutants of a Python file or a table."""
    text = (TOP / path).read_text(encoding="utf-8")
    changes = _without_rows(text) if path.endswith(".csv") else _changed_code(text)
    for line, after in changes:
        if after != text:
            yield Mutant(path, line, text, after)


def _without_rows(text: str) -> Iterator[tuple[int, str]]:
    """Each row of a table deleted once; the first row is its header, and `#` begins a comment."""
    lines = text.splitlines(keepends=True)
    rows = [i for i, line in enumerate(lines) if line.strip() and not line.startswith("#")]
    for index in rows[1:]:
        yield index + 1, "".join(lines[:index] + lines[index + 1 :])


def _changed_code(text: str) -> Iterator[tuple[int, str]]:
    """(line, new text) for every place that can be broken.

    >>> [after for _, after in _changed_code("if a < 1: f()")]
    ['if not (a < 1): f()', 'if a <= 1: f()', 'if a < 2: f()', 'if a < 1: pass']
    """
    source = text.encode()
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))

    for node in _executed_nodes(ast.parse(text)):
        for part, new in _changes(node):
            assert part.end_lineno is not None
            assert part.end_col_offset is not None
            start = starts[part.lineno - 1] + part.col_offset
            end = starts[part.end_lineno - 1] + part.end_col_offset
            after = source[:start] + new.encode() + source[end:]
            try:
                ast.parse(after)
            except SyntaxError:  # inside an f-string
                continue
            yield part.lineno, after.decode()


def _executed_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Every node but annotations, docstrings and imports for types, in the order of the text."""
    yield node
    for name, field in ast.iter_fields(node):
        for child in field if isinstance(field, list) else [field]:
            if not isinstance(child, ast.AST) or name in ("annotation", "returns"):
                continue
            is_text = isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant)
            is_for_types = isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)
            if not is_text and not is_for_types:
                yield from _executed_nodes(child)


def _changes(node: ast.AST) -> Iterator[tuple[ast.expr | ast.stmt, str]]:
    """(part of the node, its new text) for each way to break it."""
    match node:
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
            yield test, f"not ({ast.unparse(test)})"
        case ast.comprehension(ifs=conditions):
            for condition in conditions:
                yield condition, f"not ({ast.unparse(condition)})"
        case ast.Compare(left=left, ops=[operator], comparators=[right]):
            sign = OTHER_OPERATOR[type(operator)]
            yield node, f"{ast.unparse(left)} {sign} {ast.unparse(right)}"
        case ast.BoolOp(op=operator, values=values):
            word = " or " if isinstance(operator, ast.And) else " and "
            yield node, word.join(f"({ast.unparse(value)})" for value in values)
        case ast.Constant(value=bool() as value):
            yield node, str(not value)
        case ast.Constant(value=int() as value):
            yield node, str(value + 1)
        case ast.Return(value=ast.Constant(value=bool() | None)):
            pass  # a boolean is changed as a constant
        case ast.Return(value=ast.expr() as value):
            yield value, "None"
            if isinstance(value, ast.Compare | ast.BoolOp | ast.UnaryOp):
                yield value, f"not ({ast.unparse(value)})"
        case ast.Expr() | ast.AugAssign() | ast.Raise() | ast.Continue() | ast.Break():
            yield node, "pass"


# --- running tests ------------------------------------------------------------------------------


def tests_for(tree: Path, path: str, folders: list[str]) -> list[str]:
    """The files of tests for a module, those that name it first."""
    if not folders:
        folder = Path("tests", *Path(path).parts[1:2])
        if not (tree / folder).is_dir():
            sys.exit(f"{path}: no folder {folder}; name the tests with --tests")
        folders = [str(folder)]
    files = [
        file
        for folder in folders
        for file in (
            [tree / folder] if folder.endswith(".py") else (tree / folder).rglob("test_*.py")
        )
    ]
    module = ".".join(Path(path).with_suffix("").parts)
    package, _, name = module.rpartition(".")

    def rank(file: Path) -> tuple[int, str]:
        text = file.read_text(encoding="utf-8")
        return (0 if module in text else 1 if f"{package} import {name}" in text else 2), str(file)

    return [str(file.relative_to(tree)) for file in sorted(files, key=rank)]


def run_tests(tree: Path, tests: list[str], seconds: float | None) -> bool:
    """Whether all tests pass; a run without an end counts as a failure."""
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-m", FAST]
    environment = {**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        result = subprocess.run(
            [*command, *tests], cwd=tree, env=environment, capture_output=True, timeout=seconds
        )
    except subprocess.TimeoutExpired:
        return False
    return result.returncode == 0


def noticed_before() -> set[str]:
    if not RESULTS.exists():
        return set()
    return {json.loads(line)["key"] for line in RESULTS.read_text().splitlines()}


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="scripts/mutate", description=__doc__.partition("\n")[0])
    parser.add_argument("paths", nargs="+", metavar="PATH", help="modules, folders or CSV tables")
    parser.add_argument("--sample", type=int, metavar="N", help="number of mutants (default: all)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the sample")
    parser.add_argument("--tests", nargs="+", default=[], metavar="PATH", help="folders or files")
    options = parser.parse_args(arguments)

    files = []
    for name in options.paths:
        path = (TOP / name).resolve()
        files += sorted(path.rglob("*.py")) if path.is_dir() else [path]
    mutants = [mutant for file in files for mutant in mutants_of(str(file.relative_to(TOP)))]
    if options.sample is not None and options.sample < len(mutants):
        mutants = random.Random(options.seed).sample(mutants, options.sample)
    noticed, survivors = noticed_before(), 0
    RESULTS.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, RESULTS.open("a") as results:
        tree = Path(shutil.copytree(TOP, Path(folder, "tree"), symlinks=True, ignore=LEFT_OUT))
        limits: dict[tuple[str, ...], float] = {}
        for number, mutant in enumerate(mutants, 1):
            tests = tests_for(tree, mutant.path, options.tests)
            if tuple(sorted(tests)) not in limits:
                start = time.monotonic()
                if not run_tests(tree, tests, None):
                    sys.exit(f"the tests fail without a mutant: {' '.join(tests)}")
                limits[tuple(sorted(tests))] = 60 + 4 * (time.monotonic() - start)
            if mutant.key not in noticed:
                (tree / mutant.path).write_text(mutant.after, encoding="utf-8")
                survives = run_tests(tree, tests, limits[tuple(sorted(tests))])
                (tree / mutant.path).write_text(mutant.before, encoding="utf-8")
                if survives:
                    survivors += 1
                    print(f"survivor {survivors}, {mutant.path}:{mutant.line}\n{mutant.diff()}\n")
                else:
                    results.write(json.dumps({"key": mutant.key}) + "\n")
                    results.flush()
            print(f"\r{number}/{len(mutants)}, {survivors} survive", end="", file=sys.stderr)
    print(f"\n{len(mutants)} mutants, {survivors} survive")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

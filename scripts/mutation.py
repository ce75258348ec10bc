"""Mutation: every rule, row of a fact table and proof is broken once; some fast test has to fail each time.

The mutants are in scripts/mutants.py. Each is made in a temporary copy of the tree, where the smallest set of tests
that should notice it runs until the first failure. A mutant that no test notices is a survivor, and exit code 1.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
RESULTS = TOP / "build" / "mutation.jsonl"
FAST = "not slow and not cluster and not real"
# A mutant that loops forever is noticed by this.
TIMEOUT_SECONDS = 600
LEFT_OUT = shutil.ignore_patterns(".git", ".venv", "build", "dist", "__pycache__", ".*_cache", ".hypothesis")


class MutationError(Exception):
    """A mutant that cannot be made: its text or table is no longer in the source."""


@dataclass(frozen=True)
class Mutant:
    """One change of one file, and the tests that should notice it, most likely first."""

    group: str
    name: str
    path: str
    text: str
    tests: tuple[str, ...]

    @property
    def shown(self) -> str:
        return f"{self.group}: {self.name}"


# --- making mutants ------------------------------------------------------------------------------------------------


def read(path: str) -> str:
    try:
        return (TOP / path).read_text(encoding="utf-8")
    except OSError as error:
        raise MutationError(f"{path}: {error.strerror}") from None


def replaced(path: str, old: str, new: str) -> str:
    """The text of a file with one passage changed, which has to be there exactly once."""
    text = read(path)
    if text.count(old) != 1:
        raise MutationError(f"{path} has this {text.count(old)} times, not once:\n{old}")
    return text.replace(old, new)


def csv_rows(path: str) -> Iterator[tuple[str, str]]:
    """(the row, the file without it) for each row of a table with a header."""
    lines = read(path).splitlines(keepends=True)
    rows = [index for index, line in enumerate(lines) if line.strip() and not line.startswith("#")][1:]
    for index in rows:
        yield lines[index].strip(), "".join(lines[:index] + lines[index + 1 :])


def csv_field(path: str, column: str, other: str) -> Iterator[tuple[str, str]]:
    """(the row, the file with another value in one of its columns) for each row that has not that value yet."""
    import csv
    import io

    lines = read(path).splitlines(keepends=True)
    rows = [index for index, line in enumerate(lines) if line.strip() and not line.startswith("#")]
    position = next(csv.reader([lines[rows[0]]])).index(column)
    for index in rows[1:]:
        fields = next(csv.reader([lines[index]]))
        if fields[position] != other:
            fields[position] = other
            line = io.StringIO()
            csv.writer(line, lineterminator="\n").writerow(fields)
            yield lines[index].strip(), "".join([*lines[:index], line.getvalue(), *lines[index + 1 :]])


class Module:
    """A Python file whose tables and functions are changed by their names."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.source = read(path)
        self._bytes = self.source.encode()
        self._lines = [0]
        for line in self._bytes.splitlines(keepends=True):
            self._lines.append(self._lines[-1] + len(line))
        self.tree = ast.parse(self.source)

    def span(self, node: ast.AST) -> tuple[int, int]:
        """Where a node is, in bytes."""
        assert isinstance(node, ast.expr | ast.stmt)
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self._lines[node.lineno - 1] + node.col_offset, self._lines[
            node.end_lineno - 1
        ] + node.end_col_offset

    def written(self, node: ast.AST) -> str:
        start, end = self.span(node)
        return " ".join(self._bytes[start:end].decode().split())

    def with_span(self, start: int, end: int, text: str) -> str:
        return (self._bytes[:start] + text.encode() + self._bytes[end:]).decode()

    def with_node(self, node: ast.AST, text: str) -> str:
        return self.with_span(*self.span(node), text)

    def constant(self, name: str) -> ast.expr:
        for node in self.tree.body:
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            named = any(isinstance(target, ast.Name) and target.id == name for target in targets)
            if named and (value := getattr(node, "value", None)) is not None:
                assert isinstance(value, ast.expr)
                return value
        raise MutationError(f"{self.path} has no {name}")

    def rows(self, name: str) -> list[tuple[ast.expr, ast.expr]]:
        """(first node, last node) of each entry of the table `name`, also inside calls and comprehensions."""
        found: list[tuple[ast.expr, ast.expr]] = []
        waiting: list[ast.AST] = [self.constant(name)]
        while waiting:
            node = waiting.pop(0)
            if isinstance(node, ast.Dict):
                found += [(key or value, value) for key, value in zip(node.keys, node.values, strict=True)]
            elif isinstance(node, ast.Tuple | ast.List | ast.Set):
                found += [(item, item) for item in node.elts]
            elif isinstance(node, ast.DictComp | ast.SetComp | ast.ListComp | ast.GeneratorExp):
                waiting.append(node.generators[0].iter)
            else:
                waiting += ast.iter_child_nodes(node)
        if not found:
            raise MutationError(f"{self.path}: {name} is not a table")
        return found

    def without_each(self, name: str) -> Iterator[tuple[str, str]]:
        """(an entry of a table, the file without it)"""
        rows = self.rows(name)
        for index, (first, last) in enumerate(rows):
            start, end = self.span(first)[0], self.span(last)[1]
            rest = self._bytes[end:]
            blank = len(rest) - len(rest.lstrip())
            if rest[blank : blank + 1] == b",":
                end += blank + 1
            kept = ""
            if len(rows) == 2:  # (a, b) becomes (a,), which is still a tuple
                start, end = self.span(rows[0][0])[0], self.span(rows[1][1])[1]
                other = rows[1 - index]
                kept = self._bytes[self.span(other[0])[0] : self.span(other[1])[1]].decode() + ","
                end += self._bytes[end : end + 1] == b","
            yield self.written(first), self.with_span(start, end, kept)

    def numbers(self, name: str) -> Iterator[tuple[str, str]]:
        """(a number of a constant, the file with one more)"""
        for node in ast.walk(self.constant(name)):
            if isinstance(node, ast.Constant) and isinstance(node.value, int) and not isinstance(node.value, bool):
                yield f"{name} {node.value} + 1", self.with_node(node, repr(node.value + 1))

    def booleans(self, name: str) -> Iterator[tuple[str, str]]:
        """(a row and a boolean of it, the file with it flipped)"""
        for first, last in self.rows(name):
            for node in ast.walk(last):
                if isinstance(node, ast.Constant) and isinstance(node.value, bool):
                    yield (
                        f"{self.written(first)} {node.value} at {node.lineno}:{node.col_offset}",
                        self.with_node(node, repr(not node.value)),
                    )

    def function(self, name: str) -> ast.FunctionDef:
        """A function or, as `Class.method`, a method."""
        body: list[ast.stmt] = self.tree.body
        found: ast.stmt | None = None
        for part in name.split("."):
            found = next((item for item in body if getattr(item, "name", None) == part), None)
            body = getattr(found, "body", [])
        if not isinstance(found, ast.FunctionDef):
            raise MutationError(f"{self.path} has no function {name}")
        return found

    def beginning(self, name: str, statement: str) -> str:
        """The file with a statement before all others of a function."""
        function = self.function(name)
        first = function.body[0]
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and len(function.body) > 1:
            first = function.body[1]
        start = self.span(first)[0]
        return self.with_span(start, start, f"{statement}\n{' ' * first.col_offset}")


# --- running them --------------------------------------------------------------------------------------------------


def digest(mutant: Mutant, tree: str) -> str:
    text = json.dumps([mutant.path, mutant.text, mutant.tests, tree])
    return hashlib.sha256(text.encode()).hexdigest()


def tree_digest() -> str:
    """Of all that a test can see: a result holds for one state of the project."""
    total = hashlib.sha256()
    for folder in ("arc_toolkit", "tests", "templates", "scripts"):
        for path in sorted((TOP / folder).rglob("*")):
            if path.is_file() and path.suffix != ".pyc":
                total.update(str(path.relative_to(TOP)).encode() + path.read_bytes())
    return total.hexdigest()


class Copy:
    """A copy of the project in which one file is changed at a time."""

    def __init__(self, folder: Path) -> None:
        self.top = folder / "arc-toolkit"
        shutil.copytree(TOP, self.top, ignore=LEFT_OUT, symlinks=True)
        self._clock = int(time.time())
        # Deterministic examples, and no bytecode of another state.
        self._environment = {**os.environ, "PYTHONPATH": str(self.top), "CI": "1", "NO_COLOR": "1"}
        self._environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # half of the time of a short run

    def test(self, tests: Iterable[str]) -> tuple[int, str]:
        """The exit code of pytest, and the test that failed first."""
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-m", FAST, *tests]
        try:
            done = subprocess.run(
                command,
                cwd=self.top,
                env=self._environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=TIMEOUT_SECONDS,
            )
        except subprocess.TimeoutExpired:
            return 1, "(timeout)"
        failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
        return done.returncode, failed[0].split(" - ")[0] if failed else done.stdout[-300:]

    def run(self, mutant: Mutant) -> tuple[int, str]:
        path = self.top / mutant.path
        before = path.read_bytes()
        try:
            self._write(path, mutant.text.encode())
            return self.test(mutant.tests)
        finally:
            self._write(path, before)

    def _write(self, path: Path, data: bytes) -> None:
        # Python takes bytecode for current by size and second: every state gets a second of its own.
        self._clock += 2
        path.write_bytes(data)
        os.utime(path, (self._clock, self._clock))


def kept_results() -> dict[str, dict[str, str]]:
    try:
        lines = RESULTS.read_text(encoding="utf-8").splitlines()
    except OSError:
        return {}
    return {row["digest"]: row for row in map(json.loads, lines)}


def run_all(mutants: list[Mutant], jobs: int) -> dict[Mutant, str]:
    """Each mutant with the test that noticed it, or an empty text."""
    tree = tree_digest()
    kept = kept_results()
    results = {mutant: kept[key]["noticed"] for mutant in mutants if (key := digest(mutant, tree)) in kept}
    waiting: queue.SimpleQueue[Mutant] = queue.SimpleQueue()
    for mutant in mutants:
        if mutant not in results:
            waiting.put(mutant)
    if waiting.empty():
        return results
    RESULTS.parent.mkdir(exist_ok=True)
    lock = threading.Lock()
    problems: list[str] = []

    def work(folder: Path) -> None:
        copy = Copy(folder)
        while not problems:
            try:
                mutant = waiting.get_nowait()
            except queue.Empty:
                return
            started = time.monotonic()
            code, noticed = copy.run(mutant)
            if code not in (0, 1, 2):
                problems.append(f"{mutant.shown}: pytest ended with {code}: {noticed}")
                return
            noticed = noticed if code else ""
            with lock, RESULTS.open("a", encoding="utf-8") as stream:
                results[mutant] = noticed
                row = {"digest": digest(mutant, tree), "mutant": mutant.shown, "noticed": noticed}
                stream.write(json.dumps(row) + "\n")
                took = f"{time.monotonic() - started:.1f} s"
                state = f"noticed by {noticed}" if noticed else "SURVIVED"
                print(f"[{len(results)}/{len(mutants)}] {mutant.shown}: {state} ({took})", file=sys.stderr)

    with tempfile.TemporaryDirectory(prefix="arc-toolkit-mutation-") as folder:
        check_baseline(Path(folder) / "baseline", mutants)
        threads = [threading.Thread(target=work, args=(Path(folder) / str(number),)) for number in range(jobs)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    if problems:
        raise MutationError(problems[0])
    return results


def check_baseline(folder: Path, mutants: Iterable[Mutant]) -> None:
    """Without a mutant all these tests pass: else every mutant would count as noticed."""
    tests = sorted({test for mutant in mutants for test in mutant.tests})
    code, failed = Copy(folder).test(tests)
    shutil.rmtree(folder)
    if code:
        raise MutationError(f"the tests fail without a mutant: {failed}")


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/mutate", description="Show that the tests can fail.")
    parser.add_argument("--list", action="store_true", help="list the mutants and run nothing")
    parser.add_argument("--only", metavar="TEXT", default="", help="mutants with this in their name")
    parser.add_argument("--jobs", type=int, default=2, help="how many run at the same time (default: 2)")
    parser.add_argument("--fresh", action="store_true", help="forget the results of an earlier run")
    args = parser.parse_args()
    from scripts.mutants import all_mutants

    try:
        mutants = [mutant for mutant in all_mutants() if args.only in mutant.shown]
        if args.list:
            print("\n".join(mutant.shown for mutant in mutants))
            return 0
        if args.fresh:
            RESULTS.unlink(missing_ok=True)
        results = run_all(mutants, args.jobs)
    except MutationError as error:
        print(f"scripts/mutate: {error}", file=sys.stderr)
        return 2
    total, survived = Counter(mutant.group for mutant in mutants), Counter[str]()
    for mutant in mutants:
        if not results[mutant]:
            survived[mutant.group] += 1
            print(f"survived: {mutant.shown} ({mutant.path})")
    width = max(map(len, total), default=5)
    print(f"{'GROUP':<{width}}  MUTANTS  SURVIVED")
    for group, count in total.items():
        print(f"{group:<{width}}  {count:>7}  {survived[group]:>8}")
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main())

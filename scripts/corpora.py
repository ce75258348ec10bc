"""Run `check` and `patch` over public repositories, prove what must hold, and write what came out for a review.

    .venv/bin/python -m scripts.corpora                        # ../shared/corpus, compared with the committed snapshot
    .venv/bin/python -m scripts.corpora --update               # the same, and the snapshot is written anew
    .venv/bin/python -m scripts.corpora --root DIR --output F  # each repository below, checked out at DIR/NAME

Every command runs as a process of its own, in a copy. What must hold is in `faults_of`: no crash; no file unreadable
that PyYAML or `ast` reads; the printed diff applies with `git apply` and gives what `--write` gives; a second run
changes nothing and has the same exit code; only values that were asked for differ. The snapshot has findings per rule
and file, changed files, and refused and skipped files with their reasons.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent
CORPUS = ROOT.parent / "shared" / "corpus"
SNAPSHOT = ROOT / "tests" / "azureml" / "data" / "corpora.txt"


@dataclass(frozen=True)
class Repository:
    """A public repository at one commit, and the folder of it that is used."""

    name: str
    origin: str
    commit: str
    licence: str
    folder: str = "."


# All on GitHub; checked out by whoever runs this, since nothing of them is part of this project.
REPOSITORIES = (
    Repository(
        "azureml-examples",
        "Azure/azureml-examples",
        "085cd6ea399038c1e07843acff811f34261c0887",
        "MIT",
    ),
    Repository(
        "azureml-assets", "Azure/azureml-assets", "4b41f8ccbc01cf492767adc586ce1661c54c340a", "MIT"
    ),
    Repository(
        "azure-sdk-for-python",
        "Azure/azure-sdk-for-python",
        "3f504a1e154262cce8514a37cd51338aa94b73b2",
        "MIT",
        "sdk/ml/azure-ai-ml/tests",
    ),
    Repository(
        "MachineLearningNotebooks",
        "Azure/MachineLearningNotebooks",
        "f1aff553c475be391acb2e5d4e4094867b5963c0",
        "MIT",
    ),
    Repository(
        "AML-Kubernetes", "Azure/AML-Kubernetes", "b533ee43ba7c8641c61c8b03ae4c674b0f711451", "MIT"
    ),
    Repository(
        "lightgbm-benchmark",
        "microsoft/lightgbm-benchmark",
        "3d124a7591e580b5e39e9078cf83b711205f27dc",
        "MIT",
    ),
    Repository(
        "MLOpsPython", "microsoft/MLOpsPython", "98a610ff1afe29d026fcdffcb8fdc39edbef0f67", "MIT"
    ),
    Repository("mlops-v2", "Azure/mlops-v2", "2d997c6a2b2fd396ee09a8cc3c4b9d172668923d", "MIT"),
    Repository(
        "mlops-v2-ado-demo",
        "Azure/mlops-v2-ado-demo",
        "0dee9dc65156622563eda090377e8677ce7f0c42",
        "MIT",
    ),
    Repository(
        "mlops-project-template",
        "Azure/mlops-project-template",
        "1252e0c96e63d4df1687060c9bfdd722555ea48c",
        "MIT",
    ),
    Repository(
        "dstoolkit-mlops-v2",
        "microsoft/dstoolkit-mlops-v2",
        "3aa301ab938d92f5734c53a86cb9d80af166a8a2",
        "MIT",
    ),
    Repository(
        "solution-accelerator-many-models",
        "microsoft/solution-accelerator-many-models",
        "89ea0352c1ec788016f299d58544a8cd0c0d1a4e",
        "MIT",
    ),
)

_TYPE = ("--instance-type", "32cpu128g")
VARIANTS = {
    "check": ("check",),
    "settings": ("patch", *_TYPE, "--instance-count", "2", "--compute", "aks", "--threads", "auto"),
    "expose": ("patch", *_TYPE, "--expose-parameters"),
    "to v2": ("patch", *_TYPE, "--sweep-to-v2", "--prs-to-v2"),
}
# Keys that a variant may change, or change something below of. Exposed parameters are inputs, and may move an inline
# job to a component file.
_SET = {
    "resources",
    "instance_type",
    "instance_count",
    "node_count",
    "compute",
    "default_compute",
    "settings",
}
_THREADS = {"environment_variables", "command", "AMLARC_PRESTEP", "AMLARC_RESTEP"}
_MOVED = {"inputs", "outputs", "component", "type", "code", "environment", "distribution"}
MAY_CHANGE = {
    "check": set[str](),
    "settings": _SET | _THREADS | {"worker_count"},
    "expose": _SET | _THREADS | _MOVED,
    "to v2": _SET | _THREADS,
}
# The files that `patch` may write.
_CHANGED = (".yml", ".yaml", ".json", ".py", ".ipynb")
# Larger files and pictures cannot matter.
_SMALL = 4 * 1024 * 1024
_PICTURES = (
    ".png",
    ".jpg",
    ".jpeg",
    ".gif",
    ".svg",
    ".csv",
    ".parquet",
    ".onnx",
    ".pkl",
    ".zip",
    ".gz",
)


@dataclass
class Ran:
    """One run of the command in a folder."""

    code: int
    out: str
    err: str

    @property
    def report(self) -> dict[str, Any]:
        try:
            data = json.loads(self.out)
        except ValueError:
            return {"files": [], "findings": [], "skipped": [], "problems": []}
        assert isinstance(data, dict)
        # `check` changes nothing and has no words for it.
        data["files"] = [
            {"diff": "", "new_files": [], "refused": None, **item} for item in data["files"]
        ]
        return data


@dataclass
class Outcomes:
    """What one variant gave on one repository."""

    lines: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)


def command(folder: Path, *arguments: str) -> Ran:
    words = [sys.executable, "-m", "arc_toolkit", *arguments, "--config", "none", "."]
    # Not as text, which would change the line endings of a diff.
    done = subprocess.run(words, cwd=folder, capture_output=True, check=False)
    return Ran(
        done.returncode,
        *(text.decode(errors="surrogateescape") for text in (done.stdout, done.stderr)),
    )


def copy(source: Path, target: Path) -> None:
    """The files of a repository, without its history and without large ones and pictures."""

    def large(folder: str, names: list[str]) -> list[str]:
        paths = {name: os.path.join(folder, name) for name in names}
        return [
            name
            for name, path in paths.items()
            if name == ".git"
            or name.endswith(_PICTURES)
            or os.path.islink(path)
            or (os.path.isfile(path) and os.path.getsize(path) > _SMALL)
        ]

    shutil.copytree(source, target, ignore=large, copy_function=shutil.copyfile)
    for folder in (target, *target.rglob("*/")):
        folder.chmod(0o755)


def run_variant(name: str, source: Path, scratch: Path) -> Outcomes:
    """One variant over one repository: its lines of the snapshot, and what does not hold."""
    verb, *options = VARIANTS[name]
    first, second = scratch / "applied", scratch / "written"
    copy(source, second)
    if verb == "check":
        ran = command(second, verb, *options, "--format", "json")
        outcomes = Outcomes(summary(name, ran), faults_of(name, [ran], source, second))
    else:
        copy(source, first)
        shown = command(first, verb, *options)
        wrote = command(second, verb, *options, "--write", "--format", "json")
        again = command(second, verb, *options, "--write", "--format", "json")
        outcomes = Outcomes(summary(name, wrote), faults_of(name, [wrote, again], source, second))
        outcomes.faults += apply_diff(shown, first, second)
        shutil.rmtree(first)
    shutil.rmtree(second)
    outcomes.faults = [f"{name}: {fault}" for fault in outcomes.faults]
    return outcomes


# --- what must hold --------------------------------------------------------------------------------------------------


def faults_of(name: str, runs: list[Ran], source: Path, after: Path) -> list[str]:
    """What does not hold after the runs of one variant."""
    faults = [
        f"crashed with {ran.code}: {ran.err[-300:]}"
        for ran in runs
        if ran.code not in (0, 1, 2) or not ran.out
    ]
    first = runs[0].report
    faults += [
        f"{item['path']} is called unreadable ({item['reason']}), and a parser reads it"
        for item in first["skipped"]
        if item["cause"] in ("unreadable", "broken") and readable(source / item["path"])
    ]
    for ran in runs[1:]:
        if ran.code != runs[0].code:
            faults.append(f"exit {runs[0].code}, then {ran.code}")
        faults += [
            f"{item['path']} is changed by a second run"
            for item in ran.report["files"]
            if item["diff"] or item["new_files"]
        ]
    for path in sorted(
        item["path"] for item in first["files"] if item["diff"] or item["new_files"]
    ):
        faults += [f"{path}: {fault}" for fault in changes_of(name, source / path, after / path)]
    return faults


def readable(path: Path) -> bool:
    """Whether the parser of its language reads a file. PyYAML composes duplicate keys, loops and keys that are mappings
    (`{{ name }}` of a template) too, but they mean nothing certain."""
    try:
        if path.suffix == ".py":
            ast.parse(path.read_bytes())
        elif path.suffix == ".ipynb":
            json.loads(path.read_bytes())
        else:
            for node in yaml.compose_all(path.read_bytes(), yaml.CSafeLoader):
                if _is_uncertain(node):
                    return False
    except (yaml.YAMLError, SyntaxError, ValueError, RecursionError):
        return False
    return True


def _is_uncertain(node: Any, seen: frozenset[int] = frozenset()) -> bool:
    if id(node) in seen:
        return True
    seen |= {id(node)}
    if isinstance(node, yaml.MappingNode):
        keys = {key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)}
        return len(keys) != len(node.value) or any(
            _is_uncertain(value, seen) for _, value in node.value
        )
    return isinstance(node, yaml.SequenceNode) and any(
        _is_uncertain(item, seen) for item in node.value
    )


def changes_of(name: str, before: Path, after: Path) -> list[str]:
    """Differences in meaning that were not asked for, and files that cannot be read any more."""
    if before.read_bytes() == after.read_bytes():
        return []
    if not readable(after) and readable(before):
        return ["cannot be read any more"]
    if before.suffix in (".py", ".ipynb"):  # the editor proves these; here they only have to parse
        return []
    old, new = (
        list(yaml.compose_all(path.read_bytes(), yaml.CSafeLoader)) for path in (before, after)
    )
    allowed = MAY_CHANGE[name]
    return [
        f"{'.'.join(map(str, path))} differs"
        for one, other in zip(old, new, strict=True)
        for path in differences(one, other)
        if not allowed & set(path)
    ]


def differences(one: Any, other: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths at which two composed documents differ."""
    if isinstance(one, yaml.MappingNode) and isinstance(other, yaml.MappingNode):
        old, new = ({key.value: value for key, value in node.value} for node in (one, other))
        for key in dict.fromkeys((*old, *new)):
            if key in old and key in new:
                yield from differences(old[key], new[key], (*path, key))
            else:
                yield (*path, key)
    elif isinstance(one, yaml.SequenceNode) and isinstance(other, yaml.SequenceNode):
        if len(one.value) != len(other.value):
            yield path
        for index, (left, right) in enumerate(zip(one.value, other.value, strict=False)):
            yield from differences(left, right, (*path, index))
    elif (type(one), getattr(one, "tag", None), getattr(one, "value", None)) != (
        type(other),
        getattr(other, "tag", None),
        getattr(other, "value", None),
    ):
        yield path


def apply_diff(shown: Ran, folder: Path, written: Path) -> list[str]:
    """The printed diff applies, and gives what `--write` gives."""
    if shown.out.strip():
        words = ["git", "-c", "core.autocrlf=false", "apply", "--whitespace=nowarn", "-"]
        text = shown.out.encode(errors="surrogateescape")
        done = subprocess.run(words, cwd=folder, input=text, capture_output=True, check=False)
        if done.returncode:
            return [
                f"the printed diff does not apply: {done.stderr.decode(errors='replace')[:300]}"
            ]
    files = (
        path for path in sorted(written.rglob("*")) if path.suffix in _CHANGED and path.is_file()
    )
    return [
        f"{path.relative_to(written)}: --write gives another text than the diff"
        for path in files
        if not _same(path, folder / path.relative_to(written))
    ]


def _same(one: Path, other: Path) -> bool:
    return other.is_file() and one.read_bytes() == other.read_bytes()


# --- what a person reviews -------------------------------------------------------------------------------------------


def summary(name: str, ran: Ran) -> list[str]:
    """The outcome of one run: counts, refused and skipped files, and findings per rule and file."""
    report = ran.report
    statuses = Counter(item["status"] for item in report["files"])
    new = sum(len(item["new_files"]) for item in report["files"])
    counts = ", ".join(f"{count} {status}" for status, count in sorted(statuses.items()))
    lines = [f"## {name}: exit {ran.code}; {counts or 'no files'}; {new} new files"]
    skipped = Counter(item["reason"] for item in report["skipped"])
    lines += [f"skipped {count}: {reason}" for reason, count in sorted(skipped.items())]
    lines += [
        f"refused {item['path']}: {item['refused']}" for item in report["files"] if item["refused"]
    ]
    lines += [f"problem: {problem.get('message', problem)}" for problem in report["problems"]]
    places: dict[tuple[str, str], dict[str, list[int]]] = {}
    for item in report["findings"]:
        at = places.setdefault((item["rule"], item["severity"]), {})
        at.setdefault(item["path"], []).append(item["line"])
    for (rule, severity), files in sorted(places.items()):
        lines.append(f"{rule} {severity}: {sum(map(len, files.values()))} in {len(files)} files")
        lines += [f"  {path}: {_line_numbers(numbers)}" for path, numbers in sorted(files.items())]
    return lines


def _line_numbers(numbers: list[int]) -> str:
    """`3 8 9x2`: lines in order, with a count where there is more than one."""
    counts = Counter(numbers)
    return " ".join(
        f"{line}x{count}" if count > 1 else str(line) for line, count in sorted(counts.items())
    )


# --- the command -----------------------------------------------------------------------------------------------------


def corpora(names: list[tuple[str, Path]]) -> tuple[str, list[str]]:
    """The snapshot of some folders, and all faults."""
    lines, faults = [], []
    for title, folder in names:
        lines.append(f"# {title}")
        for variant in VARIANTS:
            with tempfile.TemporaryDirectory() as scratch:
                outcomes = run_variant(variant, folder, Path(scratch))
            print(
                f"{title}: {outcomes.lines[0][3:]}; {len(outcomes.faults)} faults",
                file=sys.stderr,
                flush=True,
            )
            lines += outcomes.lines
            faults += [f"{title}: {fault}" for fault in outcomes.faults]
    return "\n".join(lines) + "\n", faults


def own_corpus() -> list[tuple[str, Path]]:
    """The folders of ../shared/corpus with AzureML files."""
    return [
        (name, CORPUS / name)
        for name in ("azureml-examples", "lightgbm-benchmark")
        if (CORPUS / name).is_dir()
    ]


def checked_out(root: Path, repository: Repository) -> tuple[str, Path] | str:
    """The title and folder of a repository at its commit, or why it is not used."""
    folder = root / repository.name
    if not folder.is_dir():
        return f"{repository.name} is not in {root}: check out {repository.origin} at {repository.commit} there"
    words = ["git", "-C", str(folder), "rev-parse", "HEAD"]
    head = subprocess.run(words, capture_output=True, text=True, check=False).stdout.strip()
    if head != repository.commit:
        return f"{folder} is at {head or 'no commit'}, not {repository.commit}: check that one out"
    return (
        f"{repository.origin} {repository.commit[:7]}, {repository.licence}",
        folder / repository.folder,
    )


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--root", type=Path, help="folder with the repositories, each in a folder of its name"
    )
    parser.add_argument("--only", action="append", help="only this repository; repeat for more")
    parser.add_argument(
        "--output", type=Path, help="write the snapshot here instead of printing it"
    )
    parser.add_argument(
        "--update",
        action="store_true",
        help="write the committed snapshot of ../shared/corpus anew",
    )
    options = parser.parse_args()
    if options.root is None:
        text, faults = corpora(own_corpus())
        if options.update:
            SNAPSHOT.write_text(text)
        elif text != SNAPSHOT.read_text():
            faults.append(
                f"the output differs from {SNAPSHOT.relative_to(ROOT)}: review it with --update and git diff"
            )
    else:
        found = [
            checked_out(options.root, item)
            for item in REPOSITORIES
            if not options.only or item.name in options.only
        ]
        for reason in (item for item in found if isinstance(item, str)):
            print(f"skipped: {reason}", file=sys.stderr)
        text, faults = corpora([item for item in found if not isinstance(item, str)])
        if options.output is not None:
            options.output.write_text(text)
        else:
            print(text, end="")
    for fault in faults:
        print(f"fault: {fault}", file=sys.stderr)
    print(f"{len(faults)} faults", file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())

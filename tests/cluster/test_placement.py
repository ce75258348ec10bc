"""Proof of placement: what `place` writes is accepted by the real API server, with the CRDs of every project.

Goldens (tests/placement/goldens.py) and the public manifests of ../shared/corpus/kubernetes are sent as a dry run with
strict validation, before and after; test_placement_pods.py has the pods scheduled. docs/proof-of-placement.md is the
result of both: ARC_TOOLKIT_WRITE_PROOF=1 writes it, and otherwise the tests hold it to what happened.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from scripts import control_plane as build
from tests.cluster.control_plane import ControlPlane
from tests.cluster.custom_kinds import (
    Kind,
    Object,
    Verdicts,
    crd_rounds,
    group_kind,
    objects_in,
    read_yaml,
)
from tests.cluster.placement_page import hold_section
from tests.placement.golden_manifest import Golden
from tests.placement.goldens import GOLDENS
from tests.placement.support import TOLERATION, place
from tests.support import CORPUS, Result, needs_corpus

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

Arc = Callable[..., Result]
POLICIES = ("require", "prefer", "avoid")
MORE: tuple[dict[str, Any], ...] = ({}, {"retries": 3}, {"grace": 20})
# How the public manifests are placed, each time from the beginning.
RUNS = {
    "--spot require": ("--spot", "require"),
    "--spot prefer --grace 20s --retries 3": (
        "--spot",
        "prefer",
        "--grace",
        "20s",
        "--retries",
        "3",
    ),
    "--spot avoid": ("--spot", "avoid"),
}


@dataclass
class Sent:
    """An object that is changed, and what the API server said to it, with each release of its CRD."""

    name: str
    kind: Kind
    before: Object
    after: Object
    release: str | None = None  # the only one that counts
    verdicts: list[tuple[str, str]] = field(default_factory=list)

    @property
    def accepted_before(self) -> bool:
        return any(not before for before, _ in self.verdicts)

    @property
    def broken(self) -> list[str]:
        """What the API server says to the new object where it accepted the old one."""
        return [after for before, after in self.verdicts if after and not before]


def changed_objects(
    name: str, before: bytes, after: bytes, release: str | None = None
) -> Iterator[Sent]:
    """The objects of a file that are not the same after; `release` is that of the CRD of the outermost ones."""
    for old, new in zip(read_yaml(before), read_yaml(after), strict=True):
        for one, other in zip(objects_in(old), objects_in(new), strict=True):
            if one != other:
                yield Sent(
                    name,
                    (one["apiVersion"], one["kind"]),
                    one,
                    other,
                    release if one is old else None,
                )


def judge(cluster: ControlPlane, rows: list[Sent]) -> None:
    """Send every row before and after, to the API server with each release of its CRD."""
    verdicts = Verdicts(cluster)
    for number, files in enumerate(crd_rounds(row.kind for row in rows)):
        verdicts.install(files)
        releases = {file.kind: file.release for file in files}
        before_of: dict[str, str | None] = {}  # the same object is placed in several ways
        for row in rows:
            release = releases.get(group_kind(row.kind), None if number else "")
            if release is None or row.release not in (None, release):
                continue
            text = json.dumps(row.before)
            if text not in before_of:
                before_of[text] = verdicts.of(row.before)
            before, after = before_of[text], verdicts.of(row.after)
            if before is not None and after is not None:
                row.verdicts.append((before, after))


def golden_rows() -> Iterator[Sent]:
    """Every golden with every policy, alone and with retries and a grace period where its kind has them."""
    for golden in GOLDENS:
        for policy in POLICIES:
            for more in MORE:
                result = place(
                    golden.text, policy, kinds=golden.kinds, trainer=golden.trainer, **more
                )
                if result.after is not None:
                    yield from changed_objects(
                        golden.name, golden.text.encode(), result.after, golden.crd
                    )


def wrong_depths() -> Iterator[Sent]:
    """The toleration one step too high, as many pages have it: what the API server must not accept."""
    for golden in GOLDENS:
        if golden.name in ("Job", "TFJob v1", "JobSet", "RayCluster v1"):
            before, after = yaml.safe_load(golden.text), yaml.safe_load(golden.text)
            Golden.at(after, golden.on[0][:-1])["tolerations"] = [TOLERATION]
            yield Sent(
                golden.name, (before["apiVersion"], before["kind"]), before, after, golden.crd
            )


def corpus_rows(arc: Arc, folder: Path, options: tuple[str, ...]) -> Iterator[Sent]:
    """Every object that the command changes in a copy of the corpus; a second run must change nothing."""
    shutil.copytree(CORPUS / "kubernetes", folder)
    arc("place", folder, *options, "--write")
    first = {path: path.read_bytes() for path in sorted(folder.rglob("*.yaml"))}
    arc("place", folder, *options, "--write")
    assert {path: path.read_bytes() for path in first} == first
    for path, after in first.items():
        name = str(path.relative_to(folder))
        before = (CORPUS / "kubernetes" / name).read_bytes()
        if before != after and not name.startswith(
            "other/"
        ):  # pipelines of kfp: no objects of Kubernetes
            yield from changed_objects(name, before, after)


@needs_corpus
def test_the_api_server_accepts_what_place_writes(
    own_cluster: ControlPlane, arc: Arc, tmp_path: Path
) -> None:
    goldens = list(golden_rows())
    runs = {
        title: list(corpus_rows(arc, tmp_path / str(number), options))
        for number, (title, options) in enumerate(RUNS.items())
    }
    controls = list(wrong_depths())
    judge(own_cluster, [*goldens, *controls, *(row for rows in runs.values() for row in rows)])

    assert all("unknown field" in str(row.broken) for row in controls)
    for row in goldens:
        assert row.verdicts, f"{row.name}: no CRD of {row.kind}"
        assert not row.broken, f"{row.name}: {row.broken}"
        assert row.release is None or row.accepted_before, f"{row.name}: {row.verdicts}"
    for rows in runs.values():
        for row in rows:
            assert row.verdicts, f"{row.name}: no CRD of {row.kind}"
            assert not row.broken, f"{row.name}: {row.broken}"
    hold_section("## The API server", page_text(goldens, runs))


INTRODUCTION = """\
Sent to a real kube-apiserver {version} with the CRDs of every project, as `kubectl apply --dry-run=server
--validate=strict` does: a field that the schema does not have is an error. Objects inside of others (the trial of a
Katib Experiment, the components of an AppWrapper) are sent by themselves too, because no schema describes them there.
What the webhooks of the operators would say is not part of this.

A manifest for every kind, as the documentation of its project writes it, with each policy, with `--retries` and with
`--grace`: {goldens} objects of {kinds} kinds, all accepted.

Public manifests, as they are and after `arc-toolkit place`:

"""


def page_text(goldens: list[Sent], runs: dict[str, list[Sent]]) -> str:
    text = INTRODUCTION.format(
        version=build.pinned("kubernetes")[1],
        goldens=len(goldens),
        kinds=len({row.kind for row in goldens}),
    )
    lines = [
        "| `place` | objects changed | accepted before | of these accepted after |",
        "|---|---|---|---|",
    ]
    for title, rows in runs.items():
        accepted = [row for row in rows if row.accepted_before]
        kept = sum(not row.broken for row in accepted)
        lines.append(f"| `{title}` | {len(rows)} | {len(accepted)} | {kept} |")
    lines += [
        "",
        "| kind | objects changed in these runs | accepted before and after |",
        "|---|---|---|",
    ]
    counts: dict[Kind, list[Sent]] = {}
    for rows in runs.values():
        for row in rows:
            counts.setdefault(row.kind, []).append(row)
    for (version, kind), rows in sorted(counts.items()):
        accepted_rows = [row for row in rows if row.accepted_before and not row.broken]
        lines.append(f"| {version} {kind} | {len(rows)} | {len(accepted_rows)} |")
    return text + "\n".join(lines) + "\n"

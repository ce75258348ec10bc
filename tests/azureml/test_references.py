"""Who uses which component file: found in the text of YAML files, and the same as what their nodes say."""

from __future__ import annotations

import os
from collections import defaultdict

import pytest
import yaml

from arc_toolkit.azureml.documents import local_reference
from arc_toolkit.azureml.references import ProjectFiles
from arc_toolkit.edit.files.edits import Unreadable
from arc_toolkit.edit.yaml.nodes import read, text_of, walk
from arc_toolkit.file_io import read_raw
from tests.support import CORPUS, needs_corpus


def uses_by_nodes(path: str, data: bytes) -> dict[str, set[str]]:
    """The files that the keys `component` and `trial` name, anywhere in a file."""
    uses: dict[str, set[str]] = defaultdict(set)
    for node in walk(read(data).documents):
        for key, value in node.value if isinstance(node, yaml.MappingNode) else ():
            if text_of(key) in ("component", "trial") and (
                reference := local_reference(text_of(value), path)
            ):
                uses[reference].add(key.value)
    return uses


@needs_corpus
def test_uses_in_public_files_are_those_of_their_nodes() -> None:
    compared = 0
    for path in sorted(map(str, CORPUS.rglob("*.y*ml"))):
        data = read_raw(path)
        try:
            expected = uses_by_nodes(path, data)
        except Unreadable:
            continue
        project = ProjectFiles(read_raw)
        project.note_uses(path, data)
        beside = {
            os.path.join(os.path.dirname(path), name) for name in os.listdir(os.path.dirname(path))
        }
        for file in {*expected, *beside} - {path}:
            assert project.uses(file) == expected.get(file, set()), (path, file)
        compared += len(expected)
    assert compared > 50


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("jobs: {a: {component: ./train.yml}}\n", {"component"}),
        ("jobs:\n  a:\n    'component': 'file:./train.yml'  # ours\n", {"component"}),
        ('trial: "./train.yml"\n', {"trial"}),
        ("# component: ./train.yml\n", set()),
        ("my.component: ./train.yml\n", set()),
        ("component: ./other.yml\n", set()),
    ],
)
def test_a_use_in_the_text(text: str, expected: set[str]) -> None:
    project = ProjectFiles(read_raw)
    project.note_uses("pipeline.yml", text.encode())
    assert project.uses("train.yml") == expected

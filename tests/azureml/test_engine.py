"""The engine on anything: it never raises, and what it changes it changes exactly and once."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.azureml.support import COMMAND_JOB, COMPONENT, PIPELINE, patch
from tests.support import CORPUS

ASKED: list[dict[str, Any]] = [
    {
        "instance_type": "32cpu128g",
        "instance_count": 2,
        "threads": "auto",
        "compute": "b",
        "unsafe_fixes": True,
    },
    {"instance_type": "x", "threads": "faiss", "cores": 8, "expose_parameters": True},
    {"instance_count": 3, "threads": "lightgbm", "manual": True, "cores": 8},
]
PIECES = [
    "&a ", "*a", "<<: *a\n", "- ", ": ", "#", '"', "'", "{", "}", "[", "\t", "\r", "|", ">", "  ", "\n", "?", "!!x ",
    "---\n", "null", "resources:", "environment_variables:\n", "AMLARC_RESTEP: x\n", "é", "\ufeff", "${{a}}",
]  # fmt: skip
SEEDS = [
    COMMAND_JOB,
    COMPONENT,
    PIPELINE,
    "type: sweep\ntrial:\n  command: lightgbm\n  environment: e\n",
]
if CORPUS.is_dir():
    SEEDS += [path.read_text() for path in sorted(CORPUS.rglob("*.y*ml"))[::9]]


@settings(max_examples=100, deadline=None)
@given(st.data(), st.sampled_from(SEEDS), st.sampled_from(ASKED))
def test_mutated_files_are_changed_once_or_have_a_reason(
    data: st.DataObject, text: str, asked: dict[str, Any]
) -> None:
    for _ in range(data.draw(st.integers(0, 3))):
        at = data.draw(st.integers(0, len(text)))
        cut = data.draw(st.integers(0, 6))
        text = text[:at] + data.draw(st.sampled_from(PIECES)) + text[at + cut :]
    result = patch(text.encode("utf-8", "surrogatepass"), **asked)
    outcomes = [result.after is not None, result.skipped is not None]
    assert sum(outcomes) <= 1
    if result.after is not None:
        assert patch(result.after, **asked).after is None
    if result.skipped is not None:
        assert result.skipped.reason


def test_a_renamed_key_that_a_setting_would_change_again_is_refused() -> None:
    text = "type: pipeline\njobs:\n  a:\n    type: command\n    comput: azureml:x\n"
    result = patch(text, compute="b", unsafe_fixes=True)
    assert result.refused == "not stable: a second run would change the file again"
    assert not any(finding.applied for finding in result.findings)


def test_a_renamed_key_that_brings_evidence_of_a_framework_is_refused() -> None:
    text = "type: command\ncommand: x\n&a nvironment: azureml:lightgbm:1\n"
    result = patch(text, threads="auto", unsafe_fixes=True)
    assert result.refused == "not stable: a second run would change the file again"
    assert not any(finding.applied for finding in result.findings)
    assert (
        patch(text, unsafe_fixes=True).after == text.replace("nvironment", "environment").encode()
    )


@pytest.mark.parametrize("data", [b"", b"\xef\xbb\xbf", b"---\n", b"- a\n", b"x", b"{}", b"\x00"])
def test_small_files_are_skipped(data: bytes) -> None:
    assert patch(data, instance_type="x").skipped is not None

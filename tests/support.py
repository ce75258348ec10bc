"""What many tests share: running the command in this process, and where the corpus is."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import pytest

ROOT = Path(__file__).resolve().parent.parent
CORPUS = ROOT.parent / "shared" / "corpus"

needs_corpus = pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus of real AzureML files is not here")


@dataclass(frozen=True)
class Result:
    """What one run of the command gave."""

    code: int
    out: str
    err: str


def unavailable(reason: str) -> NoReturn:
    """Skip a test whose real component is missing; with ARC_TOOLKIT_REQUIRE_REAL (as in CI) that is a failure."""
    if os.environ.get("ARC_TOOLKIT_REQUIRE_REAL"):
        pytest.fail(f"required here, but: {reason}")
    pytest.skip(reason)

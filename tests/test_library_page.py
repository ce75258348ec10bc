"""docs/library.md: its examples run as they are."""

from __future__ import annotations

import re

import pytest

from tests.support import ROOT

EXAMPLES = dict(
    re.findall(
        r"^## (.+?)\n.*?```python\n(.*?)```",
        (ROOT / "docs/library.md").read_text(),
        re.MULTILINE | re.DOTALL,
    )
)
EXPECTED = {
    "Size": "32cpu128g 31450m 119473Mi",
    "Patch and check": "resources:\n  instance_type: 32cpu128g",
    "Edit any YAML": "nodeSelector: {pool: gpu}\n    tolerations:\n",
    "Diagnose": "brave_fig_4k2 0 aks-gpu-31415926-vmss00000a",
    "Cost": "41.05 h, 16.8 evictions, 144.48 USD\nsave every 27.0 min\n95 of 100 runs: at most 41.",
}


@pytest.mark.parametrize("title", EXAMPLES)
def test_an_example_runs_as_it_is(
    title: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    exec(compile(EXAMPLES[title], title, "exec"), {})
    assert EXPECTED[title] in capsys.readouterr().out


def test_every_section_has_an_example() -> None:
    assert EXAMPLES.keys() == EXPECTED.keys()

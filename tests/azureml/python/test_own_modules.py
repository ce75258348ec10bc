"""Which modules of a project are parsed for a name that is imported from them."""

from __future__ import annotations

import pytest

from arc_toolkit.azureml.python.module import ProjectModule


@pytest.mark.parametrize(
    ("text", "is_parsed"),
    [
        ("\ntrain = load_component('train.yml')\n", True),
        ("\nfrom .steps import train\n", True),
        ("\nfrom .steps import train_gpu\ntrain = train_gpu\n", True),
        ("\n@command_component\ndef train(data):\n    pass\n", True),
        ("\n@command_component(\n    name='train',\n)\ndef train(data):\n    pass\n", True),
        ("\nclass trainer:\n    pass\n\ntrain = load_component('train.yml')\n", True),
        ("\nimport os\n", False),
        ("\nclass train:\n    pass\n", False),
        ("\nclass Trainer(Base):\n    pass\n\ntrain = Trainer\n", False),
        ("\n\ndef train(data):\n    pass\n", False),
        ("\r\nclass Trainer:\r\n    pass\r\n\r\ntrain = Trainer\r\n", False),
    ],
)
def test_a_module_is_parsed_only_for_what_may_be_a_component(text: str, is_parsed: bool) -> None:
    assert ProjectModule("steps.py", text.encode(), "train").may_pass_on is is_parsed

"""A v2 job that is written beside a Python file: its name, and the settings of the run in it."""

from __future__ import annotations

import os.path
from dataclasses import replace
from itertools import count

from arc_toolkit.azureml.python.python_plan import PythonPlan


def add_job(plan: PythonPlan, name: str, suffix: str, text: str) -> str:
    """Plan the file `score.NAME.SUFFIX.yml` beside `score.py`, and give its path. The settings of the run are placed
    in it as in any other job, so that a second run finds nothing to change."""
    from arc_toolkit.azureml.yaml_engine import patch_yaml

    stem = os.path.splitext(plan.path)[0]
    taken = {path for path, _ in plan.new_files}
    paths = (
        f"{stem}.{name}{f'_{number}' if number > 1 else ''}.{suffix}.yml" for number in count(1)
    )
    path = next(path for path in paths if path not in taken)
    settings = replace(plan.settings, sweep_to_v2=False, prs_to_v2=False)
    data = text.encode()
    plan.new_files.append((path, patch_yaml(path, data, settings, plan.library).after or data))
    return path

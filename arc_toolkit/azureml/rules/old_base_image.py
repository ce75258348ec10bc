"""A base image older than Ubuntu 20.04, by its name or in its Dockerfile."""

from __future__ import annotations

import os
import re
from functools import lru_cache

from arc_toolkit.azureml.documents import folder_of
from arc_toolkit.azureml.evidence import dockerfile_of
from arc_toolkit.azureml.kinds import Role
from arc_toolkit.azureml.plan import Plan
from arc_toolkit.azureml.rules._compute import compute_facts
from arc_toolkit.edit.yaml.nodes import YamlNode, get, pairs, text_of
from arc_toolkit.findings import Rule

_OLD = re.compile(
    r"(?i)ubuntu[-_:]?(?:12|14|16|18)[._-]?(?:04|10)|(?:^|[^a-z])(?:trusty|xenial|bionic)(?![a-z])|ubuntu[-_:]?(?:14|16|18)(?!\d)"
)
_FROM = re.compile(r"(?im)^[ \t]*FROM[ \t]+(?:--\S+[ \t]+)*(\S+)(?:[ \t]+AS[ \t]+(\S+))?")


# A run has few images, each in many files.
@lru_cache(maxsize=256)
def _is_old(image: str) -> bool:
    return _OLD.search(image) is not None


def _check(plan: Plan) -> None:
    for target in plan.known_targets():
        for own in (target.own, pairs(target.get("task"))):
            environment = own.get("environment")
            # Clusters of VMs run any image.
            if environment is not None and not compute_facts(plan, target).is_elsewhere:
                snapshot = (target.text("code") or "") if target.kind.role == Role.SPEC else ""
                _look(plan, environment[0], environment[1], snapshot)


def _look(plan: Plan, key: YamlNode, environment: YamlNode, snapshot: str) -> None:
    for place in (("image",), ("docker", "image")):
        node = get(environment, *place)
        image = text_of(node)
        if node is not None and image and _is_old(image):
            plan.report(RULE, f"image {image} is older than Ubuntu 20.04", node)
    name = text_of(environment)
    if name is not None and _is_old(name):
        plan.report(RULE, f"environment {name} is older than Ubuntu 20.04", environment)
    written = dockerfile_of(environment) if name is None else None
    if written is not None:
        path = plan.library.in_snapshot(folder_of(plan.path), snapshot, written)
        image = _last_image(plan.library.read_text(path) or "")
        if _is_old(image):
            message = (
                f"{os.path.basename(path)} starts from {image}, which is older than Ubuntu 20.04"
            )
            plan.report(RULE, message, key)


def _last_image(dockerfile: str) -> str:
    """The image that the last stage is made of; those of other stages are not in the result."""
    stages: dict[str, str] = {}
    image = ""
    for name, alias in _FROM.findall(dockerfile):
        image = stages.get(name.lower(), name)
        stages[alias.lower()] = image
    return image


RULE = Rule(
    "old-base-image", "warning", language="yaml, python", check=_check, needs=("environment",)
)

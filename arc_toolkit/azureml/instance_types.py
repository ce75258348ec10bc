"""`--instance-types`: the cores and GPUs of each InstanceType manifest in a file or folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from arc_toolkit.azureml.settings import InstanceTypeSize
from arc_toolkit.errors import ArcError
from arc_toolkit.files import read_text
from arc_toolkit.kube.quantities import QuantityError, cpu_given

_GPUS = ("nvidia.com/gpu", "amd.com/gpu")


def load(path: str) -> dict[str, InstanceTypeSize]:
    """Name -> size. A folder without a manifest is an error: an empty table would make every type unknown."""
    top = Path(path)
    if not top.exists():
        raise ArcError(f"cannot read {path}: no such file or folder")
    files = sorted(file for file in top.rglob("*") if file.suffix in (".yml", ".yaml")) if top.is_dir() else [top]
    sizes = {}
    for file in files:
        try:
            documents = list(yaml.safe_load_all(read_text(file)))
        except yaml.YAMLError as error:
            mark = getattr(error, "problem_mark", None)
            raise ArcError(f"{file}{f':{mark.line + 1}' if mark else ''}: broken YAML") from None
        for document in documents:
            for manifest in _manifests(document):
                size = _size(manifest, file)
                sizes[size.name] = size
    if not sizes:
        raise ArcError(f"no InstanceType in {path}: `arc-toolkit gen-instance-types -o DIR` writes such a folder")
    return sizes


def _manifests(document: Any) -> Iterator[dict[str, Any]]:
    if isinstance(document, dict):
        if document.get("kind") == "InstanceType":
            yield document
        elif document.get("kind") in ("InstanceTypeList", "List"):
            for item in document.get("items") or ():
                if isinstance(item, dict) and item.get("kind", "InstanceType") == "InstanceType":
                    yield item


def _size(manifest: dict[str, Any], file: Path) -> InstanceTypeSize:
    try:
        name = str(manifest["metadata"]["name"])
        resources = manifest["spec"]["resources"]
        requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
        cpu = requests.get("cpu", limits.get("cpu"))
        # get_cores tells what was asked for; a part of a core does not make a thread.
        cores = max(1, cpu_given(str(cpu)) // 1000) if cpu is not None else None
        gpus = sum(int(limits.get(key) or requests.get(key) or 0) for key in _GPUS)
    except (KeyError, TypeError, AttributeError, ValueError, QuantityError):
        raise ArcError(
            f"{file}: an InstanceType that cannot be read; `arc-toolkit validate {file}` says why"
        ) from None
    return InstanceTypeSize(name, cores, gpus)

"""JSON and YAML input, with errors that name the line and the column."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from arc_toolkit.errors import ArcError
from arc_toolkit.file_io import collector_paused, read_text


def load(path: str) -> Any:
    """One JSON or YAML document from a file or `-`."""
    text = read_text(path)
    where = "standard input" if path == "-" else path
    return parse_json(text, where) if text.lstrip()[:1] in ("{", "[") else _parse_yaml(text, where)


def parse_json(text: str | bytes, where: str) -> Any:
    try:
        with collector_paused():
            return json.loads(text)
    except json.JSONDecodeError as error:
        raise ArcError(f"{where}:{error.lineno}:{error.colno}: broken JSON: {error.msg}") from None
    except UnicodeDecodeError as error:
        raise ArcError(f"{where}: not UTF-8 text (byte {error.start})") from None
    except RecursionError:
        raise ArcError(f"{where}: JSON nested too deeply") from None


def _parse_yaml(text: str, where: str) -> Any:
    documents = _parse_documents(text, where)
    if len(documents) > 1:
        raise ArcError(f"{where}: {len(documents)} YAML documents where one is expected")
    return documents[0] if documents else None


def load_all(path: str) -> list[Any]:
    """Every document of a YAML file or `-`."""
    return _parse_documents(read_text(path), "standard input" if path == "-" else path)


def _parse_documents(text: str, where: str) -> list[Any]:
    import yaml

    try:
        return list(yaml.load_all(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
    except (yaml.YAMLError, ValueError) as error:
        raise broken_yaml(error, where) from None


def yaml_files(path: str) -> list[str]:
    """The YAML files of a folder and its folders, in the order of names; a file or `-` itself."""
    top = Path(path)
    if path == "-" or not top.is_dir():
        return [path]
    inside = sorted(str(child) for child in top.rglob("*") if child.suffix in (".yaml", ".yml"))
    if not inside:
        raise ArcError(f"{path}: no .yaml or .yml file in this folder")
    return inside


def broken_yaml(error: Exception, where: str) -> ArcError:
    """One sentence with the place, where PyYAML knows it."""
    mark = getattr(error, "problem_mark", None)
    place = f":{mark.line + 1}:{mark.column + 1}" if mark else ""
    problem = (
        getattr(error, "problem", None)
        or getattr(error, "context", None)
        or str(error).splitlines()[0]
    )
    return ArcError(f"{where}{place}: broken YAML: {problem}")

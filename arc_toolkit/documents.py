"""JSON and YAML input, with errors that name the line and the column."""

from __future__ import annotations

import gc
import json
from typing import Any

from arc_toolkit.errors import ArcError
from arc_toolkit.files import read_bytes


def load(path: str) -> Any:
    """One JSON or YAML document from a file or `-`."""
    data = read_bytes(path)
    where = "standard input" if path == "-" else path
    if data.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"["):
        return parse_json(data, where)
    return _parse_yaml(data, where)


def parse_json(data: bytes, where: str) -> Any:
    """JSON; the garbage collector rests meanwhile, which halves the time for a large cluster."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        return json.loads(data.decode("utf-8-sig"))
    except json.JSONDecodeError as error:
        raise ArcError(f"{where}:{error.lineno}:{error.colno}: broken JSON: {error.msg}") from None
    except UnicodeDecodeError as error:
        raise ArcError(f"{where}: not UTF-8 text (byte {error.start})") from None
    except RecursionError:
        raise ArcError(f"{where}: JSON nested too deeply") from None
    finally:
        if enabled:
            gc.enable()


def _parse_yaml(data: bytes, where: str) -> Any:
    import yaml

    try:
        return yaml.load(data.decode("utf-8-sig"), getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = f":{mark.line + 1}:{mark.column + 1}" if mark else ""
        raise ArcError(f"{where}{place}: broken YAML: {error.problem or error.context}") from None
    except (yaml.YAMLError, ValueError) as error:
        raise ArcError(f"{where}: broken YAML: {str(error).splitlines()[0]}") from None

"""Where shipped files are: in a checkout or an editable install at the top, in a wheel inside the package."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import jinja2

_PACKAGE = Path(__file__).resolve().parent


def shipped(name: str) -> Path:
    """The folder `templates`, `instance_types` or `docs/rules`."""
    inside = _PACKAGE / f"_{name}"
    return inside if inside.is_dir() else _PACKAGE.parent / name


def data_file(name: str) -> Path:
    """A table under arc_toolkit/data/."""
    return _PACKAGE / "data" / name


def data_rows(name: str) -> list[dict[str, str]]:
    """The rows of such a table; lines that begin with # are comments."""
    import csv

    with open(data_file(name), encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(line for line in stream if not line.startswith("#")))


def render(template: str, **values: object) -> str:
    """A template of `templates/`, rendered strictly: an unknown name is a fault, not an empty string."""
    return _template(template).render(**values)


@cache
def _template(name: str) -> jinja2.Template:
    import jinja2

    from arc_toolkit.text import printable

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(str(shipped("templates"))),
        undefined=jinja2.StrictUndefined,
        autoescape=jinja2.select_autoescape(["html.j2", "html"]),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["printable"] = printable
    return environment.get_template(name)

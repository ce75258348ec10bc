"""How AzureML files like their YAML: where a new key goes, what is quoted, and `${{...}}` bindings."""

from __future__ import annotations

import re

from arc_toolkit.edit.yaml_writer import YamlStyle


def is_bound(text: str | None) -> bool:
    """`${{parent.inputs.x}}`: a value that another place gives."""
    return text is not None and "${{" in text


# For changes of a file.
EDIT_STYLE = YamlStyle(
    neighbours={
        "resources": ("compute", "component", "trial", "environment", "code", "type"),
        "environment_variables": ("environment", "component", "trial", "compute", "code", "type"),
        "compute": ("component", "trial", "environment", "code", "type"),
        "component": ("type",),
        "settings": ("experiment_name", "display_name", "description", "type"),
        "inputs": ("description", "display_name", "version", "type", "experiment_name"),
    },
    # Variables are upper case by custom; their values are always strings, and are seen to be.
    quoted=str.isupper,
    plain=re.compile(r"\$\{\{[A-Za-z0-9_.]+\}\}"),
)
# For new files: a long command breaks before its arguments, `$[[...]]` being an optional one.
FILE_STYLE = YamlStyle(fold_before=("-", "$[["))

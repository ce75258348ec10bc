"""The keys that azure-ai-ml knows at each place of each kind: data/azureml_keys.csv, made from its own schemas."""

from __future__ import annotations

import re
from functools import cache

from arc_toolkit.azureml.kinds import Role, TargetKind
from arc_toolkit.resources import data_rows

# The mappings of a target whose keys are known.
MAPPINGS = ("resources", "distribution", "limits", "task", "retry_settings", "queue_settings")

# A v1.5 spec has no schema in azure-ai-ml, which takes every key; these are of its specification.
_SPEC = frozenset(
    re.findall(
        r"\S+",
        """
        $schema type name version display_name description tags is_deterministic is_archived successful_return_code
        inputs outputs code command environment environment_variables launcher parallel hemera scope hdinsight
        starlite datatransfer sweep trial algorithm objective search_space limits early_termination runsettings
        annotations category contact author intellectual_property additional_includes
        """,
    )
)


def known_keys(kind: TargetKind, below: str = "") -> frozenset[str] | None:
    """The keys at the top of a kind, or below one of its mappings; None where any key may be."""
    if kind.role == Role.SPEC:
        return None if below else _SPEC
    return _table().get((kind.family, kind.role, below))


@cache
def _table() -> dict[tuple[str, str, str], frozenset[str]]:
    return {
        (row["family"], row["role"], row["below"]): frozenset(row["keys"].split())
        for row in data_rows("azureml_keys.csv")
    }

"""Make arc_toolkit/data/azureml_keys.csv anew from the schemas of the installed azure-ai-ml.

    .venv/bin/python -m scripts.refresh_azureml_keys

A row has the keys that azure-ai-ml knows at one place of one kind: at its top, or below a key such as `resources`. Keys
that are only written (`status`, `id`) count as known: files that `az ml job show` printed have them.
"""

from __future__ import annotations

import csv
import io
import logging
import re
from collections.abc import Iterator
from datetime import date
from importlib.metadata import version
from typing import Any

from arc_toolkit.azureml.rules.key_rules import MAPPINGS
from arc_toolkit.file_io import write_atomic
from arc_toolkit.resources import data_file

FIELDS = ("family", "role", "below", "keys")
# A v1.5 spec has no schema in azure-ai-ml, which takes every key; these are of its specification.
SPEC_KEYS = """
$schema type name version display_name description tags is_deterministic is_archived
successful_return_code inputs outputs code command environment environment_variables
launcher parallel hemera scope hdinsight starlite datatransfer sweep trial algorithm
objective search_space limits early_termination runsettings annotations category contact
author intellectual_property additional_includes
"""


def rows() -> list[dict[str, str]]:
    """The table, in order."""
    logging.disable(logging.CRITICAL)
    known: dict[tuple[str, str, str], set[str]] = {
        ("", "spec", ""): set(re.findall(r"\S+", SPEC_KEYS))
    }
    for family, role, kind in _schemas():
        schema = kind(context={"base_path": "."}) if isinstance(kind, type) else kind
        known.setdefault((family, role, ""), set()).update(_keys(schema), {"$schema"})
        for name, field in schema.fields.items():
            inner = [key for nested in _nested(field) for key in _keys(nested)]
            if inner and name in MAPPINGS:
                known.setdefault((family, role, name), set()).update(inner)
    return [
        dict(zip(FIELDS, (*place, " ".join(sorted(keys))), strict=True))
        for place, keys in sorted(known.items())
    ]


def _keys(schema: Any) -> Iterator[str]:
    return (field.data_key or name for name, field in schema.fields.items())


def _nested(field: Any) -> Iterator[Any]:
    """The schemas of the mappings that a field may hold."""
    if hasattr(field, "union_fields"):
        for part in field.union_fields:
            yield from _nested(part)
    elif hasattr(field, "nested"):
        yield field.schema


def _schemas() -> Iterator[tuple[str, str, Any]]:
    """Every kind of job, component and trial, with its schema or the class of it."""
    from azure.ai.ml._schema import _finetuning as finetuning
    from azure.ai.ml._schema import component
    from azure.ai.ml._schema._sweep.sweep_job import SweepJobSchema
    from azure.ai.ml._schema.component import data_transfer_component, import_component
    from azure.ai.ml._schema.component.automl_component import AutoMLComponentSchema
    from azure.ai.ml._schema.job import data_transfer_job, import_job
    from azure.ai.ml._schema.job.command_job import CommandJobSchema
    from azure.ai.ml._schema.job.spark_job import SparkJobSchema
    from azure.ai.ml._schema.pipeline.component_job import SweepSchema
    from azure.ai.ml._schema.pipeline.condition_node import ConditionNodeSchema
    from azure.ai.ml._schema.pipeline.control_flow_job import DoWhileSchema, ParallelForSchema
    from azure.ai.ml._schema.pipeline.pipeline_component import PipelineComponentSchema
    from azure.ai.ml._schema.pipeline.pipeline_job import PipelineJobSchema

    context = {"base_path": "."}
    transfers = ("Copy", "Import", "Export")
    yield "command", "job", CommandJobSchema
    yield "command", "component", component.CommandComponentSchema
    yield "parallel", "component", component.ParallelComponentSchema
    yield "sweep", "job", SweepJobSchema
    yield from (
        ("sweep", "trial", schema)
        for schema in _nested(SweepJobSchema(context=context).fields["trial"])
    )
    yield from (
        ("sweep", "step trial", schema)
        for schema in _nested(SweepSchema(context=context).fields["trial"])
    )
    yield "automl", "component", AutoMLComponentSchema
    yield "pipeline", "job", PipelineJobSchema
    yield "pipeline", "component", PipelineComponentSchema
    yield "spark", "job", SparkJobSchema
    yield "spark", "component", component.SparkComponentSchema
    yield "import", "job", import_job.ImportJobSchema
    yield "import", "component", import_component.ImportComponentSchema
    for task in transfers:
        yield "data_transfer", "job", getattr(data_transfer_job, f"DataTransfer{task}JobSchema")
        yield (
            "data_transfer",
            "component",
            getattr(data_transfer_component, f"DataTransfer{task}ComponentSchema"),
        )
    yield "finetuning", "job", finetuning.AzureOpenAIFineTuningSchema
    yield "finetuning", "job", finetuning.CustomModelFineTuningSchema
    for schema in _nested(PipelineJobSchema(context=context).fields["jobs"].value_field):
        family = _family(schema)
        yield family, "step", schema
        if family == "automl":  # a step has some keys more than the job it is made of
            yield family, "job", type(schema).__mro__[2]
    for control in (ConditionNodeSchema, DoWhileSchema, ParallelForSchema):
        yield "control", "step", control


def _family(schema: Any) -> str:
    """What `type` says of a step."""
    allowed = schema.fields["type"].allowed_values
    return str(allowed[0])


def main() -> None:
    out = io.StringIO()
    out.write(
        f"# azure-ai-ml {version('azure-ai-ml')}, {date.today()}: scripts/refresh_azureml_keys.py\n"
    )
    writer = csv.DictWriter(out, FIELDS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows())
    write_atomic(data_file("azureml_keys.csv"), out.getvalue().encode())


if __name__ == "__main__":
    main()

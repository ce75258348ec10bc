"""The arguments of the classes of SDK v1 and v1.5 that `migrate` converts, read from the packages.

    pip download --no-deps -d DIR azureml-core azureml-train-core azureml-pipeline-core \\
        azureml-pipeline-steps azure-ml-component
    .venv/bin/python -m scripts.refresh_v1_signatures DIR      # writes tests/migrate/data/v1_signatures.csv

The packages are read with `ast` and neither installed nor imported.
"""

from __future__ import annotations

import ast
import sys
import zipfile
from pathlib import Path

TABLE = Path(__file__).resolve().parent.parent / "tests" / "migrate" / "data" / "v1_signatures.csv"
HYPERDRIVE = "azureml/train/hyperdrive"
COMPONENTS = "azure/ml/component/_core/_component_definition.py"
OUTPUTS = "azureml/data/output_dataset_config.py"
# File -> classes (their constructors), `Class.method`, or functions.
NAMES = {
    "azureml/pipeline/steps/parallel_run_config.py": ("ParallelRunConfig",),
    "azureml/pipeline/steps/parallel_run_step.py": ("ParallelRunStep",),
    "azureml/pipeline/core/builder.py": ("PipelineData",),
    "azureml/pipeline/core/graph.py": ("PipelineParameter",),
    f"{HYPERDRIVE}/runconfig.py": ("HyperDriveConfig",),
    f"{HYPERDRIVE}/sampling.py": (
        *("RandomParameterSampling", "GridParameterSampling", "BayesianParameterSampling"),
    ),
    f"{HYPERDRIVE}/policy.py": (
        *("BanditPolicy", "MedianStoppingPolicy", "TruncationSelectionPolicy"),
        "NoTerminationPolicy",
    ),
    f"{HYPERDRIVE}/parameter_expressions.py": (
        *("choice", "randint", "uniform", "quniform", "loguniform", "qloguniform", "normal"),
        *("qnormal", "lognormal", "qlognormal"),
    ),
    "azureml/core/script_run_config.py": ("ScriptRunConfig",),
    "azureml/core/runconfig.py": (
        *("RunConfiguration", "DockerConfiguration", "MpiConfiguration", "PyTorchConfiguration"),
        "TensorflowConfiguration",
    ),
    "azureml/data/dataset_consumption_config.py": (
        *("DatasetConsumptionConfig", "DatasetConsumptionConfig.as_mount"),
        "DatasetConsumptionConfig.as_download",
    ),
    OUTPUTS: (
        *("OutputFileDatasetConfig", "HDFSOutputDatasetConfig", "LinkFileOutputDatasetConfig"),
        *("LinkTabularOutputDatasetConfig", "OutputFileDatasetConfig.as_mount"),
        *("OutputFileDatasetConfig.as_upload", "OutputDatasetConfig.register_on_complete"),
    ),
    COMPONENTS: (
        *("CommandComponentDefinition", "DistributedComponentDefinition"),
        "SweepComponentDefinition",
    ),
    "azure/ml/component/component.py": ("Component.sweep",),
}


def arguments(tree: ast.Module, name: str) -> list[str]:
    """The arguments of a constructor, method or function, in their order."""
    owner, _, method = name.partition(".")
    body: list[ast.stmt] = tree.body
    for node in tree.body:
        if isinstance(node, ast.ClassDef) and node.name == owner:
            body = node.body
            owner = method or "__init__"
            break
    for node in body:
        if isinstance(node, ast.FunctionDef) and node.name == owner:
            names = [item.arg for item in (*node.args.args, *node.args.kwonlyargs)]
            names += [f"*{node.args.vararg.arg}"] if node.args.vararg else []
            return [item for item in names if item != "self"]
    return []


def main(folder: str) -> None:
    wheels = sorted(Path(folder).glob("*.whl"))
    versions = ", ".join(" ".join(wheel.name.split("-")[:2]) for wheel in wheels)
    lines = [
        "# The arguments of each class, method and function, in their order, read from the wheels on PyPI:",
        f"# {versions}. Refresh: scripts/refresh_v1_signatures.py",
        "file,name,arguments",
    ]
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            for file in sorted(NAMES.keys() & set(archive.namelist())):
                tree = ast.parse(archive.read(file))
                lines += [
                    f"{file},{name},{' '.join(arguments(tree, name))}" for name in NAMES[file]
                ]
    TABLE.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])

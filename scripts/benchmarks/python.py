"""`patch` on Python: files a second on ordinary code, and CPU against `ast.parse` and pyupgrade in the same run.

The tree is a copy of the standard library of this interpreter, with pipelines mixed in as in a repository that has
some: most files are left by the key words alone. Reading files counts for `patch` and pyupgrade alike.
"""

from __future__ import annotations

import ast
import shutil
import sys
import sysconfig
import tempfile
from collections.abc import Callable
from pathlib import Path

from arc_toolkit.azureml.azureml_files import AzureMLFiles
from arc_toolkit.azureml.python.python_plan import patch_source
from arc_toolkit.azureml.references import ProjectFiles
from arc_toolkit.azureml.settings import Settings
from arc_toolkit.batch import run
from arc_toolkit.file_io import read_raw
from arc_toolkit.findings import FileResult
from scripts.benchmarks.common import cpu_of_call, cpu_of_command, report

SETTINGS = Settings(instance_type="32cpu128g", instance_count=2)
PIPELINES = 60
ORDINARY = 900

COMPONENT = """\
$schema: https://azuremlschemas.azureedge.net/latest/commandComponent.schema.json
type: command
name: {name}
command: python {name}.py
environment: azureml:env:1
"""
# A pipeline as they are written: arguments, a docstring, helpers, outputs, a submission. {n} makes each its own.
PIPELINE = '''\
"""Train and score model {n}; see the readme for the data that it needs."""

import argparse
import logging
from pathlib import Path

from azure.ai.ml import Input, MLClient, Output, load_component
from azure.ai.ml.constants import AssetTypes, InputOutputModes
from azure.ai.ml.dsl import pipeline
from azure.identity import DefaultAzureCredential

logger = logging.getLogger(__name__)
ROOT = Path(__file__).parent

prepare_data = load_component(source=str(ROOT / "prepare.yml"))
train_model = load_component(source=str(ROOT / "train.yml"))
score_model = load_component(source=str(ROOT / "score.yml"))


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Submit the pipeline")
    parser.add_argument("--experiment", default="experiment_{n}", help="where the runs are kept")
    parser.add_argument("--data", required=True, help="folder or asset with the training data")
    parser.add_argument("--rounds", type=int, default=100, help="boosting rounds")
    parser.add_argument("--leaves", type=int, default=31, help="leaves of each tree")
    parser.add_argument("--dry-run", action="store_true", help="build the pipeline, submit nothing")
    return parser.parse_args()


def describe(job, arguments):
    """One line for the log."""
    parts = [f"experiment={{arguments.experiment}}", f"rounds={{arguments.rounds}}", f"leaves={{arguments.leaves}}"]
    for name, value in sorted(job.inputs.items()):
        parts.append(f"{{name}}={{value}}")
    return ", ".join(parts)


@pipeline(
    name="pipeline_{n}",
    description="Prepare, train and score",
    default_compute="cpu-cluster",
)
def train_and_score(raw_data, rounds=100, leaves=31):
    """The steps of model {n}."""
    prepare_step = prepare_data(
        raw_data=raw_data,
        drop_columns="id,timestamp",
        test_fraction=0.2,
    )
    prepare_step.outputs.prepared.mode = InputOutputModes.UPLOAD

    train_step = train_model(
        train_data=prepare_step.outputs.prepared,
        num_iterations=rounds,
        num_leaves=leaves,
        learning_rate=0.05,
        objective="regression",
        metric="rmse",
    )
    train_step.environment_variables = {{"LOG_LEVEL": "INFO", "MODEL": "{n}"}}

    score_step = score_model(
        model=train_step.outputs.model,
        test_data=prepare_step.outputs.test,
    )
    return {{
        "model": train_step.outputs.model,
        "scores": score_step.outputs.scores,
    }}


def main() -> int:
    arguments = parse_arguments()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    job = train_and_score(
        raw_data=Input(type=AssetTypes.URI_FOLDER, path=arguments.data),
        rounds=arguments.rounds,
        leaves=arguments.leaves,
    )
    job.outputs.model = Output(type=AssetTypes.URI_FOLDER, mode="rw_mount")
    job.display_name = "model {n}"
    job.tags = {{"owner": "team", "model": "{n}"}}
    logger.info("built %s", describe(job, arguments))
    if arguments.dry_run:
        return 0
    client = MLClient.from_config(credential=DefaultAzureCredential())
    submitted = client.jobs.create_or_update(job, experiment_name=arguments.experiment)
    logger.info("submitted %s: %s", submitted.name, submitted.studio_url)
    client.jobs.stream(submitted.name)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
'''


def make_tree(folder: Path) -> tuple[list[Path], list[Path]]:
    """Ordinary files and pipelines."""
    project = Path(sysconfig.get_paths()["stdlib"])
    ordinary = []
    for path in sorted(project.rglob("*.py")):
        inner = path.relative_to(project)
        if "site-packages" in inner.parts or "lib2to3" in inner.parts or inner.parts[0] == "test":
            continue
        target = folder / "ordinary" / inner
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
        ordinary.append(target)
        if len(ordinary) == ORDINARY:
            break
    pipelines = []
    (folder / "pipelines").mkdir()
    for name in ("prepare", "train", "score"):
        (folder / "pipelines" / f"{name}.yml").write_text(COMPONENT.format(name=name))
    for number in range(PIPELINES):
        target = folder / "pipelines" / f"pipeline_{number}.py"
        target.write_text(PIPELINE.format(n=number))
        pipelines.append(target)
    return ordinary, pipelines


def patch_all(files: list[tuple[str, bytes]]) -> Callable[[], list[FileResult]]:
    """As in a run: what one file says about its components, another does not ask again."""

    def call() -> list[FileResult]:
        project = ProjectFiles(read_raw)
        return [patch_source(path, data, SETTINGS, project) for path, data in files]

    return call


def parse_all(files: list[tuple[str, bytes]]) -> Callable[[], None]:
    def call() -> None:
        for _, data in files:
            ast.parse(data)

    return call


def sdk_files() -> list[tuple[str, bytes]]:
    """Files of azure-ai-ml that have the key words: real code that is parsed, with nothing to change."""
    import azure.ai.ml

    root = Path(azure.ai.ml.__file__).parent
    files = ((str(path), path.read_bytes()) for path in sorted(root.rglob("*.py")))
    return [
        (path, data) for path, data in files if patch_source(path, data, SETTINGS).skipped is None
    ]


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ordinary, pipelines = make_tree(folder)
        paths = [*ordinary, *pipelines]

        def whole() -> int:
            return sum(1 for _ in run([str(folder)], AzureMLFiles(SETTINGS), lambda text: None))

        assert whole() >= len(paths)
        seconds = cpu_of_call(whole)
        print(f"\nPython: a tree of {len(paths)} files, {len(pipelines)} of them pipelines")
        print(
            f"  {'files a second of CPU (discovery and reading too)':<52} {len(paths) / seconds:,.0f}"
        )

        made = [(str(path), path.read_bytes()) for path in pipelines]
        results = patch_all(made)()
        assert all(result.changed for result in results)
        sdk = sdk_files()
        rows = [
            (f"the {len(made) + len(sdk)} files that need it", *_against_parse([*made, *sdk])),
            (f"  {len(made)} pipelines, all changed and proven", *_against_parse(made)),
            (f"  {len(sdk)} files of azure-ai-ml, none changed", *_against_parse(sdk)),
        ]
        report("CPU against parsing the same files once", rows)

        program = "import sys; from arc_toolkit.cli.main import entry; entry()"
        ours = cpu_of_command(
            [
                sys.executable,
                "-c",
                program,
                "patch",
                "--instance-type",
                "32cpu128g",
                "--quiet",
                name,
            ],
            rounds=3,
        )
        peer = cpu_of_command(
            [
                *(
                    sys.executable,
                    "-m",
                    "pyupgrade",
                    "--exit-zero-even-if-changed",
                    "--keep-percent-format",
                ),
                *map(str, paths),
            ],
            rounds=1,
        )
        report(
            "The whole command on the same tree",
            [("patch, shown as a diff", ours, peer, "pyupgrade")],
        )


def _against_parse(files: list[tuple[str, bytes]]) -> tuple[float, float, str]:
    """Alternating rounds, so that a busy machine slows both."""
    ours = parsing = float("inf")
    for _ in range(5):
        parsing = min(parsing, cpu_of_call(parse_all(files), rounds=1))
        ours = min(ours, cpu_of_call(patch_all(files), rounds=1))
    return ours, parsing, "ast.parse"


if __name__ == "__main__":
    main()

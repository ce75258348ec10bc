"""What `patch --sweep-to-v2` and `--prs-to-v2` convert, for the engine of `patch`."""

from __future__ import annotations

from arc_toolkit.azureml.kinds import KINDS, Family, Role
from arc_toolkit.azureml.python.module import Module
from arc_toolkit.azureml.python.python_plan import MakePlan, PythonPlan
from arc_toolkit.azureml.references import ProjectFiles
from arc_toolkit.azureml.settings import Settings
from arc_toolkit.edit.files.plan import FailedGroups
from arc_toolkit.findings import FileResult
from arc_toolkit.migrate.code_sweeps import report_sweeps
from arc_toolkit.migrate.hyperdrive import convert_configs
from arc_toolkit.migrate.legacy_spec import SWEEP_RULE
from arc_toolkit.migrate.parallel_run import PRS_RULE, convert_parallel_runs
from arc_toolkit.migrate.sweep import convert


def _wants_sweeps(settings: Settings) -> bool:
    return settings.sweep_to_v2 and settings.wants(SWEEP_RULE)


def _wants_parallel_runs(settings: Settings) -> bool:
    return settings.prs_to_v2 and settings.wants(PRS_RULE)


class V2Conversions:
    """Implements `azureml_files.Conversions`."""

    def convert_spec(
        self, path: str, data: bytes, settings: Settings, project: ProjectFiles
    ) -> FileResult | None:
        """The v2 files for a v1.5 sweep; None for any other file."""
        spec = KINDS[Family.SWEEP, Role.SPEC]
        if not _wants_sweeps(settings) or all(
            document.root.kind is not spec for document in project.parse(path, data).documents
        ):
            return None
        return convert(path, data, settings, project.read)

    def plan_code(self, settings: Settings) -> MakePlan | None:
        """`plan_conversions` if the command line asks for a conversion."""
        is_wanted = _wants_sweeps(settings) or _wants_parallel_runs(settings)
        return plan_conversions if is_wanted else None


def plan_conversions(
    module: Module,
    project: ProjectFiles,
    settings: Settings,
    path: str,
    first: PythonPlan | None = None,
    failed_groups: FailedGroups | None = None,
) -> PythonPlan:
    """The changes and new files for a module; `first` is the plan of the run before."""
    plan = PythonPlan(module, project, settings, path, first, failed_groups)
    if _wants_sweeps(settings):
        report_sweeps(plan)
        convert_configs(plan)
    if _wants_parallel_runs(settings):
        convert_parallel_runs(plan)
    return plan

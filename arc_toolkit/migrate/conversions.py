"""What `patch --sweep-to-v2` and `--prs-to-v2` convert, for the engine of `patch`."""

from __future__ import annotations

from arc_toolkit.azureml.kinds import KINDS, Family, Role
from arc_toolkit.azureml.library import Library
from arc_toolkit.azureml.python.module import Module
from arc_toolkit.azureml.python.python_engine import MakePlan
from arc_toolkit.azureml.python.python_plan import PythonPlan
from arc_toolkit.azureml.settings import Settings
from arc_toolkit.findings import FileResult
from arc_toolkit.migrate.legacy_spec import RULE as SWEEP_RULE
from arc_toolkit.migrate.parallel_run import PRS_RULE, convert_parallel_runs
from arc_toolkit.migrate.python_sweep import convert_sweeps
from arc_toolkit.migrate.sweep import convert


class V2Conversions:
    """Implements `azureml_files.Conversions`."""

    def convert_spec(
        self, path: str, data: bytes, settings: Settings, library: Library
    ) -> FileResult | None:
        """The v2 files for a v1.5 sweep; None for any other file."""
        if not (settings.sweep_to_v2 and settings.wants(SWEEP_RULE)):
            return None
        spec = KINDS[Family.SWEEP, Role.SPEC]
        documents = library.parse(path, data).documents
        if not any(document.root.kind is spec for document in documents):
            return None
        return convert(path, data, settings, library.read)

    def plan_code(self, settings: Settings) -> MakePlan | None:
        """`plan_conversions` if a conversion was asked for."""
        sweeps = settings.sweep_to_v2 and settings.wants(SWEEP_RULE)
        parallel_runs = settings.prs_to_v2 and settings.wants(PRS_RULE)
        return plan_conversions if sweeps or parallel_runs else None


def plan_conversions(
    module: Module, library: Library, settings: Settings, path: str, first: PythonPlan | None = None
) -> PythonPlan:
    """The changes and new files for a module; `first` is the plan of the run before."""
    plan = PythonPlan(module, library, settings, path, first)
    if settings.sweep_to_v2 and settings.wants(SWEEP_RULE):
        convert_sweeps(plan)
    if settings.prs_to_v2 and settings.wants(PRS_RULE):
        convert_parallel_runs(plan)
    return plan

"""Keys that are one or two letters away from a key that would have an effect."""

from __future__ import annotations

import difflib
import re

from arc_toolkit.azureml.documents import Target
from arc_toolkit.azureml.kinds import Family
from arc_toolkit.azureml.plan import Plan
from arc_toolkit.edit.yaml_editor import Editor, Path
from arc_toolkit.edit.yaml_nodes import Node, pairs
from arc_toolkit.findings import Rule

# Every key that a job, step, trial or component may have (azure-ai-ml 1.35 and the v1.5 specification).
_KEYS = frozenset(
    re.findall(
        r"\S+",
        """
        $schema type name version display_name description tags properties experiment_name compute component trial code
        command environment environment_variables resources distribution limits identity queue_settings services inputs
        outputs settings jobs parameters is_deterministic is_archived retry_settings task mini_batch_size input_data
        mini_batch_error_threshold error_threshold logging_level max_concurrency_per_instance partition_keys objective
        sampling_algorithm search_space early_termination algorithm launcher parallel successful_return_code
        additional_includes intellectual_property job_type task_type training_data validation_data test_data
        target_column_name primary_metric featurization training forecasting training_parameters sweep log_verbosity
        training_defaults entry conf py_files jars files archives args runtime runsettings datatransfer scope hdinsight
        hemera starlite true_block false_block condition body mapping items comment comments id annotations category
        contact author cv_split_column_names n_cross_validations weight_column_name validation_data_size test_data_size
        """,
    )
)
_IMPORTANT = (
    *("resources", "environment_variables", "environment", "compute", "distribution"),
    *("max_concurrency_per_instance", "mini_batch_size"),
)
_IMPORTANT_RESOURCES = ("instance_type", "instance_count", "shm_size", "docker_args")
_RESOURCE_KEYS = frozenset(
    {*_IMPORTANT_RESOURCES, "docker_args_list", "properties", "locations", "max_instance_count"}
    | {"runtime_version", "instance_types"}
)


def _check(plan: Plan) -> None:
    for target in plan.known_targets():
        _look(plan, target, target.own, (), _KEYS, _IMPORTANT)
        if target.kind.family != Family.SPARK and "resources" in target.own:
            own = pairs(target.own["resources"][1])
            _look(plan, target, own, ("resources",), _RESOURCE_KEYS, _IMPORTANT_RESOURCES)


def _look(
    plan: Plan,
    target: Target,
    own: dict[str, tuple[Node, Node]],
    below: Path,
    known: frozenset[str],
    important: tuple[str, ...],
) -> None:
    if known.issuperset(own):
        return
    for name in own.keys() - known:
        near = difflib.get_close_matches(name.lower(), important, n=1, cutoff=0.8)
        if not near:
            continue
        if near[0] in own:
            message = f"`{name}` does nothing: `{near[0]}` is there too"
            plan.report(RULE, message, own[name][0])
            continue
        path = (*target.path, *below, name)

        def fix(editor: Editor, at: Path = path, right: str = near[0]) -> None:
            editor.rename(at, right)

        message = f"`{name}` does nothing: `{near[0]}` is meant"
        reason = "after renaming, a setting takes effect that had none so far"
        title = f"Rename `{name}` to `{near[0]}`"
        plan.report(RULE, message, own[name][0], reason=reason, fix=fix, title=title)


RULE = Rule(
    id="misspelt-key",
    severity="error",
    fix="unsafe",
    summary="a misspelt key that loads and does nothing",
    why="""\
Components are loaded permissively: `resorces:` or `resources.instance_cnt:` in a v2 component, and `resorces:` on a
step, load and validate, and nothing of it is sent. The fix renames the key. It is unsafe because a setting that had no
effect so far begins to have one.""",
    before="""\
type: command
name: train
resorces:
  instance_type: 32cpu128g
""",
    after="""\
type: command
name: train
resources:
  instance_type: 32cpu128g
""",
    check=_check,
)

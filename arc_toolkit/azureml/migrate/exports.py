"""The environment variables of a sweep, and the shell text that sets them where v2 loses them.

A v2 *pipeline* sweep sends its trial as a component, and components have no environment variables (azure-ai-ml
drops them), so there the trial's own command exports them first. A standalone sweep job keeps them.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping

from arc_toolkit.azureml.migrate.legacy_spec import LegacySpec
from arc_toolkit.azureml.threads import PRESTEP, RESTEP

_GET_CORES_CALL = re.compile(r"`\s*get_cores\s*`|\$\(\s*get_cores\s*\)")
# `get_cores` is known only inside AMLARC's own pre-step. In a command its nearest equal is the container's CPU limit
# (cgroup v2, then v1; whole cores, at least 1), and all cores where there is no limit.
GET_CORES = (
    "command -v get_cores > /dev/null || get_cores() { "
    "set -- $(cat /sys/fs/cgroup/cpu.max 2> /dev/null "
    "|| cat /sys/fs/cgroup/cpu/cpu.cfs_quota_us /sys/fs/cgroup/cpu/cpu.cfs_period_us 2> /dev/null); "
    'if [ "$1" -gt 0 ] 2> /dev/null; then echo $(( $1 > $2 ? $1 / $2 : 1 )); else nproc; fi; }'
)


def merged(trial: LegacySpec, sweep: LegacySpec) -> dict[str, str]:
    """The trial's variables and, over them, those of the sweep; every value a string."""
    both = {**trial.mapping("environment_variables"), **sweep.mapping("environment_variables")}
    out = {}
    for name, value in both.items():
        if name == RESTEP and PRESTEP not in both:
            trial.note(f"{RESTEP}, which nothing reads, is written as {PRESTEP}", "environment_variables", name)
            name = PRESTEP
        out[str(name)] = "" if value is None else str(value)
    return out


def exports(variables: Mapping[str, str], cores: int | None) -> str:
    """Shell text that sets the variables and does what AMLARC_PRESTEP would, ending where a command can follow."""
    lines = []
    plain = {name: value for name, value in variables.items() if name != PRESTEP}
    if plain:
        lines.append("export " + " ".join(f"{name}={shlex.quote(value)}" for name, value in plain.items()))
    prestep = variables.get(PRESTEP, "").strip().rstrip(";").rstrip()
    if "get_cores" in prestep and cores is not None:
        prestep = _GET_CORES_CALL.sub(str(cores), prestep)
    if "get_cores" in prestep:
        lines.append(GET_CORES)
    if prestep:
        lines.append(prestep)
    # A comment or a line continuation in the pre-step would take in what follows on the same line.
    glue = "\n" if "\n" in prestep or "#" in prestep else "; "
    return glue.join(lines) + glue if lines else ""

"""LightGBM without thread settings, or with wrong ones."""

from __future__ import annotations

from functools import partial

from arc_toolkit.azureml.rules._threads import check_threads
from arc_toolkit.findings import Rule

RULE = Rule(
    id="lightgbm-threads",
    severity="warning",
    fix="none",
    summary="LightGBM without or with wrong thread settings",
    why="""\
In a container OpenMP sees all cores of the *node*, not those of the instance type. LightGBM then starts 64 threads on
8 cores and is many times slower. `AMLARC_PRESTEP` runs before the job and exports what `get_cores` says. With several
processes on a node (PRS, MPI, PyTorch) each gets its part as a literal number. `patch --threads auto` sets it.
A job uses LightGBM if its command names it, the script of the command or a module that it imports does, or its
environment has the package and the code does not show otherwise. It is a note where nothing says that the compute is
Kubernetes, and nothing on a cluster of VMs (`cpu-cluster`, `serverless`), where the default is right.""",
    before="""\
command: python train.py
compute: azureml:aks
environment: azureml:AzureML-lightgbm-3.3@latest
""",
    after="""\
command: python train.py
compute: azureml:aks
environment: azureml:AzureML-lightgbm-3.3@latest
environment_variables:
  AMLARC_PRESTEP: "export MKL_NUM_THREADS=` get_cores ` NUMEXPR_NUM_THREADS=` get_cores ` OMP_NUM_THREADS=` get_cores `"
""",
    language="yaml, python",
    check=partial(check_threads, framework="lightgbm"),
)

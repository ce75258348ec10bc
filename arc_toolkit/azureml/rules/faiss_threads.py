"""FAISS without thread settings, or with wrong ones."""

from __future__ import annotations

from functools import partial

from arc_toolkit.azureml.rules._threads import check_threads
from arc_toolkit.findings import Rule

RULE = Rule(
    id="faiss-threads",
    severity="warning",
    fix="none",
    summary="FAISS without or with wrong thread settings",
    why="""\
FAISS starts one OpenMP thread per core, in every process. With a PyTorch DataLoader each worker is a process, so that
8 workers on 32 cores need `OMP_NUM_THREADS` = 32 / 8 = 4. `AMLARC_PRESTEP` cannot do that division: a literal number is
needed. Without a DataLoader the variable comes from `get_cores`. `patch --threads auto` sets it. What counts as a
use of FAISS, and on which computes it matters, is as for `lightgbm-threads`.""",
    before="""\
command: python search.py --num_workers 8
resources:
  instance_type: 32cpu128g
""",
    after="""\
command: python search.py --num_workers 8
environment_variables:
  OMP_NUM_THREADS: "4"
resources:
  instance_type: 32cpu128g
""",
    language="yaml, python",
    check=partial(check_threads, framework="faiss"),
)

"""How many threads a job should use, and how that is written: AMLARC_PRESTEP or literal numbers.
Pure.

Sources: the AMLARC migration note (AML-Kubernetes, docs/AzAP-support-migration.md) for
AMLARC_PRESTEP, `get_cores` and the FAISS rule; Microsoft Learn for the default number of PRS
processes. Reading files is not done here.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Literal

from arc_toolkit.azureml.evidence import Framework, FrameworkEvidence
from arc_toolkit.azureml.settings import Settings

PRESTEP = "AMLARC_PRESTEP"
# The same note has this spelling in its code samples; nothing reads it.
RESTEP = "AMLARC_RESTEP"

# LightGBM reads OMP; the note sets all three, since NumPy (MKL) and numexpr usually work beside it.
LIGHTGBM_NAMES = ("MKL_NUM_THREADS", "NUMEXPR_NUM_THREADS", "OMP_NUM_THREADS")
FAISS_NAMES = ("OMP_NUM_THREADS",)
# The inner blanks are as in the note.
GET_CORES = "` get_cores `"
_OPERATORS = ";&|\n"


# --- AMLARC_PRESTEP -------------------------------------------------------------------------------


def prestep(names: Iterable[str]) -> str:
    """``export A=` get_cores ` B=` get_cores ` ``"""
    return "export " + " ".join(f"{name}={GET_CORES}" for name in names)


def merge_prestep(old: str | None, names: Iterable[str]) -> str:
    """The PRESTEP value that exports all `names` and does all that `old` did.

    What `old` exports stays as it is, whatever the value. A lone export command is made longer; in
    front of anything else a command of its own is put, since what follows `old` could be inside a
    comment or a loop.
    """
    if old is None or not old.strip():
        return prestep(names)
    exported = exported_names(old)
    missing = [name for name in names if name not in exported]
    if not missing:
        return old
    is_lone_export = _is_export(old.strip()) and len(_pieces(old.strip(), _OPERATORS)) == 1
    if is_lone_export:
        return old.rstrip() + " " + prestep(missing).removeprefix("export ")
    return f"{prestep(missing)}; {old}"


def exported_names(text: str) -> dict[str, str]:
    """Names that shell text exports to the commands after it, with their values as written.

    What is exported in the background (`export A=1 && ./monitor.sh & python train.py`), in a pipe
    or in parentheses is lost with its shell.
    """
    exports: list[str] = []
    together: list[str] = []  # joined by && and ||: one `&` sends all of them into the background
    before = ""
    for command, operator in _pieces(text, _OPERATORS):
        if "|" not in (before, operator) and _is_export(command.strip()):
            together.append(command.strip())
        if operator not in ("&&", "||", "|"):
            exports += together if operator != "&" else ()
            together = []
        before = operator
    words = [word for command in exports for word, _ in _pieces(command, " \t")]
    return dict(word.split("=", 1) for word in words if re.match(r"[A-Za-z_]\w*=", word))


def _is_export(command: str) -> bool:
    return bool(re.match(r"export\s+[A-Za-z_]\w*=", command)) and "#" not in command


def _pieces(text: str, separators: str) -> list[tuple[str, str]]:
    """Text cut at characters that stand outside of quotes and parentheses, each piece with the
    operator after it.
    """
    parts, start, closer, depth, index = [], 0, "", 0, 0
    while index < len(text):
        char = text[index]
        if char == "\\" and closer != "'":
            index += 1
        elif closer:
            if char == closer:
                closer = ""
        elif char in "'\"`":
            closer = char
        elif char == "(":
            depth += 1
        elif char == ")":
            depth = max(0, depth - 1)
        elif char == "&" and ">" in text[max(0, index - 1) : index + 2]:
            pass  # `2>&1` is one word
        elif char in separators and depth == 0:
            operator = char * 2 if char in "&|" and text.startswith(char * 2, index) else char
            parts.append((text[start:index], operator))
            start = index + len(operator)
            index = start - 1
        index += 1
    return [*parts, (text[start:], "")]


# --- how many cores -------------------------------------------------------------------------------

# 32cpu128g, 32c256g, gpu-8cores-64g: a number, then cpu, core(s) or c.
_CORES_IN_NAME = re.compile(
    r"(?<![a-z0-9.])(\d{1,4})(?:\.\d{1,3})?(?:v?cpus?|cores?|c)(?=\d|[^a-z]|$)"
)
_GPUS_IN_NAME = re.compile(
    r"(?<![a-z0-9])(\d{1,2})gpus?(?=\d|[^a-z]|$)|(?<=[0-9]g)(\d{1,2})gpus?(?=[^a-z0-9]|$)"
)


def cores_of(instance_type: str | None, settings: Settings) -> tuple[int | None, str]:
    """Cores of an instance type and where the number is from, or None and what to do."""
    if settings.cores is not None:
        return settings.cores, f"--cores {settings.cores}"
    if instance_type is None:
        return None, "no instance type is set here: use --instance-type or --cores"
    if known := settings.instance_types.get(instance_type):
        return known.cores, f"the manifest of {instance_type}"
    if match := _CORES_IN_NAME.search(instance_type):
        return max(int(match[1]), 1), f"the name {instance_type}"
    unknown = f"nothing says how many cores {instance_type} has"
    return None, f"{unknown}: use --instance-types DIR or --cores"


def gpus_of(instance_type: str | None, settings: Settings) -> int | None:
    """GPUs of an instance type: its manifest, or its name; None where neither says."""
    if instance_type is None:
        return None
    if known := settings.instance_types.get(instance_type):
        return known.gpus
    match = _GPUS_IN_NAME.search(instance_type)
    return int(match[1] or match[2]) if match else None


# --- how many processes ---------------------------------------------------------------------------

# Launchers that start processes on a node, with the option that says how many.
_LAUNCHED = re.compile(
    r"""(?:^|[\s;&|(/])(?:
        (?:torchrun|torch\.distributed\.(?:run|launch))\b[^;&|\n]*?\s--nproc[-_]per[-_]node(?:\s+|=)
      | deepspeed\b[^;&|\n]*?\s--num_gpus(?:\s+|=)
      | (?:mpirun|mpiexec|horovodrun)\b[^;&|\n]*?\s--?(?:np|n|num-proc)(?:\s+|=)
    )(\S+)""",
    re.VERBOSE,
)
_LAUNCHERS = ("nproc", "deepspeed", "mpirun", "mpiexec", "horovodrun")  # cheap, and in few commands


def launched_processes(command: str | None) -> str | None:
    """How many processes a launcher in a command starts on a node, as it is written; None where
    there is none.
    """
    if command is None or not any(word in command for word in _LAUNCHERS):
        return None
    match = _LAUNCHED.search(command.replace("\\\n", " "))
    return match[1].strip("\"'") if match else None


# --- the decision ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Decision:
    """What to write for one target, and why.

    `prestep`: AMLARC_PRESTEP exports `names`; `literal`: each of `names` is `number`; `nothing`:
    nothing is asked or there is no evidence; `cannot`: something is asked, and `reason` says what
    is missing.
    """

    how: Literal["prestep", "literal", "nothing", "cannot"]
    names: tuple[str, ...] = ()
    number: int | None = None
    reason: str = ""

    def variables(self, old: Mapping[str, str]) -> dict[str, str]:
        """The environment variables to write, given the present ones.

        In a PRESTEP, names that already have a literal value of their own are left to it.
        """
        new = dict.fromkeys(self.names, str(self.number))
        if self.how == "prestep":
            free = [name for name in self.names if name not in old]
            new = {PRESTEP: merge_prestep(old.get(PRESTEP), free)} if free else {}
        return {name: value for name, value in new.items() if old.get(name) != value}

    def export_command(self, yielding: bool = False) -> str:
        """The same as shell text, for places that lose environment variables: `export A=32 B=32`.

        Only literal numbers: `get_cores` is known to AMLARC_PRESTEP alone. With `yielding` a
        variable that is set already keeps its value: `export A=${A:-32}`.
        """
        form = "{0}=${{{0}:-{1}}}" if yielding else "{0}={1}"
        return "export " + " ".join(form.format(name, self.number) for name in self.names)


NOTHING = Decision("nothing")
# What shares the cores of a node, as a message says it.
_SHARES = {"processes": "processes per node", "workers": "DataLoader workers"}


def decide(
    settings: Settings,
    evidence: Sequence[FrameworkEvidence],
    *,
    instance_type: str | None,
    parallel: bool = False,
    processes: int | None = None,
    windows: bool = False,
    literal_only: bool = False,
) -> Decision:
    """The thread settings of one target.

    `processes` is how many share a node: PRS (`parallel`) starts one per core where nothing says
    that. `literal_only` is for places where AMLARC_PRESTEP would be lost.
    """
    framework = _chosen(settings, evidence)
    if framework is None:
        return NOTHING
    because = (
        "; ".join(map(str, evidence)) if settings.threads == "auto" else f"--threads {framework}"
    )
    if windows:
        return Decision("cannot", reason=f"{because}, but AMLARC_PRESTEP is for Linux jobs only")
    names = FAISS_NAMES if framework == "faiss" else LIGHTGBM_NAMES
    names = tuple(dict.fromkeys((*names, *settings.exports)))
    cores, source = cores_of(instance_type, settings)

    def literal(**shares: int) -> Decision:
        if cores is None:
            return Decision("cannot", names, reason=f"{because}, but {source}")
        number = max(1, cores // prod(shares.values()))
        parts = [f" / {share} {_SHARES[of]}" for of, share in shares.items() if share > 1]
        arithmetic = (
            f"{cores} cores ({source})" + "".join(parts) + (f" = {number}" if parts else "")
        )
        return Decision("literal", names, number, f"{because}: {arithmetic}")

    if parallel and processes is None and not gpus_of(instance_type, settings):
        # Microsoft Learn: on CPU the default of max_concurrency_per_instance is the number of
        # cores.
        reason = f"{because}: without max_concurrency_per_instance PRS starts one process per core"
        return Decision("literal", names, 1, reason)
    processes = processes or 1
    if framework == "faiss":
        workers = settings.dataloader_workers
        if workers is None:
            workers = next((item.count for item in evidence if item.what == "workers"), None)
        if workers is None and any(item.what == "dataloader" for item in evidence):
            return Decision(
                "cannot",
                names,
                reason=f"{because}, but its workers are not known: use --dataloader-workers N",
            )
        if workers:
            return literal(processes=processes, workers=workers)
    if settings.manual or literal_only or processes > 1:
        return literal(processes=processes)
    return Decision("prestep", names, reason=because)


def _chosen(settings: Settings, evidence: Sequence[FrameworkEvidence]) -> Framework | None:
    if settings.threads in ("lightgbm", "faiss"):
        return settings.threads
    if settings.threads != "auto":
        return None
    seen = {item.what for item in evidence}
    if "lightgbm" in seen and not ("faiss" in seen and seen & {"dataloader", "workers"}):
        return "lightgbm"
    return "faiss" if "faiss" in seen else None

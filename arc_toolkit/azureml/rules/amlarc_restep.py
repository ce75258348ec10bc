"""AMLARC_RESTEP where AMLARC_PRESTEP is meant, in keys and in text."""

from __future__ import annotations

from collections.abc import Iterator

import yaml

from arc_toolkit.azureml.documents import Document
from arc_toolkit.azureml.threads import PRESTEP, RESTEP
from arc_toolkit.azureml.work import Work
from arc_toolkit.edit.yaml_editor import Editor, Path
from arc_toolkit.edit.yaml_nodes import Node
from arc_toolkit.findings import Rule


def _check(work: Work, document: Document) -> None:
    message = f"{RESTEP} is read by nothing: the variable is called {PRESTEP}"
    for path, node, is_key in _places(document.root.node, (document.index,), set()):

        def fix(editor: Editor, at: Path = path, key: bool = is_key) -> None:
            if key:
                editor.rename(at, PRESTEP)
            else:
                editor.replace(at, RESTEP, PRESTEP)

        title = f"Rename {RESTEP} to {PRESTEP}"
        work.report(RULE, message, node, fix=fix, title=title, applied=work.is_planned(path))


def _places(node: Node, path: Path, seen: set[int]) -> Iterator[tuple[Path, Node, bool]]:
    if id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node, yaml.ScalarNode):
        if RESTEP in node.value:
            yield path, node, False
    elif isinstance(node, yaml.SequenceNode):
        for index, child in enumerate(node.value):
            yield from _places(child, (*path, index), seen)
    elif isinstance(node, yaml.MappingNode):
        for key, child in node.value:
            if key.value == RESTEP:
                yield (*path, key.value), key, True
            yield from _places(child, (*path, key.value), seen)


RULE = Rule(
    id="amlarc-restep",
    severity="error",
    fix="safe",
    summary="AMLARC_RESTEP instead of AMLARC_PRESTEP",
    why="""\
The migration note of AzureML on Kubernetes describes the variable as `AMLARC_PRESTEP`, but its three code samples
spell it `AMLARC_RESTEP`. Whoever pasted a sample has a variable that nothing reads, and a job whose threads are not
set.""",
    before="""\
environment_variables:
  AMLARC_RESTEP: "export OMP_NUM_THREADS=` get_cores `"
""",
    after="""\
environment_variables:
  AMLARC_PRESTEP: "export OMP_NUM_THREADS=` get_cores `"
""",
    language="yaml, python",
    check=_check,
    needs=(RESTEP,),
)

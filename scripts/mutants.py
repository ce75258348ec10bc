"""The mutants of scripts/mutate: rules, rows of tables, proofs, and a list written by hand.

A mutant whose text or table is no longer in the source is an error, so this list follows the code.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from arc_toolkit.azureml.rules import all_rules
from arc_toolkit.placement.rules import manifest_rules
from arc_toolkit.sizing.validation_rules import RULES as VALIDATION_RULES
from scripts.checkpoint_mutants import CHECKPOINT_MUTANTS
from scripts.cost_mutants import cost_replacements
from scripts.elastic_mutants import ELASTIC_MUTANTS
from scripts.mutation import Module, Mutant, csv_field, csv_rows, replaced
from scripts.notice_mutants import NOTICE_MUTANTS

AZUREML = "arc_toolkit/azureml/"
PLACEMENT = "arc_toolkit/placement/"
WORKLOADS = "arc_toolkit/kube/workloads.py"
# The smallest sets of tests that have to notice a mutant.
YAML_TESTS = ("tests/azureml/test_rules.py",)
PYTHON_TESTS = (
    *(f"tests/azureml/python/test_{name}.py" for name in ("rules", "ignores", "prs")),
    "tests/azureml/test_pairs.py",
)
NAME_TESTS = ("tests/azureml/python/test_sdk_names.py", "tests/azureml/python/test_refusals.py")
KIND_TESTS = ("tests/azureml/test_kinds.py",)
SIZING_TESTS = ("tests/sizing/test_reservations.py", "tests/sizing/test_schedulable.py")
NODE_TESTS = ("tests/kube/test_nodes.py",)
PARTS_TESTS = ("tests/edit/test_yaml_parts.py",)
PROOF_TESTS = ("tests/edit/test_proofs.py", "tests/azureml/test_proofs.py")
MANIFEST_TESTS = ("tests/placement/test_manifest_rules.py",)
WORKLOAD_TESTS = tuple(f"tests/placement/test_{name}.py" for name in ("workload_kinds", "retries", "place_spec"))
VALIDATION_TESTS = ("tests/sizing/test_validation.py",)
GPU_TESTS = ("tests/diagnosis/test_scan.py", "tests/diagnosis/test_cause_questions.py")
CAUSE_TESTS = tuple(f"tests/diagnosis/test_{name}.py" for name in ("signals", "causes", "verdicts"))

# (group, file, table, tests): every entry is removed once.
TABLES = (
    ("kinds", AZUREML + "kinds.py", "_SPECS", KIND_TESTS),
    ("kinds", AZUREML + "kinds.py", "_JOB_KEYS", KIND_TESTS),
    ("kinds", AZUREML + "kinds.py", "_COMPONENT_KEYS", KIND_TESTS),
    ("kinds", AZUREML + "kinds.py", "_NEEDED_KEYS", KIND_TESTS),
    ("python names", AZUREML + "python/sdk_names.py", "KEY_WORDS", NAME_TESTS),
    ("python names", AZUREML + "python/sdk_names.py", "ACTIONS", NAME_TESTS),
    ("python names", AZUREML + "python/sdk_names.py", "ROLES", NAME_TESTS),
    ("python names", AZUREML + "python/sdk_names.py", "ENTITIES", NAME_TESTS),
    ("python names", AZUREML + "python/sdk_names.py", "PROOFS", NAME_TESTS),
    ("python names", AZUREML + "python/sdk_names.py", "LEAF_ATTRIBUTES", NAME_TESTS),
    ("python names", AZUREML + "python/sdk_names.py", "HARMLESS_CALLS", NAME_TESTS),
    ("sizing", "arc_toolkit/sizing/reservations.py", "CPU_STEPS", SIZING_TESTS),
    ("sizing", "arc_toolkit/sizing/reservations.py", "MEMORY_BRACKETS", SIZING_TESTS),
    ("sizing", "arc_toolkit/sizing/reservations.py", "MAX_PODS", SIZING_TESTS),
    ("nodes", "arc_toolkit/kube/nodes.py", "SIZE_LABELS", NODE_TESTS),
    ("nodes", "arc_toolkit/kube/nodes.py", "POOL_LABELS", NODE_TESTS),
    ("nodes", "arc_toolkit/kube/devices.py", "GPU_RESOURCES", NODE_TESTS),
    ("nodes", "arc_toolkit/kube/nodes.py", "CONTROL_PLANE_LABELS", NODE_TESTS),
    ("nodes", "arc_toolkit/kube/taints.py", "AZUREML_TOLERATIONS", NODE_TESTS),
    ("nodes", "arc_toolkit/kube/taints.py", "EFFECTS", NODE_TESTS),
    ("signals", "arc_toolkit/diagnosis/signals.py", "EVICTED", CAUSE_TESTS),
    ("signals", "arc_toolkit/diagnosis/signals.py", "REPLACED_BY", CAUSE_TESTS),
    ("signals", "arc_toolkit/diagnosis/signals.py", "GOOD_WHEN_TRUE", CAUSE_TESTS),
    ("signals", "arc_toolkit/diagnosis/gpu_messages.py", "MESSAGES", GPU_TESTS),
    ("signals", "arc_toolkit/diagnosis/xids.py", "HARDWARE_XIDS", GPU_TESTS),
    ("signals", "arc_toolkit/diagnosis/xids.py", "APPLICATION_XIDS", GPU_TESTS),
    ("workloads", WORKLOADS, "_ROWS", WORKLOAD_TESTS),
    ("workloads", WORKLOADS, "WITHOUT_PODS", WORKLOAD_TESTS),
    ("workloads", PLACEMENT + "spot.py", "CLOUDS", (*WORKLOAD_TESTS, *MANIFEST_TESTS)),
    ("workloads", PLACEMENT + "spot.py", "SPOT_LABELS", (*WORKLOAD_TESTS, *MANIFEST_TESTS)),
)
# (group, file, constant, tests): every number becomes one more.
NUMBERS = tuple(
    ("sizing", "arc_toolkit/sizing/reservations.py", name, SIZING_TESTS)
    for name in (
        "CPU_STEPS",
        "CPU_BEYOND_M",
        "MEMORY_BRACKETS",
        "MEMORY_BEYOND_PERCENT",
        "EVICTION_BEFORE_1_29_MIB",
        "PODS_REGIME_SINCE",
        "MEMORY_PER_POD_MIB",
        "MEMORY_BASE_MIB",
        "EVICTION_MIB",
        "WINDOWS_EXTRA_MIB",
        "MAX_PODS",
        "MAX_PODS_RANGE",
    )
)
# (group, file, table, tests): every boolean is flipped.
BOOLEANS = (("signals", "arc_toolkit/diagnosis/signals.py", "KINDS", CAUSE_TESTS),)

# (group, what is broken, file, function, its new first statement, tests)
FUNCTIONS: tuple[tuple[str, str, str, str, str, tuple[str, ...]], ...] = (
    (
        "ignores",
        "nothing is ignored on its line",
        "arc_toolkit/edit/ignores.py",
        "Ignores.covers",
        "return rule in self.lines.get(0, ())",
        ("tests/azureml/python/test_ignores.py", "tests/azureml/test_commands.py"),
    ),
    (
        "ignores",
        "ignores in manifests are not looked at",
        "arc_toolkit/ignore_rules.py",
        "ignore_problems",
        "return",
        MANIFEST_TESTS,
    ),
    (
        "diagnosis",
        "all ranks are equally alike",
        "arc_toolkit/diagnosis/matching.py",
        "_strangeness",
        "return 0",
        ("tests/diagnosis/test_attempts.py",),
    ),
)

# (group, what is broken, file, old text, new text, tests)
REPLACEMENTS: tuple[tuple[str, str, str, str, str, tuple[str, ...]], ...] = (
    (
        "proofs",
        "YAML edits are not compared",
        "arc_toolkit/edit/yaml_editor.py",
        "return len(before) == len(documents) and all(",
        "return True or all(",
        PROOF_TESTS,
    ),
    (
        "proofs",
        "appended items are not compared",
        "arc_toolkit/edit/yaml_proof.py",
        "return holds(SequenceNode(old.tag, new.value[size:]), change.get(APPENDED, [])) and all(",
        "return all(",
        PROOF_TESTS,
    ),
    (
        "proofs",
        "a part may be at another column",
        "arc_toolkit/edit/yaml_parts.py",
        "(key.value, key.start_mark.column) == part[:2]",
        "key.value == part[0]",
        PARTS_TESTS,
    ),
    (
        "proofs",
        "words may stay in place of parts",
        "arc_toolkit/edit/yaml_parts.py",
        "return None if finder.parts else whole",
        "return whole",
        PARTS_TESTS,
    ),
    (
        "proofs",
        "a part may have edits inside",
        "arc_toolkit/edit/yaml_parts.py",
        "if edit < len(self._starts) and self._starts[edit] < end:",
        "if False:",
        PARTS_TESTS,
    ),
    (
        "proofs",
        "a script may go on behind its part",
        "arc_toolkit/edit/yaml_parts.py",
        "return place == len(self._after) if line is None else len(line[1]) <= column",
        "return True",
        PARTS_TESTS,
    ),
    (
        "proofs",
        "kept line breaks may be lost behind a part",
        "arc_toolkit/edit/yaml_parts.py",
        'return "+" not in header and not',
        "return not",
        PARTS_TESTS,
    ),
    (
        "proofs",
        "a document that is left out may have edits",
        "arc_toolkit/edit/yaml_parts.py",
        "if is_kept and (edit == len(self._starts) or self._starts[edit] > end) and",
        "if",
        PARTS_TESTS,
    ),
    (
        "proofs",
        "new lines may end the document",
        "arc_toolkit/edit/yaml_parts.py",
        "if _DOCUMENT.search(text):",
        "if False:",
        PARTS_TESTS,
    ),
    (
        "proofs",
        "Python edits are not compared",
        "arc_toolkit/edit/python_proof.py",
        "if not same(source.body, new.body, is_kept):",
        "if False:",
        PROOF_TESTS,
    ),
    (
        "proofs",
        "Python edits may be anywhere",
        "arc_toolkit/edit/python_proof.py",
        "if not all(place.hold(edit) for edit in own):",
        "if False:",
        PROOF_TESTS,
    ),
    (
        "proofs",
        "notebooks are not compared",
        "arc_toolkit/edit/notebook.py",
        "    _prove(text, after, cells, edits)\n",
        "",
        PROOF_TESTS,
    ),
    (
        "proofs",
        "YAML is not planned a second time",
        AZUREML + "yaml_engine.py",
        'raise Refused("a second run would change it again")',
        "pass",
        PROOF_TESTS,
    ),
    (
        "proofs",
        "Python is not planned a second time",
        AZUREML + "python/python_engine.py",
        'raise Refused("a second run would change it again")',
        "pass",
        PROOF_TESTS,
    ),
    (
        "proofs",
        "manifests are not planned a second time",
        PLACEMENT + "place_files.py",
        'raise Refused("a second run would change it again")',
        "pass",
        ("tests/placement/test_proofs_of_place.py",),
    ),
    (
        "proofs",
        "code with pods is not planned a second time",
        PLACEMENT + "code/code_plan.py",
        'raise Refused("a second run would change it again")',
        "pass",
        ("tests/placement/test_proofs_of_place.py",),
    ),
    (
        "proofs",
        "objects in code are not compared",
        PLACEMENT + "code/code_plan.py",
        "if [plain_data(document) for document in again.documents] != expected:",
        "if False:",
        ("tests/placement/test_proofs_of_place.py",),
    ),
    (
        "proofs",
        "changed Python is not compiled",
        "arc_toolkit/edit/python_proof.py",
        "if not _compiles(changed) and _compiles(parse(source.text)):",
        "if False:",
        PROOF_TESTS,
    ),
    (
        "diagnosis",
        "an exit code is stronger than a node event",
        "arc_toolkit/diagnosis/signals.py",
        "EvidenceSource.EXIT_CODE: 8,",
        "EvidenceSource.EXIT_CODE: 4,",
        CAUSE_TESTS,
    ),
)


def all_mutants() -> list[Mutant]:
    return [*rules(), *kinds(), *workloads(), *tables(), *facts(), *replacements()]


def rules() -> Iterator[Mutant]:
    """Each rule is silent, once in YAML and once in Python."""
    module = Module(AZUREML + "plan.py")
    for rule in all_rules().values():
        for language, tests in (("yaml", YAML_TESTS), ("python", PYTHON_TESTS)):
            if language in rule.language:
                silence = f'if (rule, self.language) == ("{rule.id}", "{language}"):\n            return'
                text = module.beginning("Plan.add_finding", silence)
                yield Mutant("rules", f"{rule.id} in {language}", module.path, text, tests)
    module = Module(PLACEMENT + "place_plan.py")
    for name in manifest_rules():
        text = module.beginning("PlacePlan.add", f'if rule == "{name}":\n            return')
        yield Mutant("rules", f"{name} in manifests", module.path, text, MANIFEST_TESTS)
    path = "arc_toolkit/sizing/validation.py"
    old = "for finding in findings if not"
    for name in VALIDATION_RULES:
        new = f'for finding in findings if finding.rule != "{name}" and not'
        yield Mutant("rules", f"{name} of validate", path, replaced(path, old, new), VALIDATION_TESTS)


def kinds() -> Iterator[Mutant]:
    """Each row of the kinds table is removed, and each of its slots flipped."""
    module = Module(AZUREML + "kinds.py")
    for entry, text in module.without_each("KINDS"):
        yield Mutant("kinds", f"without {entry}", module.path, text, KIND_TESTS)
    for row, _ in module.rows("KINDS"):
        assert isinstance(row, ast.Call)
        slots = row.args[2]
        for name in ("_RESOURCES", "_COMPUTE", "_VARIABLES"):
            text = module.with_node(slots, f"({module.written(slots)}) ^ {name}")
            yield Mutant("kinds", f"{name} flipped in {module.written(row)}", module.path, text, KIND_TESTS)


def workloads() -> Iterator[Mutant]:
    """Each row of the table of workloads has no retries, and no coordinators."""
    module = Module(WORKLOADS)
    for row, _ in module.rows("_ROWS"):
        for node in ast.walk(row):
            shown = module.written(node) if isinstance(node, ast.expr) else ""
            new = ""
            if isinstance(node, ast.Attribute) and shown.startswith("Retry."):
                new = "Retry.NONE"
            elif shown.startswith("frozenset(") or shown == "COORDINATOR_NAMES":
                new = "frozenset()"
            if new:
                name = f"{shown} is {new} in {module.written(row)[:70]}"
                yield Mutant("workloads", name, module.path, module.with_node(node, new), WORKLOAD_TESTS)


def tables() -> Iterator[Mutant]:
    for group, path, name, tests in TABLES:
        for entry, text in Module(path).without_each(name):
            yield Mutant(group, f"{name} without {entry}", path, text, tests)
    for group, path, name, tests in NUMBERS:
        for entry, text in Module(path).numbers(name):
            yield Mutant(group, entry, path, text, tests)
    for group, path, name, tests in BOOLEANS:
        for entry, text in Module(path).booleans(name):
            yield Mutant(group, f"{name} {entry}", path, text, tests)


def facts() -> Iterator[Mutant]:
    """The rows of the shipped tables that decide something; vm_sizes.csv is Azure's own list."""
    path = "arc_toolkit/data/signals.csv"
    for row, text in csv_rows(path):
        yield Mutant("signals", f"without {row[:70]}", path, text, CAUSE_TESTS)
    for row, text in csv_field(path, "kind", "user-error"):
        yield Mutant("signals", f"a user's error: {row[:70]}", path, text, CAUSE_TESTS)
    path = "arc_toolkit/data/daemonsets.csv"
    for row, text in csv_rows(path):
        yield Mutant("sizing", f"without DaemonSet {row}", path, text, SIZING_TESTS)
    path = "arc_toolkit/data/observed_losses.csv"
    for row, text in csv_rows(path):
        yield Mutant("sizing", f"without loss {row}", path, text, SIZING_TESTS)


def replacements() -> Iterator[Mutant]:
    for group, name, path, function, statement, tests in FUNCTIONS:
        yield Mutant(group, name, path, Module(path).beginning(function, statement), tests)
    by_hand = (*REPLACEMENTS, *cost_replacements(), *CHECKPOINT_MUTANTS, *NOTICE_MUTANTS, *ELASTIC_MUTANTS)
    for group, name, path, old, new, tests in by_hand:
        yield Mutant(group, name, path, replaced(path, old, new), tests)

"""One file under work: what is known about it, the edits that are wanted, and the findings so far.

Settings and rules both speak to a `Work`; neither sees the file system, and neither prints.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from arc_toolkit.azureml.documents import SourceFile, Target
from arc_toolkit.azureml.kinds import Role
from arc_toolkit.azureml.library import Library
from arc_toolkit.azureml.settings import Settings
from arc_toolkit.azureml.threads import Evidence
from arc_toolkit.azureml.yaml_style import EDIT_STYLE, is_bound
from arc_toolkit.edit.edits import Refused
from arc_toolkit.edit.ignores import Ignores, find_ignores
from arc_toolkit.edit.yaml_editor import Editor, Path
from arc_toolkit.edit.yaml_nodes import Node, pairs, place, text_of
from arc_toolkit.edit.yaml_proof import Value
from arc_toolkit.findings import Finding, Fix, Rule, Severity

Operation = Callable[[Editor], None]

# Characters to read again for finding the one edit of a file that cannot be made.
_BEARABLE = 2_000_000


class Work:
    """The state of one file while its settings are placed and its rules run."""

    def __init__(
        self,
        file: SourceFile,
        library: Library,
        settings: Settings,
        *,
        in_folder: bool = True,
        before: Work | None = None,
        blocked: Mapping[Path, str] | None = None,
    ) -> None:
        self.file = file
        self.library = library
        self.settings = settings
        # Whether a folder was given, so that "nothing uses it" means something.
        self.in_folder = in_folder
        self.editor = Editor(file.yaml, EDIT_STYLE)
        self.ignores: Ignores = find_ignores(file.yaml.text)
        self.findings: list[Finding] = []
        self._everything = not (
            settings.only or settings.skip or settings.steps or settings.kinds or self.ignores.lines
        )
        # Only the edits of a second run count, not its findings.
        self._is_second = before is not None
        self._proofs = 0
        self.refusals: list[str] = []
        self.new_files: list[tuple[str, bytes]] = []
        self._planned: dict[Path, Value] = {}
        # What was tried on its own and cannot be made, by rule and path, with the reason.
        self._blocked: Mapping[Path, str] = blocked or (before._blocked if before else {})
        self._operations: list[tuple[str, Path, Operation]] = []
        # By path, so that the second run of the same file (`before`) need not look again.
        self._evidence: dict[Path, tuple[Evidence, ...]] = before._evidence if before else {}

    # --- findings ------------------------------------------------------------------------------------------

    def found(
        self,
        rule: str,
        severity: Severity,
        message: str,
        at: Node,
        *,
        reason: str = "",
        fix: Fix | None = None,
        applied: bool = False,
    ) -> None:
        """A finding, unless it is ignored or not asked for."""
        line, column = place(at)
        if self.settings.wants(rule) and not self.ignores.covers(rule, line):
            self.findings.append(
                Finding(rule, severity, message, self.file.path, line, column, reason, fix, applied)
            )

    def report(
        self,
        rule: Rule,
        message: str,
        at: Node,
        *,
        reason: str = "",
        fix: Operation | None = None,
        title: str = "",
        applied: bool = False,
    ) -> None:
        """A finding of a rule. `fix` changes the file if it may be used; an ignored finding is not fixed."""
        if not self.settings.wants(rule.id) or self.ignores.covers(rule.id, place(at)[0]):
            return
        made = None
        if fix is not None:
            usable = rule.fix == "safe" or self.settings.unsafe_fixes
            try:
                # A setting of this run may have fixed it already.
                made = self._fix(title, rule.fix == "safe", fix, usable and not applied)
                applied = applied or usable
            except Refused as refusal:
                reason = f"{reason}; {refusal.reason}" if reason else refusal.reason
        self.found(rule.id, rule.severity, message, at, reason=reason, fix=made, applied=applied)

    def _fix(self, title: str, safe: bool, operation: Operation, usable: bool) -> Fix | None:
        """The fix as data, made in this file as well if it is usable; `Refused` if it cannot be made."""
        alone = Editor(self.file.yaml, EDIT_STYLE)
        operation(alone)
        if usable:
            operation(self.editor)  # proved together with all other changes of the file
        elif self._proofs * len(self.file.yaml.text) < _BEARABLE:  # later ones are proved when `patch` makes them
            self._proofs += 1
            alone.finish()
        return None if self._is_second else Fix(title, safe, tuple(alone.edits()))

    def wants(self, rule: str, target: Target) -> bool:
        """Whether a setting is to be placed on this target: `--only`, `--skip`, `--step`, `--kind`, ignores."""
        settings = self.settings
        if self._everything:
            return True
        if not settings.wants(rule) or self.ignores.covers(rule, place(target.at)[0]):
            return False
        if settings.kinds and target.kind.family not in settings.kinds:
            return False
        if settings.steps:
            step = target if target.kind.role == Role.STEP else target.parent
            return step is not None and step.kind.role == Role.STEP and step.name in settings.steps
        return True

    def ignored(self, rule: str, target: Target, path: Path = ()) -> bool:
        """Whether an inline ignore stands at a target, or on a line of the keys and values on the way to `path`."""
        if not self.ignores.lines:
            return False
        lines = [place(target.at)[0]]
        node: Node | None = target.node
        for step in path:
            key, node = pairs(node).get(str(step), (None, None))
            lines += [place(part)[0] for part in (key, node) if part is not None]
        return any(self.ignores.covers(rule, line) for line in lines)

    # --- edits ---------------------------------------------------------------------------------------------

    def set(self, rule: str, target: Target, path: Path, value: Value) -> bool:
        """Put a value below a target; a refusal becomes a finding. Whether it will stand there."""
        if self.ignores.lines and self.ignored(rule, target, path):
            return False
        place = (*target.path, *path)
        if not self.edit(rule, target, place, partial(Editor.set, path=place, value=value)):
            return False
        self._planned[place] = value
        return True

    def edit(self, rule: str, target: Target, place: Path, operation: Operation) -> bool:
        """One operation at a place of the file; a refusal becomes a finding."""
        try:
            if self._blocked and (rule, *place) in self._blocked:
                raise Refused(self._blocked[(rule, *place)])
            operation(self.editor)
        except Refused as refusal:
            self.refuse(rule, target, str(refusal))
            return False
        self._operations.append((rule, place, operation))
        return True

    def culprits(self) -> dict[Path, str]:
        """After a refusal of the whole: the operations that cannot be made on their own either, with the reason."""
        found: dict[Path, str] = {}
        if len(self._operations) * len(self.file.yaml.text) > _BEARABLE:
            return found
        for rule, path, operation in self._operations:
            editor = Editor(self.file.yaml, EDIT_STYLE)
            try:
                operation(editor)
                editor.finish()
            except Refused as refusal:
                found[(rule, *path)] = str(refusal)
        return found

    def attempt(self, operations: Operation) -> None:
        """Several operations, all or none: they are tried on an editor of their own first."""
        operations(Editor(self.file.yaml, EDIT_STYLE))
        operations(self.editor)

    def refuse(self, rule: str, target: Target, reason: str) -> None:
        self.refusals.append(reason)
        self.found(rule, "warning", f"not set on {target.shown}", target.at, reason=reason)

    def planned(self, target: Target, name: str, *path: str | int) -> str | None:
        """The text at a path as it will be: what is planned, else what is there."""
        if self._planned:
            value = self._planned.get((*target.path, name, *path))
            if value is not None:
                return str(value)
        return target.text(name, *path)

    def is_planned(self, path: Path) -> bool:
        return path in self._planned

    def plan(self, path: Path, value: Value) -> None:
        self._planned[path] = value

    # --- what a target is like -----------------------------------------------------------------------------

    def effective(self, target: Target, name: str, *path: str) -> str | None:
        """A value of a target, or of the sweep around it, or of the component that it names."""
        if (own := self.planned(target, name, *path)) is not None:
            return own
        if target.kind.role.is_trial and target.parent is not None:
            return self.effective(target.parent, name, *path)
        for inline in ("component", "trial"):
            if inline in target.own and (value := target.text(inline, name, *path)) is not None:
                return value
        document = self.library.referenced(target)
        return document.root.text(name, *path) if document else None

    def instance_type(self, target: Target) -> str | None:
        """The instance type that a target will run on; None where none is set or it is bound."""
        found = self.effective(target, "resources", "instance_type")
        return None if is_bound(found) else found

    def variables(self, target: Target) -> dict[str, str]:
        """The environment variables of a target as they are written now."""
        own = pairs(target.get("environment_variables"))
        return {name: text_of(value) or "" for name, (_, value) in own.items()}

    def evidence(self, target: Target) -> tuple[Evidence, ...]:
        found = self._evidence.get(target.path)
        if found is None:
            found = self._evidence[target.path] = self.library.evidence(target, self.file.path)
        return found

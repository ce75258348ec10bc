"""The checkpoints in a local folder: which there are, what is kept, and what is moved aside."""

from __future__ import annotations

import os

from arc_toolkit.checkpoints.fencing import newest_fence
from arc_toolkit.checkpoints.locations import retry_folders
from arc_toolkit.checkpoints.manifest import (
    STAGING,
    Checkpoint,
    Damage,
    is_unfinished,
    read_manifest,
    remove,
    verify,
)

TYPE_CHECKING = False  # `typing` alone takes as long to import as all the rest
if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_ASIDE = "damaged"


class Shelf:
    """The checkpoints below `root`, and those that earlier tries of the same job left elsewhere."""

    def __init__(self, root: Path, keep: int, tell: Callable[[str], None]) -> None:
        self.root, self._keep, self._tell = root, keep, tell
        # Checkpoints that this process has verified, so that they are not read again before older ones are deleted.
        self.verified: set[Path] = set()

    def listing(self) -> list[Checkpoint | Damage]:
        """Every folder that is or was meant to be a checkpoint, the newest first; files are not compared."""
        folders: list[Path] = []
        for root in [self.root, *self._retry_folders()]:
            try:
                folders += [root / name for name in os.listdir(root) if name.startswith("step-")]
            except FileNotFoundError:
                continue
            except OSError as error:
                self._tell(f"{root} cannot be read: {error}")
        entries = [read_manifest(folder) for folder in folders if not os.path.isfile(folder)]
        return sorted(entries, key=lambda entry: entry.order, reverse=True)

    def _retry_folders(self) -> list[Path]:
        try:
            return retry_folders(self.root)
        except OSError as error:
            self._tell(f"what earlier tries left cannot be listed: {error}")
            return []

    def set_aside(self, damage: Damage) -> None:
        """Keep it, but where nobody looks for checkpoints. Only this run's own folder is changed."""
        if damage.folder.parent != self.root:
            return
        target = self.root / _ASIDE / f"{damage.folder.name}-{os.urandom(2).hex()}"
        try:
            target.parent.mkdir(exist_ok=True)
            os.rename(damage.folder, target)
        except OSError as error:
            self._tell(f"{damage.folder.name} could not be moved aside: {error}")

    def retain(self, fence: int, number: int, in_use: Path | None = None) -> None:
        """Delete what is older than the newest `keep`, all of which are verified first, and what was never finished.

        `fence` is this writer's number here, `number` the one in the names of its folders. What is `in_use` is deleted
        another time.
        """
        kept: list[Checkpoint] = []
        for entry in self.listing():
            if isinstance(entry, Damage) or entry.folder.parent != self.root:
                continue
            if len(kept) < self._keep:
                if entry.folder in self.verified or verify(entry) is None:
                    self.verified.add(entry.folder)
                    kept.append(entry)
                continue
            if entry.folder != in_use:
                remove(entry.folder)
        self._sweep(fence, number)

    def _sweep(self, fence: int, number: int) -> None:
        """Delete what writers before this one did not finish; it never was a checkpoint."""
        names = [
            name
            for name in os.listdir(self.root)
            if name.startswith(STAGING)
            or (name.startswith("step-") and is_unfinished(self.root / name))
        ]
        # Looked at after the names: a writer takes its number before it makes a folder.
        if newest_fence(self.root) == fence:
            for name in names:
                if f"-{number:06d}-" not in name:
                    remove(self.root / name)

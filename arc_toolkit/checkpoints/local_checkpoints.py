"""The local folders of a store: where they are, their writer, and the checkpoints in them."""

from __future__ import annotations

import os
from contextlib import suppress

from arc_toolkit.checkpoints.manifest import (
    STAGING,
    BestMetric,
    Checkpoint,
    InvalidCheckpoint,
    file_versions,
    is_unfinished,
    read_manifest,
    remove,
    verify,
)

TYPE_CHECKING = False  # `typing` alone takes as long to import as all the rest
if TYPE_CHECKING:
    from collections.abc import Callable, Set
    from pathlib import Path


# AzureML mounts each output of a job at AZURE_ML_OUTPUT_<name>, in the case of the name.
_OUTPUT = "AZURE_ML_OUTPUT_CHECKPOINTS"


def default_root() -> str:
    """Where a supervisor wants the checkpoints; else the job's output `checkpoints`, a mounted
    datastore that a retry sees again; else the folder that AzureML uploads."""
    output = next((value for name, value in os.environ.items() if name.upper() == _OUTPUT), "")
    return (
        os.environ.get("ARC_TOOLKIT_CHECKPOINTS")
        or output
        or os.path.join("outputs", "checkpoints")
    )


def local_copy_of(url: str) -> Path:
    """The local folder for a URL, below $ARC_TOOLKIT_CHECKPOINT_CACHE or the temporary folder."""
    import hashlib
    import tempfile
    from pathlib import Path

    folder = os.environ.get("ARC_TOOLKIT_CHECKPOINT_CACHE")
    # two jobs that share the folder do not share checkpoints
    name = hashlib.sha256(url.encode()).hexdigest()[:16]
    return Path(folder or os.path.join(tempfile.gettempdir(), "arc-toolkit-checkpoints")) / name


def retry_folders(root: Path) -> list[Path]:
    """Those of earlier tries of an AzureML job: `outputs/retry_001/checkpoints` and so on."""
    from pathlib import Path

    parts = root.parts
    if "outputs" not in parts:
        return []
    place = len(parts) - parts[::-1].index("outputs")
    return sorted(Path(*parts[:place]).glob(os.path.join("retry_*", *parts[place:])))


_FOLDER = ".writers"


def take_fence(root: Path, writer: str) -> int:
    """The next number, for this writer: an evicted pod may be alive when its replacement starts.

    The number is a file that only one of them can create. The highest number is the writer; the
    others may not commit any more. Numbers are part of the names of checkpoints, so two writers
    never write into the same folder.
    """
    folder = root / _FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    number = newest_fence(root) + 1
    while True:
        try:
            handle = os.open(folder / f"{number:08d}", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        except FileExistsError:
            number += 1
            continue
        with os.fdopen(handle, "w") as stream:
            stream.write(writer)
        return number


def newest_fence(root: Path) -> int:
    """The number of the newest writer; 0 if there was none."""
    try:
        return max((int(name) for name in os.listdir(root / _FOLDER) if name.isdigit()), default=0)
    except FileNotFoundError:
        return 0


_ASIDE = "damaged"


class LocalCheckpoints:
    """The checkpoints below `root`, and those that earlier tries of the same job left elsewhere."""

    def __init__(
        self,
        root: Path,
        keep: int,
        tell: Callable[[str], None],
        metric: BestMetric | None = None,
    ) -> None:
        self.root, self._keep, self._tell, self._metric = root, keep, tell, metric
        # The files of checkpoints whose bytes this process has compared, as they were then.
        self._verified: dict[Path, list[tuple[int, ...]]] = {}

    def note_verified(self, checkpoint: Checkpoint) -> None:
        with suppress(OSError):
            self._verified[checkpoint.folder] = file_versions(checkpoint)

    def best(self, entries: list[Checkpoint | InvalidCheckpoint]) -> Checkpoint | None:
        """The best valid one by the metric of this store; None without a metric."""
        ranking = self._metric.ranking(entries) if self._metric is not None else []
        return next((entry for entry in ranking if self._is_valid(entry)), None)

    def _is_valid(self, checkpoint: Checkpoint) -> bool:
        """Looks again: at the bytes too, unless no file has changed since they were compared."""
        try:
            is_unchanged = self._verified.get(checkpoint.folder) == file_versions(checkpoint)
        except OSError:
            return False
        if is_unchanged:
            return True
        if verify(checkpoint) is not None:
            return False
        self.note_verified(checkpoint)
        return True

    def listing(self) -> list[Checkpoint | InvalidCheckpoint]:
        """Every folder that is or should be a checkpoint, newest first, without comparing files.

        OSError if a folder cannot be read: that does not mean that it is empty.
        """
        folders: list[Path] = []
        for root in [self.root, *retry_folders(self.root)]:
            with suppress(FileNotFoundError):
                folders += [root / name for name in os.listdir(root) if name.startswith("step-")]
        entries = [read_manifest(folder) for folder in folders if not os.path.isfile(folder)]
        return sorted(entries, key=lambda entry: entry.order, reverse=True)

    @property
    def has_damaged(self) -> bool:
        """Whether an earlier process found a damaged checkpoint."""
        with suppress(FileNotFoundError):
            return bool(os.listdir(self.root / _ASIDE))
        return False

    def set_aside(self, damage: InvalidCheckpoint) -> None:
        """Move it out of the checkpoints of this run; folders of others are not changed."""
        if damage.folder.parent != self.root:
            return
        target = self.root / _ASIDE / f"{damage.folder.name}-{os.urandom(2).hex()}"
        try:
            target.parent.mkdir(exist_ok=True)
            os.rename(damage.folder, target)
        except OSError as error:
            self._tell(f"{damage.folder.name} could not be moved aside: {error}")

    def retain(self, fence: int, number: int, in_use: Set[str] = frozenset()) -> None:
        """Delete all but the newest `keep` that are valid now, and unfinished saves.

        `fence` is this writer's number here, `number` the one in the names of its folders. What is
        `in_use` is deleted another time.
        """
        newest: list[Checkpoint] = []
        entries = self.listing()
        best = self.best(entries)
        for entry in entries:
            if isinstance(entry, InvalidCheckpoint) or entry.folder.parent != self.root:
                continue
            if len(newest) < self._keep:
                if self._is_valid(entry):
                    newest.append(entry)
                continue
            if entry is not best and entry.folder.name not in in_use:
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

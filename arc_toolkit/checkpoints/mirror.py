"""The copy of a store at a URL: what is only there, what is still to be uploaded, and who may upload."""

from __future__ import annotations

from arc_toolkit.checkpoints.manifest import Checkpoint, Damage
from arc_toolkit.checkpoints.remote import NotTheWriter, RemoteFolder, Uploader

TYPE_CHECKING = False  # `typing` alone takes as long to import as all the rest
if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import Any


class Mirror:
    """Trouble is reported and ends nothing: the checkpoints here are whole without it."""

    def __init__(
        self,
        url: str,
        options: dict[str, Any] | None,
        *,
        keep: int,
        writer: str,
        tell: Callable[[str], None],
    ) -> None:
        self._folder = RemoteFolder(url, options)
        self._keep, self._writer, self._tell = keep, writer, tell
        self._number = 0  # of this writer there
        self._names: set[str] = set()
        self._uploader = Uploader(self._folder, self._check_writer, self._retain, tell)
        self.wait = self._uploader.wait

    def listing(self) -> list[Checkpoint | Damage]:
        """Every checkpoint there; its `folder` is only a name."""
        try:
            entries = self._folder.listing()
        except OSError as error:
            self._tell(
                f"{self._folder.url} cannot be read, so that only the checkpoints here are known: {error}"
            )
            return []
        self._names = {entry.folder.name for entry in entries}
        return entries

    def download(self, entry: Checkpoint, root: Path) -> Checkpoint | Damage:
        try:
            root.mkdir(parents=True, exist_ok=True)
            return self._folder.download(entry, root)
        except OSError as error:
            return Damage(entry.folder, f"it cannot be downloaded: {error}")

    def become_writer(self) -> int:
        """The next number there; 0 if that is not possible now."""
        try:
            self._number = self._folder.take_fence(self._writer)
        except OSError as error:
            self._tell(f"{self._folder.url} cannot be written to: {error}")
        return self._number

    def has(self, checkpoint: Checkpoint) -> bool:
        """Whether it was there at the last `listing`."""
        return checkpoint.folder.name in self._names

    def add(self, checkpoint: Checkpoint, *, is_urgent: bool = False) -> None:
        """Upload it in the background; before what is being uploaded, if it is urgent."""
        self._uploader.add(checkpoint, is_urgent=is_urgent)

    @property
    def uploading(self) -> Path | None:
        """The local folder that is being uploaded."""
        return self._uploader.folder

    def _check_writer(self) -> None:
        if not self._number:
            raise NotTheWriter("this process has no number as a writer there")
        if not self._folder.owns(self._number, self._writer):
            raise NotTheWriter(
                "another process has taken over this store, so that this one may not upload any more"
            )

    def _retain(self, uploaded: Checkpoint) -> None:
        """Delete what is older than the newest `keep`; those here were verified before they were copied."""
        entries = [entry for entry in self._folder.listing() if isinstance(entry, Checkpoint)]
        older = [entry for entry in entries if entry.order < uploaded.order]
        for entry in sorted(older, key=lambda entry: entry.order, reverse=True)[self._keep - 1 :]:
            self._folder.delete(entry.folder.name)

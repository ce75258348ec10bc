"""The folder that a save gives to the caller."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import PosixPath

from arc_toolkit.checkpoints.manifest import is_inside, remove
from arc_toolkit.checkpoints.streams import DigestedFile

TYPE_CHECKING = False  # `typing` alone takes as long to import as all the rest
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_PROBE = 1024 * 1024


class SaveFolder(PosixPath):
    """A path for any files, which are read back when the save ends, except those of `stream`."""

    _files: dict[str, DigestedFile] | None = None

    @classmethod
    def create(cls, folder: str | os.PathLike[str]) -> SaveFolder:
        path = cls(folder)
        path._files = {}
        return path

    def stream(self, name: str | os.PathLike[str]) -> DigestedFile:
        """A new file that is digested while it is written: a binary file object for `torch.save`,
        `pickle.dump`, `numpy.save`, `joblib.dump` and the like. Faster for large files."""
        name = os.fspath(name)
        if self._files is None:
            raise ValueError(
                "use stream() of the folder that save() gave, with a name such as 'part/model.bin'"
            )
        if not is_inside(name):
            raise ValueError(f"{name!r} is not the name of a file in a checkpoint")
        path = self / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if name in self._files:
            self._files.pop(name).abandon()
        with suppress(FileNotFoundError):
            path.unlink()
        self._files[name] = DigestedFile(path)
        return self._files[name]

    def finish(self) -> Mapping[str, Sequence[str | None]]:
        """Close all open files; the digests of those that are still as they were written."""
        files = self._files or {}
        for file in files.values():
            file.close()
        return {name: file.digests for name, file in files.items() if file.is_unchanged()}

    def disk_trouble(self) -> OSError | None:
        """Why a file cannot be written here; None if it can."""
        if trouble := next(
            (file.trouble for file in (self._files or {}).values() if file.trouble), None
        ):
            return trouble
        probe = self / ".probe"
        try:
            with open(probe, "wb") as stream:
                stream.write(bytes(_PROBE))
                stream.flush()
                os.fsync(stream.fileno())
            probe.unlink()
        except OSError as error:
            return error
        return None

    def discard(self) -> None:
        """Nobody wants the files any more."""
        for file in (self._files or {}).values():
            file.abandon()
        remove(self)

"""Folders that a store uses beside the one it was given."""

from __future__ import annotations

import os

TYPE_CHECKING = False  # `typing` alone takes as long to import as all the rest
if TYPE_CHECKING:
    from pathlib import Path


# AzureML tells a job with AZURE_ML_OUTPUT_<name> where each of its outputs is mounted, in the case of the name.
_OUTPUT = "AZURE_ML_OUTPUT_CHECKPOINTS"


def default_root() -> str:
    """Where a supervisor wants the checkpoints; else the job's output `checkpoints`, a mounted datastore that a retry
    sees again; else the folder that AzureML uploads."""
    output = next((value for name, value in os.environ.items() if name.upper() == _OUTPUT), "")
    return (
        os.environ.get("ARC_TOOLKIT_CHECKPOINTS")
        or output
        or os.path.join("outputs", "checkpoints")
    )


def local_copy_of(url: str) -> Path:
    """The local folder for the checkpoints of a URL, below $ARC_TOOLKIT_CHECKPOINT_CACHE or the temporary folder."""
    import hashlib
    import tempfile
    from pathlib import Path

    folder = os.environ.get("ARC_TOOLKIT_CHECKPOINT_CACHE")
    name = hashlib.sha256(url.encode()).hexdigest()[
        :16
    ]  # two jobs that share the folder do not share checkpoints
    return Path(folder or os.path.join(tempfile.gettempdir(), "arc-toolkit-checkpoints")) / name


def retry_folders(root: Path) -> list[Path]:
    """What earlier tries of an AzureML job left: `outputs/retry_001/checkpoints` for `outputs/checkpoints`."""
    from pathlib import Path

    parts = root.parts
    if "outputs" not in parts:
        return []
    place = len(parts) - parts[::-1].index("outputs")
    return sorted(Path(*parts[:place]).glob(os.path.join("retry_*", *parts[place:])))

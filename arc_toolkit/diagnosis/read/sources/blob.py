"""Logs in Azure Blob storage: `az://container/prefix`, through fsspec and adlfs.

Folders are listed in parallel. A log is fetched when it is opened, so several threads read in
parallel; a large one is read in pieces, so memory does not grow.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from functools import partial
from typing import Any, BinaryIO, cast

from arc_toolkit.diagnosis.model import LogFile
from arc_toolkit.errors import ArcError, missing_extra
from arc_toolkit.output.redaction import redact, show_source

# up to this size a blob is fetched with one request, above it in pieces of this size
WHOLE_BYTES = 4 << 20
LISTERS = 8  # folders listed at the same time; listing waits for the network, not for the CPU

WAYS_IN = (
    "set AZURE_STORAGE_CONNECTION_STRING, or AZURE_STORAGE_ACCOUNT_NAME and sign in "
    "(`az login`, a managed identity, or AZURE_STORAGE_ACCOUNT_KEY or AZURE_STORAGE_SAS_TOKEN)"
)


def list_logs(url: str, jobs: int) -> Iterator[LogFile]:
    """Every blob below a prefix, in no order; with `jobs` 0 the number of requests is chosen.

    A prefix may end inside a name, as Azure's own prefixes do.
    """
    if "?" in url and "sig=" in url:
        raise ArcError(f"{show_source(url)}: a SAS token in the URL is not read; {WAYS_IN}")
    container, account, prefix = _split(url)
    url = show_source(url)  # from here on only for messages
    store = _connect(url, account)
    exists = False
    for path, size in _walk(store, url, container, prefix, jobs):
        exists = True
        yield LogFile(f"az://{path}", partial(_open, store, path, size))
    if not exists:
        raise ArcError(f"{url}: no blob has this prefix in the container {container}")


def _split(url: str) -> tuple[str, str | None, str]:
    """Container, account and prefix of `az://container[@account[.host]]/prefix`."""
    place, _, prefix = url.split("://", 1)[1].partition("/")
    container, _, account = place.partition("@")
    if not container:
        raise ArcError(f"{show_source(url)}: has no container: use az://CONTAINER/PREFIX")
    return container, account.partition(".")[0] or None, prefix.strip("/")


def _connect(url: str, account: str | None) -> Any:
    try:
        from adlfs import AzureBlobFileSystem
    except ImportError:
        raise missing_extra("blob", "Azure Blob storage") from None
    environment = os.environ
    connection = environment.get("AZURE_STORAGE_CONNECTION_STRING")
    account = (
        account
        or environment.get("AZURE_STORAGE_ACCOUNT_NAME")
        or environment.get("AZURE_STORAGE_ACCOUNT")
    )
    if not connection and not account:
        raise ArcError(f"{url}: the storage account is not known; {WAYS_IN}")
    try:
        store = AzureBlobFileSystem(
            account_name=None if connection else account,
            connection_string=connection,
            use_listings_cache=False,
            skip_instance_cache=True,  # the environment may have changed since the last one
        )
    except (ValueError, OSError) as error:
        raise ArcError(f"{url}: {_first_line(error)}; {WAYS_IN}") from None
    # adlfs has no retry options, and by default an unreachable host is retried for 90 s.
    retry = getattr(getattr(store.service_client, "_config", None), "retry_policy", None)
    if retry is not None:
        retry.total_retries, retry.initial_backoff, retry.increment_base = 3, 1, 2
    return store


def _walk(
    store: Any, url: str, container: str, prefix: str, jobs: int
) -> Iterator[tuple[str, int]]:
    """Paths (with their container) and sizes; one request per folder, several at a time."""
    with ThreadPoolExecutor(min(jobs, LISTERS) or LISTERS) as pool:
        todo: set[Future[list[dict[str, Any]]]] = {
            pool.submit(_list_start, store, url, container, prefix)
        }
        try:
            while todo:
                finished, todo = wait(todo, return_when=FIRST_COMPLETED)
                for listing in finished:
                    for entry in listing.result():
                        if entry["type"] == "directory":
                            todo.add(
                                pool.submit(_list_folder, store, url, entry["name"].rstrip("/"))
                            )
                        else:
                            yield entry["name"], int(entry["size"] or 0)
        finally:
            for listing in todo:
                listing.cancel()


def _list_start(store: Any, url: str, container: str, prefix: str) -> list[dict[str, Any]]:
    """The entries of the prefix: a folder, a blob, or every name that starts with it."""
    try:
        return _list_folder(store, url, f"{container}/{prefix}".rstrip("/"))
    except FileNotFoundError:
        if not prefix:
            raise ArcError(
                f"{url}: there is no container {container} in this storage account"
            ) from None
    parent = f"{container}/{prefix}".rpartition("/")[0]
    try:
        return [
            entry
            for entry in _list_folder(store, url, parent)
            if entry["name"].startswith(f"{container}/{prefix}")
        ]
    except FileNotFoundError:
        _list_start(store, url, container, "")  # an error if the container is missing
        return []


def _list_folder(store: Any, url: str, path: str) -> list[dict[str, Any]]:
    from azure.core.exceptions import AzureError

    try:
        entries: list[dict[str, Any]] = store.ls(path, detail=True)
    except FileNotFoundError:
        raise
    except (AzureError, OSError, ValueError) as error:
        if isinstance(error, PermissionError) or getattr(error, "status_code", 0) in (401, 403):
            raise ArcError(
                f"{url}: not allowed ({_first_line(error).rstrip('.')}); {WAYS_IN}"
            ) from None
        raise ArcError(f"{url}: cannot list {path} ({_first_line(error)})") from None
    # The folder itself may be a marker blob of size 0.
    return [
        entry
        for entry in entries
        if entry["name"].rstrip("/") != path or (entry["type"] == "file" and entry["size"])
    ]


def _open(store: Any, path: str, size: int) -> BinaryIO:
    """The bytes of a blob; every error is an OSError, which the scanner reports as a reason."""
    from azure.core.exceptions import AzureError

    try:
        if size <= WHOLE_BYTES:
            return io.BytesIO(store.cat_file(path))
        return cast(BinaryIO, _Pieces(store, path, size))
    except OSError:
        raise
    except (AzureError, ValueError) as error:
        raise OSError(_first_line(error)) from None


class _Pieces(io.RawIOBase):
    """A large blob, fetched piece by piece up to the size that it had when it was listed."""

    def __init__(self, store: Any, path: str, size: int) -> None:
        self._store, self._path, self._size = store, path, size
        self._next = 0  # where the next piece starts
        self._piece = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        from azure.core.exceptions import AzureError

        if not self._piece and self._next < self._size:
            stop = min(self._next + WHOLE_BYTES, self._size)
            try:
                self._piece = memoryview(
                    self._store.cat_file(self._path, start=self._next, end=stop)
                )
            except AzureError as error:
                raise OSError(_first_line(error)) from None
            self._next = stop
        count = min(len(buffer), len(self._piece))
        buffer[:count] = self._piece[:count]
        self._piece = self._piece[count:]
        return count


def _first_line(error: Exception) -> str:
    text = str(error).strip()
    return redact(text.splitlines()[0] if text else type(error).__name__)[:200]

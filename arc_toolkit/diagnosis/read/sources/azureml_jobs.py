"""Logs of an AzureML job from its workspace: `azureml:JOB`, through azure-ai-ml.

The SDK's own download fetches everything that a job wrote, and its log filters omit retry folders.
So the list of log files is read from the run's details, and only the few files that diagnose reads
are fetched, each when it is opened. Steps of a pipeline and trials of a sweep are included.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from functools import partial
from typing import Any, BinaryIO, cast
from urllib.parse import urlsplit

from arc_toolkit.diagnosis.model import LogFile
from arc_toolkit.errors import ArcError, missing_extra

SCHEME = "azureml:"
DEEPEST = 4  # pipelines in pipelines
TIMEOUT_SECONDS = 60


def list_logs(
    job: str,
    workspace: str | None = None,
    resource_group: str | None = None,
    subscription: str | None = None,
) -> Iterator[LogFile]:
    """The files of a job and its child jobs. Defaults come from the environment and from az."""
    name = job.removeprefix(SCHEME).strip("/")
    if not name:
        raise ArcError("azureml: has no job name: use azureml:JOB_NAME")
    client = _client(workspace, resource_group, subscription)
    yield from _files(client, name, set(), DEEPEST)


def _client(workspace: str | None, resource_group: str | None, subscription: str | None) -> Any:
    from arc_toolkit.azure.scope import Resolver
    from arc_toolkit.azure.session import explain_errors, open_session
    from arc_toolkit.azure.workspace_computes import ml_client

    options = {
        "workspace": workspace,
        "resource group": resource_group,
        "subscription": subscription,
    }
    resolver = Resolver(options)
    place = resolver.workspace()
    session = open_session(resolver.az.cloud)
    with explain_errors(f"opening the workspace {place.name}"):
        try:
            return ml_client(session, place, session.options)
        except ImportError:
            raise missing_extra("azure", "reading the logs of an AzureML job") from None


def _files(client: Any, job: str, visited: set[str], depth: int) -> Iterator[LogFile]:
    from arc_toolkit.azure.session import explain_errors

    if job in visited:
        return
    visited.add(job)
    with explain_errors(f"reading the job {job}"):
        try:
            operations = client.jobs._runs_operations
            place = (
                operations._subscription_id,
                operations._resource_group_name,
                operations._workspace_name,
            )
            runs = operations._operation
        except AttributeError:
            raise ArcError(
                "this version of azure-ai-ml has no list of a run's log files: "
                f"run `az ml job download --name {job} --all` and diagnose the folder"
            ) from None
        files: dict[str, str] = dict(runs.get_details(*place, job).log_files or {})
        # From the run history: `jobs.list` builds a job per child and omits unparsable ones.
        children = [run.run_id for run in runs.get_child(*place, job)] if depth else []
    for path, url in sorted(files.items()):
        yield LogFile(f"{SCHEME}{job}/{path.lstrip('/')}", partial(_open, url))
    for child in children:
        yield from _files(client, child, visited, depth - 1)


def _open(url: str) -> BinaryIO:
    """A file by its signed URL, which is a secret and never part of a message."""
    import urllib.request

    parts = urlsplit(url)
    if parts.scheme != "https" and parts.hostname != "127.0.0.1":
        raise OSError("the URL of the log is not https")
    try:
        response = urllib.request.urlopen(url, timeout=TIMEOUT_SECONDS)  # noqa: S310 (checked)
    except urllib.error.HTTPError as error:
        raise OSError(f"the storage answered {error.code} {error.reason}") from None
    except (urllib.error.URLError, ValueError) as error:
        raise OSError(
            f"the storage cannot be reached: {getattr(error, 'reason', 'bad address')}"
        ) from None
    return cast(BinaryIO, _Whole(response))


class _Whole(io.RawIOBase):
    """A response that ends early is an error; http.client treats it as the end of the file."""

    def __init__(self, response: Any) -> None:
        self._response = response
        length = response.headers.get("content-length")
        self._left = int(length) if length else None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        count: int = self._response.readinto(buffer)
        if self._left is not None:
            self._left -= count
            if not count and len(buffer) and self._left > 0:
                raise OSError(f"the connection closed {self._left} bytes before the end")
        return count

    def close(self) -> None:
        self._response.close()
        super().close()

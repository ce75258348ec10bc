"""A small client of the Kubernetes API in raw JSON: lists in pages, watches that resume.

The `kubernetes` package reads the kubeconfig (exec plugins and in-cluster tokens included) and sets
up TLS and proxies; each answer is `json.loads` of the bytes. Every failure is an `ArcError` (see
failures.py).
"""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from arc_toolkit.cluster import failures
from arc_toolkit.cluster.failures import ApiError, Conflict, Forbidden, Gone, NotFound, Unreachable
from arc_toolkit.errors import ArcError, missing_extra
from arc_toolkit.file_io import collector_paused
from arc_toolkit.kube.raw import Json

__all__ = [
    "ApiError",
    "Applied",
    "Client",
    "Conflict",
    "Forbidden",
    "Gone",
    "Listing",
    "NotFound",
    "Unreachable",
]

FIELD_MANAGER = "arc-toolkit"
PAGE = 500  # as kubectl
_PATIENCE_SECONDS = 60  # how long a watch tries to come back before it gives up
_CONNECT_SECONDS = 5
_ANNOUNCE_SECONDS = 2  # after so long without an answer, say what is being waited for
_PASSING = (429, 500, 502, 503, 504)  # what a server or a proxy says while it starts or is busy
# how long one watch request lasts; the next one goes on from its last resource version
_WATCH_SECONDS = 300


@dataclass(frozen=True)
class Applied:
    """The object as the server has it after an apply (or would have it: dry run)."""

    object: Json
    created: bool


class Client:
    """One cluster, as one user. `pool`: a urllib3 pool manager; `authorize`: request headers."""

    def __init__(self, server: str, name: str, pool: Any, authorize: Any) -> None:
        self.server = server
        self.name = name
        self.title = f"the cluster {name} ({server})"
        self.hint = ""  # what is known to be wrong with the credentials, for the message of a 401
        self.announce: Callable[[str], None] | None = None  # called once, from another thread
        self._pool = pool
        self._authorize = authorize

    # --- one object -------------------------------------------------------------------------------

    def get(self, path: str, params: Mapping[str, object] | None = None) -> Json:
        """GET one object."""
        return self.request("GET", path, params)[1]

    def apply(
        self, path: str, body: Json, *, force: bool = False, dry_run: bool = False
    ) -> Applied:
        """Server-side apply as field manager `arc-toolkit`; Conflict if another owns a field."""
        params: dict[str, object] = {"fieldManager": FIELD_MANAGER, "force": str(force).lower()}
        if dry_run:
            params["dryRun"] = "All"
        status, stored = self.request("PATCH", path, params, body, "application/apply-patch+yaml")
        return Applied(stored, status == 201)

    def merge(self, path: str, patch: Json, *, dry_run: bool = False) -> Json:
        """A JSON merge patch as `arc-toolkit`: the object afterwards. Null removes a field."""
        params = {"fieldManager": FIELD_MANAGER, **({"dryRun": "All"} if dry_run else {})}
        return self.request("PATCH", path, params, patch, "application/merge-patch+json")[1]

    def delete(self, path: str, *, resource_version: str, dry_run: bool) -> None:
        """Delete, if the object still has the version that was looked at, or is gone."""
        options: Json = {"kind": "DeleteOptions", "apiVersion": "v1"}
        options["preconditions"] = {"resourceVersion": resource_version}
        if dry_run:
            options["dryRun"] = ["All"]
        with suppress(NotFound):
            self.request("DELETE", path, None, options)

    # --- many objects -----------------------------------------------------------------------------

    def list(self, path: str, params: Mapping[str, object] | None = None) -> Listing:
        """The items of a collection, read page by page while they are iterated."""
        return Listing(self, path, dict(params or {}))

    def watch(
        self,
        path: str,
        resource_version: str,
        params: Mapping[str, object] | None = None,
        *,
        seconds: float | None = None,
        bookmarks: bool = False,
    ) -> Iterator[Json]:
        """Events (`type`, `object`) after a resource version, without end or for `seconds`.

        `bookmarks`: also those of type BOOKMARK, about one per minute, which have only a resource
        version. A broken connection is taken up again where it stopped; Gone means that the events
        since then are lost and the caller must list again.
        """
        end = None if seconds is None else time.monotonic() + seconds
        broken_since: float | None = None
        while end is None or time.monotonic() < end:
            duration = _WATCH_SECONDS
            if end is not None:
                duration = min(duration, max(1, round(end - time.monotonic())))
            query = {
                **(params or {}),
                "watch": "1",
                "allowWatchBookmarks": "true",
                "timeoutSeconds": duration,
            }
            started = time.monotonic()
            try:
                for event in self._stream(
                    path, {**query, "resourceVersion": resource_version}, duration + 15
                ):
                    kind, item = event.get("type"), event.get("object") or {}
                    if kind == "ERROR":
                        raise failures.response_error(
                            int(item.get("code") or 500),
                            item,
                            method="WATCH",
                            path=path,
                            server=self.title,
                        )
                    resource_version = (item.get("metadata") or {}).get(
                        "resourceVersion", resource_version
                    )
                    if bookmarks or kind != "BOOKMARK":
                        yield event
                broken_since = None
            except (Unreachable, ApiError) as error:
                if isinstance(error, ApiError) and error.status not in _PASSING:
                    raise
                now = time.monotonic()
                # it had come back in between
                if broken_since is None or now - started > 2 * _CONNECT_SECONDS:
                    broken_since = now
                if now - broken_since > _PATIENCE_SECONDS:
                    raise
                time.sleep(0.5)

    # --- requests ---------------------------------------------------------------------------------

    def request(
        self,
        method: str,
        path: str,
        params: Mapping[str, object] | None = None,
        body: Json | None = None,
        content_type: str = "application/json",
    ) -> tuple[int, Json]:
        """One request; (HTTP status, JSON). An answer of 400 or more is raised as ApiError."""
        import urllib3

        data = None if body is None else json.dumps(body).encode()
        content_headers = {} if data is None else {"content-type": content_type}
        # Server-side applies and deletes with a precondition may be repeated: all that we send.
        retries = urllib3.Retry(
            total=3,
            connect=1,
            read=1,
            other=0,
            backoff_factor=0.3,
            status_forcelist=(429, 503, 504),
            allowed_methods=None, raise_on_status=False,
        )  # fmt: skip
        with self._explain_errors(), announce_wait(self._say, self.title):
            headers = {"accept-encoding": "gzip", **self._authorize(), **content_headers}
            answer = self._send(method, path, params, 60, headers, body=data, retries=retries)
        content = _parse(answer.data)
        if answer.status >= 400:
            raise failures.response_error(
                answer.status, content, method=method, path=path, server=self.title, hint=self.hint
            )
        return answer.status, content

    def _stream(
        self, path: str, params: Mapping[str, object], read_seconds: float
    ) -> Iterator[Json]:
        """The lines of a watch as they come."""
        with self._explain_errors():
            answer = self._send(
                "GET",
                path,
                params,
                read_seconds,
                self._authorize(),
                retries=False,
                preload_content=False,
            )
            try:
                if answer.status >= 400:
                    content = _parse(answer.read())
                    raise failures.response_error(
                        answer.status, content, method="WATCH", path=path, server=self.title
                    )
                incomplete = b""
                for chunk in answer.stream(65536):
                    *lines, incomplete = (incomplete + chunk).split(b"\n")
                    yield from (_parse(line) for line in lines if line.strip())
            finally:
                answer.close()

    def _send(
        self,
        method: str,
        path: str,
        params: Mapping[str, object] | None,
        read_seconds: float,
        headers: dict[str, str],
        **options: Any,
    ) -> Any:
        import urllib3

        url = f"{self.server}{path}" + (f"?{urlencode(params)}" if params else "")
        headers = {"accept": "application/json", **headers}
        timeout = urllib3.Timeout(connect=_CONNECT_SECONDS, read=read_seconds)
        return self._pool.request(method, url, headers=headers, timeout=timeout, **options)

    def _say(self, text: str) -> None:
        say, self.announce = self.announce, None
        if say:
            say(text)

    @contextmanager
    def _explain_errors(self) -> Iterator[None]:
        """A request that gets no answer, or not all of it, as one sentence."""
        import urllib3

        try:
            yield
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise failures.transport_error(error, self.title) from None


class Listing:
    """The items of a collection, once; `resource_version` then says from where to watch."""

    def __init__(self, client: Client, path: str, params: dict[str, object]) -> None:
        self._client, self._path, self._params = client, path, params
        self.resource_version = ""

    def __iter__(self) -> Iterator[Json]:
        # Also between the pages, while the caller works: the collector would walk each page again.
        # For 2,000 nodes and 20,000 pods it was 4.51 s of CPU time before, and 3.18 s with this.
        with collector_paused():
            yield from self._items()

    def _items(self) -> Iterator[Json]:
        """Items without apiVersion and kind, as the server lists them.

        Where the list expires between two pages (410), it is read again from the start and what was
        given already is left out. `resource_version` stays that of the first page, so a watch from
        there misses nothing.
        """
        yielded: set[str] = set()
        is_repeated, token = False, ""
        while True:
            query = {"limit": PAGE, **self._params, **({"continue": token} if token else {})}
            try:
                page = self._client.get(self._path, query)
            except Gone:
                if not token:
                    raise
                is_repeated, token = True, ""
                continue
            metadata = page.get("metadata") or {}
            self.resource_version = self.resource_version or metadata.get("resourceVersion", "")
            for item in page.get("items") or ():
                uid = item["metadata"]["uid"]
                if is_repeated and uid in yielded:
                    continue
                yielded.add(uid)
                yield item
            token = metadata.get("continue") or ""
            if not token:
                return


def _parse(data: bytes) -> Json:
    """JSON, or plain text of a server (`404 page not found`) as the message of a Status."""
    try:
        content = json.loads(data)
    except ValueError:
        return {"message": data[:300].decode("utf-8", "replace").strip()}
    return content if isinstance(content, dict) else {"message": str(content)[:300]}


@contextmanager
def announce_wait(say: Callable[[str], None], target: str) -> Iterator[None]:
    """If the answer takes long, say so: what hangs looks like what has much to do."""
    import threading

    text = f"{target} has not answered for {_ANNOUNCE_SECONDS} s; still waiting"
    timer = threading.Timer(_ANNOUNCE_SECONDS, say, [text])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


# --- connecting -----------------------------------------------------------------------------------


def connect(
    kubeconfig: str | Path | None = None,
    context: str | None = None,
    as_user: str | None = None,
    announce: Callable[[str], None] | None = None,
) -> Client:
    """A client from a kubeconfig ($KUBECONFIG, ~/.kube/config) or from a pod's account.

    Nothing is sent yet, but an exec plugin of the kubeconfig is run. `announce` gets one sentence
    if it hangs.
    """
    try:
        from kubernetes.client import ApiClient, Configuration
    except ImportError:
        raise missing_extra("cluster", "a live cluster") from None

    configuration = Configuration()
    with announce_wait(announce or (lambda text: None), "the sign-in command of the kubeconfig"):
        name = load(configuration, str(kubeconfig) if kubeconfig else None, context)

    def authorize() -> dict[str, str]:
        # Asked for each time: a token of an exec plugin or a pod's account may have been renewed.
        settings = configuration.auth_settings().values()
        headers = {
            row["key"]: row["value"]
            for row in settings
            if row.get("in") == "header" and row.get("value")
        }
        return {**headers, "Impersonate-User": as_user} if as_user else headers

    pool = ApiClient(configuration).rest_client.pool_manager
    client = Client(configuration.host.rstrip("/"), name, pool, authorize)
    client.announce = announce
    if expired := certificate_expired(configuration.cert_file):
        client.hint = f"the client certificate of the kubeconfig expired on {expired}"
    return client


# What reading a file of another shape ends in.
_MISSHAPEN = (TypeError, AttributeError, KeyError, ValueError)


def load(configuration: Any, kubeconfig: str | None, context: str | None) -> str:
    """Fill a `kubernetes.client.Configuration`; returns the name of the context, for messages."""
    import yaml
    from kubernetes import config

    files = kubeconfig or os.environ.get("KUBECONFIG") or "~/.kube/config"
    existing = [
        path for path in files.split(os.pathsep) if path and Path(path).expanduser().is_file()
    ]
    if not existing:
        if kubeconfig or context or not os.environ.get("KUBERNETES_SERVICE_HOST"):
            raise ArcError(
                f"no kubeconfig: {files} is not a file; name one with --kubeconfig or $KUBECONFIG"
            )
        try:
            config.load_incluster_config(client_configuration=configuration)
        except config.ConfigException as error:
            raise ArcError(
                f"this is a pod, but it has no service account to use ({error})"
            ) from None
        return "in-cluster"
    listing = ", ".join(existing)
    try:
        names, current = _contexts(existing)
        chosen = context or current
        if chosen not in names:
            problem = (
                f"no context {chosen!r} in {listing}"
                if chosen
                else f"{listing} has no current context"
            )
            raise ArcError(
                f"{problem}: choose one with --context (there are: {', '.join(names) or 'none'})"
            )
        with _collect_logged_errors() as logged:
            config.load_kube_config(files, chosen, configuration, persist_config=False)
    except (config.ConfigException, yaml.YAMLError, OSError, *_MISSHAPEN) as error:
        first = (str(error).splitlines() or [type(error).__name__])[0]
        raise ArcError(f"{listing} is not a usable kubeconfig ({first})") from None
    if logged:
        # A failed exec plugin is only logged, and requests would have no credentials at all.
        raise ArcError(
            f"the sign-in command of context {chosen} failed ({' '.join(logged[0].split())[:300]})"
        )
    return chosen


def _contexts(files: list[str]) -> tuple[list[str], str]:
    """(names of all contexts, the current one), merged as by kubectl: the first file wins."""
    import yaml

    names: list[str] = []
    current = ""
    for path in files:
        content = yaml.safe_load(Path(path).expanduser().read_text(encoding="utf-8")) or {}
        names += [
            str(row["name"])
            for row in content.get("contexts") or []
            if str(row["name"]) not in names
        ]
        current = current or str(content.get("current-context") or "")
    return names, current


@contextmanager
def _collect_logged_errors() -> Iterator[list[str]]:
    """What the `kubernetes` package logs as errors on the root logger, instead of raising."""
    messages: list[str] = []

    class Collect(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.levelno >= logging.ERROR:
                messages.append(record.getMessage())

    handler = Collect()
    root = logging.getLogger()
    root.addHandler(handler)
    try:
        yield messages
    finally:
        root.removeHandler(handler)


def certificate_expired(path: str | None) -> str | None:
    """When the client certificate in a file ran out, as a date; None otherwise."""
    import ssl
    import time

    if not path:
        return None
    try:
        # The standard library's only reader of certificates is private: it may be missing.
        certificate = ssl._ssl._test_decode_cert(path)  # type: ignore[attr-defined]
        end = ssl.cert_time_to_seconds(certificate["notAfter"])
    except (AttributeError, KeyError, OSError, ValueError):
        return None
    return time.strftime("%Y-%m-%d", time.gmtime(end)) if end < time.time() else None

"""Which cluster and as whom: a kubeconfig and its context, or the account of the pod we run in."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from arc_toolkit.errors import ArcError

# What reading a file of another shape ends in.
_MISSHAPEN = (TypeError, AttributeError, KeyError, ValueError)


def load(configuration: Any, kubeconfig: str | None, context: str | None) -> str:
    """Fill a `kubernetes.client.Configuration`; returns the name of the context, for messages."""
    import yaml
    from kubernetes import config

    files = kubeconfig or os.environ.get("KUBECONFIG") or "~/.kube/config"
    there = [path for path in files.split(os.pathsep) if path and Path(path).expanduser().is_file()]
    if not there:
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
    shown = ", ".join(there)
    try:
        names, current = _contexts(there)
        chosen = context or current
        if chosen not in names:
            what = (
                f"no context {chosen!r} in {shown}" if chosen else f"{shown} has no current context"
            )
            raise ArcError(
                f"{what}: choose one with --context (there are: {', '.join(names) or 'none'})"
            )
        with _logged_errors() as logged:
            config.load_kube_config(files, chosen, configuration, persist_config=False)
    except (config.ConfigException, yaml.YAMLError, OSError, *_MISSHAPEN) as error:
        first = (str(error).splitlines() or [type(error).__name__])[0]
        raise ArcError(f"{shown} is not a usable kubeconfig ({first})") from None
    if logged:
        # An exec plugin that fails is only logged, and the request would go out with no credentials at all.
        raise ArcError(
            f"the sign-in command of context {chosen} failed ({' '.join(logged[0].split())[:300]})"
        )
    return chosen


def _contexts(files: list[str]) -> tuple[list[str], str]:
    """(names of all contexts, the current one), merged as kubectl merges: the first file that sets it wins."""
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
def _logged_errors() -> Iterator[list[str]]:
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
    """When the client certificate in a file ran out, as a date; None if it did not or cannot be read."""
    import ssl
    import time

    if not path:
        return None
    try:
        # The only reader of certificates in the standard library; private, so its absence must not matter.
        certificate = ssl._ssl._test_decode_cert(path)  # type: ignore[attr-defined]
        end = ssl.cert_time_to_seconds(certificate["notAfter"])
    except (AttributeError, KeyError, OSError, ValueError):
        return None
    return time.strftime("%Y-%m-%d", time.gmtime(end)) if end < time.time() else None

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

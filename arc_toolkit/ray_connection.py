"""The connection to a Ray cluster, for `elastic` and `diagnose --ray`."""

from __future__ import annotations

import socket
from typing import Any

from arc_toolkit.errors import ArcError, missing_extra

_ANSWER_SECONDS = 10.0


class BusyHead(ArcError):
    """The head was reached, and did not start a process for this client."""


def import_ray(what: str) -> Any:
    """Ray, which `what` needs."""
    try:
        import ray
    except ImportError:
        raise missing_extra("ray", what) from None
    return ray


def split_address(option: str, address: str) -> tuple[str, int] | None:
    """Host and port of an address; None for `auto`, the Ray of this machine."""
    host, _, port = address.removeprefix("ray://").partition("/")[0].rpartition(":")
    if host and port.isascii() and port.isdigit():
        return host.strip("[]"), int(port)
    if address != "auto":
        raise ArcError(f"{option} {address}: use ray://HEAD:10001, HOST:6379 or auto")
    return None


def check_address(option: str, address: str) -> None:
    """Ray waits half a minute or more, and without a word, for an address at which nobody listens."""
    if (place := split_address(option, address)) is None:
        return
    try:
        socket.create_connection(place, timeout=_ANSWER_SECONDS).close()
    except (OSError, OverflowError, UnicodeError) as error:
        raise ArcError(f"cannot connect to Ray at {address}: {error}") from None


def connect_ray(what: str, where: str, **options: Any) -> Any:
    """Ray, connected. `where` is the address, as the user knows it."""
    ray = import_ray(what)
    try:
        ray.init(log_to_driver=False, logging_level="ERROR", **options)
    except ConnectionAbortedError as error:
        raise BusyHead(_failure(where, error)) from None
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise ArcError(_failure(where, error)) from None
    return ray


def reason_of(error: Exception) -> str:
    """A failure inside of the cluster comes with its traceback, whose last line says what it was."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [
        type(error).__name__
    ]
    return lines[0] if len(lines) == 1 else f"{lines[0]} {lines[-1]}"


def _failure(where: str, error: Exception) -> str:
    return f"cannot connect to Ray at {where}: {reason_of(error)}"

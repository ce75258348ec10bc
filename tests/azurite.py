"""Azurite, Microsoft's emulator of Blob storage, as fixtures: `azurite` (its port) and `container` (an empty one)."""

from __future__ import annotations

import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster.processes import Server, free_ports
from tests.support import ROOT, unavailable

# Azurite's account and key are the same everywhere, and public.
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


def connection(port: int, key: str = KEY) -> str:
    endpoint = f"BlobEndpoint=http://127.0.0.1:{port}/{ACCOUNT};"
    return f"DefaultEndpointsProtocol=http;AccountName={ACCOUNT};AccountKey={key};{endpoint}"


def listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


@pytest.fixture(scope="session")
def azurite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of a running Azurite."""
    try:
        import adlfs  # noqa: F401
    except ImportError:
        unavailable("adlfs is not installed")
    found = subprocess.run(
        [ROOT / "scripts" / "azurite"], capture_output=True, text=True, timeout=600, check=False
    )
    if found.returncode:
        unavailable(f"scripts/azurite: {found.stderr.strip()[-300:]}")
    folder, [port] = tmp_path_factory.mktemp("azurite"), free_ports(1)
    options = [
        "--blobHost",
        "127.0.0.1",
        "--blobPort",
        str(port),
        "--location",
        str(folder),
        "--silent",
    ]
    server = Server(
        [found.stdout.strip(), *options, "--skipApiVersionCheck"], folder / "azurite.log"
    )
    try:
        server.wait_until(lambda: listens(port))
        yield port
    finally:
        server.stop(signal.SIGKILL)  # its data is thrown away, so a clean end is not needed


@pytest.fixture
def container(azurite: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """An empty container, and the environment that leads to it."""
    from azure.storage.blob import BlobServiceClient

    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", connection(azurite))
    with BlobServiceClient.from_connection_string(connection(azurite)) as service:
        yield service.create_container(f"tests-{time.time_ns()}")

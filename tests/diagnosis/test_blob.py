"""Logs in Blob storage, read from a real Azurite with a real container."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from arc_toolkit.diagnosis.model import LogFile
from arc_toolkit.diagnosis.read.scan import LogScan, scan
from arc_toolkit.diagnosis.read.sources import blob
from arc_toolkit.errors import ArcError
from tests.azurite import KEY, connection
from tests.cluster.processes import free_ports
from tests.support import ROOT, Result, real_module


def names(logs: list[LogFile]) -> list[str]:
    return sorted(log.path.partition("://")[2].partition("/")[2] for log in logs)


def url(container: Any, prefix: str = "") -> str:
    return f"az://{container.container_name}/{prefix}"


@pytest.mark.real
def test_every_blob_below_the_prefix_is_offered_and_readable(container: Any) -> None:
    for job in range(12):
        for folder in ("system_logs", "system_logs/retry-001"):
            line = f"++ echo 'Run on node: aks-pool-12345678-vmss00000{job % 10}\"\n"
            container.upload_blob(
                f"ExperimentRun/dcid.job{job}/{folder}/amlarc_cr_bootstrap.log", line
            )
    container.upload_blob("elsewhere/amlarc_cr_bootstrap.log", "Run on node: other\n")
    logs = list(blob.list_logs(url(container, "ExperimentRun"), jobs=2))
    assert len(logs) == 24
    scanned = [scan(log) for log in logs]
    assert all(isinstance(one, LogScan) and one.nodes[0].startswith("aks-pool") for one in scanned)
    assert {one.path for one in scanned} == {log.path for log in logs}


@pytest.mark.real
def test_prefix_may_be_a_folder_a_blob_or_the_start_of_a_name(container: Any) -> None:
    for name in ("a/one.log", "a/two/three.log", "ab/four.log", "top.log"):
        container.upload_blob(name, "text")
    assert names(list(blob.list_logs(url(container), 2))) == [
        "a/one.log",
        "a/two/three.log",
        "ab/four.log",
        "top.log",
    ]
    assert names(list(blob.list_logs(url(container, "a/"), 2))) == ["a/one.log", "a/two/three.log"]
    assert names(list(blob.list_logs(url(container, "a/tw"), 2))) == ["a/two/three.log"]
    assert names(list(blob.list_logs(url(container, "top.log"), 2))) == ["top.log"]


@pytest.mark.real
def test_large_blob_is_read_in_pieces_and_whole(
    container: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blob, "WHOLE_BYTES", 1 << 16)
    data = b"".join(b"line %d\n" % number for number in range(40_000)) + b"Run on node: aks-last\n"
    container.upload_blob("big/amlarc_cr_bootstrap.log", data)
    [log] = blob.list_logs(url(container), 2)
    with log.open() as stream:
        assert stream.read() == data
    result = scan(log)
    assert isinstance(result, LogScan)
    assert result.nodes == ["aks-last"]


@pytest.mark.real
def test_blob_that_vanished_or_shrank_after_it_was_listed_is_a_reason(
    container: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blob, "WHOLE_BYTES", 1 << 16)
    for name in ("gone/amlarc_cr_bootstrap.log", "shrunk/amlarc_cr_bootstrap.log"):
        container.upload_blob(name, b"Run on node: aks-1\n" + b"x" * 200_000)
    logs = {log.path.split("/")[-2]: log for log in blob.list_logs(url(container), 2)}
    container.delete_blob("gone/amlarc_cr_bootstrap.log")
    container.upload_blob(
        "shrunk/amlarc_cr_bootstrap.log", b"Run on node: aks-1\n" + b"x" * 70_000, overwrite=True
    )
    assert "gone" in str(scan(logs["gone"]))
    shrunk = scan(logs["shrunk"])
    assert isinstance(shrunk, LogScan)
    assert shrunk.nodes == ["aks-1"]  # what could be read counts
    assert shrunk.size < 200_000


@pytest.mark.real
def test_missing_container_and_prefix_are_one_sentence_each(container: Any) -> None:
    container.upload_blob("a/b.log", "text")
    for source, says in [
        ("az://no-such-container/logs", "there is no container no-such-container"),
        ("az://no-such-container", "there is no container no-such-container"),
        (url(container, "nothing/here"), "no blob has this prefix"),
    ]:
        with pytest.raises(ArcError, match=says) as caught:
            list(blob.list_logs(source, 2))
        assert "\n" not in str(caught.value)


@pytest.mark.real
def test_wrong_key_is_one_sentence_that_says_how_to_sign_in(
    container: Any, azurite: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(
        "AZURE_STORAGE_CONNECTION_STRING", connection(azurite, KEY.replace("Eby8", "AAAA"))
    )
    with pytest.raises(ArcError, match=r"not allowed .*az login") as caught:
        list(blob.list_logs(url(container), 2))
    assert "AAAA" not in str(caught.value)


@pytest.mark.real
def test_diagnose_reads_a_container(container: Any, arc: Callable[..., Result]) -> None:
    for attempt, node in (
        ("", "aks-spot-12345678-vmss000001"),
        ("retry-001/", "aks-spot-12345678-vmss000002"),
    ):
        path = f"runs/brave_sky/system_logs/{attempt}amlarc_cr_bootstrap.log"
        container.upload_blob(path, f"++ echo 'Run on node: {node}'\n")
    result = arc("diagnose", url(container, "runs"))
    assert result.code == 0, result.err
    assert "brave_sky" in result.out
    assert "vmss000002" in result.out


def test_unreachable_service_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    real_module("adlfs")
    import asyncio

    async def at_once(*_: object, **__: object) -> None: ...

    [port] = free_ports(1)
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", connection(port))
    monkeypatch.setattr(asyncio, "sleep", at_once)  # between the retries
    with pytest.raises(ArcError, match=f"cannot list logs/x .*{port}") as caught:
        list(blob.list_logs("az://logs/x", 2))
    assert "\n" not in str(caught.value)


def test_an_invalid_connection_string_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    real_module("adlfs")
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", "nonsense")
    with pytest.raises(ArcError, match="AZURE_STORAGE_CONNECTION_STRING"):
        list(blob.list_logs("az://logs/x", 2))


def test_no_account_says_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    real_module("adlfs")
    for name in list(os.environ):
        if name.startswith("AZURE_STORAGE"):
            monkeypatch.delenv(name)
    with pytest.raises(ArcError, match="AZURE_STORAGE_ACCOUNT_NAME"):
        list(blob.list_logs("az://logs/x", 2))


def test_url_without_a_container_is_refused() -> None:
    with pytest.raises(ArcError, match="no container"):
        list(blob.list_logs("az:///x", 2))


def test_the_account_can_be_in_the_url() -> None:
    assert blob._split("abfss://logs@acme.dfs.core.windows.net/a/b/") == ("logs", "acme", "a/b")
    assert blob._split("az://logs/a") == ("logs", None, "a")


def test_install_script_prints_nothing_but_the_path(tmp_path: Path) -> None:
    # A command that is already in the cache is found without npm, node or a network.
    home = tmp_path / "azurite-3.37.0"
    home.mkdir()
    (home / "azurite-blob").write_text("#!/bin/sh\n")
    (home / "azurite-blob").chmod(0o755)
    environment = {**os.environ, "ARC_TOOLKIT_CACHE": str(tmp_path)}
    found = subprocess.run(
        [ROOT / "scripts" / "azurite"], env=environment, capture_output=True, text=True, check=True
    )
    assert (found.stdout, found.stderr) == (f"{home}/azurite-blob\n", "")

"""What the metadata service of each cloud says, and what is made of it."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from arc_toolkit.notices import NoticeKind
from arc_toolkit.notices.metadata import MetadataClient, SourceTrouble, host_of
from arc_toolkit.notices.sources import cloud_source, find_cloud
from arc_toolkit.notices.sources.aws_metadata import AwsMetadata
from arc_toolkit.notices.sources.azure_events import AzureEvents
from arc_toolkit.notices.sources.gcp_metadata import GcpMetadata
from arc_toolkit.notices.sources.notice_file import NoticeFile
from tests.notices.metadata_service import (
    MetadataService,
    azure_answers,
    azure_event,
    metadata_service,
)


@pytest.fixture
def service() -> Iterator[MetadataService]:
    with metadata_service() as running:
        yield running


# --- Azure ----------------------------------------------------------------------------------------------------


def test_azure_without_events(service: MetadataService) -> None:
    azure_answers(service, [])
    source = AzureEvents(service.url)
    assert source.poll() == []
    assert source.poll() == []
    assert service.paths("GET") == ["/metadata/scheduledevents?api-version=2020-07-01"] * 2


def test_azure_preempt_of_this_machine_has_a_deadline(service: MetadataService) -> None:
    azure_answers(service, [azure_event(seconds=20)])
    (notice,) = AzureEvents(service.url).poll()
    assert notice.kind is NoticeKind.PREEMPT
    assert notice.deadline == pytest.approx(time.time() + 20, abs=3)
    assert notice.kind.ends_process


@pytest.mark.parametrize("names", [["aks-spot-12345678-vmss_5"], ["other-vm", "third-vm"]])
def test_azure_events_of_other_machines_are_not_ours(
    service: MetadataService, names: list[str]
) -> None:
    azure_answers(service, [azure_event(Resources=names)])
    assert AzureEvents(service.url).poll() == []


def test_azure_event_of_a_group_with_this_machine_in_other_letters(
    service: MetadataService,
) -> None:
    azure_answers(service, [azure_event(Resources=["other", "AKS-SPOT-12345678-VMSS_4"])])
    assert len(AzureEvents(service.url).poll()) == 1


def test_azure_event_counts_while_the_own_name_is_not_known(service: MetadataService) -> None:
    azure_answers(service, [azure_event(Resources=["other"])])
    answer = service.answer
    service.answer = lambda m, path, h: (500, b"") if "compute" in path else answer(m, path, h)
    source = AzureEvents(service.url)
    assert "not known" in source.poll()[0].description
    service.answer = answer  # the name is asked for again, and then it is not ours
    assert source.poll() == []


@pytest.mark.parametrize("compute", [[], "x", None, {"name": ["a"]}, {"name": 5, "osProfile": "x"}])
def test_azure_event_counts_if_the_answer_about_the_machine_is_malformed(
    service: MetadataService, compute: object
) -> None:
    azure_answers(service, [azure_event()])
    answer = service.answer
    body = json.dumps(compute).encode()
    service.answer = lambda m, path, h: (200, body) if "compute" in path else answer(m, path, h)
    assert len(AzureEvents(service.url).poll()) == 1


def test_azure_event_that_has_started_may_come_at_any_moment(service: MetadataService) -> None:
    azure_answers(service, [azure_event(seconds=None)])
    (notice,) = AzureEvents(service.url).poll()
    assert notice.deadline is None


def test_azure_deadline_is_right_although_our_clock_is_wrong(service: MetadataService) -> None:
    service.clock_lead = 600
    azure_answers(service, [azure_event("Reboot", seconds=600 + 500)])
    (notice,) = AzureEvents(service.url).poll()
    assert notice.deadline == pytest.approx(time.time() + 500, abs=4)


def test_azure_preempt_never_leaves_more_than_30_seconds(service: MetadataService) -> None:
    azure_answers(service, [azure_event(seconds=3600)])
    source = AzureEvents(service.url)
    first = source.poll()[0].deadline
    assert first == pytest.approx(time.time() + 30, abs=3)
    assert source.poll()[0].deadline == first


def test_azure_freeze_does_not_end_the_process(service: MetadataService) -> None:
    azure_answers(service, [azure_event("Freeze", 900)])
    (notice,) = AzureEvents(service.url).poll()
    assert notice.kind is NoticeKind.FREEZE
    assert not notice.kind.ends_process


@pytest.mark.parametrize(
    "events",
    [
        [{"EventType": "Dance"}],
        [7],
        [{}],
        [azure_event(ResourceType="Disk")],
        [{"EventType": None}],
    ],
)
def test_azure_events_of_unknown_form_are_passed_over(
    service: MetadataService, events: list[object]
) -> None:
    azure_answers(service, events)  # type: ignore[arg-type]
    assert AzureEvents(service.url).poll() == []


@pytest.mark.parametrize(
    "event", [azure_event(NotBefore="soon"), azure_event(Resources=None), azure_event(EventId=None)]
)
def test_azure_event_with_a_broken_field_still_counts(
    service: MetadataService, event: dict[str, object]
) -> None:
    azure_answers(service, [event])
    assert len(AzureEvents(service.url).poll()) == 1


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'{"Events": 3}', b"\xff\xfe", b"null"])
def test_azure_malformed_answers_are_trouble(service: MetadataService, body: bytes) -> None:
    service.answer = lambda *_: (200, body)
    with pytest.raises(SourceTrouble) as trouble:
        AzureEvents(service.url).poll()
    assert not trouble.value.blocked


@pytest.mark.parametrize("status", [302, 400, 403, 404, 410, 429, 500, 503])
def test_azure_other_answers_are_trouble(service: MetadataService, status: int) -> None:
    service.answer = lambda *_: (status, b"", {"Retry-After": "17"})
    with pytest.raises(SourceTrouble, match=f"answered {status}"):
        AzureEvents(service.url).poll()


def test_azure_is_acknowledged_only_when_asked(service: MetadataService) -> None:
    azure_answers(service, [azure_event()])
    source = AzureEvents(service.url)
    (notice,) = source.poll()
    assert service.paths("POST") == []
    source.acknowledge(notice)
    (body,) = [body for method, _, _, body in service.requests if method == "POST"]
    assert json.loads(body) == {"StartRequests": [{"EventId": notice.id}]}


def test_proxies_are_not_used(service: MetadataService, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    azure_answers(service, [])
    assert AzureEvents(service.url).poll() == []


def test_a_service_that_does_not_answer_is_blocked() -> None:
    with metadata_service() as service:
        url = service.url
    with pytest.raises(SourceTrouble) as trouble:
        AzureEvents(url).poll()
    assert trouble.value.blocked


def test_a_kept_connection_that_was_closed_is_opened_again(service: MetadataService) -> None:
    azure_answers(service, [])
    answer = service.answer
    service.answer = lambda m, p, h: (*answer(m, p, h)[:2], {"Connection": "close"})
    source = AzureEvents(service.url)
    assert [source.poll() for _ in range(3)] == [[], [], []]


def test_azure_preempt_leaves_the_same_time_after_our_clock_was_set(
    service: MetadataService, monkeypatch: pytest.MonkeyPatch
) -> None:
    azure_answers(service, [azure_event(seconds=25)])
    source = AzureEvents(service.url)
    assert source.poll()[0].seconds_left() == pytest.approx(25, abs=3)
    true_time = time.time
    for shift in (3600, -3600):
        monkeypatch.setattr(time, "time", lambda shift=shift: true_time() + shift)
        service.clock_lead = -shift  # the clock of the service is the one that is right
        assert source.poll()[0].seconds_left() == pytest.approx(25, abs=4)


# --- HTTP -----------------------------------------------------------------------------------------------------


@contextmanager
def raw_server(*answers: bytes) -> Iterator[str]:
    """A server that gives these bytes, each to one connection, and closes it."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            for answer in answers:
                connection, _ = server.accept()
                with connection:
                    connection.recv(65536)
                    connection.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        thread.join(10)


@pytest.mark.parametrize(
    ("answer", "status", "body"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", 200, b"hi"),
        (b"HTTP/1.1 200 OK\ncontent-length:2\n\nhi", 200, b"hi"),
        (
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 429\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n",
            429,
            b"",
        ),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;x=y\r\nhi\r\n1\r\n!\r\n0\r\nA: b\r\n\r\n",
            200,
            b"hi!",
        ),
        (b"HTTP/1.0 200 OK\r\n\r\nto the end", 200, b"to the end"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", 204, b""),
    ],
)
def test_answers_in_every_form_of_http(answer: bytes, status: int, body: bytes) -> None:
    with raw_server(answer) as url:
        reply = MetadataClient(url).request("GET", "/", {})
    assert (reply.status, reply.body) == (status, body)


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"HTTP/1.1 many\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\nhi",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\nhi",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\nhi",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"".join(b"X-%d: 1\r\n" % number for number in range(500)),
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000,
    ],
)
def test_what_is_not_http_is_trouble(answer: bytes) -> None:
    with (
        raw_server(answer) as url,
        pytest.raises(SourceTrouble, match="does not answer") as trouble,
    ):
        MetadataClient(url).request("GET", "/", {})
    assert trouble.value.blocked


@pytest.mark.parametrize("endpoint", ["http://[::1]:1", "http://[::1]"])
def test_an_address_at_which_nobody_answers_is_trouble(endpoint: str) -> None:
    with pytest.raises(SourceTrouble):
        MetadataClient(endpoint).request("GET", "/", {})


# --- AWS ------------------------------------------------------------------------------------------------------


def aws_answers(service: MetadataService, **documents: object) -> None:
    def answer(method: str, path: str, headers: dict[str, str]) -> tuple[int, bytes]:
        if method == "PUT" and path == "/latest/api/token":
            return (
                (200, b"tok-1") if "x-aws-ec2-metadata-token-ttl-seconds" in headers else (400, b"")
            )
        if headers.get("x-aws-ec2-metadata-token") != "tok-1":
            return 401, b""
        word = {"/latest/meta-data/spot/instance-action": "action"}.get(path, "rebalance")
        return (200, json.dumps(documents[word]).encode()) if word in documents else (404, b"")

    service.answer = answer


def test_aws_without_a_notice(service: MetadataService) -> None:
    aws_answers(service)
    source = AwsMetadata(service.url)
    assert [source.poll(), source.poll()] == [[], []]
    assert len(service.paths("PUT")) == 1


def test_aws_terminate_has_its_time(service: MetadataService) -> None:
    aws_answers(service, action={"action": "terminate", "time": "2017-09-18T08:22:00Z"})
    (notice,) = AwsMetadata(service.url).poll()
    assert (notice.kind, notice.deadline) == (NoticeKind.PREEMPT, 1505722920.0)


def test_aws_hibernation_begins_at_once(service: MetadataService) -> None:
    aws_answers(service, action={"action": "hibernate", "time": "2017-09-18T08:22:00Z"})
    assert AwsMetadata(service.url).poll()[0].deadline is None


def test_aws_rebalance_is_only_a_warning(service: MetadataService) -> None:
    aws_answers(service, rebalance={"noticeTime": "2020-10-27T08:22:00Z"})
    (notice,) = AwsMetadata(service.url).poll()
    assert notice.kind is NoticeKind.REBALANCE
    assert not notice.kind.ends_process


def test_aws_token_is_renewed(service: MetadataService) -> None:
    aws_answers(service)
    source = AwsMetadata(service.url)
    source.poll()
    source._token = "expired"
    assert source.poll() == []
    assert len(service.paths("PUT")) == 2


@pytest.mark.parametrize("status", [403, 500])
def test_aws_without_a_token_is_trouble(service: MetadataService, status: int) -> None:
    service.answer = lambda *_: (status, b"")
    with pytest.raises(SourceTrouble):
        AwsMetadata(service.url).poll()


def test_aws_answer_that_is_not_a_token_is_asked_for_again(service: MetadataService) -> None:
    """As from a proxy that answers everything with a page."""
    service.answer = lambda *_: (200, b"<html>\r\n\xff</html>")
    source = AwsMetadata(service.url)
    for _ in range(2):
        with pytest.raises(SourceTrouble, match="not a token"):
            source.poll()
    assert len(service.paths("PUT")) == 2


# --- Google Cloud ---------------------------------------------------------------------------------------------


def test_gcp_waits_for_the_change_since_its_last_answer(service: MetadataService) -> None:
    words = [b"FALSE", b"FALSE", b"TRUE"]
    service.answer = lambda m, p, headers: (
        (200, words.pop(0), {"ETag": f"e{len(words)}"})
        if headers.get("metadata-flavor") == "Google"
        else (403, b"")
    )
    source = GcpMetadata(service.url)
    assert [source.poll(), source.poll()] == [[], []]
    (notice,) = source.poll()
    assert notice.kind is NoticeKind.PREEMPT
    assert notice.deadline == pytest.approx(time.time() + 30, abs=3)
    assert [path.partition("timeout_sec=1&")[2] for path in service.paths("GET")] == [
        "",
        "last_etag=e2",
        "last_etag=e1",
    ]


def test_gcp_other_answers_are_trouble(service: MetadataService) -> None:
    service.answer = lambda *_: (200, b"<html>")
    with pytest.raises(SourceTrouble):
        GcpMetadata(service.url).poll()


# --- a file, and which cloud it is ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("", None),
        ("30", 30),
        ("2.5\n", 2.5),
        ("rubbish", None),
        ('{"deadline": "x"}', None),
        ('{"deadline": 1e30}', None),
        ("1e999", None),
        ("NaN", None),
        ("9" * 400, None),
        ("[" * 60000, None),
    ],
    ids=lambda value: str(value)[:20],
)
def test_a_file_is_a_notice_whatever_is_in_it(
    tmp_path: Path, text: str, seconds: float | None
) -> None:
    path = tmp_path / "stop"
    source = NoticeFile(path)
    assert source.poll() == []
    path.write_text(text)
    (notice,) = source.poll()
    assert notice.kind is NoticeKind.STOP
    left = notice.seconds_left()
    assert left == (None if seconds is None else pytest.approx(seconds, abs=2))
    path.unlink()
    assert source.poll() == []


def test_a_written_notice_is_read_back(tmp_path: Path, service: MetadataService) -> None:
    azure_answers(service, [azure_event()])
    (notice,) = AzureEvents(service.url).poll()
    NoticeFile(tmp_path / "n").write(notice)
    (again,) = NoticeFile(tmp_path / "n").poll()
    assert again.to_json() == notice.to_json()
    assert [path.name for path in tmp_path.iterdir()] == ["n"]


@pytest.mark.parametrize(
    ("name", "text", "cloud"),
    [
        ("chassis_asset_tag", "7783-7084-3265-9085-8269-3286-77\n", "azure"),
        ("sys_vendor", "Amazon EC2\n", "aws"),
        ("product_name", "Google Compute Engine\n", "gcp"),
        ("sys_vendor", "Microsoft Corporation\n", None),  # any Hyper-V
        ("sys_vendor", "QEMU\n", None),
    ],
)
def test_the_firmware_names_the_cloud(
    tmp_path: Path, name: str, text: str, cloud: str | None
) -> None:
    (tmp_path / name).write_text(text)
    assert find_cloud(str(tmp_path)) == cloud


@pytest.mark.parametrize("cloud", ["azure", "aws", "gcp"])
def test_every_cloud_has_a_source(cloud: str) -> None:
    assert cloud_source(cloud).name == cloud


def test_an_unknown_cloud_is_refused() -> None:
    with pytest.raises(ValueError, match="use one of azure"):
        cloud_source("ibm")


@pytest.mark.parametrize(
    ("endpoint", "host"),
    [
        ("http://169.254.169.254", "169.254.169.254"),
        ("http://127.0.0.1:8080/", "127.0.0.1:8080"),
        ("http://[fd00:ec2::254]", "[fd00:ec2::254]"),
        ("http://[::1]:80", "[::1]:80"),
        *(
            (endpoint, None)
            for endpoint in (
                "",
                "nonsense",
                "127.0.0.1:80",
                "https://host",
                "http://",
                "http://:80",
            )
        ),
        *(
            (endpoint, None)
            for endpoint in ("http://a b", "http://host:x", "http://host:65536", "http://host/path")
        ),
    ],
)
def test_an_address_that_can_never_answer_is_refused(endpoint: str, host: str | None) -> None:
    if host is not None:
        assert host_of(endpoint) == host
        return
    with pytest.raises(ValueError, match="use http://HOST or http://HOST:PORT"):
        host_of(endpoint)

"""Google Cloud: `instance/preempted`, up to 30 s ahead.

https://cloud.google.com/compute/docs/instances/preemptible#detect_if_an_instance_was_preempted
The request waits on the server until the value changes, so that it costs nothing and a notice
arrives at once.
"""

from __future__ import annotations

import time

from arc_toolkit.notices.metadata import MetadataClient, SourceTrouble
from arc_toolkit.notices.notice import Notice, NoticeKind

_PATH = "/computeMetadata/v1/instance/preempted"
_HEADERS = {"Metadata-Flavor": "Google"}
_WAIT = 60
_NOTICE_SECONDS = 30.0


class GcpMetadata:
    """Whether this instance is being preempted."""

    ENDPOINT = "http://metadata.google.internal"
    name = "gcp"
    period = 1.0

    def __init__(self, endpoint: str = ENDPOINT) -> None:
        self._client = MetadataClient(endpoint)
        self._waits = False
        self._seen: float | None = None

    def poll(self) -> list[Notice]:
        path = f"{_PATH}?wait_for_change=true&timeout_sec={_WAIT}" if self._waits else _PATH
        reply = self._client.request("GET", path, _HEADERS, timeout=_WAIT + 10.0)
        if reply.status != 200:
            raise SourceTrouble(
                f"the metadata service answered {reply.status}", retry=reply.retry_after or 5.0
            )
        word = reply.body.strip().upper()
        if word not in (b"TRUE", b"FALSE"):
            raise SourceTrouble("the answer of the metadata service is neither TRUE nor FALSE")
        self._waits = word == b"FALSE"
        if word == b"FALSE":
            return []
        self._seen = self._seen or time.time()
        description = "the instance is being preempted"
        deadline = self._seen + _NOTICE_SECONDS
        return [
            Notice(
                NoticeKind.PREEMPT,
                self.name,
                "preempted",
                deadline=deadline,
                description=description,
            )
        ]

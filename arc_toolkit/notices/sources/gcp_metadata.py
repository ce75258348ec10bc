"""Google Cloud: `instance/preempted`, up to 30 s ahead.

https://cloud.google.com/compute/docs/instances/preemptible#detect_if_an_instance_was_preempted
The request waits on the server until the value is another one than that of `last_etag`, so that a
notice arrives at once, also one that came between two requests. It waits for a second only: a
server that has stopped answering would be noticed no sooner.
"""

from __future__ import annotations

import time

from arc_toolkit.notices.metadata import MetadataClient, SourceTrouble
from arc_toolkit.notices.notice import Notice, NoticeKind

_PATH = "/computeMetadata/v1/instance/preempted"
_HEADERS = {"Metadata-Flavor": "Google"}
_WAIT = 1
_NOTICE_SECONDS = 30.0


class GcpMetadata:
    """Whether this instance is being preempted."""

    # metadata.google.internal, for which a broken resolver of names can take half a minute.
    ENDPOINT = "http://169.254.169.254"
    name = "gcp"
    period = 1.0

    def __init__(self, endpoint: str = ENDPOINT) -> None:
        self._client = MetadataClient(endpoint)
        self._etag = ""  # of the last answer
        self._seen: float | None = None

    def poll(self) -> list[Notice]:
        path = _PATH
        if self._etag:
            path += f"?wait_for_change=true&timeout_sec={_WAIT}&last_etag={self._etag}"
        self._etag, wait = "", float(_WAIT) if self._etag else 0.0
        reply = self._client.request("GET", path, _HEADERS, wait=wait)
        if reply.status != 200:
            raise SourceTrouble(f"the metadata service answered {reply.status}")
        word = reply.body.strip().upper()
        if word not in (b"TRUE", b"FALSE"):
            raise SourceTrouble("the answer of the metadata service is neither TRUE nor FALSE")
        if word == b"FALSE":
            self._etag = reply.etag if reply.etag.isalnum() else ""
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

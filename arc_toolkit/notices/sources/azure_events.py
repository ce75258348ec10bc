"""Azure's Scheduled Events.

https://learn.microsoft.com/azure/virtual-machines/linux/scheduled-events

Every machine of a placement group sees the events of all of them, so they are filtered by the own
name. An event is never acknowledged unless `acknowledge` is called: that approves it for all
machines that it names.
"""

from __future__ import annotations

import time

from arc_toolkit.notices.metadata import MetadataClient, Reply, SourceTrouble, parse_http_date
from arc_toolkit.notices.notice import Notice, NoticeKind

TYPE_CHECKING = False  # `typing` alone takes as long to import as all the rest
if TYPE_CHECKING:
    from typing import Any

_EVENTS = "/metadata/scheduledevents?api-version=2020-07-01"
_COMPUTE = "/metadata/instance/compute?api-version=2021-02-01"
_HEADERS = {"Metadata": "true"}
_KINDS = {
    "preempt": NoticeKind.PREEMPT,
    "terminate": NoticeKind.TERMINATE,
    "redeploy": NoticeKind.REDEPLOY,
    "reboot": NoticeKind.REBOOT,
    "freeze": NoticeKind.FREEZE,
}
# A preempted machine is gone 30 s after the notice, whatever a wrong clock makes of `NotBefore`.
_PREEMPT_SECONDS = 30.0


class AzureEvents:
    """The events of this machine."""

    ENDPOINT = "http://169.254.169.254"
    name = "azure"
    period = 1.0

    def __init__(self, endpoint: str = ENDPOINT) -> None:
        self._client = MetadataClient(endpoint)
        self._names: frozenset[str] | None = None
        self._seen: dict[str, tuple[float, float]] = {}
        self._lead = 0.0

    def poll(self) -> list[Notice]:
        reply = self._get(_EVENTS)
        document = _json(reply.body)
        events = document.get("Events") if isinstance(document, dict) else None
        if not isinstance(events, list):
            raise SourceTrouble("the answer of Scheduled Events has no list of events")
        if not events:
            return []
        self._lead = reply.clock_lead
        if self._names is None:
            self._names = self._own_names()
        notices = (self._notice(event) for event in events if isinstance(event, dict))
        return [notice for notice in notices if notice is not None]

    def acknowledge(self, notice: Notice) -> None:
        """Approve an event, to start at once, for every machine that it names."""
        import json

        body = json.dumps({"StartRequests": [{"EventId": notice.id}]}).encode()
        headers = {**_HEADERS, "Content-Type": "application/json"}
        reply = self._client.request("POST", _EVENTS, headers, body)
        if reply.status != 200:
            raise SourceTrouble(f"Scheduled Events answered {reply.status} to the acknowledgement")

    def _get(self, path: str) -> Reply:
        reply = self._client.request("GET", path, _HEADERS)
        if reply.status == 200:
            return reply
        # 404 and 410: the service is being enabled or updated; 429: asked too often; 5xx: passing.
        # Nothing is longer than a notice: `Retry-After` and the 70 seconds of 410 are maxima.
        raise SourceTrouble(
            f"the metadata service answered {reply.status} for {path.partition('?')[0]}"
        )

    def _own_names(self) -> frozenset[str] | None:
        """The names that `Resources` may have for this machine; None while they are not known."""
        try:
            compute = _json(self._get(_COMPUTE).body)
        except SourceTrouble:
            return None
        profile = compute.get("osProfile") if isinstance(compute, dict) else None
        names = [_text_in(compute, "name"), _text_in(profile, "computerName")]
        return frozenset(name.lower() for name in names if name) or None

    def _notice(self, event: dict[str, Any]) -> Notice | None:
        kind = _KINDS.get(str(event.get("EventType")).lower())
        resources = event.get("Resources")
        listed = {str(name).lower() for name in resources} if isinstance(resources, list) else set()
        if kind is None or str(event.get("ResourceType") or "VirtualMachine") != "VirtualMachine":
            return None
        if self._names is not None and listed and not listed & self._names:
            return None
        id = str(event.get("EventId") or f"{kind.value}-{event.get('NotBefore')}")
        first_seen, since = self._seen.setdefault(id, (time.time(), time.monotonic()))
        # empty once the event has started
        begins = parse_http_date(str(event.get("NotBefore") or ""))
        deadline = None if begins is None else begins - self._lead
        if kind is NoticeKind.PREEMPT and deadline is not None:
            # our clock, since the first sight
            was_set = time.time() - first_seen - (time.monotonic() - since)
            deadline = min(
                deadline, first_seen + _PREEMPT_SECONDS + (was_set if abs(was_set) > 2.0 else 0.0)
            )
        description = str(event.get("Description") or "")
        if self._names is None:
            description = f"{description} (the name of this machine is not known)".strip()
        return Notice(kind, self.name, id, deadline=deadline, description=description)


def _text_in(document: Any, name: str) -> str:
    """A field with a text in it; empty for anything else."""
    value = document.get(name) if isinstance(document, dict) else None
    return value if isinstance(value, str) else ""


def _json(body: bytes) -> Any:
    import json

    try:
        return json.loads(body)
    except ValueError:
        raise SourceTrouble("the answer of the metadata service is not JSON") from None

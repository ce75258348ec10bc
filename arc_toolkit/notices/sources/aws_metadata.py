"""AWS: the instance-action of a spot instance, 2 minutes ahead, and rebalance recommendations.

https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/spot-instance-termination-notices.html; 404
means no notice.
"""

from __future__ import annotations

from arc_toolkit.notices.metadata import MetadataClient, SourceTrouble, parse_iso_time
from arc_toolkit.notices.notice import Notice, NoticeKind

_SESSION = "/latest/api/token"
_ACTION = "/latest/meta-data/spot/instance-action"
_REBALANCE = "/latest/meta-data/events/recommendations/rebalance"
_TOKEN_SECONDS = 21600
_KINDS = {
    "terminate": NoticeKind.PREEMPT,
    "stop": NoticeKind.PREEMPT,
    "hibernate": NoticeKind.PREEMPT,
}


class AwsMetadata:
    """The notices of this instance, with a session token (IMDSv2), which every instance accepts."""

    ENDPOINT = "http://169.254.169.254"
    name = "aws"
    period = 1.0

    def __init__(self, endpoint: str = ENDPOINT) -> None:
        self._client = MetadataClient(endpoint)
        self._token = ""

    def poll(self) -> list[Notice]:
        notices = []
        if action := self._get(_ACTION):
            word = str(action.get("action"))
            kind = _KINDS.get(word)
            if kind is None:
                raise SourceTrouble(f"instance-action has an unknown action: {word[:40]}")
            # Hibernation begins at once: its time is in the past.
            time_of = None if word == "hibernate" else parse_iso_time(action.get("time"))
            id = f"{word}-{action.get('time')}"
            notices.append(
                Notice(kind, self.name, id, deadline=time_of, description=f"spot instance {word}")
            )
        elif advice := self._get(_REBALANCE):
            id = f"rebalance-{advice.get('noticeTime')}"
            notices.append(
                Notice(NoticeKind.REBALANCE, self.name, id, description="rebalance recommendation")
            )
        return notices

    def _get(self, path: str) -> dict[str, object] | None:
        for _ in range(2):
            if not self._token:
                self._token = self._new_token()
            reply = self._client.request("GET", path, {"X-aws-ec2-metadata-token": self._token})
            if reply.status == 401:  # the token has expired
                self._token = ""
                continue
            if reply.status == 404:
                return None
            if reply.status != 200:
                raise SourceTrouble(f"the metadata service answered {reply.status}")
            import json

            try:
                document = json.loads(reply.body)
            except ValueError:
                raise SourceTrouble("the answer of the metadata service is not JSON") from None
            if not isinstance(document, dict):
                raise SourceTrouble("the answer of the metadata service is not an object")
            return document
        raise SourceTrouble("the metadata service refuses its own token")

    def _new_token(self) -> str:
        headers = {"X-aws-ec2-metadata-token-ttl-seconds": str(_TOKEN_SECONDS)}
        reply = self._client.request("PUT", _SESSION, headers)
        if reply.status != 200:
            raise SourceTrouble(f"the metadata service gave no token ({reply.status})")
        token = reply.body.decode("ascii", "replace").strip()
        if not (token.isascii() and token.isprintable()):
            raise SourceTrouble("the metadata service gave something that is not a token")
        return token

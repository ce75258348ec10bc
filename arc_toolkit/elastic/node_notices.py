"""Where the notices of one node come from."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from arc_toolkit.elastic.messages import Message
from arc_toolkit.notices.sources import cloud_source, find_cloud
from arc_toolkit.notices.sources.notice_file import NoticeFile

if TYPE_CHECKING:
    from arc_toolkit.notices.sources import NoticeSource


def node_sources(config: Message, node: str) -> list[NoticeSource]:
    """The metadata service of its cloud, and a file with its name, as the user asked for."""
    sources: list[NoticeSource] = []
    cloud = find_cloud() if config["cloud"] == "auto" else config["cloud"]
    if cloud not in (None, "none"):
        sources.append(cloud_source(cloud, config.get("metadata")))
    if config.get("notice_dir"):
        source = NoticeFile(os.path.join(config["notice_dir"], node))
        source.period = 0.2
        sources.append(source)
    return sources

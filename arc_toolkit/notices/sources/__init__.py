"""Where notices come from: one file per cloud, and the ones that need no network.

A source has a `name`, a `period` in seconds, and `poll()`, which gives the notices that hold now or
raises `SourceTrouble`. A notice that is in no later answer was withdrawn, or is over.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False  # `typing` alone takes as long to import as all the rest
if TYPE_CHECKING:
    from typing import Protocol

    from arc_toolkit.notices.notice import Notice

    class NoticeSource(Protocol):
        """One place to ask."""

        name: str
        period: float

        def poll(self) -> list[Notice]: ...


CLOUDS = ("azure", "aws", "gcp")
# What the firmware of a virtual machine says, readable in containers too. The chassis tag is
# Azure's own mark; other machines of Hyper-V have the same vendor.
_MARKS = {
    "azure": ("chassis_asset_tag", "7783-7084-3265-9085-8269-3286-77"),
    "aws": ("sys_vendor", "Amazon EC2"),
    "gcp": ("product_name", "Google"),
}
_DMI = "/sys/class/dmi/id"


def find_cloud(folder: str = _DMI) -> str | None:
    """The cloud that this machine is in; None if its firmware does not name one."""
    for cloud, (name, mark) in _MARKS.items():
        try:
            with open(os.path.join(folder, name), encoding="ascii", errors="replace") as stream:
                if stream.read().startswith(mark):
                    return cloud
        except OSError:
            continue
    return None


def cloud_source(cloud: str, endpoint: str | None = None) -> NoticeSource:
    """The source of a cloud; `endpoint` replaces the address of its metadata service."""
    if cloud == "azure":
        from arc_toolkit.notices.sources.azure_events import AzureEvents

        return AzureEvents(endpoint or AzureEvents.ENDPOINT)
    if cloud == "aws":
        from arc_toolkit.notices.sources.aws_metadata import AwsMetadata

        return AwsMetadata(endpoint or AwsMetadata.ENDPOINT)
    if cloud == "gcp":
        from arc_toolkit.notices.sources.gcp_metadata import GcpMetadata

        return GcpMetadata(endpoint or GcpMetadata.ENDPOINT)
    raise ValueError(f"cloud {cloud!r}: use one of {', '.join(CLOUDS)}")

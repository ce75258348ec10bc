"""Eviction notices: whether this machine is about to be evicted, and when.

    from arc_toolkit.notices import watch

    notice = watch()                 # finds the cloud, and polls its metadata service every second
    for step in range(1000):
        train_one(step)
        if notice.pending():         # notice.deadline: a time as of time.time(), or None
            save()
            break

Trouble with the metadata service is reported once and never ends the process.
"""

from __future__ import annotations

from arc_toolkit.notices.notice import Notice, NoticeKind
from arc_toolkit.notices.watcher import Watcher, watch

__all__ = ["Notice", "NoticeKind", "Watcher", "watch"]

"""Eviction notices: whether this machine is about to be taken away, and when. Standard library only.

    from arc_toolkit.notices import watch

    notice = watch()                 # finds the cloud, and polls its metadata service every second in the background
    for step in range(1000):
        train_one(step)
        if notice.pending():         # notice.deadline is the time (as of time.time()) or None if it is not known
            save()
            break

Trouble with the metadata service is reported once and never ends the process.
"""

from __future__ import annotations

from arc_toolkit.notices.notice import Notice, NoticeKind
from arc_toolkit.notices.watcher import Watcher, watch

__all__ = ["Notice", "NoticeKind", "Watcher", "watch"]

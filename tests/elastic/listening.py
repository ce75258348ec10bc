"""Runs a command, and prints as JSON which of the sockets that listened meanwhile can be reached from other machines.

    python -m tests.elastic.listening COMMAND...

For a network namespace of its own: everything that listens in it is looked at.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

_LISTEN = "0A"
_LOOPBACK = ("0100007F", "00000000000000000000000001000000", "0000000000000000FFFF00000100007F")


def listening() -> set[str]:
    """The addresses of listening sockets, as /proc/net/tcp and tcp6 have them."""
    rows = [
        line.split()
        for name in ("tcp", "tcp6")
        for line in Path("/proc/net", name).read_text().splitlines()[1:]
    ]
    return {row[1] for row in rows if row[3] == _LISTEN}


def main(command: list[str]) -> int:
    process = subprocess.Popen(command)
    addresses: set[str] = set()
    while process.poll() is None:
        addresses |= listening()
        time.sleep(0.1)
    reachable = sorted(item for item in addresses if item.partition(":")[0] not in _LOOPBACK)
    print(json.dumps({"listening": len(addresses), "reachable": reachable}))
    return process.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Text that is safe to show: no terminal control characters, no secrets."""

from __future__ import annotations

import re

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_SECRET = re.compile(
    r"""(?ix)
    ( (?:sig|sharedaccesssignature|accountkey|account_key|password|passwd|secret|token|api[-_]?key)
      \s*[=:]\s*['"]?
    | bearer\s+
    )
    [^\s'"&;,]{6,}
    """
)


def printable(text: str) -> str:
    """Control characters (a job may be called anything) as visible escapes."""
    return _CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", text)


def redact(text: str) -> str:
    """Values that look like secrets, masked."""
    return _SECRET.sub(lambda match: match[1] + "***", text)

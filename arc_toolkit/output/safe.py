"""Text that is safe to show: no terminal control characters, no secrets."""

from __future__ import annotations

import re

# Terminal controls, every kind of line break, and what turns the direction of writing (a name can lie with it).
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_NAMED = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}
_SECRET = re.compile(
    r"""(?ix)
    ( (?:sig|sharedaccesssignature|accountkey|account_key|password|passwd|secret|token|api[-_]?key)
      \s*[=:]\s*['"]?
    | bearer\s+
    )
    [^\s'"&;,]{6,}
    """
)


_USERINFO = re.compile(r"://[^\s/@:]*:[^\s@]+@")
_CONTAINER_SCHEMES = ("az", "abfs", "abfss")  # az://container@account/prefix: no user there


def printable(text: str) -> str:
    """Control characters (a job may be called anything) as visible escapes."""
    return _CONTROL.sub(lambda match: _NAMED.get(match[0]) or _escaped(ord(match[0])), text)


def _escaped(code: int) -> str:
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"


def redact(text: str) -> str:
    """Values that look like secrets, masked."""
    return _SECRET.sub(lambda match: match[1] + "***", _USERINFO.sub("://***@", text))


def show_source(source: str) -> str:
    """A path as it is, an address without what may be secret in it: user, password and query string."""
    scheme, found, rest = source.partition("://")
    if not found:
        return source
    rest, hash_sign, fragment = rest.partition("#")
    rest = rest.partition("?")[0]
    if "@" in rest and not (scheme in _CONTAINER_SCHEMES and ":" not in rest.partition("/")[0]):
        rest = rest.rpartition("@")[2]
    return redact(f"{scheme}://{rest}{hash_sign}{fragment}")

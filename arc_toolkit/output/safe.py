"""Text that is safe to show: no terminal control characters, no secrets."""

from __future__ import annotations

import re

# Terminal controls, every kind of line break, and what turns the direction of writing (a name can lie with it).
_CONTROL = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]"
)
_NAMED = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}
# A value: quoted (the quotes may be escaped, as in JSON inside JSON), or up to the end of the word.
_VALUE = r"""(?: \\*"(?:[^"\\]|\\.)*" | \\*'(?:[^'\\]|\\.)*' | [^\s&;,]+ )"""
_KEY = r"(?:api|access|account|shared|client|private)[-_]?key"
_NAME = rf"(?:passwords?|passwd|passphrase|pwd|secrets?|tokens?|credentials?|{_KEY})"
_SECRET = re.compile(
    rf"""(?isx)
      (?P<pem> -----BEGIN\b.*?(?:-----END[^-]*-----|\Z) )
    | (?P<user> ://[^\s/?\#@:]*:\S*@ )
    | (?P<shown>
          \bauthorization\b[\\"']*\s*[=:]\s*[\\"']*(?:[a-z]+\s+)?   # Authorization: Basic ..., also in JSON
        | \b(?:bearer|sharedkey|sharedaccesssignature)\s+
        | --?[\w-]*{_NAME}\s+                                        # --password X
        | (?:[\w.-]*{_NAME}\w*|(?<![a-z])sig|sharedaccesssignature)[\\"']*\s*[=:]+\s*
      ) {_VALUE}
    | (?P<token>
          \beyJ[\w-]{{6,}}(?:\.[\w-]*)*                              # JWT
        | \b(?:gh[a-z]|github_pat|glpat|xox[a-z]|hf|sk|npm|pypi)[_-]\w{{16,}}
        | \bA[KS]IA[A-Z0-9]{{12,}}
        | [\w+/]{{40,}}={{1,2}}                                      # keys of storage accounts and service buses
      )
    """
)


_CONTAINER_SCHEMES = ("az", "abfs", "abfss")  # az://container@account/prefix: no user there


def printable(text: str) -> str:
    """Control characters (a job may be called anything) as visible escapes."""
    return _CONTROL.sub(lambda match: _NAMED.get(match[0]) or _escaped(ord(match[0])), text)


def _escaped(code: int) -> str:
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"


def redact(text: str) -> str:
    """Values that look like secrets, masked."""
    return _SECRET.sub(_masked, text)


def _masked(match: re.Match[str]) -> str:
    if match["user"]:
        return "://***@"
    return f"{match['shown'] or ''}***"


def show_source(source: str) -> str:
    """A path as it is, an address without what may be secret in it: user, password and query string."""
    scheme, separator, rest = source.partition("://")
    if not separator:
        return source
    rest, hash_sign, fragment = rest.partition("#")
    rest = rest.partition("?")[0]
    if "@" in rest and not (scheme in _CONTAINER_SCHEMES and ":" not in rest.partition("/")[0]):
        rest = rest.rpartition("@")[2]
    return redact(f"{scheme}://{rest}{hash_sign}{fragment}")

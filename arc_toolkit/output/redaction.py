"""Output that is safe to share: text without secrets, pages that load nothing from the network."""

from __future__ import annotations

import re

# A value: quoted (the quotes may be escaped, as in JSON inside JSON), or up to the end of the word.
_VALUE = r"""(?: \\*"(?:[^"\\]|\\.)*" | \\*'(?:[^'\\]|\\.)*' | [^\s&;,]+ )"""
_KEY = r"(?:api|access|account|shared|client|private)[-_]?key"
_NAME = rf"(?:passwords?|passwd|passphrase|pwd|secrets?|tokens?|credentials?|{_KEY})"
_SECRET = re.compile(
    rf"""(?isx)
      (?P<pem> -----BEGIN\b.*?(?:-----END[^-]*-----|\Z) )
    | (?P<user> ://[^\s/?\#@:]*:\S*@ )
    | (?P<shown>
          \bauthorization\b[\\"']*\s*[=:]\s*[\\"']*(?:[a-z]+\s+)?   # Authorization: Basic ...
        | \b(?:bearer|sharedkey|sharedaccesssignature)\s+
        | --?[\w-]*{_NAME}\s+                                        # --password X
        | (?:[\w.-]*{_NAME}\w*|(?<![a-z])sig|sharedaccesssignature)[\\"']*\s*[=:]+\s*
      ) {_VALUE}
    | (?P<token>
          \beyJ[\w-]{{6,}}(?:\.[\w-]*)*                              # JWT
        | \b(?:gh[a-z]|github_pat|glpat|xox[a-z]|hf|sk|npm|pypi)[_-]\w{{16,}}
        | \bA[KS]IA[A-Z0-9]{{12,}}
        | [\w+/]{{40,}}={{1,2}}                        # keys of storage accounts and service buses
      )
    """
)


_CONTAINER_SCHEMES = ("az", "abfs", "abfss")  # az://container@account/prefix: no user there


def redact(text: str) -> str:
    """Values that look like secrets, masked."""
    return _SECRET.sub(_masked, text)


def _masked(match: re.Match[str]) -> str:
    if match["user"]:
        return "://***@"
    return f"{match['shown'] or ''}***"


def show_source(source: str) -> str:
    """A path as it is; an address without its user, password and query string."""
    scheme, separator, rest = source.partition("://")
    if not separator:
        return source
    rest, hash_sign, fragment = rest.partition("#")
    rest = rest.partition("?")[0]
    if "@" in rest and not (scheme in _CONTAINER_SCHEMES and ":" not in rest.partition("/")[0]):
        rest = rest.rpartition("@")[2]
    return redact(f"{scheme}://{rest}{hash_sign}{fragment}")


def page_policy(style: str, script: str = "") -> str:
    """The content security policy of a page: only its own style and script, by their hashes."""
    scripts = f"script-src '{_hash(script)}'; " if script else ""
    styles = f"style-src '{_hash(style)}'; "
    return (
        f"default-src 'none'; {styles}{scripts}img-src data:; base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    import base64
    import hashlib

    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()

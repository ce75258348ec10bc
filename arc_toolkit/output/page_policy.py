"""The content security policy of a page that needs no network: only its own style and script, by their hashes."""

from __future__ import annotations

import base64
import hashlib


def page_policy(style: str, script: str = "") -> str:
    scripts = f"script-src '{_hash(script)}'; " if script else ""
    styles = f"style-src '{_hash(style)}'; "
    return (
        f"default-src 'none'; {styles}{scripts}img-src data:; base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()

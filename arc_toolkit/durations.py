"""Times as people write them: `25s`, `10m`, `1.5h`. One reader for every option and every library function."""

from __future__ import annotations

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def parse_seconds(text: str) -> float:
    """The seconds of a time with its unit, or of a bare number; `ValueError` with a sentence for anything else."""
    word = text.strip()
    unit = word[-1:].lower()
    number = word[:-1] if unit in _UNITS else word
    digits = number.replace(".", "", 1)
    if not (digits.isascii() and digits.isdigit()):
        raise ValueError(f"{text!r} is not a time such as 25s, 10m or 1.5h")
    return float(number) * _UNITS.get(unit, 1.0)

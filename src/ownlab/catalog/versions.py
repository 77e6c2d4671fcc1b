"""Versions as they stand in drivers, toolkits and wheels, made comparable."""

from __future__ import annotations

import re

__all__ = ["major_minor", "parse_version"]

_LEADING = re.compile(r"\s*v?(\d+(?:\.\d+)*)")


def parse_version(text: str) -> tuple[int, ...]:
    """The leading numbers: "580.159.04" -> (580, 159, 4); "2.11.0+cu130" -> (2, 11, 0); "unknown" -> ()."""
    match = _LEADING.match(text)
    return tuple(int(part) for part in match.group(1).split(".")) if match else ()


def major_minor(text: str) -> str:
    """ "2.11.0+cu130" -> "2.11"."""
    return ".".join(str(part) for part in parse_version(text)[:2])

"""Compare versions of drivers, toolkits and wheels."""

from __future__ import annotations

import re

__all__ = ["major_minor", "parse_version"]

_LEADING = re.compile(r"\s*v?(\d+(?:\.\d+)*)")


def parse_version(version: str) -> tuple[int, ...]:
    """Return the leading numbers: "580.159.04" -> (580, 159, 4); "2.11.0+cu130" -> (2, 11, 0); "unknown" -> ()."""
    match = _LEADING.match(version)
    return tuple(int(part) for part in match.group(1).split(".")) if match else ()


def major_minor(version: str) -> str:
    """ "2.11.0+cu130" -> "2.11"."""
    return ".".join(str(part) for part in parse_version(version)[:2])

"""Reads small files of /proc, /sys and /etc as facts, so that a missing or forbidden one becomes a reason."""

from __future__ import annotations

from pathlib import Path

from ownlab.machine.facts import Fact, Known, Unknown

__all__ = ["names_in", "parse_fields", "parse_list", "read_bytes", "read_text", "shown"]

# A number has at most five digits: the kernel has no more CPUs, and garbage must not fill the memory.
_DIGITS = 5


def shown(path: Path, root: Path) -> str:
    """The path as people know it: without the root under which a recorded machine lies."""
    return "/" + str(path.relative_to(root)) if path.is_relative_to(root) else str(path)


def read_bytes(path: Path, root: Path) -> Fact[bytes]:
    """What the file holds, or why it cannot be read."""
    name = shown(path, root)
    try:
        return Known(path.read_bytes(), source=name)
    except FileNotFoundError:
        return Unknown(f"there is no {name} here")
    except OSError as exc:
        return Unknown(f"{name} cannot be read: {exc.strerror}")


def read_text(path: Path, root: Path) -> Fact[str]:
    """What the file says, without the white space around it. Bytes that are no UTF-8 are replaced, not refused."""
    fact = read_bytes(path, root)
    if isinstance(fact, Unknown):
        return fact
    return Known(fact.value.decode(errors="replace").strip(), source=fact.source)


def names_in(folder: Path, root: Path) -> Fact[tuple[str, ...]]:
    """The names in a folder, sorted, or why it cannot be listed."""
    name = shown(folder, root)
    try:
        return Known(tuple(sorted(entry.name for entry in folder.iterdir())), source=name)
    except FileNotFoundError:
        return Unknown(f"there is no {name} here")
    except OSError as exc:
        return Unknown(f"{name} cannot be listed: {exc.strerror}")


def parse_fields(text: str) -> dict[str, str]:
    """ "Name: value" lines as a table; of a name that comes again, the first."""
    fields: dict[str, str] = {}
    for line in text.splitlines():
        name, colon, value = line.partition(":")
        if colon:
            fields.setdefault(name.strip(), value.strip())
    return fields


def parse_list(text: str) -> frozenset[int]:
    """The kernel's list of numbers, "0-3,8", as a set; empty where it is none."""
    numbers: set[int] = set()
    for part in text.strip().split(","):
        first, dash, last = part.partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()) or max(len(first), len(last)) > _DIGITS:
            return frozenset()
        numbers.update(range(int(first), int(last or first) + 1))
    return frozenset(numbers)

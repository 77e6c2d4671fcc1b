"""Reads small files of /proc, /sys and /etc as facts: a missing or forbidden file becomes a reason.

Every path is read under a root, so that tests and recorded machines can stand in for the running one.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from ownlab.machine.facts import Fact, Known, Unknown
from ownlab.machine.records import DeviceFile
from ownlab.processes.background import BackgroundCall
from ownlab.text import text

__all__ = ["Tree", "call_all", "names_in", "parse_fields", "parse_list", "read_bytes", "read_text", "shown"]

# A number has at most five digits: the kernel has no more CPUs, and garbage must not fill the memory.
_DIGITS = 5


def shown(path: Path, root: Path) -> str:
    """Return the path as users know it: without the root of a recorded machine."""
    return "/" + str(path.relative_to(root)) if path.is_relative_to(root) else str(path)


def read_bytes(path: Path, root: Path) -> Fact[bytes]:
    """Read a file as bytes."""
    name = shown(path, root)
    try:
        return Known(path.read_bytes(), source=name)
    except FileNotFoundError:
        return Unknown(text("{path} does not exist", path=name))
    except OSError as exc:
        return Unknown(text("{name} cannot be read: {error}", name=name, error=exc.strerror))


def read_text(path: Path, root: Path) -> Fact[str]:
    """Read a file as text, without surrounding white space. Bytes that are not UTF-8 are replaced."""
    fact = read_bytes(path, root)
    if isinstance(fact, Unknown):
        return fact
    return Known(fact.value.decode(errors="replace").strip(), source=fact.source)


def names_in(folder: Path, root: Path) -> Fact[tuple[str, ...]]:
    """List a folder, sorted by name."""
    name = shown(folder, root)
    try:
        return Known(tuple(sorted(entry.name for entry in folder.iterdir())), source=name)
    except FileNotFoundError:
        return Unknown(text("{path} does not exist", path=name))
    except OSError as exc:
        return Unknown(text("{name} cannot be listed: {error}", name=name, error=exc.strerror))


def parse_fields(content: str) -> dict[str, str]:
    """Parse "Name: value" lines. Of a repeated name, the first value counts."""
    fields: dict[str, str] = {}
    for line in content.splitlines():
        name, colon, value = line.partition(":")
        if colon:
            fields.setdefault(name.strip(), value.strip())
    return fields


def parse_list(content: str) -> frozenset[int]:
    """Parse the kernel's list of numbers, "0-3,8". A malformed list gives an empty set."""
    numbers: set[int] = set()
    for part in content.strip().split(","):
        first, dash, last = part.partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()) or max(len(first), len(last)) > _DIGITS:
            return frozenset()
        numbers.update(range(int(first), int(last or first) + 1))
    return frozenset(numbers)


T = TypeVar("T")


def call_all(calls: Mapping[str, Callable[[], T]], deadline: float) -> dict[str, T | OSError]:
    """Make all calls at once and return the result or the OSError of each that ended within `deadline` seconds.

    The kernel may never answer, for example on a dead network mount. Each call has its own daemon thread, so one that
    hangs blocks neither the others nor the exit of the program (since Linux 2.6.25, NFS and FUSE waits can be killed).
    """
    running = {name: BackgroundCall(call) for name, call in calls.items()}
    answers: dict[str, T | OSError] = {}
    end = time.monotonic() + deadline
    for name, call in running.items():
        if call.ended(max(0.0, end - time.monotonic())):
            try:
                answers[name] = call.result()
            except OSError as exc:
                answers[name] = exc
    return answers


class Tree:
    """The file system under `root`. Paths are given, and shown in sources and reasons, as on the machine itself."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def at(self, path: str) -> Path:
        """Return where a path of the machine lies on this file system."""
        return self.root / path.lstrip("/")

    def shown(self, path: Path) -> str:
        """Return the path as on the machine."""
        return shown(path, self.root)

    def exists(self, path: str) -> bool:
        """Return whether the path exists. (Until Python 3.12, pathlib's exists() raises under a forbidden folder.)"""
        return os.path.exists(self.at(path))

    def names(self, folder: str, pattern: str = "") -> list[str]:
        """List the names in a folder that match the whole pattern, in natural order; none if it cannot be listed."""
        try:
            names = os.listdir(self.at(folder))
        except OSError:
            return []
        return sorted((name for name in names if not pattern or re.fullmatch(pattern, name)), key=_natural)

    def text(self, path: str) -> Fact[str]:
        """Read a file's text without surrounding white space. An empty file is unknown."""
        try:
            content = self.at(path).read_bytes().decode(errors="replace").strip("\0 \t\r\n")
        except FileNotFoundError:
            return Unknown(text("{path} does not exist", path=path))
        except OSError as exc:  # amdgpu does not read the sensors of a sleeping card; containers hide some files
            return Unknown(text("{path} cannot be read: {error}", path=path, error=exc.strerror))
        return Known(content, source=path) if content else Unknown(text("{path} is empty", path=path))

    def word(self, path: str) -> str:
        """Read a file's text, or "" if it is unknown: for IDs that only select what to read next."""
        fact = self.text(path)
        return fact.value if isinstance(fact, Known) else ""

    def number(self, path: str, unit: str | None = None, *, divide: int = 1) -> Fact[int]:
        """Read a whole number, divided down to its unit."""
        fact = self.text(path)
        if isinstance(fact, Unknown):
            return fact
        try:
            return Known(round(int(fact.value, 0) / divide), source=path, unit=unit)
        except ValueError:
            return Unknown(text("{path} does not contain a number: {value!r}", path=path, value=fact.value[:40]))

    def device_file(self, path: str) -> Fact[DeviceFile]:
        """Return a device file and whether this user may open it."""
        place = self.at(path)
        if not os.path.exists(place):
            return Unknown(text("{path} does not exist", path=path))
        return Known(DeviceFile(path, os.access(place, os.R_OK), os.access(place, os.W_OK)), source=path)

    def link_name(self, path: str) -> str:
        """Return the last part of a link's target. In sysfs, this is a card's bus ID or its driver."""
        return os.path.basename(os.path.realpath(self.at(path))) if self.exists(path) else ""


def _natural(name: str) -> list[tuple[int, int | str]]:
    return [(0, int(part)) if part.isdigit() else (1, part) for part in re.split(r"(\d+)", name) if part]

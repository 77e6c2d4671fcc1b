"""Reads small files of /proc, /sys and /etc as facts, so that a missing or forbidden one becomes a reason."""

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

__all__ = ["Tree", "ask_all", "names_in", "parse_fields", "parse_list", "read_bytes", "read_text", "shown"]

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


T = TypeVar("T")


def ask_all(questions: Mapping[str, Callable[[], T]], deadline: float) -> dict[str, T | OSError]:
    """The answer, or the refusal, to each question that was answered within `deadline` seconds for all together.

    Each question has a daemon thread of its own: one that hangs keeps neither the others nor the end of the program
    waiting (NFS and FUSE wait in a way that the end of the process interrupts, since Linux 2.6.25).
    """
    calls = {name: BackgroundCall(question) for name, question in questions.items()}
    answers: dict[str, T | OSError] = {}
    end = time.monotonic() + deadline
    for name, call in calls.items():
        if call.ended(max(0.0, end - time.monotonic())):
            try:
                answers[name] = call.result()
            except OSError as exc:
                answers[name] = exc
    return answers


class Tree:
    """A file system as seen from `root`: paths are written as on the machine, and shown so in sources and reasons."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def at(self, path: str) -> Path:
        """Where the path of the machine lies for us."""
        return self.root / path.lstrip("/")

    def shown(self, path: Path) -> str:
        """The path as on the machine."""
        return "/" + str(path.relative_to(self.root)) if path.is_relative_to(self.root) else str(path)

    def exists(self, path: str) -> bool:
        """Whether it is there for us. (pathlib's exists() raises under a closed folder until Python 3.12.)"""
        return os.path.exists(self.at(path))

    def names(self, folder: str, pattern: str = "") -> list[str]:
        """What a folder holds that matches the pattern as a whole, in natural order; nothing where it cannot be listed."""
        try:
            names = os.listdir(self.at(folder))
        except OSError:
            return []
        return sorted((name for name in names if not pattern or re.fullmatch(pattern, name)), key=_natural)

    def text(self, path: str) -> Fact[str]:
        """A file's text without the white space around it. An empty file says nothing, so it is unknown."""
        try:
            text = self.at(path).read_bytes().decode(errors="replace").strip("\0 \t\r\n")
        except FileNotFoundError:
            return Unknown(f"{path} is not there")
        except OSError as exc:  # amdgpu refuses to read sensors of a sleeping card, containers hide some files
            return Unknown(f"{path} cannot be read: {exc.strerror}")
        return Known(text, source=path) if text else Unknown(f"{path} is empty")

    def word(self, path: str) -> str:
        """A file's text, or nothing: for ids that only choose what is read next."""
        fact = self.text(path)
        return fact.value if isinstance(fact, Known) else ""

    def number(self, path: str, unit: str | None = None, *, divide: int = 1) -> Fact[int]:
        """A whole number, divided down to its unit."""
        fact = self.text(path)
        if isinstance(fact, Unknown):
            return fact
        try:
            return Known(round(int(fact.value, 0) / divide), source=path, unit=unit)
        except ValueError:
            return Unknown(f"{path} holds no number: {fact.value[:40]!r}")

    def device_file(self, path: str) -> Fact[DeviceFile]:
        """A device file, and whether we may open it."""
        place = self.at(path)
        if not os.path.exists(place):
            return Unknown(f"{path} is not there")
        return Known(DeviceFile(path, os.access(place, os.R_OK), os.access(place, os.W_OK)), source=path)

    def link_name(self, path: str) -> str:
        """The last part of where a link leads: sysfs names a card's bus id and its driver so."""
        return os.path.basename(os.path.realpath(self.at(path))) if self.exists(path) else ""


def _natural(name: str) -> list[tuple[int, int | str]]:
    return [(0, int(part)) if part.isdigit() else (1, part) for part in re.split(r"(\d+)", name) if part]

"""Who the processes on a card are: their program and their user, never their options."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from ownlab.machine.facts import Fact, Known, Unknown
from ownlab.machine.records import Card, CardProcess

__all__ = ["name_processes", "short_command"]

_LONGEST = 120
_SCRIPT_FLAGS = re.compile(r"-[uBEsSIOdqvP]+$")  # python's flags that take no value: the script comes after them


def short_command(words: Sequence[str]) -> str:
    """Program and script: ["python", "-u", "train.py", "--token", "…"] -> "python train.py". The rest may be secret."""
    # One word: a program that renamed itself ("ray::train"), or a tool that joined the words (but no path of Windows).
    if len(words) == 1 and "\\" not in words[0]:
        words = words[0].split()
    if not words:
        return ""
    program, rest = words[0], list(words[1:])
    if re.match(r"python[\d.]*$", os.path.basename(program)):
        while rest and _SCRIPT_FLAGS.match(rest[0]):
            del rest[0]
    if rest[:1] == ["-m"]:
        shown = [program, *rest[:2]]
    elif rest and not rest[0].startswith("-"):
        shown = [program, rest[0]]
    else:
        shown = [program]
    text = " ".join(word for word in shown if word)
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def name_processes(card: Card, root: Path) -> Card:
    """The card with the command and user of each of its processes, as far as /proc shows them."""
    if not isinstance(card.processes, Known) or not card.processes.value:
        return card
    named = tuple(_name(process, root) for process in card.processes.value)
    return replace(card, processes=replace(card.processes, value=named))


def _name(process: CardProcess, root: Path) -> CardProcess:
    folder = root / "proc" / str(process.pid)
    stranger = _why_stranger(folder, process.pid)
    if stranger is not None:
        command = process.command if isinstance(process.command, Known) else stranger
        return replace(process, command=command, user=stranger)
    command = _read_command(folder, process.pid)
    if isinstance(command, Unknown) and isinstance(process.command, Known):
        command = process.command
    return replace(process, command=command, user=_read_user(folder, process.pid))


def _why_stranger(folder: Path, pid: int) -> Unknown | None:
    """NVML may count in the host's PID namespace: then the process of that number here, if any, is another one."""
    if not os.path.isdir(folder):
        return Unknown(f"process {pid} is outside this PID namespace, or has ended")
    try:
        names = os.listdir(folder / "fd")
    except OSError:
        return None  # another user's: that its number is here is all there is to go by
    for name in names:
        try:
            target = os.readlink(folder / "fd" / name)
        except OSError:  # closed meanwhile
            continue
        if target.startswith(("/dev/nvidia", "/dev/dxg")):
            return None
    return Unknown(f"process {pid} here does not use the card: the one meant is outside this PID namespace")


def _read_command(folder: Path, pid: int) -> Fact[str]:
    source = f"/proc/{pid}/cmdline"
    try:
        raw = (folder / "cmdline").read_bytes()
    except OSError as exc:
        return Unknown(f"{source} cannot be read: {exc.strerror}")
    words = [word.decode(errors="replace") for word in raw.rstrip(b"\0").split(b"\0")]
    command = short_command(words)
    return Known(command, source=source) if command else Unknown(f"{source} is empty")


def _read_user(folder: Path, pid: int) -> Fact[str]:
    try:
        uid = folder.stat().st_uid
    except OSError as exc:
        return Unknown(f"/proc/{pid} cannot be read: {exc.strerror}")
    try:
        import pwd  # not on Windows, which has no /proc either

        return Known(pwd.getpwuid(uid).pw_name, source=f"/proc/{pid}")
    except KeyError:  # a user of the host without a name in this container
        return Known(f"uid {uid}", source=f"/proc/{pid}")

"""The processes on a card: their program and their user, never their options."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

from msgspec.structs import replace

from ownlab.machine.facts import Fact, Known, Unknown
from ownlab.machine.records import Card, CardProcess
from ownlab.text import text

__all__ = ["name_processes", "read_command", "read_user", "short_command", "why_other_process"]

_LONGEST = 120
_PYTHON = re.compile(r"python[\d.]*")
# The first argument of an interpreter that is not a flag is a script; that of any other program may be anything.
_INTERPRETER = re.compile(r"python[\d.]*|node|bash|sh|julia|Rscript|perl|ruby")
_SCRIPT_FLAGS = re.compile(r"-[uBEsSIOdqvP]+$")  # Python's flags that take no value: the script comes after them
_MODULE = re.compile(r"\w+(\.\w+)*")
_NO_SCRIPT = re.compile(r"^-|://|[@=]|\s")  # a flag, an address, a login, a setting, code: each may contain a secret


def short_command(words: Sequence[str]) -> str:
    """Shorten a command to program and script: ["python", "-u", "train.py", "--token", "…"] -> "python train.py"."""
    # One word: a program that renamed itself ("ray::train"), or a tool that joined the words (but not a Windows path).
    if len(words) == 1 and "\\" not in words[0]:
        words = words[0].split()
    if not words or not words[0]:
        return ""
    content = " ".join([_program(words[0]), *_script(os.path.basename(words[0]), list(words[1:]))])
    return content if len(content) <= _LONGEST else content[: _LONGEST - 1] + "…"


def _program(word: str) -> str:
    """Return a path as it is, and a title that a program gave itself without its arguments: ray::train(key=1)."""
    return re.split(r"://|[@=(]", word)[0] if "://" in word or not re.search(r"[/\\]", word) else word


def _script(program: str, rest: list[str]) -> list[str]:
    if _INTERPRETER.fullmatch(program) is None:
        return []
    if _PYTHON.fullmatch(program):
        while rest and _SCRIPT_FLAGS.match(rest[0]):
            del rest[0]
        if rest[:1] == ["-m"]:
            return rest[:2] if len(rest) > 1 and _MODULE.fullmatch(rest[1]) else []
    return [] if not rest or not rest[0] or _NO_SCRIPT.search(rest[0]) else rest[:1]


def name_processes(card: Card, root: Path) -> Card:
    """Return the card with the command and user of each of its processes, as far as /proc shows them."""
    if not isinstance(card.processes, Known) or not card.processes.value:
        return card
    named = tuple(_name(process, root) for process in card.processes.value)
    return replace(card, processes=replace(card.processes, value=named))


def _name(process: CardProcess, root: Path) -> CardProcess:
    folder = root / "proc" / str(process.pid)
    mismatch = why_other_process(folder, process.pid)
    if mismatch is not None:
        command = process.command if isinstance(process.command, Known) else mismatch
        return replace(process, command=command, user=mismatch)
    command = read_command(folder, process.pid)
    if isinstance(command, Unknown) and isinstance(process.command, Known):
        command = process.command
    return replace(process, command=command, user=read_user(folder, process.pid))


def why_other_process(folder: Path, pid: int) -> Unknown | None:
    """Return why the process with this PID here is not the one on the card, or None if it is.

    NVML may report PIDs of the host's namespace, where the same number belongs to another process.
    """
    if not os.path.isdir(folder):
        return Unknown(text("process {pid} is outside this PID namespace, or has ended", pid=pid))
    try:
        names = os.listdir(folder / "fd")
    except OSError:
        return None  # another user's process: its PID is all that is known
    for name in names:
        try:
            target = os.readlink(folder / "fd" / name)
        except OSError:  # closed meanwhile
            continue
        if target.startswith(("/dev/nvidia", "/dev/dxg")):
            return None
    return Unknown(
        text("process {pid} here does not use the card; the process that does is outside this PID namespace", pid=pid)
    )


def read_command(folder: Path, pid: int) -> Fact[str]:
    """Read program and script from a folder of /proc."""
    source = f"/proc/{pid}/cmdline"
    try:
        raw = (folder / "cmdline").read_bytes()
    except OSError as exc:
        return Unknown(text("{source} cannot be read: {error}", source=source, error=exc.strerror))
    words = [word.decode(errors="replace") for word in raw.rstrip(b"\0").split(b"\0")]
    command = short_command(words)
    return Known(command, source=source) if command else Unknown(text("{source} is empty", source=source))


def read_user(folder: Path, pid: int) -> Fact[str]:
    """Read the name of a process's user."""
    try:
        uid = folder.stat().st_uid
    except OSError as exc:
        return Unknown(text("/proc/{pid} cannot be read: {error}", pid=pid, error=exc.strerror))
    try:
        import pwd  # not on Windows, which has no /proc either

        return Known(pwd.getpwuid(uid).pw_name, source=f"/proc/{pid}")
    except KeyError:  # a user of the host who has no name in this container
        return Known(f"uid {uid}", source=f"/proc/{pid}")

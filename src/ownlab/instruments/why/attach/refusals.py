"""Why a process cannot be looked into, in the words of the one who asked."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

from ownlab.errors import InputError
from ownlab.text import text

__all__ = ["check_process", "refusal"]

_YAMA = "proc/sys/kernel/yama/ptrace_scope"


def check_process(pid: int, root: Path = Path("/")) -> None:
    """InputError if there is no such process, if it belongs to somebody else, or if it has ended."""
    try:
        status = (root / "proc" / str(pid) / "status").read_text(errors="replace")
    except OSError as exc:
        raise InputError(
            text("There is no process {pid}.", pid=pid),
            hint=text("`ownlab top` and `ps -C python` show which ones run. In a container only its own are visible."),
        ) from exc
    fields = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
    if fields.get("State", "").strip().startswith(("Z", "X")):
        raise InputError(text("Process {pid} has ended.", pid=pid))
    owner = int((fields.get("Uid", "").split() or ["-1"])[1 if len(fields.get("Uid", "").split()) > 1 else 0])
    if os.geteuid() not in (0, owner):
        raise InputError(
            text("Process {pid} belongs to {owner}: only they and root may look into it.", pid=pid, owner=_name(owner)),
            hint=text("Ask them to run it, or run as root: sudo ownlab why --pid {pid}", pid=pid),
        )


def _name(number: int) -> str:
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return text("user {number}", number=number)


def refusal(pid: int, said: str, root: Path = Path("/")) -> InputError:
    """The error for a process of which py-spy has seen nothing. `said` is its output."""
    lower = said.lower()
    if "permission" in lower or "not permitted" in lower or "eperm" in lower:
        return _no_permission(pid, root)
    if (
        not (root / "proc" / str(pid)).exists()
        or "no such process" in lower
        or "check that the process is running" in lower
    ):
        return InputError(text("Process {pid} has ended before it was seen.", pid=pid))
    if "python version" in lower or "python interpreter" in lower or "no python process" in lower:
        return InputError(
            text("Process {pid} is no Python program, or one whose Python py-spy does not know.", pid=pid),
            hint=text("Name the process that trains; launchers such as torchrun and sh have it below them: pstree -p {pid}", pid=pid),
        )  # fmt: skip
    lines = [line for line in said.splitlines() if line.strip()]
    reason = lines[0].removeprefix("Error: ") if lines else text("py-spy has seen no stack")
    return InputError(text("Process {pid} cannot be looked into: {reason}", pid=pid, reason=reason))


def _no_permission(pid: int, root: Path) -> InputError:
    """Explain what forbids it: Yama, or the missing capability of a container."""
    try:
        scope = int((root / _YAMA).read_text())
    except (OSError, ValueError):
        scope = 0
    message = text("The system does not allow to look into process {pid}.", pid=pid)
    sudo = text("Run as root: sudo ownlab why --pid {pid}", pid=pid)
    if scope == 1:
        return InputError(
            message,
            hint=text("Yama lets only a parent look into its children (kernel.yama.ptrace_scope is 1). {sudo}. Or allow it until the next start: sudo sysctl kernel.yama.ptrace_scope=0", sudo=sudo),
        )  # fmt: skip
    if scope == 2:
        return InputError(
            message, hint=text("Only administrators may (kernel.yama.ptrace_scope is 2). {sudo}.", sudo=sudo)
        )
    if scope == 3:
        return InputError(
            message, hint=text("Nobody may until the next start of the machine (kernel.yama.ptrace_scope is 3).")
        )
    return InputError(
        message,
        hint=text("In a container the capability is missing: docker run --cap-add SYS_PTRACE. Otherwise: {sudo}.", sudo=sudo),
    )  # fmt: skip

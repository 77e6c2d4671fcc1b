"""munge by its own commands: whether credentials are made and taken here."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ownlab.errors import DeadlineError
from ownlab.machine.facts import Fact, Known, Unknown
from ownlab.processes.runner import Ran, ToolMissing, run
from ownlab.text import text

__all__ = ["check_munge", "make_credential", "read_credential_times", "read_status"]

_DEADLINE = 10.0  # seconds. munge itself waits some seconds for a socket that does not answer
_MOST_BYTES = 4096  # of a credential: one without a message has some hundred
_CREDENTIAL = re.compile(r"MUNGE:[A-Za-z0-9+/=]+:")


def make_credential(socket: str, environ: Mapping[str, str]) -> Fact[str]:
    """A credential of this user."""
    ran = _run(["munge", "-n"], socket, environ)
    if isinstance(ran, Unknown):
        return ran
    match = _CREDENTIAL.search(ran.stdout)
    if ran.returncode or match is None or len(match[0]) > _MOST_BYTES:
        return Unknown(_error(ran))
    return Known(match[0], source="munge -n")


def check_munge(socket: str, environ: Mapping[str, str]) -> Fact[str]:
    """What unmunge says of a credential that munge makes."""
    ran = _run(["sh", "-c", 'munge -n "$@" | unmunge "$@"', "sh"], socket, environ)
    if isinstance(ran, Unknown):
        return ran
    status = read_status(ran.output)
    if ran.returncode or not status:
        return Unknown(_error(ran) if not status or "not found" in ran.output else status)
    return Known(status, source="munge -n | unmunge")


def read_status(printed: str) -> str:
    """The status that unmunge prints: "Success (0)", "Expired credential (15)", "Invalid credential (…)"."""
    match = re.search(r"^STATUS:\s+(.+)$", printed, re.MULTILINE)
    if match:
        return match[1].strip()
    match = re.search(r"unmunge: Error: (.+)", printed)
    return match[1].strip() if match else ""


def read_credential_times(printed: str) -> tuple[float | None, float | None]:
    """ENCODE_TIME and DECODE_TIME of unmunge's output, in seconds since the epoch."""
    times: list[float | None] = []
    for name in ("ENCODE_TIME", "DECODE_TIME"):
        match = re.search(rf"^{name}:.*\((\d+)\)\s*$", printed, re.MULTILINE)
        times.append(float(match[1]) if match else None)
    return times[0], times[1]


def _run(command: list[str], socket: str, environ: Mapping[str, str]) -> Ran | Unknown:
    options = [f"--socket={socket}"] if socket else []
    try:
        return run([*command, *options], deadline=_DEADLINE, env={**environ, "LC_ALL": "C"})
    except (ToolMissing, DeadlineError) as exc:
        return Unknown(exc.message)


def _error(ran: Ran) -> str:
    lines = [line.strip() for line in ran.output.splitlines() if line.strip()]
    return re.sub(r"^\w+: (?:Error: )?", "", lines[-1]) if lines else text("it printed nothing")

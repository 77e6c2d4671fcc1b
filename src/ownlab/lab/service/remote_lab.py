"""`ownlab connect`: the lab of another machine, found or started there and served on this one through a tunnel."""

from __future__ import annotations

import itertools
import shlex
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

import msgspec

from ownlab.errors import LabError, OwnlabError, UsageError
from ownlab.lab.service.http_client import is_answering
from ownlab.lab.service.labs import Lab
from ownlab.lab.service.ports import choose_port
from ownlab.lab.service.records import LabState, LabStates
from ownlab.lab.service.ssh_tunnel import ConnectionLost, SshTarget, SshTunnel, Unreachable
from ownlab.text import text

__all__ = ["ConnectRequest", "Connected", "connect"]

_NOT_FOUND = 127  # the exit code of a shell for a command that does not exist
_ANSWER_SECONDS = 30.0
# Between two attempts to connect again.
_DELAYS = (1.0, 2.0, 4.0, 8.0, 15.0)
_MAX_DELAY = 30.0


class ConnectRequest(NamedTuple):
    """Which lab, and where it appears here."""

    target: SshTarget
    folder: str | None  # there; None: the lab that runs there, or the home folder
    port: int = 0  # here; 0: the same as there, or any
    program: str = "ownlab"  # there


class Connected(NamedTuple):
    """The lab as it is reached on this machine."""

    lab: Lab
    folder: str
    is_new: bool  # the address differs from the one of the last connection, or there was none


def connect(request: ConnectRequest, on_connect: Callable[[Connected], None], say: Callable[[str], None]) -> None:
    """Keep a lab of another machine on this one until interrupted. Failures of the first attempt are raised.

    `on_connect` is called after each connection; `say` gets what people want to know about lost ones.
    """
    request.target.check()
    before: Lab | None = None
    delays: Iterator[float] = iter(())
    while True:
        try:
            with SshTunnel(request.target, quiet=before is not None) as tunnel:
                state = _find_or_start(tunnel, request)
                lab = _forward(tunnel, state, request, before)
                request = request._replace(folder=state.folder)  # another lab may be started there meanwhile
                is_new = before is None or before.address() != lab.address()
                before, delays = lab, itertools.chain(_DELAYS, itertools.repeat(_MAX_DELAY))
                on_connect(Connected(lab, state.folder, is_new))
                tunnel.wait()
        except (Unreachable, ConnectionLost):
            if before is None:
                raise
        except OwnlabError as exc:
            if before is None:
                raise
            say(exc.message)
        delay = next(delays)
        say(
            text(
                "The connection to {destination} is down. The lab there keeps running. Next attempt in {seconds:.0f} s.",
                destination=request.target.destination,
                seconds=delay,
            )
        )
        time.sleep(delay)


def _find_or_start(tunnel: SshTunnel, request: ConnectRequest) -> LabState:
    """Return the lab of the folder; without a folder, the one that runs there, or a new one of the home folder."""
    program = shlex.quote(request.program)
    if request.folder is None:
        states = msgspec.json.decode(_ask(tunnel, request, f"{program} status --json"), type=LabStates).labs
        if len(states) > 1:
            folders = "\n  ".join(state.folder for state in states)
            raise UsageError(
                text("Several labs are running there:\n  {folders}", folders=folders),
                hint=text("Name one: ownlab connect {name} FOLDER", name=request.target.destination),
            )
        folder = states[0].folder if states else "."
    else:
        folder = request.folder
    # `up` finds a lab that runs, and restarts nothing.
    answer = _ask(tunnel, request, f"{program} up --json --detach --no-browser -- {shlex.quote(folder)}")
    state = msgspec.json.decode(answer, type=LabState)
    if state.fingerprint is not None:
        raise LabError(
            text("The lab of {folder} was started with --host: it is reached without a tunnel.", folder=state.folder),
            hint=text("Open {url} (SHA-256 {fingerprint}).", url=state.url, fingerprint=state.fingerprint),
        )
    return state


def _ask(tunnel: SshTunnel, request: ConnectRequest, command: str) -> str:
    """Run a command of ownlab there and return the JSON document that it printed."""
    check = f"command -v {shlex.quote(request.program)} >/dev/null || exit {_NOT_FOUND}"
    code, printed, errors = tunnel.run(f"{check}; {command}")
    destination = request.target.destination
    if code == _NOT_FOUND:
        raise LabError(
            text("{program} is not on the PATH of {name}.", program=request.program, name=destination),
            hint=text(
                "Install ownlab there (in a copy of its sources: make install), and add its folder bin to PATH in ~/.profile;\n"
                "  or name the program: ownlab connect {name} --ownlab /path/to/ownlab/.venv/bin/ownlab",
                name=destination,
            ),
        )
    if code:
        raise LabError(
            text("`ownlab` failed on {name}: {reason}", name=destination, reason=_reason(printed, errors, code)),
            hint=text("Try it there: {command}", command=request.target.command(command.replace(" --json", ""))),
        )
    if not printed.lstrip().startswith("{"):
        raise LabError(
            text("`{program}` on {name} does not answer as ownlab does.", program=request.program, name=destination),
            hint=text("Update ownlab there."),
        )
    return printed


def _reason(printed: str, errors: str, code: int) -> str:
    """Return the message of a failed command, without what else it printed."""
    try:
        failure = msgspec.json.decode(printed, type=dict[str, object]).get("error")
    except msgspec.DecodeError:
        failure = None
    if isinstance(failure, dict) and isinstance(failure.get("message"), str):
        return str(failure["message"])
    lines = [line for line in errors.splitlines() if line.strip()]
    return lines[-1].removeprefix("ownlab: ") if lines else text("exit code {code}", code=code)


def _forward(tunnel: SshTunnel, state: LabState, request: ConnectRequest, before: Lab | None) -> Lab:
    """Serve the lab on a port of this machine: that of the last connection, so that open pages continue."""
    wanted = before.port if before is not None else request.port
    port = wanted or choose_port(0, state.port)
    if not tunnel.forward(port, state.port):
        raise LabError(
            text("Port {port} of this machine cannot lead to the lab: another program uses it.", port=port),
            hint=text("Choose another port: --port 0 takes any."),
        )
    url = f"http://127.0.0.1:{port}/"
    lab = Lab("", state.folder, url, state.token, port, state.pid or 0, state.started, "ready")
    deadline = time.monotonic() + _ANSWER_SECONDS
    while not is_answering(lab):
        if time.monotonic() > deadline:
            raise LabError(text("The lab of {folder} does not answer through the tunnel.", folder=state.folder))
        time.sleep(0.2)
    return lab

"""What a runtime's folder says of it: its state, whether its processes live, and how what is left of it is ended."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from typing import Any

from ownlab.errors import LabError
from ownlab.lab.runtimes.plan import Plan
from ownlab.lab.store.runtime_processes import read_stat
from ownlab.lab.transport.control_client import ask

__all__ = ["end", "exit_code", "lives", "read_state", "remove", "send", "within"]

_ENDS_WITHIN = 10.0


def read_state(home: str | os.PathLike[str]) -> dict[str, Any] | None:
    """What the supervisor wrote last; None where it has not yet, or where the runtime is gone."""
    try:
        with open(os.path.join(home, "state.json"), encoding="utf-8") as file:
            found: dict[str, Any] = json.load(file)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as exc:
        raise LabError(f"{home}/state.json cannot be read: {exc}") from exc
    return found


def lives(process: Mapping[str, int] | None) -> bool:
    """Whether this very process, and not a later one of the same number, is still at work."""
    if process is None:
        return False
    stat = read_stat(process["pid"])
    return stat is not None and not stat.is_zombie and stat.started == process["started"]


def exit_code(home: str) -> int | None:
    """None while a kernel lives, or is still to come; else how it ended, 1 where nobody knows."""
    state = read_state(home)
    if state is None:
        return 1
    if lives(state.get("kernel")):
        return None
    if state["state"] in ("waiting", "starting") and lives(state.get("supervisor")):
        return None
    code = state.get("exit_code")
    return 1 if code is None else int(code)


def send(process: Mapping[str, int] | None, signum: int, *, group: bool = False) -> None:
    """Send a signal, if that very process still lives; to its whole group where it leads one."""
    if process is None or not lives(process):
        return
    with contextlib.suppress(ProcessLookupError):  # it ended in this moment
        if group and os.getpgid(process["pid"]) == process["pid"]:
            os.killpg(process["pid"], signum)
        else:
            os.kill(process["pid"], signum)


def end(plan: Plan, child: subprocess.Popen[bytes] | None, why: str) -> None:
    """End the runtime at once, in whatever state it is, and remove what it leaves. Blocks for seconds at most."""
    state = read_state(plan.home) or {}
    if lives(state.get("supervisor")):
        try:
            ask(plan.sockets, "end", why=why, now=True)
        except LabError:  # it does not listen (any more): a signal reaches it
            send(state.get("supervisor"), signal.SIGTERM)
    if child is not None and child.stdin is not None:
        with contextlib.suppress(OSError):  # a pipe whose other end is gone
            child.stdin.close()

    def gone() -> bool:
        return not any(lives(state.get(name)) for name in ("keeper", "supervisor", "kernel")) and _reaped(child)

    if not within(_ENDS_WITHIN, gone):
        # The keeper of a supervisor that was killed ends all that descends from it; and it is killed last.
        for victim in ("supervisor", "keeper"):
            send(state.get(victim), signal.SIGKILL)
            if victim == "supervisor" and not state and child is not None:
                child.kill()
            if within(_ENDS_WITHIN / 2, gone):
                break
    remove(plan)


def remove(plan: Plan) -> None:
    """Take away the runtime's folders, once its processes have ended."""
    for folder in {plan.home, plan.sockets} - {""}:
        shutil.rmtree(folder, ignore_errors=True)


def _reaped(child: subprocess.Popen[bytes] | None) -> bool:
    return child is None or child.poll() is not None


def within(seconds: float, condition: Callable[[], bool], *, every: float = 0.01) -> bool:
    """Whether a condition was met in the time given; it is asked again and again."""
    deadline = time.monotonic() + seconds
    while not (met := condition()) and time.monotonic() < deadline:
        time.sleep(every)
    return met

"""`python -m ownlab.lab.runtimes.direct_launch --type NAME -f CONNECTION_FILE`: for clients that start a kernelspec's command.

VS Code is one: it knows no provisioners, writes the connection file itself, and has only our process to signal. So this
process stands for the kernel: it lives as long as the runtime, passes interrupts on, and takes it along when it ends.
"""

from __future__ import annotations

import os
import sys

if __name__ == "__main__" and sys.path[0] in ("", os.getcwd()):
    del sys.path[0]  # `-m` put the notebook's folder there, whose json.py would be taken for the library's

import argparse
import contextlib
import json
import signal
import subprocess
import uuid
from collections.abc import Sequence
from typing import Any

from ownlab.errors import InputError, LabError, OwnlabError
from ownlab.lab.runtimes import operations, start
from ownlab.lab.runtimes.plan import Plan
from ownlab.lab.transport.control import ask

__all__ = ["main"]

_START_SECONDS = 60.0
# How often it is looked whether the client is still there.
_LOOK_SECONDS = 1.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a runtime on the ports of a connection file, to its end; its exit code."""
    parser = argparse.ArgumentParser(prog="python -m ownlab.lab.runtimes.direct_launch")
    parser.add_argument("--type", required=True, help="name of the runtime type: ownlab-cpu")
    parser.add_argument("-f", dest="connection_file", required=True, help="the connection file that the client wrote")
    given, extra = parser.parse_known_args(arguments)
    client = os.getppid()
    try:
        plan = start.make_plan(
            given.type,
            runtime=str(uuid.uuid4()),
            connection=read_connection(given.connection_file),
            cwd=os.getcwd(),
            notebook=os.environ.get("JPY_SESSION_NAME", ""),
            extra_arguments=extra,
        )
        child = start.spawn(plan, os.environ)
        start.await_state(plan, _START_SECONDS, child)
    except OwnlabError as exc:
        sys.stderr.write("\n".join(line for line in (f"ownlab: {exc.message}", exc.hint) if line) + "\n")
        return exc.exit_code
    return stand_in(plan, child, client)


def read_connection(path: str) -> dict[str, Any]:
    """What the client wrote; its ports and keys are kept."""
    try:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
    except (OSError, ValueError) as exc:
        raise InputError(f"the connection file {path} cannot be read: {exc}") from exc
    if not isinstance(found, dict) or found.get("transport", "tcp") != "tcp" or "key" not in found:
        raise InputError(f"{path} is no connection file of the kind that is served here: tcp, with a key")
    return found


def stand_in(plan: Plan, child: subprocess.Popen[bytes], client: int) -> int:
    """Pass interrupts on until the runtime has ended; end it when that is asked for, or when the client is gone."""
    watched = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD}
    signal.pthread_sigmask(signal.SIG_BLOCK, watched)  # they wait for us below
    while child.poll() is None:
        came = signal.sigtimedwait(watched, _LOOK_SECONDS)
        if came is not None and came.si_signo == signal.SIGINT:
            _tell(plan, "signal", signum=int(signal.SIGINT))
        elif os.getppid() != client or (came is not None and came.si_signo != signal.SIGCHLD):
            _tell(plan, "end", why="its client ended it")
            break
    with contextlib.suppress(subprocess.TimeoutExpired):  # what does not end in its time is ended below
        child.wait(plan.limits.on_end + _LOOK_SECONDS)
    code = child.poll()
    operations.end_runtime(plan, child, "its client ended it")
    return 1 if code is None else code


def _tell(plan: Plan, do: str, **values: Any) -> None:
    try:
        ask(plan.sockets, do, **values)
    except LabError as exc:
        sys.stderr.write(f"ownlab: {exc.message}\n")


if __name__ == "__main__":
    sys.exit(main())

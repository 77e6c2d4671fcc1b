"""`python -m ownlab.lab.runtimes.direct_launch --type NAME -f CONNECTION_FILE`: for clients that run a kernelspec's command.

VS Code is one: it does not support provisioners, writes the connection file itself, and signals only our process. So this
process stands in for the kernel: it lives as long as the runtime, forwards interrupts, and ends the runtime when it ends.
"""

from __future__ import annotations

import os
import sys

if __name__ == "__main__" and sys.path[0] in ("", os.getcwd()):
    del sys.path[0]  # `-m` put the notebook's folder there, whose json.py would shadow the library's

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
from ownlab.lab.runtimes.launch_plan import Plan
from ownlab.text import text

__all__ = ["main"]

_START_SECONDS = 60.0
# How often to check that the client is still alive.
_CHECK_SECONDS = 1.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a runtime on the ports of a connection file until it ends. Return its exit code."""
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
        child = start.start_supervisor(plan, os.environ)
        start.wait_until_started(plan, _START_SECONDS, child)
    except OwnlabError as exc:
        sys.stderr.write("\n".join(line for line in (f"ownlab: {exc.message}", exc.hint) if line) + "\n")
        return exc.exit_code
    return run_until_end(plan, child, client)


def read_connection(path: str) -> dict[str, Any]:
    """Read the client's connection file; its ports and keys are used."""
    try:
        with open(path, encoding="utf-8") as file:
            connection = json.load(file)
    except (OSError, ValueError) as exc:
        message = text("The connection file {path} cannot be read: {error}.", path=path, error=exc)
        raise InputError(message) from exc
    if not isinstance(connection, dict) or connection.get("transport", "tcp") != "tcp" or "key" not in connection:
        raise InputError(text("{path} is not a supported connection file: tcp and a key are required.", path=path))
    return connection


def run_until_end(plan: Plan, child: subprocess.Popen[bytes], client: int) -> int:
    """Forward interrupts until the runtime has ended. End it on SIGTERM or SIGHUP, or when the client is gone."""
    watched = {signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD}
    signal.pthread_sigmask(signal.SIG_BLOCK, watched)  # received below with sigtimedwait
    while child.poll() is None:
        received = signal.sigtimedwait(watched, _CHECK_SECONDS)
        if received is not None and received.si_signo == signal.SIGINT:
            _send(plan, "signal", signum=int(signal.SIGINT))
        elif os.getppid() != client or (received is not None and received.si_signo != signal.SIGCHLD):
            _send(plan, "end", why=text("its client ended it"))
            break
    with contextlib.suppress(subprocess.TimeoutExpired):  # if it does not end in time, it is ended below
        child.wait(plan.limits.on_end + _CHECK_SECONDS)
    code = child.poll()
    operations.end_runtime(plan, child, "its client ended it")
    return 1 if code is None else code


def _send(plan: Plan, do: str, **values: Any) -> None:
    try:
        operations.command_started(plan, do, **values)
    except LabError as exc:
        sys.stderr.write(f"ownlab: {exc.message}\n")


if __name__ == "__main__":
    sys.exit(main())

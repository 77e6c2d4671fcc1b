"""Starts a runtime: writes its plan, spawns its supervisor, and waits until that knows how it goes."""

from __future__ import annotations

import contextlib
import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import zmq

from ownlab.config.limits import Limits, limits_of, stricter
from ownlab.config.loader import resolve_lab_options
from ownlab.config.paths import kernels_folder, state_folder
from ownlab.config.settings import LabOptions
from ownlab.errors import CardsTaken, DeadlineError, InterpreterError, LabError
from ownlab.files import replace_file
from ownlab.guest_client import last_line
from ownlab.lab.runtimes.cards import probe_argv, read_devices
from ownlab.lab.runtimes.kernel_variables import colab_variables, startup_variables
from ownlab.lab.runtimes.kernelspecs import read_specs
from ownlab.lab.runtimes.operations import end_runtime, remove_folders
from ownlab.lab.runtimes.plan import Plan
from ownlab.lab.runtimes.records import RuntimeType
from ownlab.lab.runtimes.state import read_state, runtime_folder
from ownlab.lab.store.location import choose_store
from ownlab.lab.store.rows import Want
from ownlab.lab.store.store import Store
from ownlab.processes.runner import describe_exit

__all__ = ["await_state", "find_type", "fresh_connection", "make_plan", "spawn"]

_LAUNCH = Path(__file__).resolve().parents[3] / "ownlab_guest" / "kernel" / "launch.py"
_CHANNELS = ("shell", "iopub", "stdin", "control", "hb")
# A socket's path has 107 bytes at most (unix(7)); this leaves room for the names of ours.
_LONGEST_HOME = 80
# Seconds in which a kernel that cannot work (no ipykernel, a broken environment) has said so.
_HEAD_START = 10.0


def make_plan(
    type_name: str,
    *,
    runtime: str,
    connection: Mapping[str, Any] | None = None,
    cwd: str,
    env: Mapping[str, str] = os.environ,
    detached: bool = False,
    wait: bool = False,
    lab: str | None = None,
    journal: bool = False,
    notebook: str = "",
    extra_arguments: Sequence[str] = (),
) -> Plan:
    """Decide what the supervisor is to do, and write it into a new folder of the runtime.

    `env` says where things are (OWNLAB_HOME, …). What the runtimes of a lab say is kept, and that of others where a
    `journal` is asked for. Without a `connection`, the ports are any free ones, and clients must
    encrypt.
    """
    options = resolve_lab_options(environ=env)
    types = read_specs(kernels_folder(env))
    kind = find_type(type_name, types)
    folder = choose_store(options, env).folder
    plan = Plan(
        runtime=runtime,
        home=str(runtime_folder(runtime, env)),
        sockets="",
        store=folder,
        type=kind.name,
        label=kind.label,
        argv=[kind.python, str(_LAUNCH), "-f", "{connection_file}", *extra_arguments],
        cwd=cwd,
        connection=dict(fresh_connection() if connection is None else connection),
        want=Want(kind.kind, kind.cards, kind.parts) if kind.kind else Want(),
        devices=read_devices(env) if kind.kind or _beside_nvidia(types) else (),
        probe=probe_argv(env, store=folder) if kind.kind else None,
        lab=lab,
        notebook=notebook,
        detached=detached,
        wait=wait,
        limits=_limits(options, folder),
        units_per_hour=kind.units_per_hour,
        host=os.uname().nodename,
        journal=str(state_folder(env) / "journals" / runtime) if lab or journal else "",
        cell_mb=options.cell_mb,
    )
    return _write(plan)


def _write(plan: Plan) -> Plan:
    """Make the folders, whole or not at all."""
    try:
        os.makedirs(os.path.dirname(plan.home), mode=0o700, exist_ok=True)
        os.mkdir(plan.home, 0o700)
    except FileExistsError as exc:
        raise LabError(f"a runtime {plan.runtime} is there already: {plan.home}") from exc
    except OSError as exc:
        raise LabError(f"the runtime's folder {plan.home} cannot be made: {exc.strerror}") from exc
    short = len(os.fsencode(plan.home)) <= _LONGEST_HOME
    try:
        plan = plan._replace(sockets=plan.home if short else tempfile.mkdtemp(prefix="ownlab-", dir="/tmp"))
        replace_file(os.path.join(plan.home, "plan.json"), plan.to_json())
    except OSError as exc:
        remove_folders(plan)
        raise LabError(f"the runtime's folder {plan.home} cannot be written: {exc.strerror}") from exc
    return plan


def find_type(name: str, types: Sequence[RuntimeType]) -> RuntimeType:
    """The runtime type of this name, if it can still be started."""
    known = {each.name: each for each in types}
    if name not in known:
        raise LabError(
            f"there is no runtime type {name} (any more)",
            hint=f"There is: {', '.join(sorted(known))}." if known else "`ownlab up` writes the list for this machine.",
        )
    found = known[name]
    if not os.access(found.python, os.X_OK):
        raise InterpreterError(
            f"{found.python}, the interpreter of {found.label}, is gone or may not be run",
            hint="`ownlab env add` gives the environment a new one; `ownlab up` writes the list of types anew.",
        )
    return found


def _beside_nvidia(types: Sequence[RuntimeType]) -> bool:
    """Whether there may be cards of other vendors: a kernel without a card is hidden them only where they are known."""
    return any(each.kind is not None and "nvidia" not in each.kind.lower() for each in types)


def fresh_connection(key: str = "") -> dict[str, Any]:
    """Loopback, any free ports, and keys that only the owner's files hold."""
    public, secret = zmq.curve_keypair()
    return {
        "transport": "tcp",
        "ip": "127.0.0.1",
        **{f"{channel}_port": 0 for channel in _CHANNELS},
        "signature_scheme": "hmac-sha256",
        "key": key or secrets.token_hex(32),
        "curve_publickey": public.decode(),
        "curve_secretkey": secret.decode(),
    }


def spawn(plan: Plan, env: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Start the supervisor; the kernel gets `env`. Unless detached, the runtime lives as long as the child's stdin."""
    log = os.open(os.path.join(plan.home, "log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        return subprocess.Popen(
            [sys.executable, "-m", "ownlab.lab.supervisor", os.path.join(plan.home, "plan.json")],
            stdin=subprocess.DEVNULL if plan.detached else subprocess.PIPE,
            stdout=log,
            stderr=log,
            env={
                **env,
                **colab_variables(plan.notebook, plan.runtime, env),
                **startup_variables(env),
                "OWNLAB_HOST": sys.executable,  # who answers for ownlab where the kernel's environment has none
                "OWNLAB_RUNTIME": plan.runtime,
            },
            cwd="/",  # `-m` looks for modules in the working folder first: a json.py in the notebook's would be taken
            start_new_session=True,
        )
    except OSError as exc:
        raise LabError(f"{sys.executable} cannot be started: {exc.strerror}") from exc
    finally:
        os.close(log)


def await_state(plan: Plan, deadline: float = 60.0, child: subprocess.Popen[bytes] | None = None) -> dict[str, Any]:
    """What state.json says once the runtime has its cards and its kernel, or waits for them where it may.

    Raises CardsTaken where they are in other hands, LabError where it failed; nothing of the runtime is left then.
    """
    begun = time.monotonic()
    while time.monotonic() < begun + deadline:
        ended = child is not None and child.poll() is not None  # asked first: what it wrote at last is read below
        now = read_state(plan.home)
        if now and now["state"] in ("refused", "ended", "dead", "ending"):
            raise _failure(plan, child, now)
        if now and _may_be_used(plan, now, patient=time.monotonic() < begun + _HEAD_START):
            return now
        if child is not None and ended and child.returncode != 0:
            said = f"its supervisor {describe_exit(child.returncode)}{_last_words(plan)}"
            raise _failure(plan, child, {"reason": said})
        if ended and now is None:  # its folder goes with it
            raise _failure(plan, child, {"reason": "it was ended before it had a kernel"})
        time.sleep(0.005)
    error = DeadlineError(f"the runtime {plan.label} did not start in {deadline:g} s{_last_words(plan)}")
    end_runtime(plan, child, "it did not start in time")
    raise error


def _may_be_used(plan: Plan, now: Mapping[str, Any], *, patient: bool) -> bool:
    """Clients can connect, and the kernel has spoken; or has lived for so long that it will."""
    if not all(now["connection"][f"{channel}_port"] for channel in _CHANNELS):
        return False
    if now["state"] == "waiting":
        return plan.wait
    return now["state"] == "running" or (now["kernel"] is not None and not patient)


def _failure(plan: Plan, child: subprocess.Popen[bytes] | None, now: Mapping[str, Any]) -> LabError | CardsTaken:
    reason = str(now.get("reason") or "its kernel ended at once")
    error: LabError | CardsTaken
    if now.get("state") == "refused":
        error = CardsTaken(reason, hint="`ownlab runtimes` lists who holds which card.")
    else:
        error = LabError(f"the runtime {plan.label} did not start: {reason}")
    end_runtime(plan, child, "it did not start")
    return error


def _last_words(plan: Plan) -> str:
    with contextlib.suppress(OSError):  # no log: nothing was said
        said = last_line(Path(plan.home, "log").read_text(encoding="utf-8", errors="replace"))
        return f": {said}" if said else ""
    return ""


def _limits(options: LabOptions, store: str) -> Limits:
    with Store.open(store) as opened:
        return stricter(limits_of(options), opened.limits())

"""Starts a runtime: writes its plan, starts its supervisor, and waits until it is ready or has failed."""

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

from msgspec.structs import replace

from ownlab.atomic_files import replace_file
from ownlab.config.limits import Limits, limits_of, stricter
from ownlab.config.loader import resolve_lab_options
from ownlab.config.paths import state_folder
from ownlab.config.settings import LabOptions
from ownlab.errors import CardsTaken, DeadlineError, InterpreterError, LabError, StoreError
from ownlab.guest_client import last_line
from ownlab.lab.runtimes.cards import probe_argv, read_devices
from ownlab.lab.runtimes.kernel_variables import colab_variables, language_variables, startup_variables
from ownlab.lab.runtimes.kernelspecs import read_types
from ownlab.lab.runtimes.launch_plan import NodeRequest, Plan
from ownlab.lab.runtimes.operations import end_runtime, remove_folders
from ownlab.lab.runtimes.records import RuntimeType
from ownlab.lab.runtimes.state import is_alive, is_locked, read_state, runtime_folder, was_left
from ownlab.lab.store.errors import store_errors
from ownlab.lab.store.layout import layout_of
from ownlab.lab.store.location import choose_store
from ownlab.lab.store.rows import CardRequest
from ownlab.lab.transport.endpoints import JUPYTER_CHANNELS, unix_endpoint
from ownlab.processes.runner import describe_exit
from ownlab.text import Template, Text, listing, sentence, template, text

__all__ = [
    "find_type",
    "make_plan",
    "make_script_plan",
    "new_connection",
    "revive",
    "start_supervisor",
    "tcp_connection",
    "wait_until_started",
]

_GUEST = Path(__file__).resolve().parents[3] / "ownlab_guest"
_LAUNCH = _GUEST / "kernel" / "launch.py"
_LAUNCH_SCRIPT = _GUEST / "training" / "launcher.py"
# The modules that stand beside a kernel, and for one on another machine.
_SUPERVISOR, _RELAY = "ownlab.lab.supervisor", "ownlab.lab.relay"
# A socket's path has at most 107 bytes (unix(7)); this leaves room for our file names.
_LONGEST_HOME = 80
# Seconds in which a kernel that cannot work (no ipykernel, a broken environment) has failed.
_HEAD_START = 10.0


def make_plan(
    given: str | RuntimeType,
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
    """Write the plan of a new runtime into its new folder.

    `given` is the name of a type that is on disk, or a type on a node of a cluster. `env` says where things are (OWNLAB_HOME, …). A journal is written for the runtimes of a lab, and for others if
    `journal` is set. Without a `connection`, clients use Unix sockets in the runtime's folder.
    """
    options = resolve_lab_options(environ=env)
    types = read_types(env)
    kind = find_type(given, types) if isinstance(given, str) else given
    node = _node_request(kind, extra_arguments) if lab is not None or not isinstance(given, str) else None
    if node is None and kind.engine:
        raise LabError(
            text("{label} starts on a node of a cluster, which is only possible in a lab.", label=kind.label),
            hint=text("Open the notebook in the lab, or run it with `ownlab run --engine slurm NOTEBOOK`."),
        )
    if node is not None:
        kind = replace(kind, kind=None, cards=0)  # its cards are not of this machine
    plan = _plan(
        kind,
        options,
        env,
        hides_others=_beside_nvidia(types),
        runtime=runtime,
        argv=[kind.python, str(_LAUNCH), "-f", "{connection_file}", *extra_arguments],
        cwd=cwd,
        connection=dict(new_connection() if connection is None else connection),
        lab=lab,
        notebook=notebook,
        detached=detached,
        wait=wait,
        journal=str(state_folder(env) / "journals" / runtime) if lab or journal else "",
        node=node,
    )
    return _write(plan)


def _node_request(kind: RuntimeType, extra_arguments: Sequence[str]) -> NodeRequest | None:
    """What is asked of an engine; None if the type starts on this machine."""
    if not kind.engine:
        return None
    argv = [kind.python, str(_LAUNCH), "-f", "{connection_file}", *extra_arguments]
    return NodeRequest(kind.engine, kind.partition, kind.kind, kind.cards, argv)


def make_script_plan(
    kind: RuntimeType,
    script: Sequence[str],
    *,
    runtime: str,
    ranks: int,
    folder: str,
    name: str,
    cwd: str,
    env: Mapping[str, str] = os.environ,
    detached: bool = False,
    wait: bool = True,
) -> Plan:
    """Write the plan of a runtime that runs a script, and no kernel, into its new folder.

    `script` is its path, or -m and a module, with its arguments; `folder` gets its logs; `name` is shown as its notebook.
    """
    options = resolve_lab_options(environ=env)
    plan = _plan(
        kind,
        options,
        env,
        hides_others=True,
        runtime=runtime,
        argv=[kind.python, str(_LAUNCH_SCRIPT), folder, str(ranks), *script],
        cwd=cwd,
        connection=new_connection(),
        notebook=name,
        detached=detached,
        wait=wait,
        script_folder=folder,
    )
    return _write(plan)


def _plan(
    kind: RuntimeType, options: LabOptions, env: Mapping[str, str], *, runtime: str, hides_others: bool, **fields: Any
) -> Plan:
    """The part of a plan that follows from the runtime type. `hides_others`: there may be cards of several vendors."""
    folder = choose_store(options, env).folder
    return Plan(
        runtime=runtime,
        home=str(runtime_folder(runtime, env)),
        sockets="",
        store=folder,
        type=kind.name,
        label=kind.label,
        want=CardRequest(kind.kind, kind.cards, kind.parts) if kind.kind else CardRequest(),
        devices=read_devices(env) if kind.kind or hides_others else (),
        probe=probe_argv(env, store=folder) if kind.kind else None,
        limits=_limits(options, folder, with_cards=kind.kind is not None),
        units_per_hour=kind.units_per_hour,
        host=os.uname().nodename,
        cell_mb=options.cell_mb,
        backlog_mb=options.backlog_mb,
        **fields,
    )


def _write(plan: Plan) -> Plan:
    """Create the folders, completely or not at all."""
    try:
        os.makedirs(os.path.dirname(plan.home), mode=0o700, exist_ok=True)
        os.mkdir(plan.home, 0o700)
    except FileExistsError as exc:
        message = text("Runtime {id} exists already: {folder}.", id=plan.runtime, folder=plan.home)
        raise LabError(message) from exc
    except OSError as exc:
        message = text(
            "The runtime's folder {folder} cannot be created: {reason}.", folder=plan.home, reason=exc.strerror
        )
        raise LabError(message) from exc
    short = len(os.fsencode(plan.home)) <= _LONGEST_HOME
    try:
        plan = plan._replace(sockets=plan.home if short else tempfile.mkdtemp(prefix="ownlab-", dir="/tmp"))
        control, journal = unix_endpoint(plan.sockets, "control"), unix_endpoint(plan.sockets, "line")
        plan = plan._replace(control_url=control.url, journal_url=journal.url)
        replace_file(os.path.join(plan.home, "plan.json"), plan.to_json())
    except OSError as exc:
        remove_folders(plan)
        message = text(
            "The runtime's folder {folder} cannot be written: {reason}.", folder=plan.home, reason=exc.strerror
        )
        raise LabError(message) from exc
    return plan


def find_type(name: str, types: Sequence[RuntimeType]) -> RuntimeType:
    """Return the runtime type of this name, if it can still be started."""
    known = {each.name: each for each in types}
    if name not in known:
        raise LabError(
            text("There is no runtime type {name}.", name=name),
            hint=text("Available types: {types}.", types=listing(sorted(known)))
            if known
            else text("`ownlab up` writes the list for this machine."),
        )
    kind = known[name]
    if not os.access(kind.python, os.X_OK):
        raise InterpreterError(
            text(
                "{python}, the interpreter of {label}, is missing or not executable.",
                python=kind.python,
                label=kind.label,
            ),
            hint=text("Set a new one with `ownlab env add`; `ownlab up` updates the list of types."),
        )
    return kind


def _beside_nvidia(types: Sequence[RuntimeType]) -> bool:
    """Whether there may be cards of other vendors, which must be known to be hidden from kernels without a card."""
    return any(each.kind is not None and "nvidia" not in each.kind.lower() for each in types)


def new_connection(key: str = "") -> dict[str, Any]:
    """A connection on Unix sockets in the runtime's folder, with a new key to sign messages if none is given."""
    return {
        "transport": "ipc",
        "ip": "",
        **{f"{channel}_port": 0 for channel in JUPYTER_CHANNELS},
        "signature_scheme": "hmac-sha256",
        "key": key or secrets.token_hex(32),
    }


def tcp_connection(key: str = "", ip: str = "127.0.0.1") -> dict[str, Any]:
    """An encrypted connection on any free ports, for clients that cannot use Unix sockets. It has the keys of both sides."""
    import zmq

    public, secret = zmq.curve_keypair()
    keys = {"curve_publickey": public.decode(), "curve_secretkey": secret.decode()}
    return {**new_connection(key), "transport": "tcp", "ip": ip, **keys}


def start_supervisor(plan: Plan, env: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Start the supervisor; the kernel gets `env`. Unless detached, the runtime ends when the child's stdin is closed."""
    log = os.open(os.path.join(plan.home, "log"), os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    try:
        return subprocess.Popen(
            [sys.executable, "-m", _SUPERVISOR if plan.node is None else _RELAY, os.path.join(plan.home, "plan.json")],
            stdin=subprocess.DEVNULL if plan.detached else subprocess.PIPE,
            stdout=log,
            stderr=log,
            env={
                **env,
                **colab_variables(plan.notebook, plan.runtime, env),
                **startup_variables(env),
                **language_variables(env),
                "OWNLAB_HOST": sys.executable,  # runs ownlab for kernels whose environment does not have it
                "OWNLAB_RUNTIME": plan.runtime,
            },
            cwd="/",  # `-m` searches the working folder first: a json.py beside the notebook would be imported
            start_new_session=True,
        )
    except OSError as exc:
        message = text("{program} cannot be started: {reason}.", program=sys.executable, reason=exc.strerror)
        raise LabError(message) from exc
    finally:
        os.close(log)


def take_over(plan: Plan, env: Mapping[str, str]) -> Plan:
    """Make the plan of a runtime on a node ours, if its relay on another host has left it. Return the plan.

    For whoever holds the lock of its lab. A relay that was killed with its host has not left: only that host takes it up again.
    """
    here = os.uname().nodename
    if plan.node is None or plan.host in ("", here) or not was_left(plan):
        return plan
    ours = plan._replace(host=here, store=choose_store(resolve_lab_options(environ=env), env).folder)
    replace_file(os.path.join(plan.home, "plan.json"), ours.to_json())
    return ours


def revive(plan: Plan, env: Mapping[str, str], deadline: float = 10.0) -> bool:
    """Start the relay of a runtime on a node again, if it is gone. Return whether it is there after some seconds."""
    state = read_state(plan.home)
    if plan.node is None or is_locked(plan) or (state is not None and state["state"] == "ended"):
        return False
    os.makedirs(plan.sockets, mode=0o700, exist_ok=True)  # /tmp may have been emptied
    child = start_supervisor(plan, env)
    end = time.monotonic() + deadline
    while time.monotonic() < end:
        has_ended = child.poll() is not None  # perhaps because somebody else has started one at the same time
        now = read_state(plan.home) or {}
        if is_alive(now.get("supervisor")) and all(now["connection"][f"{each}_port"] for each in JUPYTER_CHANNELS):
            return True
        if has_ended:
            return False
        time.sleep(0.02)
    return False


def wait_until_started(
    plan: Plan, deadline: float = 60.0, child: subprocess.Popen[bytes] | None = None
) -> dict[str, Any]:
    """Return state.json once the runtime has its cards and its kernel, or waits for them if it may.

    Raises CardsTaken if the cards are in use, LabError if the start failed; then nothing of the runtime is left.
    """
    begun = time.monotonic()
    while time.monotonic() < begun + deadline:
        ended = child is not None and child.poll() is not None  # before reading, so that its last state is read
        now = read_state(plan.home)
        if now and now["state"] in ("refused", "ended", "dead", "ending"):
            raise _failure(plan, child, now)
        if now and _may_be_used(plan, now, patient=time.monotonic() < begun + _HEAD_START):
            return now
        if child is not None and ended and child.returncode != 0:
            exit_text = describe_exit(child.returncode)
            reason = _with_log(
                plan, template("its supervisor {exit}"), template("its supervisor {exit}: {line}"), exit=exit_text
            )
            raise _failure(plan, child, {"reason": reason})
        if ended and now is None:  # its folder was removed at its end
            raise _failure(plan, child, {"reason": text("it was ended before it had a kernel")})
        time.sleep(0.005)
    error = DeadlineError(
        _with_log(
            plan,
            template("The runtime {label} did not start in {seconds:g} s."),
            template("The runtime {label} did not start in {seconds:g} s: {line}"),
            seconds=deadline,
        )
    )
    end_runtime(plan, child, text("it did not start in time"))
    raise error


def _may_be_used(plan: Plan, now: Mapping[str, Any], *, patient: bool) -> bool:
    """Whether clients can connect and the kernel has sent a message, or has lived for so long that it will."""
    if not all(now["connection"][f"{channel}_port"] for channel in JUPYTER_CHANNELS):
        return False
    if now["state"] == "waiting":
        return plan.wait and (plan.node is None or bool(now["node"].get("submitted")))
    return now["state"] == "running" or (now["kernel"] is not None and not patient)


def _failure(plan: Plan, child: subprocess.Popen[bytes] | None, now: Mapping[str, Any]) -> LabError | CardsTaken:
    reason: str = now.get("reason") or text("its kernel ended immediately")
    error: LabError | CardsTaken
    if now.get("state") == "refused":
        error = CardsTaken(reason, hint=text("`ownlab runtimes` shows who holds which card."))
    else:
        error = LabError(text("The runtime {label} did not start: {reason}", label=plan.label, reason=sentence(reason)))
    end_runtime(plan, child, text("it did not start"))
    return error


def _with_log(plan: Plan, message: Template, message_with_line: Template, **values: Any) -> Text:
    """Fill one of two templates: the second has the last line of the runtime's log, if there is one."""
    line = ""
    with contextlib.suppress(OSError):  # there is no log
        line = last_line(Path(plan.home, "log").read_text(encoding="utf-8", errors="replace"))
    return (message_with_line if line else message).fill(label=plan.label, line=line, **values)


def _limits(options: LabOptions, store: str, *, with_cards: bool) -> Limits:
    """The user's own limits and the administrator's. Without cards, a damaged store is no reason not to start."""
    try:
        with store_errors(store):
            return stricter(limits_of(options), layout_of(store).limits())
    except StoreError:
        if with_cards:
            raise
        return limits_of(options)

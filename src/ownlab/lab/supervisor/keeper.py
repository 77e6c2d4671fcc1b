"""The first and last process of a runtime: it waits for the supervisor and cleans up after it.

It forks before the supervisor imports anything else, so it stays small. As a child subreaper it inherits every process
of the runtime whose parent dies, even if that process was detached.
"""

from __future__ import annotations

import gc
import json
import os
import signal
from collections.abc import Callable
from typing import Any

from ownlab.errors import StoreError
from ownlab.lab.runtimes import end_request
from ownlab.lab.runtimes.launch_plan import Plan, read_plan
from ownlab.lab.store import locks
from ownlab.lab.store.layout import hold_lock, lock_path
from ownlab.lab.store.rows import Process
from ownlab.lab.store.store import Store
from ownlab.lab.supervisor.bootstrap import supervise
from ownlab.lab.supervisor.kernel_process import kernel_address
from ownlab.lab.supervisor.process_tree import adopt_orphans, end_descendants, identify
from ownlab.lab.supervisor.state_writer import FAILED, LEFT, initial_state, log, write_state
from ownlab.text import sentences, text, unpack_texts

__all__ = ["keep"]

# A relay that ends so often is not started again by this keeper.
_MOST_STARTS = 5
_FILES = ("plan.json", "state.json", "kernel.json", "log", "outbox", end_request.FILE)


def keep(plan_file: str, run: Callable[[Plan, Process, int, int], int] = supervise) -> int:
    """Start the supervisor of a plan, wait for it, and clean up.

    The relay of a runtime on another machine is kept in the same way (`run`); if it dies, it is started again.
    """
    plan = read_plan(plan_file)
    if os.getsid(0) != os.getpid():
        os.setsid()
    umask = os.umask(0o077)
    _redirect(plan)
    os.environ["OWNLAB_RUNTIME"] = plan.runtime
    adopt_orphans()
    keeper = identify(os.getpid())
    try:
        lock = _hold(plan)
    except StoreError as exc:
        if plan.node is not None and isinstance(exc, locks.LockHeld):
            log(exc.message)  # two have started its relay again at once: the other one has its state
            return FAILED
        reason = sentences(exc.message, exc.hint)
        write_state(plan, {**initial_state(plan, keeper, None), "state": "ended", "reason": reason})
        return FAILED
    for signum in (signal.SIGINT, signal.SIGHUP):
        signal.signal(signum, signal.SIG_IGN)
    gc.freeze()
    for start in range(1, _MOST_STARTS + 1):
        supervisor = os.fork()
        if not supervisor:
            break
        code = _wait(plan, supervisor)
        if plan.node is None or code in (0, FAILED, LEFT) or start == _MOST_STARTS:
            _clean_up(plan, code)
            return code
        log(f"the relay has died ({code}) and is started again")
    code = run(plan, keeper, lock, umask)  # an exception ends this process, with its traceback in the log
    if os.getppid() != keeper.pid:  # the keeper was killed; all processes below have been ended
        _clean_up(plan, code)
    return code


def _hold(plan: Plan) -> int:
    """Lock the runtime. One without cards may live without the store: then a file in its own folder is locked."""
    try:
        return hold_lock(plan.store, plan.runtime)
    except StoreError as exc:
        if plan.want.kind is not None or isinstance(exc, locks.LockHeld):
            raise
        log(f"not in the store: {exc.message}")
        return locks.hold(os.path.join(plan.home, f"{plan.runtime}.lock"), 0o600)


def _wait(plan: Plan, supervisor: int) -> int:
    # This machine is shut down, or the job in which a server runs ends: a job on another node goes on.
    passed_on = signal.SIGTERM if plan.node is None else signal.SIGHUP
    signal.signal(signal.SIGTERM, lambda *_: os.kill(supervisor, passed_on))
    if plan.node is None:  # otherwise the next relay needs it, too
        nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        os.dup2(nothing, 0)  # the pipe from the starter belongs to the supervisor
    code = None
    while code is None:  # orphans of the runtime may exit before the supervisor
        pid, status = os.wait()
        code = os.waitstatus_to_exitcode(status) if pid == supervisor else None
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while left := end_descendants(_reap, 60.0):
        log(f"killed but still running: {', '.join(map(str, left))}")
    return code


def _clean_up(plan: Plan, code: int) -> None:
    if plan.node is not None and code not in (0, FAILED):  # its job goes on, and another relay may follow it
        _release(plan)
        _remove_files(plan, sockets_only=True)
        return
    if code not in (0, FAILED):
        _record_death_in_journal(plan, code)  # while the runtime is locked: nobody else writes its journal
    _release(plan)
    if code not in (0, FAILED):
        _record_death(plan, code)
    _remove_files(plan, sockets_only=code != 0)


def _reap() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return


def _release(plan: Plan) -> None:
    """Delete row, leases and lock file, now that every process has ended. If that fails, the next reap frees them."""
    try:
        with Store.open(plan.store, create=False) as store:
            store.release(plan.runtime)
    except StoreError as exc:  # a row without a lock is dead: its cards are freed when the database can be written
        log(f"not released: {exc.message}")
        _remove_lock(plan)


def _remove_lock(plan: Plan) -> None:
    try:
        locks.remove(lock_path(plan.store, plan.runtime))
    except (StoreError, OSError) as exc:
        log(f"its lock cannot be removed: {exc}")


def _record_death(plan: Plan, code: int) -> None:
    """Write to state.json that the supervisor died."""
    try:
        with open(os.path.join(plan.home, "state.json"), encoding="utf-8") as file:
            state: dict[str, Any] = unpack_texts(json.load(file))
    except (OSError, ValueError):
        state = initial_state(plan, identify(os.getpid()), None)
    if code < 0:
        reason = text("its supervisor died (signal {signal})", signal=-code)
    else:
        reason = text("its supervisor died (exit code {code})", code=code)
    write_state(plan, {**state, "state": "ended", "reason": reason, "kernel": None})


def _record_death_in_journal(plan: Plan, code: int) -> None:
    """Write to the journal that the supervisor died, so that the cells which ran and waited say so."""
    if not plan.journal or not os.path.isdir(plan.journal):
        return
    from ownlab.lab.journal.death import Death  # rarely needed
    from ownlab.lab.supervisor.journal_recorder import JournalRecorder

    death = Death("supervisor", signal=-code) if code < 0 else Death("supervisor", exit_code=code)
    recorder = JournalRecorder(plan, after_death=True)
    recorder.record_death(text("its supervisor died"), death)
    recorder.add_event("ended", why=text("its supervisor died"))
    recorder.write()
    recorder.close()


def _remove_files(plan: Plan, *, sockets_only: bool = False) -> None:
    """Remove the files we made, by name; never a whole tree."""
    address = kernel_address(plan)
    paths = [os.path.join(plan.sockets, name) for name in ("control", "line")]
    paths += [f"{address}-{name}" for name in (1, 2, 3, 4, 5, "pipe")]
    paths += [os.path.join(plan.sockets, f"c-{number}") for number in (1, 2, 3, 4, 5)]
    if not sockets_only:
        paths += [os.path.join(plan.home, name) for name in (*_FILES, f"{plan.runtime}.lock")]
    for path in paths:
        if os.path.lexists(path):
            os.unlink(path)
    folders = [] if sockets_only else [plan.home]
    for folder in [plan.sockets, *folders] if plan.sockets != plan.home else folders:
        _remove_folder(folder)


def _remove_folder(path: str) -> None:
    try:
        os.rmdir(path)
    except OSError as exc:
        log(f"{path} cannot be removed: {exc.strerror}")


def _redirect(plan: Plan) -> None:
    """Redirect output to the log. stdin stays open if its end means that the starter is gone."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    log = os.open(os.path.join(plan.home, "log"), flags, 0o600)
    for descriptor in (1, 2):
        os.dup2(log, descriptor)
    os.close(log)
    if plan.detached:
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)

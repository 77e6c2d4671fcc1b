"""Starts ipykernel by path, in the environment's own Python: `python launch.py -f CONNECTION_FILE`.

A kernel started this way throws no output away when its reader is slow, ends with its supervisor, and calls the
functions that were given to on_end before it ends.
"""

import atexit
import importlib.util
import os
import signal
import sys
from typing import Any

HERE = os.path.dirname(os.path.abspath(__file__))
GUEST = os.path.dirname(HERE)

PR_SET_PDEATHSIG = 1  # linux/prctl.h
NO_IPYKERNEL = 78  # EX_CONFIG of sysexits.h
FINISH_SECONDS = 0.5  # that a subshell has for what it was told last
LAST_SECONDS = 5  # that other exit handlers have, after those given to on_end
AGAIN_SECONDS = 0.01  # until it is tried again to end, where that was not possible


def end_with_parent() -> None:
    """The operating system kills this process when its supervisor ends; JPY_PARENT_PID is that one's number."""
    parent = os.environ.get("JPY_PARENT_PID", "")
    if not parent or not sys.platform.startswith("linux"):
        return
    import ctypes

    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != int(parent):
        os._exit(1)


def keep_lock() -> None:
    """This process holds its runtime's lock, by a descriptor that it was given; what it starts or forks does not.

    Else a worker that outlives everything would hold the lease for ever; so it is seen to be left over, and ended.
    """
    lock = os.environ.pop("OWNLAB_LOCK", "")
    if lock:
        os.set_inheritable(int(lock), False)
        held = [int(lock)]
        # Once: in what a worker forks itself, the number may be that of another file.
        os.register_at_fork(after_in_child=lambda: os.close(held.pop()) if held else None)


def prepare_path() -> None:
    """sys.path as `python -m ipykernel_launcher` would have it, and what ownlab gives to notebooks last on it."""
    if sys.path and os.path.abspath(sys.path[0]) == HERE:
        del sys.path[0]  # Python put the script's folder there
    spec = importlib.util.spec_from_file_location(
        "ownlab_guest", os.path.join(GUEST, "__init__.py"), submodule_search_locations=[GUEST]
    )
    if spec is None or spec.loader is None:
        raise ImportError("no guest package in " + GUEST)
    package = importlib.util.module_from_spec(spec)
    sys.modules["ownlab_guest"] = package
    spec.loader.exec_module(package)
    # Only where ownlab is not installed in this environment is this one found.
    sys.path.append(os.path.join(GUEST, "facade"))
    if is_colab():
        from ownlab_guest.colab.kernel_setup import prepare

        prepare()
    elif os.environ.get("OWNLAB_UPLOADS") or os.environ.get("OWNLAB_OUTPUTS"):
        sys.path.append(
            os.path.join(GUEST, "colab", "site")
        )  # google.colab, for a run that was given folders to work with


def is_colab() -> bool:
    """Whether the notebook was written for Colab, or somebody wants it to run as there."""
    return os.environ.get("OWNLAB_COLAB") == "1"


def make_app() -> Any:
    """ipykernel's application, with an output queue without a bound."""
    from ipykernel.kernelapp import IPKernelApp

    finish_subshells()

    class App(IPKernelApp):
        log_descriptor = 2  # as it was before ipykernel took the streams

        def init_iopub(self, context: Any) -> None:  # in ipykernel 6 and 7
            # Options hold for sockets that are made after them. By default more than 1,000 messages that wait for a
            # slow reader are thrown away.
            import zmq

            context.setsockopt(zmq.SNDHWM, 0)
            super().init_iopub(context)  # type: ignore[no-untyped-call]
            del context.sndhwm

        def init_signal(self) -> None:
            super().init_signal()  # type: ignore[no-untyped-call]
            watch_end()

        def init_shell(self) -> None:
            super().init_shell()  # type: ignore[no-untyped-call]
            watch_cells(self.shell, self.log_descriptor)

    if is_colab():
        from ownlab_guest.colab.kernel_setup import kernel_class

        App.kernel_class.default_value = kernel_class()
    else:
        from ownlab_guest.shell.system_commands import never_wait

        never_wait()
    return App


def finish_subshells() -> None:
    """A subshell handles what it was told before it ends.

    JupyterLab speaks to widgets through one, and closes it with its page. What had just come was thrown away, and asyncio
    said so in the cell that happened to run.
    """
    import asyncio

    try:
        from ipykernel.subshell import SubshellThread
        from ipykernel.thread import BaseThread
    except ImportError:  # ipykernel 6 has none
        return

    def run(self: Any) -> None:
        loop: Any = self.io_loop
        try:
            loop.start()
            if isinstance(self, SubshellThread):  # the kernel's other threads never come to an end
                finish(loop.asyncio_loop)
        finally:
            loop.close()

    def finish(loop: Any) -> None:
        left = asyncio.all_tasks(loop)
        if left:
            loop.run_until_complete(asyncio.wait(left, timeout=FINISH_SECONDS))

    BaseThread.run = run  # type: ignore[method-assign]  # ipykernel has no other door


def watch_cells(shell: Any, log: int) -> None:
    """Before the first cell start-up scripts run; what cells install is noted. Both are imported when it comes to that."""

    def first(info: Any) -> None:
        shell.events.unregister("pre_run_cell", first)
        from ownlab_guest.kernel.startup import before_first_cell

        before_first_cell(shell, log)

    def each(info: Any) -> None:
        cell = info.raw_cell
        if "install" in cell or "uv " in cell or "env update" in cell or "dpkg" in cell:
            from ownlab_guest.shell.packages import watch

            watch(shell)

    shell.events.register("pre_run_cell", first)
    shell.events.register("pre_run_cell", each)


def watch_end() -> None:
    """SIGTERM calls what was given to on_end, in the main thread and so also in the middle of a cell; then it ends.

    Not by SystemExit: in a cell IPython catches it, and goes on.
    """
    from ownlab_guest.kernel.on_end import run_on_end

    def end(signum: int, frame: object) -> None:
        if is_writing():
            # What we interrupted has to end first: nothing that prints would work.
            signal.signal(signal.SIGALRM, end)
            signal.setitimer(signal.ITIMER_REAL, AGAIN_SECONDS)
            return
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        run_on_end()
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(LAST_SECONDS)
        atexit._run_exitfuncs()
        os._exit(0)

    signal.signal(signal.SIGTERM, end)
    leave_workers_alone()


def is_writing() -> bool:
    """Whether this thread was interrupted in the middle of writing to a stream, which is not reentrant."""

    def refuses(stream: Any) -> bool:
        try:
            stream.flush()
        except RuntimeError:
            return True
        except (AttributeError, OSError, ValueError):  # none, or closed
            return False
        return False

    return refuses(sys.stdout) or refuses(sys.stderr)


def leave_workers_alone() -> None:
    """A forked worker ends by SIGTERM as it would without us.

    It is blocked over the fork: Python forgets signals that reach a child before it has come to itself.
    """
    before = []

    def block() -> None:
        before.append(signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM}))

    def restore() -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, before.pop())

    def reset() -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        restore()

    os.register_at_fork(before=block, after_in_parent=restore, after_in_child=reset)


def main() -> None:
    end_with_parent()
    keep_lock()
    prepare_path()
    log, script = os.dup(2), os.environ.get("OWNLAB_STARTUP_SCRIPT", "")
    if script:
        from ownlab_guest.kernel.startup import before_kernel

        before_kernel(script, log)
    # Else the debugger that ipykernel loads warns of frozen modules, and a cell that came early shows it as its output.
    os.environ.setdefault("PYDEVD_DISABLE_FILE_VALIDATION", "1")
    try:
        app = make_app()
        app.log_descriptor = log
    except ImportError as exc:
        if exc.name not in ("ipykernel", "ipykernel.kernelapp"):
            raise
        sys.stderr.write("{0} has no ipykernel: {0} -m pip install ipykernel\n".format(sys.executable))
        sys.exit(NO_IPYKERNEL)
    app.launch_instance()


if __name__ == "__main__":
    main()

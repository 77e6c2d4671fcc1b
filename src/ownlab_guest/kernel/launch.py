"""Starts ipykernel by path, in the environment's own Python: `python launch.py -f CONNECTION_FILE`.

A kernel started this way drops no output when its reader is slow, ends with its supervisor, and calls the functions given to
on_end before it ends.
"""

import atexit
import faulthandler
import importlib.util
import os
import signal
import sys
from typing import Any

HERE = os.path.dirname(os.path.abspath(__file__))
GUEST = os.path.dirname(HERE)

PR_SET_PDEATHSIG = 1  # linux/prctl.h
NO_IPYKERNEL = 78  # EX_CONFIG of sysexits.h
FINISH_SECONDS = 0.5  # for a subshell to handle its last messages
LAST_SECONDS = 5  # for other exit handlers, after those of on_end
AGAIN_SECONDS = 0.01  # until the next attempt to end, if one was not possible


def end_with_parent() -> None:
    """Let the operating system kill this process when its supervisor (JPY_PARENT_PID) ends."""
    parent = os.environ.get("JPY_PARENT_PID", "")
    if not parent or not sys.platform.startswith("linux"):
        return
    import ctypes

    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != int(parent):
        os._exit(1)


def keep_lock() -> None:
    """Hold the lock of the runtime by an inherited descriptor, but do not pass it on to child processes.

    Else a worker that outlives the kernel would hold the lease for ever. Without the lock it is found as an orphan, and ended.
    """
    lock = os.environ.pop("OWNLAB_LOCK", "")
    if lock:
        os.set_inheritable(int(lock), False)
        held = [int(lock)]
        # Only once: in grandchildren the number may belong to another file.
        os.register_at_fork(after_in_child=lambda: os.close(held.pop()) if held else None)


def prepare_path() -> None:
    """Make sys.path as `python -m ipykernel_launcher` has it, load the guest package, and prepare its environment."""
    load_guest()
    prepare_environment()


def load_guest() -> None:
    """Import the guest package from its folder, which is not on sys.path."""
    if sys.path and os.path.abspath(sys.path[0]) == HERE:
        del sys.path[0]  # Python put the script's folder there
    spec = importlib.util.spec_from_file_location(
        "ownlab_guest", os.path.join(GUEST, "__init__.py"), submodule_search_locations=[GUEST]
    )
    if spec is None or spec.loader is None:
        raise ImportError("there is no guest package in " + GUEST)
    package = importlib.util.module_from_spec(spec)
    sys.modules["ownlab_guest"] = package
    spec.loader.exec_module(package)


def prepare_environment() -> None:
    """Activate the environment; add ownlab's modules for notebooks at the end of sys.path; prepare Colab mode."""
    from ownlab_guest.kernel.activation import activate

    activate(os.environ)
    if os.environ.get("OWNLAB_LANG", "en") != "en":
        from ownlab_guest.text import speak

        speak(os.environ["OWNLAB_LANG"])
    # Found only if ownlab is not installed in this environment.
    sys.path.append(os.path.join(GUEST, "facade"))
    if is_colab():
        from ownlab_guest.colab.kernel_setup import prepare

        prepare()
    elif os.environ.get("OWNLAB_UPLOADS") or os.environ.get("OWNLAB_OUTPUTS"):
        sys.path.append(
            os.path.join(GUEST, "colab", "site")
        )  # google.colab, for a run with folders for uploads or outputs


def is_colab() -> bool:
    """Whether the notebook runs as on Colab: it was written for Colab, or the user chose so."""
    return os.environ.get("OWNLAB_COLAB") == "1"


def make_app() -> Any:
    """Make ipykernel's application, with an unbounded output queue."""
    from ipykernel.kernelapp import IPKernelApp

    from ownlab_guest.kernel.activation import complete_magics

    finish_subshells()
    protect_debugger()

    class App(IPKernelApp):
        log_descriptor = 2  # before ipykernel replaces the streams

        def init_iopub(self, context: Any) -> None:  # in ipykernel 6 and 7
            # Options apply to sockets that are created later. By default zmq drops messages when more than 1,000 wait for a
            # slow reader.
            import zmq
            from ipykernel.iostream import IOPubThread

            from ownlab_guest.kernel.fork_pipe import use_private_pipe

            if self.transport == "ipc":  # as supervisors start kernels
                use_private_pipe(IOPubThread, self.ip + "-pipe")
            context.setsockopt(zmq.SNDHWM, 0)
            super().init_iopub(context)  # type: ignore[no-untyped-call]
            del context.sndhwm

        def init_signal(self) -> None:
            super().init_signal()  # type: ignore[no-untyped-call]
            watch_end()

        def init_shell(self) -> None:
            super().init_shell()  # type: ignore[no-untyped-call]
            watch_cells(self.shell, self.log_descriptor)
            complete_magics(self.shell)

    if is_colab():
        from ownlab_guest.colab.kernel_setup import kernel_class

        App.kernel_class.default_value = kernel_class()
    else:
        from ownlab_guest.shell.system_commands import never_wait

        never_wait()
    return App


def finish_subshells() -> None:
    """Let a subshell handle its last messages before it ends.

    JupyterLab uses a subshell for widgets, and closes it with its page. ipykernel drops the last messages, and asyncio then
    warns in the cell that happens to run.
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
            if isinstance(self, SubshellThread):  # other threads of the kernel never finish
                finish(loop.asyncio_loop)
        finally:
            for task in asyncio.all_tasks(loop.asyncio_loop):
                # It ends with the kernel, such as the request that ends it. asyncio would warn in the last cell.
                task._log_destroy_pending = False  # type: ignore[attr-defined]  # as asyncio.gather does
            loop.close()

    def finish(loop: Any) -> None:
        left = asyncio.all_tasks(loop)
        if left:
            loop.run_until_complete(asyncio.wait(left, timeout=FINISH_SECONDS))

    BaseThread.run = run  # type: ignore[method-assign]  # ipykernel has no other way


def protect_debugger() -> None:
    """Let debugpy start our adapter, which refuses other users of the machine. ipykernel imports debugpy when it needs it."""
    try:
        import debugpy.adapter as adapter  # type: ignore[import-untyped,unused-ignore]
    except ImportError:  # this environment has no debugger
        return
    adapter.__file__ = os.path.join(HERE, "debug_adapter", "__init__.py")  # debugpy runs the folder of this file


def watch_cells(shell: Any, log: int) -> None:
    """Send what earlier cells have printed, run start-up scripts before the first cell, and record installed packages.

    Imports are lazy: most kernels need neither of the last two.
    """
    from ownlab_guest.kernel.output_flush import OutputFlush

    def first(info: Any) -> None:
        shell.events.unregister("pre_run_cell", first)
        from ownlab_guest.kernel.startup import before_first_cell

        before_first_cell(shell, log)

    def each(info: Any) -> None:
        cell = info.raw_cell
        if "install" in cell or "uv " in cell or "env update" in cell or "dpkg" in cell:
            from ownlab_guest.shell.packages import watch

            watch(shell)

    def last(result: Any) -> None:
        if result is not None and isinstance(result.error_in_exec, Exception):
            from ownlab_guest.shell.command_hints import hints_for_error
            from ownlab_guest.shell.notebook_folder import hints_for_missing_file
            from ownlab_guest.text import shown

            hints = hints_for_error(result.error_in_exec)
            if is_colab():
                hints += hints_for_missing_file(result.error_in_exec)
            for hint in hints:
                sys.stderr.write(shown(hint) + "\n")

    shell.events.register("post_run_cell", last)
    flush = OutputFlush(shell.kernel.iopub_thread)
    flush.follow(shell.kernel)
    shell.events.register("pre_run_cell", lambda info: flush.finish())
    shell.events.register("pre_run_cell", first)
    shell.events.register("pre_run_cell", each)
    if is_colab():
        from ownlab_guest.colab.file_requests import follow

        follow(shell)


def watch_end() -> None:
    """On SIGTERM, call the functions of on_end in the main thread, even in the middle of a cell; then end the process.

    Not by SystemExit: IPython catches it in a cell and continues.
    """
    from ownlab_guest.kernel.on_end import run_on_end

    def end(signum: int, frame: object) -> None:
        if is_writing():
            # Let the interrupted write finish first: printing would fail.
            signal.signal(signal.SIGALRM, end)
            signal.setitimer(signal.ITIMER_REAL, AGAIN_SECONDS)
            return
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        run_on_end()
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(LAST_SECONDS)
        atexit._run_exitfuncs()
        # By the signal itself, so that the supervisor can tell it from os._exit().
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
        os.kill(os.getpid(), signal.SIGTERM)

    signal.signal(signal.SIGTERM, end)
    reset_forked_workers()


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


def reset_forked_workers() -> None:
    """Restore the default SIGTERM in forked workers.

    The signal is blocked during the fork: Python forgets signals that reach a child too early.
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
    # Else ipykernel's debugger warns about frozen modules, and an early cell shows it as its output.
    os.environ.setdefault("PYDEVD_DISABLE_FILE_VALIDATION", "1")
    try:
        app = make_app()
        app.log_descriptor = log
        # In a crash, write the lines of Python that run to the log: the supervisor shows them in the cell.
        faulthandler.enable(log, all_threads=False)
    except ImportError as exc:
        if exc.name not in ("ipykernel", "ipykernel.kernelapp"):
            raise
        sys.stderr.write("{0} has no ipykernel: {0} -m pip install ipykernel\n".format(sys.executable))
        sys.exit(NO_IPYKERNEL)
    app.launch_instance()


if __name__ == "__main__":
    main()

"""The kernel as a process: start it in its own session, signal it, and find out why it ended."""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from ownlab.atomic_files import replace_file
from ownlab.errors import LabError
from ownlab.lab.journal.death import Death
from ownlab.lab.runtimes.launch_plan import Plan
from ownlab.lab.runtimes.visible_devices import VENDORS, variables
from ownlab.lab.store.rows import Device, Lease, Process
from ownlab.lab.supervisor.memory_events import MemoryGroup, find_out_of_memory, machine_memory
from ownlab.lab.supervisor.process_tree import identify
from ownlab.text import text

__all__ = ["Kernel", "Launcher", "kernel_address"]

# Signals that Python ignores, or that this process handles, would stay ignored in the kernel: reset them all.
_SIGNALS = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGCHLD,
    signal.SIGUSR1,
    signal.SIGPIPE,
    signal.SIGXFSZ,
)

_LOG_TAIL = 10_000  # bytes of the log that are searched
_TICKS = os.sysconf("SC_CLK_TCK")
# faulthandler's words before the lines of Python that ran, the innermost first.
_FATAL = "Fatal Python error:"
_STACK_LINES = 12
# Below this line of a stack is IPython, which called the cell.
_CALLER = "interactiveshell.py"


class Kernel:
    """A kernel that was started."""

    def __init__(self, process: Process, log: str, log_start: int) -> None:
        self.process = process
        self._log = log
        self._log_start = log_start
        self._memory_group: MemoryGroup | None = None

    @property
    def pid(self) -> int:
        return self.process.pid

    def signal(self, signum: int, *, group: bool = True) -> None:
        """Send a signal to the kernel's process group, as a terminal does, or to the kernel alone."""
        try:
            (os.killpg if group else os.kill)(self.pid, signum)
        except ProcessLookupError:
            return  # it has ended; SIGCHLD follows

    def watch_memory(self) -> None:
        """Note how often the system has killed in its control group so far. Called when it starts to work."""
        self._memory_group = MemoryGroup.read(self.pid) or self._memory_group

    def death(self, code: int, usage: resource.struct_rusage) -> Death:
        """Return what is known about its death. It has ended by itself, or was killed by somebody else."""
        if code >= 0:
            return Death("kernel", exit_code=code)
        if code != -signal.SIGKILL:
            return Death("kernel", signal=-code, stack=self._fatal_stack())
        out_of_memory = find_out_of_memory(self.pid, self.process.started / _TICKS, self._memory_group)
        return Death(
            "kernel",
            signal=-code,
            out_of_memory=out_of_memory.source,
            peak_bytes=usage.ru_maxrss * 1024 or None,
            limit_bytes=out_of_memory.limit_bytes,
            machine_bytes=machine_memory(),
        )

    def last_log_line(self) -> str:
        """Return the last line that it wrote to the log."""
        lines = [line.strip() for line in self._log_tail()]
        return next((line for line in reversed(lines) if line), "")

    def _fatal_stack(self) -> tuple[str, ...]:
        """Return the lines of Python that ran when it crashed, as far as its log has them."""
        lines = self._log_tail()
        fatal = max((number for number, line in enumerate(lines) if line.startswith(_FATAL)), default=None)
        if fatal is None:
            return ()
        frames = [line.strip() for line in lines[fatal:] if line.startswith('  File "')]
        called = next((number for number, frame in enumerate(frames) if _CALLER in frame), len(frames))
        return tuple(frames[: min(called, _STACK_LINES)])

    def _log_tail(self) -> list[str]:
        with open(self._log, "rb") as file:
            file.seek(max(self._log_start, os.stat(self._log).st_size - _LOG_TAIL))
            return file.read().decode(errors="replace").splitlines()


def kernel_address(plan: Plan) -> str:
    """The prefix of the paths of the kernel's own sockets."""
    return os.path.join(plan.sockets, "k")


class Launcher:
    """Starts a runtime's kernels, each with the same cards."""

    def __init__(self, plan: Plan, lock: int, umask: int) -> None:
        self._plan, self._umask = plan, umask
        self._own = {
            "OWNLAB_RUNTIME": plan.runtime,
            # Inheritable, so that the kernel holds the lease too; launch.py removes the variable.
            "OWNLAB_LOCK": str(lock),
            "JPY_PARENT_PID": str(os.getpid()),
        }
        self.held: tuple[Device, ...] = ()

    def assign(self, devices: Sequence[Device], leases: Sequence[Lease]) -> None:
        """Set the cards that the runtime leased, out of all devices."""
        uuids = {lease.device for lease in leases}
        self.held = tuple(device for device in devices if device.uuid in uuids)
        # Cards are not read before a CPU runtime starts: hide those of every vendor.
        vendors = {device.vendor for device in devices} or VENDORS
        if self._plan.is_job:  # its cards are those that the job was given, which has variables for them
            self._own.update({"CUDA_VISIBLE_DEVICES": os.environ.get("CUDA_VISIBLE_DEVICES", "")})
        else:
            self._own.update(variables(self.held, self._plan.want.parts, vendors))

    def start(self, changes: Mapping[str, str], cwd: str) -> Kernel:
        """Start a kernel with changes to the environment. LabError if its program or folder cannot be used."""
        plan = self._plan
        connection_file = os.path.join(plan.home, "kernel.json")
        argv = [part.replace("{connection_file}", connection_file) for part in plan.argv]
        if plan.script_folder:  # its arguments are its own
            argv = plan.argv
        log = os.path.join(plan.home, "log")
        here = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        previous = os.umask(0o077)
        try:
            replace_file(connection_file, _connection(plan))
            log_start = os.stat(log).st_size
            os.chdir(cwd)
            os.umask(self._umask)
            # Not subprocess: it would be imported into every supervisor for this call alone.
            pid = os.posix_spawnp(
                argv[0],
                argv,
                {**_inherited(argv[0]), **changes, "PWD": cwd, **self._own},
                file_actions=[(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)],
                setsid=True,
                setsigmask=(),
                setsigdef=_SIGNALS,
            )
        except OSError as exc:
            raise LabError(
                text(
                    "the kernel cannot be started: {reason}: {file}", reason=exc.strerror, file=exc.filename or argv[0]
                )
            ) from exc
        finally:
            os.umask(previous)
            os.fchdir(here)
            os.close(here)
        return Kernel(identify(pid), log, log_start)


def _inherited(python: str) -> dict[str, str]:
    """Our environment, without what is meant for our own Python and would mislead the one that is started."""
    environment = dict(os.environ)
    if os.path.dirname(python) != os.path.dirname(sys.executable):
        environment.pop("PYTHONHOME", None)
    return environment


def _connection(plan: Plan) -> str:
    """The kernel's own connection file: sockets in a folder that only its owner may enter, and the clients' key."""
    given: dict[str, Any] = plan.connection
    return json.dumps(
        {
            "transport": "ipc",
            "ip": kernel_address(plan),
            "shell_port": 1,
            "iopub_port": 2,
            "stdin_port": 3,
            "control_port": 4,
            "hb_port": 5,
            "key": given["key"],
            "signature_scheme": given.get("signature_scheme", "hmac-sha256"),
            "kernel_name": given.get("kernel_name", ""),
        }
    )

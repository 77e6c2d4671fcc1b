"""Real kernels that die: the journal says why, and the cells say so. What somebody asked for is no death."""

from __future__ import annotations

import json
import os
import signal
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ownlab.lab.journal.death import Death
from ownlab.lab.journal.state import JournalState

WAIT = "import time; print('so far', flush=True); time.sleep(600)"
PRINTED = b'"so far\\n"'


def execute(follower: Any, code: str, cell: str) -> str:
    """Execute a cell of a notebook."""
    return str(follower.execute(code, cell=cell))


def begin(follower: Any) -> None:
    """Execute a cell that waits, and one that waits for it."""
    execute(follower, WAIT, "running")
    execute(follower, "1", "waiting")
    follower.until(lambda record: any(PRINTED in part for part in record.parts))


def state_of(runtime: Any) -> JournalState:
    state = JournalState()
    for record in runtime.journal():
        state.add(record)
    return state


def died(runtime: Any, waiting: Callable[..., Any]) -> Death:
    """The death in the journal, once it is there."""
    recorded = waiting(lambda: state_of(runtime).deaths, "its death is in the journal")
    assert len(recorded) == 1
    death: Death = recorded[0].death
    return death


def notes(runtime: Any) -> dict[str, list[str]]:
    return {
        str(cell): [output["ename"] for output in execution.outputs.as_json() if output["output_type"] == "error"]
        for cell, execution in state_of(runtime).by_cell.items()
    }


def test_a_killed_kernel(bench: Any, waiting: Callable[..., Any]) -> None:
    runtime = bench.start_in_lab()
    begin(runtime.follow())
    os.kill(runtime.pid("kernel"), signal.SIGKILL)
    death = died(runtime, waiting)
    assert (death.what, death.signal, death.out_of_memory) == ("kernel", 9, "")
    assert 10 << 20 < (death.peak_bytes or 0) < (death.machine_bytes or 0)
    assert notes(runtime) == {"running": ["KernelDied"], "waiting": ["NotRun"]}
    runtime.wait("dead")
    assert "The kernel was killed by signal 9." in runtime.log()


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("import ctypes\ndef read():\n    ctypes.string_at(0)\nread()", {"signal": 11}),
        ("import os; os.abort()", {"signal": 6}),
        ("import os; os._exit(3)", {"exit_code": 3}),
        ("import os; os._exit(0)", {"exit_code": 0}),
        ("import os; os.kill(os.getpid(), 15); import time; time.sleep(600)", {"signal": 15}),
    ],
)
def test_a_kernel_that_ends_itself(bench: Any, waiting: Callable[..., Any], code: str, found: dict[str, int]) -> None:
    runtime = bench.start_in_lab()
    execute(runtime.follow(), code, "running")
    death = died(runtime, waiting)
    assert death.what == "kernel"
    assert {"signal": death.signal, "exit_code": death.exit_code} == {"signal": None, "exit_code": None, **found}
    assert notes(runtime) == {"running": ["KernelDied"]}
    if death.signal == 11:
        assert [frame.rpartition(", ")[2] for frame in death.stack][-2:] == ["line 3 in read", "line 4 in <module>"]


# All threads of the kernel share one processor: what was printed leaves only if somebody lets it.
PRINT = """
import os
for thread in os.listdir('/proc/self/task'):
    os.sched_setaffinity(int(thread), {min(os.sched_getaffinity(0))})
print('shown')
"""


def test_a_cell_that_ends_its_kernel_at_once_takes_nothing_from_the_cell_before(
    bench: Any, waiting: Callable[..., Any]
) -> None:
    runtime = bench.start_in_lab()
    follower = runtime.follow()
    execute(follower, PRINT, "before")
    execute(follower, "import os; os.kill(os.getpid(), 9)", "ends it")
    execute(follower, "1", "waiting")
    assert died(runtime, waiting).signal == 9
    assert notes(runtime) == {"before": [], "ends it": ["KernelDied"], "waiting": ["NotRun"]}
    assert [output["text"] for output in state_of(runtime).by_cell["before"].outputs.as_json()] == ["shown\n"]


class MemoryLimit:
    """A control group with a limit, made for a test."""

    def __init__(self, folder: Path, limit: str) -> None:
        self.folder, self._limit = folder, limit

    def put(self, pid: int, limit: int) -> None:
        (self.folder / self._limit).write_text(str(limit))
        swap = self.folder / "memory.swap.max"
        if swap.exists():
            swap.write_text("0")
        (self.folder / "cgroup.procs").write_text(str(pid))


@pytest.fixture
def memory_limit(waiting: Callable[..., Any]) -> Iterator[MemoryLimit]:
    name = f"ownlab-test-{uuid.uuid4().hex[:8]}"
    for folder, limit in (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")):
        group = Path(folder, name)
        try:
            group.mkdir()
        except OSError:
            continue
        if os.access(group / limit, os.W_OK):
            break
        group.rmdir()
    else:
        pytest.skip("no control group with a memory limit can be made here")
    yield MemoryLimit(group, limit)
    waiting(lambda: not (group / "cgroup.procs").read_text(), "a killed process has left its group")
    group.rmdir()


def test_a_kernel_that_runs_out_of_memory(bench: Any, waiting: Callable[..., Any], memory_limit: MemoryLimit) -> None:
    runtime = bench.start_in_lab()
    runtime.ready()
    memory_limit.put(runtime.pid("kernel"), 300 << 20)
    execute(runtime.follow(), "kept = []\nwhile True: kept.append(b'x' * (1 << 24))", "running")
    death = died(runtime, waiting)
    assert (death.signal, death.out_of_memory, death.limit_bytes) == (9, "cgroup", 300 << 20)
    note = state_of(runtime).by_cell["running"].outputs.as_json()[-1]
    assert note["evalue"] == "The kernel ran out of memory: the system killed it (signal 9)."
    assert any("at most 300 MiB" in line for line in note["traceback"])


def test_a_killed_supervisor(bench: Any, waiting: Callable[..., Any]) -> None:
    runtime = bench.start_in_lab()
    begin(runtime.follow())
    os.kill(runtime.pid("supervisor"), signal.SIGKILL)
    runtime.ended()
    death = died(runtime, waiting)
    assert (death.what, death.signal) == ("supervisor", 9)
    assert notes(runtime) == {"running": ["KernelDied"], "waiting": ["NotRun"]}
    assert state_of(runtime).ended == "its supervisor died"
    numbers = [record.number for record in runtime.journal()]
    assert numbers == list(range(1, len(numbers) + 1))


def test_a_killed_keeper(bench: Any, waiting: Callable[..., Any]) -> None:
    runtime = bench.start_in_lab()
    begin(runtime.follow())
    os.kill(runtime.pid("keeper"), signal.SIGKILL)
    assert died(runtime, waiting).what == "keeper"
    assert notes(runtime) == {"running": ["KernelDied"], "waiting": ["NotRun"]}
    runtime.ended()


@pytest.mark.parametrize("do", ["relaunch", "end", "kill", "terminate", "interrupt", "shutdown", "exit"])
def test_what_somebody_asked_for_is_no_death(bench: Any, waiting: Callable[..., Any], do: str) -> None:
    runtime = bench.start_in_lab()
    follower = runtime.follow()
    if do == "exit":
        execute(follower, "exit()", "running")
    elif do == "shutdown":  # a kernel that runs a cell does not hear of it
        follower.run("1")
    else:
        begin(follower)
    if do == "interrupt":
        runtime.ask("signal", signum=signal.SIGINT)
        waiting(lambda: not state_of(runtime).running, "the cells have ended")
        assert notes(runtime)["running"] == ["KeyboardInterrupt"]
        return
    if do == "shutdown":
        follower.send("shutdown_request", {"restart": True}, "control")
    elif do != "exit":
        runtime.ask(do)
    waiting(
        lambda: any(b'"kernel-ended"' in part for record in runtime.journal() for part in record.parts),
        "the end of the kernel is in the journal",
    )
    assert not any(notes(runtime).values())
    assert state_of(runtime).deaths == []


def test_code_sent_by_a_page_that_did_not_know_of_the_death_is_not_run(
    bench: Any, waiting: Callable[..., Any], tmp_path: Path
) -> None:
    """By no kernel: not by the dead one, nor by the next. A page says how far it had read when its cell was run."""
    runtime = bench.start_in_lab()
    follower = runtime.follow()
    follower.run("1")
    known = follower.records[-1].number
    execute(follower, "import os; os.kill(os.getpid(), 9)", "running")
    died(runtime, waiting)

    def send(cell: str, position: int) -> str:
        metadata = json.dumps({"cellId": cell, "ownlab_position": position}).encode()
        code = f"open({str(tmp_path / cell)!r}, 'w').close()"
        return str(follower.send("execute_request", {"code": code}, metadata=metadata))

    send("before-restart", known)
    waited = send("knows", state_of(runtime).deaths[-1].number)
    runtime.ask("relaunch")
    follower.until_done(waited)
    later = send("after-restart", known)
    follower.until(lambda record: later.encode() in record.parts[0] and b"not-run" in record.parts[0])
    follower.run("2")

    found = notes(runtime)
    assert found == {"running": ["KernelDied"], "before-restart": ["NotRun"], "knows": [], "after-restart": ["NotRun"]}
    assert [cell for cell in found if (tmp_path / cell).exists()] == ["knows"]
    assert state_of(runtime).by_cell["after-restart"].state == "cut"

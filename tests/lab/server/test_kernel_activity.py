"""The state of kernels in the server's lists, and the notification of listeners."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.lab.server.stream_page import Open, follow, kernel, pages

from ownlab.lab.runtimes.launch_plan import read_plan
from ownlab.lab.server.kernel_activity import KernelActivity
from ownlab.lab.server.kernels import OwnlabKernelManager, RuntimeManager

if TYPE_CHECKING:
    from tests.lab.server.conftest import LabServer

__all__ = ["follow", "kernel", "pages"]  # fixtures

# Short sleeps: Python does not check for signals between its last instruction and the start of a long sleep.
UNTIL_INTERRUPTED = "import time\nprint('on', flush=True)\nwhile True: time.sleep(0.01)"


def test_a_kernel_is_busy_while_a_cell_runs(
    lab: LabServer, kernel: str, follow: Open, until: Callable[..., Any]
) -> None:
    page = follow(lab, kernel)
    page.run("1")
    until(lambda: lab.kernel(kernel)["execution_state"] == "idle", "it is idle")
    before = lab.kernel(kernel)["last_activity"]
    page.execute(UNTIL_INTERRUPTED)
    page.until_kind("stream")
    until(lambda: lab.kernel(kernel)["execution_state"] == "busy", "it is busy")
    assert lab.kernel(kernel)["last_activity"] > before
    lab.post(f"/api/kernels/{kernel}/interrupt")
    until(lambda: lab.kernel(kernel)["execution_state"] == "idle", "it is idle again")


def test_requests_of_pages_do_not_count_as_activity(lab: LabServer, kernel: str, follow: Open) -> None:
    page = follow(lab, kernel)
    page.run("1")
    before = lab.kernel(kernel)["last_activity"]
    request = page.send("kernel_info_request", {})
    page.until_idle(request)
    assert lab.kernel(kernel)["last_activity"] == before


def test_a_restarted_kernel_is_still_watched(
    lab: LabServer, kernel: str, follow: Open, until: Callable[..., Any]
) -> None:
    page = follow(lab, kernel)
    page.execute(UNTIL_INTERRUPTED)
    page.until_kind("stream")
    until(lambda: lab.kernel(kernel)["execution_state"] == "busy", "it is busy")
    lab.post(f"/api/kernels/{kernel}/restart")
    until(lambda: lab.kernel(kernel)["execution_state"] == "idle", "the new one is idle")
    page.execute(UNTIL_INTERRUPTED)
    page.until_kind("stream")
    until(lambda: lab.kernel(kernel)["execution_state"] == "busy", "it is busy")


def test_pages_are_counted(lab: LabServer, kernel: str, follow: Open, until: Callable[..., Any]) -> None:
    first, second = follow(lab, kernel), follow(lab, kernel)
    first.run("1")
    assert lab.kernel(kernel)["connections"] == 2
    first.close()
    second.drop()
    until(lambda: lab.kernel(kernel)["connections"] == 0, "both are gone")


def test_listeners_are_notified_when_a_kernel_becomes_busy_and_ends(lab: LabServer, kernel: str, follow: Open) -> None:
    """Uses a KernelActivity of its own at a real runtime, from its start to its end."""
    page = follow(lab, kernel)
    page.run("1")
    plan = read_plan(str(Path(lab.home) / "runtimes" / kernel / "plan.json"))
    states: list[bool] = []

    async def watch() -> None:
        kernels = OwnlabKernelManager()
        activity, notified = KernelActivity(kernels), asyncio.Event()

        def note(kernel_id: str, busy: bool) -> None:
            assert kernel_id == kernel
            states.append(busy)
            notified.set()

        activity.listeners.append(note)
        await activity.watch(kernel, RuntimeManager(), plan.journal_endpoint)
        assert activity.busy(kernel) is False
        cell = page.execute("print('x' * 100000)")
        await asyncio.to_thread(page.until_idle, cell)
        while len(states) < 3:
            notified.clear()
            await notified.wait()
        activity.stop(kernel)  # as Jupyter does before it shuts down a kernel
        lab.client.delete(f"{lab.url}/api/kernels/{kernel}").raise_for_status()
        while activity._ending:
            notified.clear()
            await notified.wait()
        activity.close()

    asyncio.run(asyncio.wait_for(watch(), 30))
    assert states[:3] == [False, True, False], "as it was, and a cell"
    assert states[-2:] == [False, False], "the kernel's end, and the runtime's"


def test_an_adopted_kernel_keeps_its_state(
    new_lab: Callable[..., LabServer], follow: Open, until: Callable[..., Any]
) -> None:
    lab = new_lab().start()
    kernel_id = lab.session()["kernel"]["id"]
    page = follow(lab, kernel_id)
    page.execute(UNTIL_INTERRUPTED)
    page.until_kind("stream")
    lab.end(signal.SIGKILL)
    lab.start()
    assert lab.kernel(kernel_id)["execution_state"] == "busy"
    lab.post(f"/api/kernels/{kernel_id}/interrupt")
    until(lambda: lab.kernel(kernel_id)["execution_state"] == "idle", "it is idle")

"""One notebook on a node, with interruptions of its pages, of the server, of the line, of its relay, and of Slurm."""

from __future__ import annotations

import asyncio

from tests_survival.interruptions import Interruption
from tests_survival.nodes.cluster_lab import TYPE, ClusterLab
from tests_survival.page import Page
from tests_survival.runs import Run
from tests_survival.scripts import Script

__all__ = ["KINDS", "NodeRun", "Start"]

# Relative frequency. Most are what only a cluster can suffer from.
KINDS = {
    "close": 1,
    "reload": 1,
    "cut": 1,
    "away": 1,
    "save": 1,
    "kill": 2,
    "term": 1,
    "line": 6,  # the cable of the node is pulled for a while
    "relay": 4,  # SIGKILL of the relay
    "login": 2,  # SIGKILL of server, keeper and relay, as if the login node had lost its power
    "controller": 2,  # slurmctld ends and comes back
    "slurmd": 2,  # slurmd of the node is killed and comes back
}
# A cut is longer than the seconds of an interruption: seldom so long that both ends give their connection up.
LONG_CUT = 24.0


class Start:
    """Lets all notebooks of a batch begin when each has its kernel: a controller that is away takes no jobs, and a slurmd that is killed
    while it starts one loses it, which Slurm notices minutes later.
    """

    def __init__(self, runs: int) -> None:
        self._left, self._all = runs, asyncio.Event()

    async def ready(self) -> None:
        """One more can begin, or never will."""
        self._left -= 1
        if self._left <= 0:
            self._all.set()
        await self._all.wait()


class NodeRun(Run):
    """One notebook on a node."""

    kind = TYPE

    def __init__(self, lab: ClusterLab, script: Script, path: str, start: Start) -> None:
        super().__init__(lab.site, lab.lab.folder, script, path, lab.strike)
        self._lab, self._start = lab, start

    async def _first_page(self) -> Page:
        try:
            page = await Page(self.site, self.path).open()
            await asyncio.wait_for(self._until_kernel(page), 180)
        except BaseException:
            asyncio.ensure_future(self._start.ready())  # the others do not wait for this one  # noqa: RUF006
            raise
        await self._start.ready()
        return page

    async def _until_kernel(self, page: Page) -> None:
        """Wait until there is a kernel. An answer about widgets may be the server's."""
        await page.widgets()
        while not (self._lab.state(page.kernel_id).get("node") or {}).get("kernel"):
            await asyncio.sleep(0.05)

    async def _do_line(self, interruption: Interruption) -> None:
        kernel = (await self._present()).kernel_id
        node = self._lab.node_of(kernel)
        if node:
            is_long = interruption.closed and interruption.moment < 0.15
            await self._lab.cut_line(node, LONG_CUT if is_long else 4 * interruption.seconds)

    async def _do_relay(self, interruption: Interruption) -> None:
        self._lab.kill_relay((await self._present()).kernel_id, keeper=False)

    async def _do_login(self, interruption: Interruption) -> None:
        self._lab.kill_relay((await self._present()).kernel_id, keeper=True)
        await self._do_kill(interruption)

    async def _do_controller(self, interruption: Interruption) -> None:
        await self._lab.restart_controller(interruption.seconds)

    async def _do_slurmd(self, interruption: Interruption) -> None:
        node = self._lab.node_of((await self._present()).kernel_id)
        if node:
            await self._lab.restart_daemon(node)

"""What happens when a kernel is found dead: started anew where it died, given up where it was ended."""

from __future__ import annotations

from jupyter_client.ioloop.restarter import AsyncIOLoopKernelRestarter
from tornado.web import HTTPError

from ownlab.errors import LabError, OwnlabError
from ownlab.lab.runtimes.state import plan_of, state_of

__all__ = ["OwnlabRestarter"]


class OwnlabRestarter(AsyncIOLoopKernelRestarter):
    """Looks every three seconds whether a kernel is alive."""

    async def poll(self) -> None:  # type: ignore[override]  # as in the class above ours
        """Called by a timer while the kernel is not being restarted or shut down by anybody."""
        kernel = self.kernel_manager
        if kernel.is_runtime and not await kernel.is_alive() and not _may_come_back(kernel.kernel_id):
            self.log.info("Runtime %s has ended.", kernel.kernel_id)
            self._give_up()
            return
        try:
            await super().poll()
        except (OwnlabError, HTTPError, OSError, RuntimeError) as exc:
            # Jupyter's own would try again every three seconds for ever, and the page would never be told.
            self.log.error("Kernel %s cannot be restarted: %s", kernel.kernel_id, exc)  # noqa: TRY400  # the reason is in its words
            self._give_up()

    def _give_up(self) -> None:
        self.stop()
        self._restarting = False
        self._fire_callbacks("dead")


def _may_come_back(runtime: str) -> bool:
    """Whether a kernel that is dead died by itself: its supervisor waits for a while to start it anew.

    A runtime that was ended, by a limit or by somebody, has no folder any more, or says so. A run ends with its kernel.
    """
    try:
        plan = plan_of(runtime)
        return plan is not None and bool(plan.lab) and state_of(runtime) in ("waiting", "starting", "running", "dead")
    except LabError:
        return False

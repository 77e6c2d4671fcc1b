"""What happens when a kernel dies: it is restarted, unless its runtime has ended."""

# mypy: disable-error-code="no-untyped-call,override"
# (jupyter_server claims to be typed, but most methods are not, and its async methods override synchronous ones.)

from __future__ import annotations

from jupyter_client.ioloop.restarter import AsyncIOLoopKernelRestarter
from tornado.web import HTTPError

from ownlab.errors import LabError, OwnlabError
from ownlab.lab.runtimes.state import plan_of, state_of

__all__ = ["OwnlabRestarter"]


class OwnlabRestarter(AsyncIOLoopKernelRestarter):
    """Checks every three seconds whether a kernel is alive."""

    async def poll(self) -> None:
        """Called by a timer, except while the kernel is being restarted or shut down."""
        kernel = self.kernel_manager
        if kernel.is_runtime and not await kernel.is_alive() and not _can_restart(kernel.kernel_id):
            self.log.info("Runtime %s has ended.", kernel.kernel_id)
            self.give_up()
            return
        try:
            await super().poll()
        except (OwnlabError, HTTPError, OSError, RuntimeError) as exc:
            # Jupyter's own restarter would retry every three seconds forever, and the page would never know.
            self.log.error("Cannot restart kernel %s: %s", kernel.kernel_id, exc)  # noqa: TRY400  # the message is enough
            self.give_up()

    def give_up(self) -> None:
        """Report the kernel as dead for good."""
        self.stop()
        self._restarting = False
        self._fire_callbacks("dead")


def _can_restart(runtime: str) -> bool:
    """Return whether a dead kernel died on its own, so that its supervisor still waits for a restart.

    A runtime that was stopped, by a limit or by a user, has no folder any more, or its state says so. A run ends with
    its kernel.
    """
    try:
        plan = plan_of(runtime)
        return plan is not None and bool(plan.lab) and state_of(runtime) in ("waiting", "starting", "running", "dead")
    except LabError:
        return False

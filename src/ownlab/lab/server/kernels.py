"""Kernels that outlive the server: adopted when it starts, left alone when it ends."""

# mypy: disable-error-code="no-untyped-call,override"
# (jupyter_server says that it is typed; most of its methods are not, and its asynchronous ones override synchronous ones.)

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
from concurrent.futures import Future
from datetime import datetime, timezone
from typing import Any

from jupyter_client.kernelspec import KernelSpec, NoSuchKernel
from jupyter_client.provisioning.factory import KernelProvisionerFactory
from jupyter_server.prometheus.metrics import KERNEL_CURRENTLY_RUNNING_TOTAL
from jupyter_server.services.kernels.kernelmanager import AsyncMappingKernelManager, ServerKernelManager
from tornado.ioloop import IOLoop
from tornado.web import HTTPError
from traitlets import Unicode, default

from ownlab.errors import LabError, OwnlabError
from ownlab.lab.runtimes.drive import drive_root, is_drive_path, leaves_drive, path_in_drive
from ownlab.lab.runtimes.kernelspecs import PROVISIONER
from ownlab.lab.runtimes.plan import Plan
from ownlab.lab.runtimes.state import plan_with_journal_socket, state_of
from ownlab.lab.server.activity import Activity
from ownlab.lab.server.adoption import Survivor, bury, survivors
from ownlab.lab.server.kernelspecs import OwnlabSpecManager
from ownlab.lab.server.page_stream import Following
from ownlab.lab.server.restarter import OwnlabRestarter
from ownlab.lab.transport.control import send_command

__all__ = ["OwnlabKernelManager", "RuntimeManager"]

# What a kernel that is being started may still take when the server ends.
_START_SECONDS = 5.0
# A subscription on the loopback is there after milliseconds.
_LISTENS_AFTER = 0.3
# Seconds that pages have to hear that their kernel is another one, before who asked for it is answered.
_TOLD = 2.0


class RuntimeManager(ServerKernelManager):
    """One kernel: a runtime of ours, or a foreign one."""

    _kernel_info_future: Future[dict[str, Any]]  # not there before a websocket has asked

    @default("restarter_class")
    def _own_restarter(self) -> type[OwnlabRestarter]:
        return OwnlabRestarter

    @property
    def is_runtime(self) -> bool:
        """Whether it is a runtime of ours; a foreign kernel (R, Julia) lives and dies with the server."""
        assert self.kernel_spec is not None
        return bool(self.kernel_spec.metadata.get("kernel_provisioner", {}).get("provisioner_name") == PROVISIONER)

    @property
    def waits(self) -> bool:
        """Whether it is a runtime that has no kernel yet: it waits for a card, or the kernel is being started."""
        return self.is_runtime and self.kernel_id is not None and state_of(self.kernel_id) in ("waiting", "starting")

    async def restart_kernel(self, *args: Any, **kwargs: Any) -> None:
        """Called where somebody asked for it, and by the restarter."""
        await super().restart_kernel(*args, **kwargs)
        if isinstance(self.parent, OwnlabKernelManager) and self.kernel_id in self.parent:
            await self.parent.tell_restart(self.kernel_id)


class OwnlabKernelManager(AsyncMappingKernelManager):
    """All kernels of a lab's server."""

    # The provisioner looks for this name: what it starts for us outlives us, and may wait for a card.
    ownlab_lab = Unicode(None, allow_none=True, help="Id of the lab. Its runtimes are adopted.").tag(config=True)

    leaving = False  # the server ends: kernels that are not in the table any more are not dead

    @default("kernel_manager_class")
    def _default_kernel_manager_class(self) -> str:
        return f"{__name__}.{RuntimeManager.__name__}"

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.activity = Activity(self)
        self.adopted: list[Plan] = []  # whether they have a session has not been looked at yet
        self._followings: dict[str, set[Following]] = {}
        if not self.ownlab_lab:
            return
        # Before the first request: the first look at a session whose kernel is not in the table deletes the session.
        living, dead = survivors(self.ownlab_lab, os.path.realpath(self.root_dir))
        for one in living:
            self.adopt(one)
        if dead:
            IOLoop.current().add_callback(self._bury, dead)

    # -- adoption. Jupyter has no door for it: what `start_kernel` leaves behind in a kernel's manager is put there.
    # Each private name below was checked with jupyter_client 8.10 and jupyter_server 2.21; tests/server hold them to it.

    def adopt(self, one: Survivor) -> None:
        """Take a runtime over that another process has started."""
        plan, status, kernel_id = one.plan, one.status, one.plan.runtime
        kernel = self.kernel_manager_factory(
            connection_file=os.path.join(self.connection_dir, f"kernel-{kernel_id}.json"),
            parent=self,
            log=self.log,
            kernel_name=self._listed_name(plan.type),
            kernel_spec_manager=self.kernel_spec_manager,
        )
        kernel.kernel_id = kernel_id
        self._find_spec(kernel, plan)
        kernel.load_connection_info(status["connection"])
        kernel.write_connection_file()
        kernel._launch_args = {"cwd": plan.cwd, "env": {**os.environ, "JPY_SESSION_NAME": plan.notebook}}
        kernel._attempted_start = True
        kernel._ready = Future()
        kernel.provisioner = KernelProvisionerFactory.instance(parent=self).create_provisioner_instance(
            kernel_id, kernel.kernel_spec, parent=kernel
        )
        _take_state(kernel, status)
        self._kernels[kernel_id] = kernel
        self._kernel_connections[kernel_id] = 0
        self._kernel_ports[kernel_id] = kernel.ports
        self.adopted.append(plan)
        KERNEL_CURRENTLY_RUNNING_TOTAL.labels(type=kernel.kernel_name).inc()
        IOLoop.current().add_callback(self._finish_adoption, kernel, one)

    async def _finish_adoption(self, kernel: RuntimeManager, one: Survivor) -> None:
        """What needs the loop. It begins before the first request is heard: the loop was given it before."""
        kernel_id = one.plan.runtime
        assert kernel.provisioner is not None
        assert kernel._ready is not None
        try:
            await kernel.provisioner.load_provisioner_info({"kernel_id": kernel_id, "home": one.plan.home})
        except LabError as exc:  # it has ended in this moment
            self.log.info("Runtime %s is not adopted: %s.", kernel_id, exc)
            kernel._ready.set_exception(exc)
            self._handle_kernel_died(kernel_id)
            return
        kernel.start_restarter()
        # A death within the next ten seconds is not one of a kernel that never started: it keeps its ports.
        kernel._restarter._initial_startup = False
        kernel._connect_control_socket()
        self.start_watching_activity(kernel_id)
        kernel.last_activity = _last_activity(one.status)
        self.add_restart_callback(kernel_id, lambda: self._handle_kernel_died(kernel_id), "dead")
        self.initialize_culler()
        kernel._ready.set_result(None)
        self.log.info("Adopted runtime %s (%s).", kernel_id, kernel.execution_state)
        if plan_with_journal_socket(kernel_id) is None:
            await self._ask_again(kernel, one.plan)

    async def _ask_again(self, kernel: RuntimeManager, plan: Plan) -> None:
        """A cell that ended after we asked, and before we listened, would be taken to run until the next one does."""
        await asyncio.sleep(_LISTENS_AFTER)
        before = kernel.execution_state
        try:
            status = await asyncio.to_thread(send_command, plan.sockets, "status")
        except LabError as exc:  # it ended, which the restarter sees, or is stopped
            self.log.info("Runtime %s: %s", plan.runtime, exc)
            return
        if kernel.execution_state == before:
            _take_state(kernel, status)

    def _listed_name(self, kernel_type: str) -> str:
        specs = self.kernel_spec_manager
        return specs.listed_name(kernel_type) if isinstance(specs, OwnlabSpecManager) else kernel_type

    def _find_spec(self, kernel: RuntimeManager, plan: Plan) -> None:
        try:
            assert kernel.kernel_spec is not None
        except NoSuchKernel:
            # The card is gone, or the environment was removed; the runtime is still there and can be ended.
            provisioner = {"provisioner_name": PROVISIONER, "config": {}}
            kernel._kernel_spec = KernelSpec(
                display_name=plan.label,
                language="python",
                interrupt_mode="signal",
                metadata={"kernel_provisioner": provisioner, "ownlab": {"name": plan.type}},
            )

    async def _bury(self, dead: list[Plan]) -> None:
        for plan in dead:
            self.log.info("Runtime %s died while the server was away.", plan.runtime)
        try:
            await asyncio.to_thread(bury, dead)
        except OwnlabError as exc:
            self.log.warning("What dead runtimes left cannot be taken away: %s", exc)

    def known(self) -> set[str]:
        """Every kernel that is there, or is being started by this server."""
        return {*self.list_kernel_ids(), *self._pending_kernels}

    # -- pages, and what kernels do: along their lines

    def follow(self, kernel_id: str, following: Following) -> None:
        """A page follows a runtime."""
        self._followings.setdefault(kernel_id, set()).add(following)

    def unfollow(self, kernel_id: str, following: Following) -> None:
        """It is gone."""
        left = self._followings.get(kernel_id, set())
        left.discard(following)
        if not left:
            self._followings.pop(kernel_id, None)

    def pages(self, kernel_id: str) -> int:
        """How many pages follow a runtime, and save its notebook."""
        return len(self._followings.get(kernel_id, ()))

    def start_watching_activity(self, kernel_id: str) -> None:
        """Called when a kernel was started, and when one was adopted."""
        plan = plan_with_journal_socket(kernel_id) if self._kernels[kernel_id].is_runtime else None
        if plan is None:
            super().start_watching_activity(kernel_id)
            return
        kernel = self._kernels[kernel_id]
        kernel.reason = ""
        kernel.last_activity = datetime.now(timezone.utc)
        self.activity.watch(kernel_id, kernel, plan.sockets)

    def stop_watching_activity(self, kernel_id: str) -> None:
        """Called before a kernel is shut down, and where one died."""
        self.activity.stop(kernel_id)
        super().stop_watching_activity(kernel_id)

    async def tell_restart(self, kernel_id: str) -> None:
        """Wait until pages know of the new kernel: the one that asked for it opens a new connection when it is answered,
        and would take the restart for one that it has missed."""
        plan = plan_with_journal_socket(kernel_id)
        if plan is None:
            return
        with contextlib.suppress(asyncio.TimeoutError):  # a supervisor that is stopped, a page that is slow
            await asyncio.wait_for(self._tell_restart(kernel_id, plan), _TOLD)

    async def _tell_restart(self, kernel_id: str, plan: Plan) -> None:
        # Its supervisor may be another one.
        hello = await self.activity.watch(kernel_id, self._kernels[kernel_id], plan.sockets)
        await asyncio.gather(*(page.reached(hello.position) for page in self._followings.get(kernel_id, ())))

    # -- what is different from then on

    async def start_kernel(self, *, kernel_id: str | None = None, path: Any = None, **kwargs: Any) -> str:
        """Called by REST. The page knows the CPU type by one name alone."""
        self.check_not_leaving()
        if kwargs.get("kernel_name"):
            kwargs["kernel_name"] = self._listed_name(kwargs["kernel_name"])
        started: str = await super()._async_start_kernel(kernel_id=kernel_id, path=path, **kwargs)
        return started

    def cwd_for_path(self, path: str, **kwargs: Any) -> str:
        """Called for the folder that a kernel begins in; sessions know their notebooks by it."""
        if not is_drive_path(path):
            return str(super().cwd_for_path(path, **kwargs))
        try:
            root = drive_root()
        except LabError as exc:  # of a session that was left when it went; never the lab's folder: others are there
            self.log.warning("The folder of %s is not known: %s.", path, exc.message)
            return tempfile.gettempdir()
        found = os.path.join(root, path_in_drive(path) or "")
        while len(found) > len(root) and (not os.path.isdir(found) or leaves_drive(found, root)):
            found = os.path.dirname(found)
        return found if os.path.isdir(found) else tempfile.gettempdir()  # the kernel that had it mounted has ended

    def check_not_leaving(self) -> None:
        """Pages take 503 for a server that is away, and ask again."""
        if self.leaving:
            raise HTTPError(503, "The server is ending.")

    async def shutdown_kernel(self, kernel_id: str, now: bool = False, restart: bool = False) -> None:
        """Called by REST, and for foreign kernels when the server ends."""
        self._check_kernel_id(kernel_id)
        # A runtime that waits for a card has no kernel that could be asked politely.
        await super()._async_shutdown_kernel(kernel_id, now=now or self._kernels[kernel_id].waits, restart=restart)

    async def restart_kernel(self, kernel_id: str, now: bool = False) -> Any:
        """Called by REST. A runtime that waits for a card has nothing to restart."""
        self._check_kernel_id(kernel_id)
        if self._kernels[kernel_id].waits:
            return None
        return await super()._async_restart_kernel(kernel_id, now=now)

    async def shutdown_all(self, now: bool = False) -> None:
        """Called when the server ends: foreign kernels end with it, runtimes go on."""
        self.leaving = True
        # Jupyter's own stumbles over a kernel that is being started at this moment.
        starting = [task for task in self._pending_kernels.values() if not task.done()]
        if starting:
            await asyncio.wait(starting, timeout=_START_SECONDS)
        self._pending_kernels.clear()
        for kernel_id, kernel in list(self._kernels.items()):
            if kernel.is_runtime:
                self._let_go(kernel_id)
        await super()._async_shutdown_all(now=now)
        self.activity.close()

    def _let_go(self, kernel_id: str) -> None:
        kernel = self._kernels[kernel_id]
        kernel.stop_restarter()
        self.stop_watching_activity(kernel_id)
        self.stop_buffering(kernel_id)
        kernel._close_control_socket()
        self.remove_kernel(kernel_id)

    def _handle_kernel_died(self, kernel_id: str) -> None:
        """Called where a kernel is dead for good: all that is left of it is forgotten."""
        if kernel_id not in self:
            return
        kernel = self._kernels[kernel_id]
        KERNEL_CURRENTLY_RUNNING_TOTAL.labels(type=kernel.kernel_name).dec()
        self.stop_watching_activity(kernel_id)
        self.stop_buffering(kernel_id)
        super()._handle_kernel_died(kernel_id)
        self._kernel_connections.pop(kernel_id, None)
        self._kernel_ports.pop(kernel_id, None)
        # Its connection file, its socket, and a supervisor that has no kernel any more.
        IOLoop.current().add_callback(kernel.cleanup_resources)


def _take_state(kernel: RuntimeManager, status: dict[str, Any]) -> None:
    waits = status["state"] in ("waiting", "starting")
    # Where the supervisor is stopped and cannot tell, "busy": then nobody waits for an answer of the kernel's.
    kernel.execution_state = "starting" if waits else status.get("execution_state") or "busy"
    kernel.reason = ""
    kernel.last_activity = _last_activity(status)
    if status.get("kernel_info"):
        # Else the first websocket would ask the kernel, which answers when its cell has ended.
        known: Future[Any] = Future()
        known.set_result(status["kernel_info"])
        kernel._kernel_info_future = known


def _last_activity(status: dict[str, Any]) -> datetime:
    seconds = status.get("last_activity")
    return datetime.fromtimestamp(seconds, timezone.utc) if seconds else datetime.now(timezone.utc)

"""Kernels that outlive the server: adopted when it starts, left running when it stops.

`OwnlabKernelManager` is Jupyter's table of kernels, `RuntimeManager` one of them.
"""

# mypy: disable-error-code="no-untyped-call,override"
# (jupyter_server claims to be typed, but most methods are not, and its async methods override synchronous ones.)

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
from concurrent.futures import Future
from datetime import datetime, timezone
from functools import cached_property, partial
from typing import Any

from jupyter_client.kernelspec import KernelSpec, NoSuchKernel
from jupyter_client.provisioning.factory import KernelProvisionerFactory
from jupyter_server.prometheus.metrics import KERNEL_CURRENTLY_RUNNING_TOTAL
from jupyter_server.services.kernels.kernelmanager import AsyncMappingKernelManager, ServerKernelManager
from jupyter_server.utils import ApiPath, to_os_path
from tornado.ioloop import IOLoop
from traitlets import Unicode, default

from ownlab.config.settings import LabOptions
from ownlab.errors import LabError, OwnlabError
from ownlab.lab.runtimes.drive import drive_root, is_drive_path, leaves_drive, path_in_drive
from ownlab.lab.runtimes.kernelspecs import PROVISIONER
from ownlab.lab.runtimes.launch_plan import Plan
from ownlab.lab.runtimes.operations import end_if_alive
from ownlab.lab.runtimes.state import plan_of, plan_with_journal_socket, state_of
from ownlab.lab.server.adoption import AdoptableRuntime, find_adoptable, remove_dead
from ownlab.lab.server.kernel_activity import KernelActivity
from ownlab.lab.server.kernel_restarter import OwnlabRestarter
from ownlab.lab.server.kernelspecs import OwnlabSpecManager
from ownlab.lab.server.page_errors import PageError
from ownlab.lab.server.page_stream import PageStream
from ownlab.lab.transport.control import send_command
from ownlab.text import text

__all__ = ["OwnlabKernelManager", "RuntimeManager"]

# Seconds to wait for a kernel that is being started when the server stops.
_START_SECONDS = 5.0
# Seconds until a ZeroMQ subscription is active. On the loopback interface it takes milliseconds.
_SUBSCRIBE_SECONDS = 0.3
# Seconds to wait until pages know that their kernel was restarted, before the restart request is answered.
_RESTART_SECONDS = 2.0


class RuntimeManager(ServerKernelManager):
    """One kernel: an ownlab runtime, or a foreign kernel."""

    _kernel_info_future: Future[dict[str, Any]]  # set by the first websocket

    @default("restarter_class")
    def _own_restarter(self) -> type[OwnlabRestarter]:
        return OwnlabRestarter

    @property
    def is_runtime(self) -> bool:
        """Whether this is an ownlab runtime. A foreign kernel (R, Julia) ends with the server."""
        assert self.kernel_spec is not None
        return bool(self.kernel_spec.metadata.get("kernel_provisioner", {}).get("provisioner_name") == PROVISIONER)

    @property
    def is_waiting(self) -> bool:
        """Whether this is a runtime without a kernel yet: it waits for a card, or the kernel is starting."""
        return self.is_runtime and self.kernel_id is not None and state_of(self.kernel_id) in ("waiting", "starting")

    ending = False  # it is being shut down for good

    @cached_property
    def restarting(self) -> asyncio.Lock:
        """Held during a restart: a shutdown meanwhile would end the old kernel, and nobody would know the new one."""
        return asyncio.Lock()

    async def restart_kernel(self, *args: Any, **kwargs: Any) -> None:
        """Called for a restart request, and by the restarter."""
        async with self.restarting:
            if self.ending:
                raise LabError(text("The runtime is being shut down."))
            await super().restart_kernel(*args, **kwargs)
        if isinstance(self.parent, OwnlabKernelManager) and self.kernel_id in self.parent:
            await self.parent.announce_restart(self.kernel_id)


class OwnlabKernelManager(AsyncMappingKernelManager):
    """All kernels of a lab server."""

    # The provisioner looks for this attribute: the runtimes it starts then outlive the server, and may wait for a card.
    ownlab_lab = Unicode(None, allow_none=True, help="Id of the lab whose runtimes are adopted.").tag(config=True)

    stopping = False  # the server is stopping: a kernel that is missing in the table is not dead

    @default("kernel_manager_class")
    def _default_kernel_manager_class(self) -> str:
        return f"{__name__}.{RuntimeManager.__name__}"

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.activity = KernelActivity(self)
        self.adopted: list[Plan] = []  # not yet checked whether they have a session
        self._pages: dict[str, set[PageStream]] = {}
        if not self.ownlab_lab:
            return
        # Before the first request: Jupyter deletes a session whose kernel is not in the table.
        running, dead = find_adoptable(self.ownlab_lab, os.path.realpath(self.root_dir))
        for runtime in running:
            self.adopt(runtime)
        if dead:
            IOLoop.current().add_callback(self._remove_dead, dead)

    # -- adoption. Jupyter has no API for it: we set the same attributes of the kernel manager as `start_kernel` does.
    # The private names were checked with jupyter_client 8.10 and jupyter_server 2.21; tests/lab/server fail when they
    # change.

    def adopt(self, runtime: AdoptableRuntime) -> None:
        """Take over a runtime that another process has started."""
        plan, status, kernel_id = runtime.plan, runtime.status, runtime.plan.runtime
        kernel = self.kernel_manager_factory(
            connection_file=os.path.join(self.connection_dir, f"kernel-{kernel_id}.json"),
            parent=self,
            log=self.log,
            kernel_name=self._listed_name(plan.type),
            kernel_spec_manager=self.kernel_spec_manager,
        )
        kernel.kernel_id = kernel_id
        self._ensure_spec(kernel, plan)
        kernel.load_connection_info(status["connection"])
        kernel.write_connection_file()
        kernel._launch_args = {"cwd": plan.cwd, "env": {**os.environ, "JPY_SESSION_NAME": plan.notebook}}
        kernel._attempted_start = True
        kernel._ready = Future()
        kernel.provisioner = KernelProvisionerFactory.instance(parent=self).create_provisioner_instance(
            kernel_id, kernel.kernel_spec, parent=kernel
        )
        _apply_status(kernel, status)
        self._kernels[kernel_id] = kernel
        self._kernel_connections[kernel_id] = 0
        self._kernel_ports[kernel_id] = kernel.ports
        self.adopted.append(plan)
        KERNEL_CURRENTLY_RUNNING_TOTAL.labels(type=kernel.kernel_name).inc()
        IOLoop.current().add_callback(self._finish_adoption, kernel, runtime)

    async def _finish_adoption(self, kernel: RuntimeManager, runtime: AdoptableRuntime) -> None:
        """Finish an adoption in the event loop. It is queued before the first request, so it starts first."""
        kernel_id = runtime.plan.runtime
        assert kernel.provisioner is not None
        assert kernel._ready is not None
        try:
            await kernel.provisioner.load_provisioner_info({"kernel_id": kernel_id, "home": runtime.plan.home})
        except LabError as exc:  # it has just ended
            self.log.info("Runtime %s is not adopted: %s", kernel_id, exc)
            kernel._ready.set_exception(exc)
            self._handle_kernel_died(kernel_id)
            return
        kernel.start_restarter()
        # If the kernel dies within the next ten seconds, it is not treated as one that never started: it keeps its
        # ports.
        kernel._restarter._initial_startup = False
        kernel._connect_control_socket()
        self.start_watching_activity(kernel_id)
        kernel.last_activity = _last_activity(runtime.status)
        self.add_restart_callback(kernel_id, lambda: self._handle_kernel_died(kernel_id), "dead")
        self.initialize_culler()
        kernel._ready.set_result(None)
        self.log.info("Adopted runtime %s (%s).", kernel_id, kernel.execution_state)
        if plan_with_journal_socket(kernel_id) is None:
            await self._refresh_status(kernel, runtime.plan)

    async def _refresh_status(self, kernel: RuntimeManager, plan: Plan) -> None:
        """Read the status again: the cell may have ended between the first read and the subscription."""
        await asyncio.sleep(_SUBSCRIBE_SECONDS)
        before = kernel.execution_state
        try:
            status = await asyncio.to_thread(send_command, plan.control_endpoint, "status")
        except LabError as exc:  # it has ended, which the restarter notices, or it is suspended
            self.log.info("Runtime %s: %s", plan.runtime, exc)
            return
        if kernel.execution_state == before:
            _apply_status(kernel, status)

    def _listed_name(self, kernel_type: str) -> str:
        specs = self.kernel_spec_manager
        return specs.listed_name(kernel_type) if isinstance(specs, OwnlabSpecManager) else kernel_type

    def _ensure_spec(self, kernel: RuntimeManager, plan: Plan) -> None:
        try:
            assert kernel.kernel_spec is not None
        except NoSuchKernel:
            # The card is gone, or the environment was removed. The runtime still runs and can be stopped.
            provisioner = {"provisioner_name": PROVISIONER, "config": {}}
            kernel._kernel_spec = KernelSpec(
                display_name=plan.label,
                language="python",
                interrupt_mode="signal",
                metadata={"kernel_provisioner": provisioner, "ownlab": {"name": plan.type}},
            )

    async def _remove_dead(self, dead: list[Plan]) -> None:
        for plan in dead:
            self.log.info("Runtime %s died while the server was away.", plan.runtime)
        try:
            await asyncio.to_thread(remove_dead, dead)
        except OwnlabError as exc:
            self.log.warning("Cannot remove the files of dead runtimes: %s", exc)

    def known_ids(self) -> set[str]:
        """Return the ids of all kernels that run or are being started by this server."""
        return {*self.list_kernel_ids(), *self._pending_kernels}

    # -- pages and activity

    def start_buffering(self, kernel_id: str, session_key: str, channels: dict[str, Any]) -> None:
        """Called when the last client without a stream disconnects: messages are kept for its return, up to a limit."""
        if not channels:  # it did not read, and was disconnected
            return
        super().start_buffering(kernel_id, session_key, channels)
        if kernel_id not in self._kernel_buffers:
            return
        plan = plan_of(kernel_id)
        buffer = self._kernel_buffers[kernel_id]["buffer"]
        room = (plan.backlog_mb if plan else LabOptions().backlog_mb) << 20

        def add(channel: str, parts: list[bytes]) -> None:
            nonlocal room
            room -= sum(map(len, parts))
            if room >= 0:
                buffer.append((channel, parts))
            else:  # the notebook gets everything from the journal
                self.stop_buffering(kernel_id)

        for channel, stream in channels.items():
            stream.on_recv(partial(add, channel))

    def add_page(self, kernel_id: str, page: PageStream) -> None:
        """Register a page that is connected to a runtime."""
        self._pages.setdefault(kernel_id, set()).add(page)

    def remove_page(self, kernel_id: str, page: PageStream) -> None:
        """Remove a page that has disconnected."""
        pages = self._pages.get(kernel_id, set())
        pages.discard(page)
        if not pages:
            self._pages.pop(kernel_id, None)

    def has_other_clients(self, kernel_id: str) -> bool:
        """Return whether a client is connected to a runtime that is not a page of ours, for example VS Code."""
        return bool(self._kernel_connections.get(kernel_id, 0) > len(self._pages.get(kernel_id, ())))

    def start_watching_activity(self, kernel_id: str) -> None:
        """Called when a kernel was started or adopted."""
        plan = plan_with_journal_socket(kernel_id) if self._kernels[kernel_id].is_runtime else None
        if plan is None:
            super().start_watching_activity(kernel_id)
            return
        kernel = self._kernels[kernel_id]
        kernel.reason = ""
        kernel.last_activity = datetime.now(timezone.utc)
        self.activity.watch(kernel_id, kernel, plan.journal_endpoint)

    def stop_watching_activity(self, kernel_id: str) -> None:
        """Called before a kernel is shut down, and when one has died."""
        self.activity.stop(kernel_id)
        super().stop_watching_activity(kernel_id)

    def runtime_ended(self, kernel_id: str) -> None:
        """Called when a runtime has ended without a request to this server.

        The restarter would notice it seconds later. A page that connects its notebook meanwhile would change the kernel of a
        session that is about to vanish, and the new runtime would belong to no notebook.
        """
        restarter = self._kernels[kernel_id]._restarter if kernel_id in self else None
        if isinstance(restarter, OwnlabRestarter):
            restarter.give_up()

    async def announce_restart(self, kernel_id: str) -> None:
        """Wait until all pages know of the new kernel.

        The page that requested the restart opens a new connection when its request is answered, and would otherwise
        report a restart that it had missed.
        """
        plan = plan_with_journal_socket(kernel_id)
        if plan is None:
            return
        with contextlib.suppress(asyncio.TimeoutError):  # the supervisor is suspended, or a page is slow
            await asyncio.wait_for(self._announce_restart(kernel_id, plan), _RESTART_SECONDS)

    async def _announce_restart(self, kernel_id: str, plan: Plan) -> None:
        # After the restart, the runtime may have a new supervisor.
        hello = await self.activity.watch(kernel_id, self._kernels[kernel_id], plan.journal_endpoint)
        await asyncio.gather(*(page.wait_until_sent(hello.position) for page in self._pages.get(kernel_id, ())))

    # -- differences from Jupyter after adoption

    async def start_kernel(self, *, kernel_id: str | None = None, path: Any = None, **kwargs: Any) -> str:
        """Called by the REST API. The page knows the CPU type under one name only."""
        self.check_not_stopping()
        if kwargs.get("kernel_name"):
            kwargs["kernel_name"] = self._listed_name(kwargs["kernel_name"])
        if "env" not in kwargs and (notebook := self.notebook_file(path or "")):
            # A client that creates no session, such as jupyter-kernel-client, names its notebook here.
            kwargs["env"] = {**os.environ, "JPY_SESSION_NAME": notebook}
        started: str = await super()._async_start_kernel(kernel_id=kernel_id, path=path, **kwargs)
        return started

    def cwd_for_path(self, path: str, **kwargs: Any) -> str:
        """Called for the working folder of a new kernel, and by sessions to find their notebook."""
        if not is_drive_path(path):
            return str(super().cwd_for_path(path, **kwargs))
        try:
            root = drive_root()
        except LabError as exc:
            # A session of a drive that is no longer set up. Not the lab's folder: it contains other files.
            self.log.warning("Cannot find the folder of %s: %s", path, exc.message)
            return tempfile.gettempdir()
        folder = os.path.join(root, path_in_drive(path) or "")
        while len(folder) > len(root) and (not os.path.isdir(folder) or leaves_drive(folder, root)):
            folder = os.path.dirname(folder)
        # The drive may have been mounted by a kernel that has ended.
        return folder if os.path.isdir(folder) else tempfile.gettempdir()

    def notebook_file(self, path: str) -> str:
        """Return the file of a notebook by its path in the API; "" if the path is not one of a notebook in this lab.

        The name that a client gives its session does not matter.
        """
        if not path.endswith(".ipynb"):
            return ""
        if is_drive_path(path):
            return os.path.join(self.cwd_for_path(path), os.path.basename(path))
        file = os.path.normpath(to_os_path(ApiPath(path), self.root_dir))
        return file if file.startswith(os.path.join(os.path.normpath(self.root_dir), "")) else ""

    def check_not_stopping(self) -> None:
        """Answer 503 while the server stops: pages then treat it as unavailable and try again."""
        if self.stopping:
            raise PageError(503, text("The server is stopping."))

    async def shutdown_kernel(self, kernel_id: str, now: bool = False, restart: bool = False) -> None:
        """Called by the REST API, and for foreign kernels when the server stops."""
        self._check_kernel_id(kernel_id)
        kernel = self._kernels[kernel_id]
        kernel.ending = not restart
        try:
            async with kernel.restarting:
                if kernel_id in self:  # it may have died meanwhile
                    # A runtime that waits for a card has no kernel that could shut down gracefully.
                    await super()._async_shutdown_kernel(kernel_id, now=now or kernel.is_waiting, restart=restart)
        finally:
            if not restart and kernel.is_runtime:
                # Jupyter only forgets a kernel whose last start has failed.
                await asyncio.to_thread(end_if_alive, kernel_id, text("it was stopped"))

    async def restart_kernel(self, kernel_id: str, now: bool = False) -> Any:
        """Called by the REST API. A runtime that waits for a card has nothing to restart."""
        self._check_kernel_id(kernel_id)
        if self._kernels[kernel_id].is_waiting:
            return None
        return await super()._async_restart_kernel(kernel_id, now=now)

    async def shutdown_all(self, now: bool = False) -> None:
        """Called when the server stops: foreign kernels end with it, runtimes continue."""
        self.stopping = True
        # Jupyter's own implementation fails on a kernel that is just being started.
        starting = [task for task in self._pending_kernels.values() if not task.done()]
        if starting:
            await asyncio.wait(starting, timeout=_START_SECONDS)
        self._pending_kernels.clear()
        for kernel_id, kernel in list(self._kernels.items()):
            if kernel.is_runtime:
                self._release(kernel_id)
        await super()._async_shutdown_all(now=now)
        self.activity.close()

    def _release(self, kernel_id: str) -> None:
        kernel = self._kernels[kernel_id]
        kernel.stop_restarter()
        self.stop_watching_activity(kernel_id)
        self.stop_buffering(kernel_id)
        kernel._close_control_socket()
        self.remove_kernel(kernel_id)

    def _handle_kernel_died(self, kernel_id: str) -> None:
        """Called when a kernel is dead for good. Removes all traces of it."""
        if kernel_id not in self:
            return
        kernel = self._kernels[kernel_id]
        KERNEL_CURRENTLY_RUNNING_TOTAL.labels(type=kernel.kernel_name).dec()
        self.stop_watching_activity(kernel_id)
        self.stop_buffering(kernel_id)
        super()._handle_kernel_died(kernel_id)
        self._kernel_connections.pop(kernel_id, None)
        self._kernel_ports.pop(kernel_id, None)
        # Removes its connection file, its socket, and a supervisor that has no kernel any more.
        IOLoop.current().add_callback(kernel.cleanup_resources)


def _apply_status(kernel: RuntimeManager, status: dict[str, Any]) -> None:
    is_waiting = status["state"] in ("waiting", "starting")
    # If the supervisor is suspended, assume "busy": then nobody waits for a reply of the kernel.
    kernel.execution_state = "starting" if is_waiting else status.get("execution_state") or "busy"
    kernel.reason = ""
    kernel.last_activity = _last_activity(status)
    if status.get("kernel_info"):
        # Otherwise the first websocket would ask the kernel, which replies only after its running cell.
        known: Future[Any] = Future()
        known.set_result(status["kernel_info"])
        kernel._kernel_info_future = known


def _last_activity(status: dict[str, Any]) -> datetime:
    seconds = status.get("last_activity")
    return datetime.fromtimestamp(seconds, timezone.utc) if seconds else datetime.now(timezone.utc)

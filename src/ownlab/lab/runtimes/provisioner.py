"""The kernel provisioner: how jupyter_client starts and stops runtimes. Our kernelspecs name it.

The server, `jupyter execute` and papermill call it through their KernelManager. The kernel is the supervisor's child,
not ours: everything goes through the supervisor's control socket, in threads, so that no event loop blocks.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from jupyter_client.connect import KernelConnectionInfo
from jupyter_client.multikernelmanager import MultiKernelManager
from jupyter_client.provisioning.provisioner_base import KernelProvisionerBase
from tornado.web import HTTPError

from ownlab.errors import CardsTaken, LabError, OwnlabError
from ownlab.lab.runtimes import operations, start, state
from ownlab.lab.runtimes.kernel_variables import colab_variables, language_variables, startup_variables
from ownlab.lab.runtimes.launch_plan import Plan, read_plan
from ownlab.lab.transport.control import NotAnswering, send_command
from ownlab.text import sentence, sentences, text

__all__ = ["OwnlabProvisioner"]

_START_SECONDS = 60.0
_POLL_SECONDS = 0.1
# The notebook may have been renamed since the kernel was started first.
_SESSION = "JPY_SESSION_NAME"
# Supervisors started by this process, by runtime. A runtime that is not detached ends when the pipe to its supervisor
# is closed: keep it open even if a KernelManager is garbage collected.
_children: dict[str, subprocess.Popen[bytes]] = {}


class RestError(HTTPError):
    """One of our errors, in the only form whose message Jupyter's REST API passes on."""

    def __str__(self) -> str:
        return self.log_message or super().__str__()


class OwnlabProvisioner(KernelProvisionerBase):
    """A kernel behind a supervisor."""

    plan: Plan | None = None
    managed = False  # a kernel was launched and not waited for yet
    launching = False  # a kernel is being started: it is not dead
    first_env: Mapping[str, str] | None = None  # the environment of the first kernel; None: another process started it

    @property
    def has_process(self) -> bool:
        """Called by KernelManager: whether there is a kernel."""
        return self.managed

    # --- lifecycle ----------------------------------------------------------------------------------------------------

    async def pre_launch(self, **kwargs: Any) -> dict[str, Any]:
        """Called before each launch. No connection file is written here: the supervisor binds its ports itself."""
        kwargs.pop("transport_encryption", None)  # `_new_connection` reads it from the manager
        return await super().pre_launch(cmd=[], **kwargs)

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> KernelConnectionInfo:
        """Called to start and to restart the kernel. KernelManager uses the connection that is returned."""
        env: Mapping[str, str] = kwargs["env"]
        cwd = os.path.abspath(kwargs.get("cwd") or os.getcwd())
        self.launching = True
        try:
            if self.plan is None:
                now = await asyncio.to_thread(self._start, None, env, cwd, tuple(kwargs.get("extra_arguments") or ()))
            else:
                now = await asyncio.to_thread(self._restart, self.plan, env, cwd)
        except OwnlabError as exc:
            self._raise(exc)
        finally:
            self.launching = False
        self.managed = True
        self._use_connection(now["connection"])
        return self.connection_info

    async def poll(self) -> int | None:
        """Called every few seconds. None while the kernel lives or is starting."""
        if self.launching:
            return None
        if not self.managed or self.plan is None:
            return 0
        if self.plan.node is not None and not state.is_runtime_alive(self.plan.runtime):
            await asyncio.to_thread(start.revive, self.plan, self.first_env or os.environ)  # its job goes on
        return state.kernel_exit_code(self.plan.home)

    async def wait(self) -> int | None:
        """Called after the kernel has ended, or with the caller's own deadline."""
        while (code := await self.poll()) is None:
            await asyncio.sleep(_POLL_SECONDS)
        self.managed = False
        return code

    async def send_signal(self, signum: int) -> None:
        """Called to interrupt, and before each shutdown, when the kernel may already have ended, which is not an error."""
        await self._command("signal", signum, signum=signum)

    async def kill(self, restart: bool = False) -> None:
        """Called to kill the kernel. KernelManager passes `restart` only sometimes; `cleanup` always gets it."""
        await self._command("kill", signal.SIGKILL, restart=True)

    async def terminate(self, restart: bool = False) -> None:
        """Called if a shutdown request had no effect. Returns when the kernel has ended, or its time for on_end is over."""
        await self._command("terminate", signal.SIGTERM, restart=True)
        if self.plan is not None:
            with contextlib.suppress(asyncio.TimeoutError):  # KernelManager kills it then
                await asyncio.wait_for(self._ended(), self.plan.limits.on_end)

    async def shutdown_requested(self, restart: bool = False) -> None:
        """Called after a shutdown request was sent to the kernel."""
        await self._command("expect", None, restart=restart)

    async def cleanup(self, restart: bool = False) -> None:
        """Called last. Only here is it certain whether the runtime ends, or waits for its next kernel."""
        plan = self.plan
        if restart or plan is None:
            return
        self.managed, self.plan = False, None
        try:
            await asyncio.to_thread(
                operations.end_runtime, plan, _children.get(plan.runtime), "its kernel was shut down"
            )
        except LabError as exc:
            self.log.warning("%s", exc.message)
        finally:
            _children.pop(plan.runtime, None)

    # --- for servers that start later ---------------------------------------------------------------------------------

    async def get_provisioner_info(self) -> dict[str, Any]:
        """Return what another process needs to take over this runtime, as JSON values."""
        info = await super().get_provisioner_info()
        key = self.connection_info.get("key", b"")
        info["connection_info"] = {**self.connection_info, "key": key.decode() if isinstance(key, bytes) else key}
        info["home"] = self.plan.home if self.plan is not None else None
        return info

    async def load_provisioner_info(self, provisioner_info: dict[str, Any]) -> None:
        """Take over a runtime that another process started: {"kernel_id": …}, and "home" if it is elsewhere."""
        self.kernel_id = provisioner_info["kernel_id"]
        home = provisioner_info.get("home") or str(state.runtime_folder(str(self.kernel_id)))
        now = state.read_state(home)
        if now is None or not state.is_alive(now.get("supervisor")):
            raise LabError(text("Runtime {id} has ended.", id=self.kernel_id))
        self.plan = read_plan(os.path.join(home, "plan.json"))
        self._use_connection(now["connection"])
        self.managed = True

    def resolve_path(self, path: str) -> str | None:
        """Called when a debugger or a traceback names a file, relative to the kernel's folder."""
        file = Path(path).expanduser()
        if not file.is_absolute() and self.plan is not None:
            file = (Path(self.plan.cwd) / file).resolve()
        return file.as_posix() if file.exists() else None

    # --- in threads ---------------------------------------------------------------------------------------------------

    def _start(
        self, connection: Mapping[str, Any] | None, env: Mapping[str, str], cwd: str, extra: tuple[str, ...]
    ) -> dict[str, Any]:
        """Start a supervisor. Only our own server detaches kernels and lets them wait for a card."""
        lab: str | None = getattr(self._kernels(), "ownlab_lab", None)
        plan = start.make_plan(
            str(self.kernel_spec.metadata["ownlab"]["name"]),
            runtime=str(self.kernel_id),
            connection=connection or self._new_connection(),
            cwd=cwd,
            detached=lab is not None,
            wait=lab is not None,
            lab=lab,
            notebook=env.get(_SESSION, ""),
            extra_arguments=extra,
        )
        child = start.start_supervisor(plan, env)
        _children[plan.runtime] = child
        try:
            now = start.wait_until_started(plan, _START_SECONDS, child)
        except BaseException:
            del _children[plan.runtime]
            raise
        self.plan, self.first_env = plan, env
        return now

    def _restart(self, plan: Plan, env: Mapping[str, str], cwd: str) -> dict[str, Any]:
        """Start the next kernel of a runtime on the same cards and ports; with a new supervisor if the old one is gone."""
        now = state.read_state(plan.home)
        if now is None or not state.is_alive(now.get("supervisor")):
            if not start.revive(plan, env):
                return self._replace_supervisor(plan, env, cwd)
            now = state.read_state(plan.home) or {"state": "starting"}
        if now["state"] not in ("waiting", "starting"):  # otherwise its first kernel is still starting
            try:
                colab = colab_variables(env.get(_SESSION, ""), plan.runtime, env)
                changes = {**self._changes(env), **colab, **startup_variables(env), **language_variables(env)}
                send_command(plan.control_endpoint, "relaunch", timeout=_START_SECONDS, env=changes, cwd=cwd)
            except NotAnswering:  # it is ending, for example because its keeper was killed
                return self._replace_supervisor(plan, env, cwd)
        return start.wait_until_started(plan, _START_SECONDS, _children.get(plan.runtime))

    def _replace_supervisor(self, plan: Plan, env: Mapping[str, str], cwd: str) -> dict[str, Any]:
        operations.end_runtime(plan, _children.pop(plan.runtime, None), "its supervisor was gone")
        self.plan = None
        connection = {**self.connection_info, "key": _decode(self.connection_info["key"])}
        extra = tuple(plan.argv[4:])
        try:
            return self._start(connection, env, cwd, extra)
        except CardsTaken:
            raise
        except LabError:  # the ports may be in use by now
            ports = {name: 0 for name in connection if name.endswith("_port")}
            return self._start({**connection, **ports}, env, cwd, extra)

    # --- helpers ------------------------------------------------------------------------------------------------------

    async def _command(self, command: str, fallback: int | None, **values: Any) -> None:
        """Send a command to the supervisor; if it does not answer, signal the kernel directly."""
        now = state.read_state(self.plan.home) if self.plan is not None else None
        if self.plan is None or now is None:
            return
        if not state.has_kernel(now):
            if now["state"] in ("waiting", "starting") and command != "signal":
                self.managed = False  # there is no kernel to wait for: `cleanup` ends the runtime, or leaves it waiting
            return
        try:
            await asyncio.to_thread(send_command, self.plan.control_endpoint, command, **values)
        except LabError as exc:
            self.log.warning("%s", exc.message)
            if fallback is not None:
                operations.send_signal(now.get("kernel"), fallback, group=True)

    async def _ended(self) -> None:
        while await self.poll() is None:
            await asyncio.sleep(_POLL_SECONDS)

    def _changes(self, env: Mapping[str, str]) -> dict[str, str]:
        if self.first_env is None:
            return {_SESSION: env[_SESSION]} if _SESSION in env else {}
        return {name: value for name, value in env.items() if self.first_env.get(name) != value}

    def _new_connection(self) -> dict[str, Any]:
        """Unix sockets, which their folder protects; TCP for a client that insists on encryption."""
        session = getattr(self.parent, "session", None)
        key = session.key.decode() if session is not None else ""
        required = str(getattr(self.parent, "transport_encryption", "")).lower() == "required"
        return start.tcp_connection(key) if required else start.new_connection(key)

    def _use_connection(self, connection: Mapping[str, Any]) -> None:
        self.connection_info = _to_jupyter(connection)
        if self.parent is not None:
            # KernelManager removes Unix sockets at every restart. These belong to the supervisor, which removes them at its end.
            self.parent.cleanup_ipc_files = _keep_sockets

    def _kernels(self) -> MultiKernelManager | None:
        owner = getattr(self.parent, "parent", None)
        return owner if isinstance(owner, MultiKernelManager) else None

    def _raise(self, error: OwnlabError) -> NoReturn:
        """Raise our error: unchanged for programs, as RestError for a server, so that its message reaches the page."""
        if self._kernels() is None:
            raise error
        message = sentences(*(sentence(part) for part in (error.message, error.hint) if part))
        raise RestError(error.http_status, message) from error


def _to_jupyter(connection: Mapping[str, Any]) -> KernelConnectionInfo:
    """The HMAC key as bytes, the curve keys as text: otherwise KernelManager considers them different from its own."""
    info: KernelConnectionInfo = {**connection, "key": connection["key"].encode()}  # type: ignore[typeddict-item]
    return info


def _keep_sockets() -> None:
    """Leave the sockets of a supervisor where they are."""


def _decode(key: Any) -> str:
    return key.decode() if isinstance(key, bytes) else str(key)

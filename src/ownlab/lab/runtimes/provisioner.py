"""How jupyter_client starts and ends runtimes: the provisioner that our kernelspecs name.

The server, `jupyter execute` and papermill call it through their KernelManager. The kernel is the supervisor's child,
not ours: all that is done to it goes through the supervisor's control socket, in threads, so that no event loop waits.
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
from ownlab.lab.runtimes.kernel_variables import colab_variables, startup_variables
from ownlab.lab.runtimes.plan import Plan, read_plan
from ownlab.lab.transport.control import NotAnswering, ask

__all__ = ["OwnlabProvisioner"]

_START_SECONDS = 60.0
_POLL_SECONDS = 0.1
# The notebook may have been renamed since the kernel was first started.
_SESSION = "JPY_SESSION_NAME"
# What this process has started, by runtime. A kernel that is to end with its starter ends when that lets go of the pipe
# to its supervisor: not before, so not when a KernelManager is forgotten.
_children: dict[str, subprocess.Popen[bytes]] = {}


class ToldToServer(HTTPError):
    """An error of ours in the one shape whose words Jupyter's REST API passes on."""

    def __str__(self) -> str:
        return self.log_message or super().__str__()


class OwnlabProvisioner(KernelProvisionerBase):
    """A kernel behind a supervisor."""

    plan: Plan | None = None
    managed = False  # a kernel was launched, and has not been waited for to its end
    launching = False  # a kernel is about to be there: it is not dead
    first_env: Mapping[str, str] | None = None  # what the kernel was first started with; None: by another process

    @property
    def has_process(self) -> bool:
        """Asked by KernelManager: whether there is a kernel to speak of."""
        return self.managed

    # --- the kernel's life --------------------------------------------------------------------------------------------

    async def pre_launch(self, **kwargs: Any) -> dict[str, Any]:
        """Called before each launch. No connection file is written here: the supervisor binds its ports itself."""
        kwargs.pop("transport_encryption", None)  # clients always have to encrypt
        return await super().pre_launch(cmd=[], **kwargs)

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> KernelConnectionInfo:
        """Called to start the kernel, and to start it again. KernelManager takes the connection that is returned."""
        env: Mapping[str, str] = kwargs["env"]
        cwd = os.path.abspath(kwargs.get("cwd") or os.getcwd())
        self.launching = True
        try:
            if self.plan is None:
                now = await asyncio.to_thread(self._start, None, env, cwd, tuple(kwargs.get("extra_arguments") or ()))
            else:
                now = await asyncio.to_thread(self._start_again, self.plan, env, cwd)
        except OwnlabError as exc:
            self._tell(exc)
        finally:
            self.launching = False
        self.managed = True
        self.connection_info = _as_jupyter_wants(now["connection"])
        return self.connection_info

    async def poll(self) -> int | None:
        """Called every few seconds: None while the kernel lives, or is still to come."""
        if self.launching:
            return None
        if not self.managed or self.plan is None:
            return 0
        return state.exit_code(self.plan.home)

    async def wait(self) -> int | None:
        """Called once the kernel has ended, or under a deadline of the caller's."""
        while (code := await self.poll()) is None:
            await asyncio.sleep(_POLL_SECONDS)
        self.managed = False
        return code

    async def send_signal(self, signum: int) -> None:
        """Called to interrupt; also before each shutdown, when the kernel may be gone, which is no error."""
        await self._do("signal", signum, signum=signum)

    async def kill(self, restart: bool = False) -> None:
        """Called to end the kernel at once. KernelManager says `restart` only sometimes: `cleanup` knows."""
        await self._do("kill", signal.SIGKILL, restart=True)

    async def terminate(self, restart: bool = False) -> None:
        """Called where a shutdown request was not heeded. Returns when the kernel has ended, or has had its seconds."""
        await self._do("terminate", signal.SIGTERM, restart=True)
        if self.plan is not None:
            with contextlib.suppress(asyncio.TimeoutError):  # KernelManager kills it then
                await asyncio.wait_for(self._ended(), self.plan.limits.on_end)

    async def shutdown_requested(self, restart: bool = False) -> None:
        """Called after a shutdown request was sent to the kernel."""
        await self._do("expect", None, restart=restart)

    async def cleanup(self, restart: bool = False) -> None:
        """Called last. Only here it is certain whether the runtime ends, or waits for its next kernel."""
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

    # --- for servers that come after ----------------------------------------------------------------------------------

    async def get_provisioner_info(self) -> dict[str, Any]:
        """What another process needs to go on with this runtime; can be written as JSON."""
        info = await super().get_provisioner_info()
        key = self.connection_info.get("key", b"")
        info["connection_info"] = {**self.connection_info, "key": key.decode() if isinstance(key, bytes) else key}
        info["home"] = self.plan.home if self.plan is not None else None
        return info

    async def load_provisioner_info(self, provisioner_info: dict[str, Any]) -> None:
        """Go on with a runtime that another process has started: {"kernel_id": …}, and "home" where that is elsewhere."""
        self.kernel_id = provisioner_info["kernel_id"]
        home = provisioner_info.get("home") or str(state.runtime_folder(str(self.kernel_id)))
        now = state.read_state(home)
        if now is None or not state.lives(now.get("supervisor")):
            raise LabError(f"runtime {self.kernel_id} has ended")
        self.plan = read_plan(os.path.join(home, "plan.json"))
        self.connection_info = _as_jupyter_wants(now["connection"])
        self.managed = True

    def resolve_path(self, path: str) -> str | None:
        """Asked where a debugger or a traceback names a file: relative to the kernel's folder."""
        found = Path(path).expanduser()
        if not found.is_absolute() and self.plan is not None:
            found = (Path(self.plan.cwd) / found).resolve()
        return found.as_posix() if found.exists() else None

    # --- in threads ---------------------------------------------------------------------------------------------------

    def _start(
        self, connection: Mapping[str, Any] | None, env: Mapping[str, str], cwd: str, extra: tuple[str, ...]
    ) -> dict[str, Any]:
        """A new supervisor. Only our own server leaves kernels behind, and lets them wait for a card."""
        lab: str | None = getattr(self._kernels(), "ownlab_lab", None)
        session = getattr(self.parent, "session", None)
        plan = start.make_plan(
            str(self.kernel_spec.metadata["ownlab"]["name"]),
            runtime=str(self.kernel_id),
            connection=connection or start.fresh_connection(session.key.decode() if session is not None else ""),
            cwd=cwd,
            detached=lab is not None,
            wait=lab is not None,
            lab=lab,
            notebook=env.get(_SESSION, ""),
            extra_arguments=extra,
        )
        child = start.spawn(plan, env)
        _children[plan.runtime] = child
        try:
            now = start.await_state(plan, _START_SECONDS, child)
        except BaseException:
            del _children[plan.runtime]
            raise
        self.plan, self.first_env = plan, env
        return now

    def _start_again(self, plan: Plan, env: Mapping[str, str], cwd: str) -> dict[str, Any]:
        """The next kernel of a runtime: same cards, same ports. Where its supervisor is gone, a new one."""
        now = state.read_state(plan.home)
        if now is None or not state.lives(now.get("supervisor")):
            return self._start_anew(plan, env, cwd)
        if now["state"] not in ("waiting", "starting"):  # else its first kernel is still to come
            try:
                colab = colab_variables(env.get(_SESSION, ""), plan.runtime, env)
                changes = {**self._changes(env), **colab, **startup_variables(env)}
                ask(plan.sockets, "relaunch", timeout=_START_SECONDS, env=changes, cwd=cwd)
            except NotAnswering:  # it is ending, because its keeper was killed, say
                return self._start_anew(plan, env, cwd)
        return start.await_state(plan, _START_SECONDS, _children.get(plan.runtime))

    def _start_anew(self, plan: Plan, env: Mapping[str, str], cwd: str) -> dict[str, Any]:
        operations.end_runtime(plan, _children.pop(plan.runtime, None), "its supervisor was gone")
        self.plan = None
        connection = {**self.connection_info, "key": _text(self.connection_info["key"])}
        extra = tuple(plan.argv[4:])
        try:
            return self._start(connection, env, cwd, extra)
        except CardsTaken:
            raise
        except LabError:  # the ports may be in other hands meanwhile
            ports = {name: 0 for name in connection if name.endswith("_port")}
            return self._start({**connection, **ports}, env, cwd, extra)

    # --- what the above share -----------------------------------------------------------------------------------------

    async def _do(self, do: str, fallback: int | None, **values: Any) -> None:
        """Ask the supervisor; where it does not answer, its kernel is sent the signal all the same."""
        now = state.read_state(self.plan.home) if self.plan is not None else None
        if self.plan is None or now is None:
            return
        if not state.lives(now.get("kernel")):
            if now["state"] in ("waiting", "starting") and do != "signal":
                self.managed = False  # there is nothing to wait for: `cleanup` ends it, or lets it go on waiting
            return
        try:
            await asyncio.to_thread(ask, self.plan.sockets, do, **values)
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

    def _kernels(self) -> MultiKernelManager | None:
        owner = getattr(self.parent, "parent", None)
        return owner if isinstance(owner, MultiKernelManager) else None

    def _tell(self, error: OwnlabError) -> NoReturn:
        """Raise it: as it is for programs, so that its words come through where a server has to pass them on."""
        if self._kernels() is None:
            raise error
        words = [part.rstrip(".") for part in (error.message, error.hint) if part]
        raise ToldToServer(error.http_status, ". ".join(words) + ".") from error


def _as_jupyter_wants(connection: Mapping[str, Any]) -> KernelConnectionInfo:
    """The HMAC key as bytes, the curve keys as text: else KernelManager finds that they differ from its own."""
    wanted: KernelConnectionInfo = {**connection, "key": connection["key"].encode()}  # type: ignore[typeddict-item]
    return wanted


def _text(key: Any) -> str:
    return key.decode() if isinstance(key, bytes) else str(key)

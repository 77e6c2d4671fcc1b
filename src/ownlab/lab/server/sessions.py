"""Sessions that survive a restart of the server, with the same ids."""

# mypy: disable-error-code="no-untyped-call"
# (jupyter_server claims to be typed, but most of its methods are not.)

from __future__ import annotations

import asyncio
import os
import sqlite3
from functools import cached_property
from typing import Any

from jupyter_server.services.sessions.sessionmanager import ModelName, SessionManager
from traitlets import validate

from ownlab.errors import LabError
from ownlab.lab.runtimes.state import plan_of
from ownlab.lab.server.adoption import RuntimeAdopter
from ownlab.lab.server.kernels import OwnlabKernelManager
from ownlab.lab.transport.control import send_command

__all__ = ["OwnlabSessionManager"]


class OwnlabSessionManager(SessionManager):
    """Jupyter's session manager with its table in a file. It tells runtimes when their notebook is renamed."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        # An adopted kernel has the notebook name from its start in its environment; after a restart it gets the current
        # name.
        for row in self.cursor.execute("SELECT path, name, kernel_id FROM session").fetchall():
            self.kernel_manager.update_env(
                kernel_id=row["kernel_id"], env=self.get_kernel_env(row["path"], row["name"])
            )

    @validate("database_filepath")
    def _validate_database_filepath(self, proposal: Any) -> str:
        """Skip Jupyter's check: it refuses to start the server if the file is damaged."""
        path: str = proposal["value"]
        return path

    async def kernel_culled(self, kernel_id: str) -> bool:
        """Called for each session that is read. A session whose kernel is gone is deleted."""
        if isinstance(self.kernel_manager, OwnlabKernelManager):
            self.kernel_manager.check_not_stopping()
        culled: bool = await super().kernel_culled(kernel_id)
        return culled

    async def list_sessions(self) -> list[dict[str, Any]]:
        """Called by pages every few seconds, and when a notebook is opened."""
        await self.adopter.adopt_new()
        sessions: list[dict[str, Any]] = await super().list_sessions()
        return sessions

    async def session_exists(self, path: str) -> bool:
        """Called before a notebook gets a kernel."""
        await self.adopter.adopt_new()
        return await self.has_session(path)

    async def has_session(self, path: str) -> bool:
        """Return whether a notebook has a session, without looking for new runtimes."""
        exists: bool = await super().session_exists(path)
        return exists

    def has_kernel(self, kernel_id: str) -> bool:
        """Return whether a kernel has a session."""
        row = self.cursor.execute("SELECT 1 FROM session WHERE kernel_id=?", [kernel_id]).fetchone()
        return row is not None

    def get_kernel_env(self, path: str | None, name: ModelName | None = None) -> dict[str, str]:
        """Called for the environment of a kernel. A session belongs to the notebook at its path, whatever its name.

        JupyterLab names sessions after their file; VS Code and other clients do not.
        """
        notebook = self._notebook_file(path)
        return {**os.environ, "JPY_SESSION_NAME": notebook} if notebook else dict(super().get_kernel_env(path, name))

    def _notebook_file(self, path: str | None) -> str:
        return self.kernel_manager.notebook_file(path) if path else ""

    async def move_to_notebook(self, kernel_id: str, notebook: str) -> None:
        """Record that a client executes cells of this notebook file. Ignored if the file is not in this lab."""
        plan = plan_of(kernel_id)
        root = os.path.realpath(self.kernel_manager.root_dir)
        file = os.path.realpath(notebook)
        if (
            plan is None
            or not file.startswith(os.path.join(root, ""))
            or not await asyncio.to_thread(os.path.isfile, file)
        ):
            return
        inside = os.path.join(self.kernel_manager.root_dir, os.path.relpath(file, root))
        if inside != plan.notebook:
            await self._rename_notebook(kernel_id, inside)

    @cached_property
    def adopter(self) -> RuntimeAdopter:
        """Adopts notebooks in our folder that run without a page."""
        assert isinstance(self.kernel_manager, OwnlabKernelManager)
        return RuntimeAdopter(self.kernel_manager.root_dir, self.kernel_manager, self)

    @property
    def connection(self) -> sqlite3.Connection:
        """Called by Jupyter for every query."""
        if self._connection is None:
            self._connection = _open(self.database_filepath, self.log.warning)
        return self._connection

    def close(self) -> None:
        """Called when the server stops. Jupyter's method leaves the connection to the garbage collector."""
        super().close()
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    async def save_session(self, session_id: str, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Called when a notebook is opened, also with an existing kernel."""
        model: dict[str, Any] = await super().save_session(session_id, *args, **kwargs)
        row = self.cursor.execute("SELECT * FROM session WHERE session_id=?", [session_id]).fetchone()
        if row is not None and row["type"] == "notebook":
            notebook = self.get_kernel_env(row["path"], row["name"])["JPY_SESSION_NAME"]
            plan = plan_of(row["kernel_id"])
            if plan is not None and plan.notebook != notebook:
                await self._rename_notebook(row["kernel_id"], notebook)
        return model

    async def update_session(self, session_id: str, **kwargs: Any) -> None:
        """Called when a notebook was renamed or moved, or got another kernel."""
        await super().update_session(session_id, **kwargs)
        row = self.cursor.execute("SELECT * FROM session WHERE session_id=?", [session_id]).fetchone()
        if kwargs and row["type"] == "notebook":  # a console may share the kernel of a notebook
            await self._rename_notebook(
                row["kernel_id"], self.get_kernel_env(row["path"], row["name"])["JPY_SESSION_NAME"]
            )

    async def _rename_notebook(self, kernel_id: str, notebook: str) -> None:
        plan = plan_of(kernel_id)
        if plan is None:  # a foreign kernel
            return
        try:
            await asyncio.to_thread(send_command, plan.control_endpoint, "rename", notebook=notebook)
        except LabError as exc:
            # The notebook was renamed nevertheless; lists continue to show its old name.
            self.log.warning("Cannot tell runtime %s that its notebook is now %s: %s", kernel_id, notebook, exc)


def _open(path: str, warn: Any) -> sqlite3.Connection:
    """Open the session table, readable by its owner only. A damaged file is replaced by a new one."""
    if path != ":memory:":
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    try:
        return _connect(path)
    except sqlite3.DatabaseError as exc:
        if isinstance(exc, sqlite3.OperationalError):  # disk full, or locked: a new file would not help
            raise
        warn("The session file of this lab is damaged (%s). Open notebooks have lost their kernels.", exc)
        os.replace(path, f"{path}.damaged")
        return _open(path, warn)


def _connect(path: str) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.row_factory = sqlite3.Row
    try:
        # Do not wait for the disk: only a power failure could damage the file, and after one all kernels are gone
        # anyway.
        connection.execute("PRAGMA synchronous=OFF")
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.DatabaseError:
        connection.close()
        raise
    return connection

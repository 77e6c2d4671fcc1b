"""Sessions that are still there, with the same ids, when the server comes back."""

# mypy: disable-error-code="no-untyped-call"
# (jupyter_server says that it is typed; most of its methods are not.)

from __future__ import annotations

import asyncio
import os
import sqlite3
from functools import cached_property
from typing import Any

from jupyter_server.services.sessions.sessionmanager import SessionManager
from traitlets import validate

from ownlab.errors import LabError
from ownlab.lab.runtimes.state import plan_of
from ownlab.lab.server.kernels import OwnlabKernelManager
from ownlab.lab.server.runs import Runs
from ownlab.lab.transport.control import send_command

__all__ = ["OwnlabSessionManager"]


class OwnlabSessionManager(SessionManager):
    """Jupyter's own, with its table in a file, and with renames told to the runtime."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        # Adopted kernels know the name that their notebook had when they were started; a restart gives them its own.
        for row in self.cursor.execute("SELECT path, name, kernel_id FROM session").fetchall():
            self.kernel_manager.update_env(
                kernel_id=row["kernel_id"], env=self.get_kernel_env(row["path"], row["name"])
            )

    @validate("database_filepath")
    def _validate_database_filepath(self, proposal: Any) -> str:
        """Jupyter's own refuses a damaged file, and with it the whole server."""
        path: str = proposal["value"]
        return path

    async def kernel_culled(self, kernel_id: str) -> bool:
        """Called with each session that is looked at: one whose kernel is gone is deleted."""
        if isinstance(self.kernel_manager, OwnlabKernelManager):
            self.kernel_manager.check_not_leaving()
        culled: bool = await super().kernel_culled(kernel_id)
        return culled

    async def list_sessions(self) -> list[dict[str, Any]]:
        """Called by pages every few seconds, and where one opens a notebook."""
        await self.runs.look()
        found: list[dict[str, Any]] = await super().list_sessions()
        return found

    async def session_exists(self, path: str) -> bool:
        """Called before a notebook gets a kernel."""
        await self.runs.look()
        return await self.has(path)

    async def has(self, path: str) -> bool:
        """Whether a notebook has a kernel, as far as is known."""
        exists: bool = await super().session_exists(path)
        return exists

    def has_kernel(self, kernel_id: str) -> bool:
        """Whether a kernel has a session."""
        found = self.cursor.execute("SELECT 1 FROM session WHERE kernel_id=?", [kernel_id]).fetchone()
        return found is not None

    @cached_property
    def runs(self) -> Runs:
        """Notebooks in our folder that are run without a page."""
        assert isinstance(self.kernel_manager, OwnlabKernelManager)
        return Runs(self.kernel_manager.root_dir, self.kernel_manager, self)

    @property
    def connection(self) -> sqlite3.Connection:
        """Called by Jupyter for every query."""
        if self._connection is None:
            self._connection = _open(self.database_filepath, self.log.warning)
        return self._connection

    def close(self) -> None:
        """Called when the server ends. Jupyter's own leaves the connection to the garbage collector."""
        super().close()
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    async def save_session(self, session_id: str, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Called where a notebook is opened, also with a kernel that is there already."""
        model: dict[str, Any] = await super().save_session(session_id, *args, **kwargs)
        row = self.cursor.execute("SELECT * FROM session WHERE session_id=?", [session_id]).fetchone()
        if row is not None and row["type"] == "notebook":
            notebook = self.get_kernel_env(row["path"], row["name"])["JPY_SESSION_NAME"]
            plan = plan_of(row["kernel_id"])
            if plan is not None and plan.notebook != notebook:
                await self._rename(row["kernel_id"], notebook)
        return model

    async def update_session(self, session_id: str, **kwargs: Any) -> None:
        """Called where a notebook was renamed or moved, or got another kernel."""
        await super().update_session(session_id, **kwargs)
        row = self.cursor.execute("SELECT * FROM session WHERE session_id=?", [session_id]).fetchone()
        if kwargs and row["type"] == "notebook":  # a console may share the kernel of a notebook
            await self._rename(row["kernel_id"], self.get_kernel_env(row["path"], row["name"])["JPY_SESSION_NAME"])

    async def _rename(self, kernel_id: str, notebook: str) -> None:
        plan = plan_of(kernel_id)
        if plan is None:  # no runtime of ours
            return
        try:
            await asyncio.to_thread(send_command, plan.sockets, "rename", notebook=notebook)
        except LabError as exc:
            # The notebook was renamed all the same; lists go on showing its old name.
            self.log.warning("Runtime %s was not told that its notebook is now %s: %s", kernel_id, notebook, exc)


def _open(path: str, warn: Any) -> sqlite3.Connection:
    """The table of sessions, readable by its owner alone; a new one where the old one is damaged."""
    if path != ":memory:":
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    try:
        return _connect(path)
    except sqlite3.DatabaseError as exc:
        if isinstance(exc, sqlite3.OperationalError):  # a full disk, a lock: nothing that a new file would mend
            raise
        warn(
            "The sessions of this lab are lost, their file is damaged (%s): notebooks find their kernels no more.", exc
        )
        os.replace(path, f"{path}.damaged")
        return _open(path, warn)


def _connect(path: str) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.row_factory = sqlite3.Row
    try:
        # No waiting for the disk: after a power cut, which alone could damage the file, no kernel is left to belong to.
        connection.execute("PRAGMA synchronous=OFF")
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.DatabaseError:
        connection.close()
        raise
    return connection

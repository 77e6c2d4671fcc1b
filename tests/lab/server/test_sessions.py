"""Sessions in a file: they survive the server, tell runtimes of renames, and a damaged file does not stop the server."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from jupyter_server.services.contents.filemanager import AsyncFileContentsManager
from tornado.web import HTTPError

from ownlab.lab.server.kernels import OwnlabKernelManager
from ownlab.lab.server.sessions import OwnlabSessionManager

if TYPE_CHECKING:
    from tests.lab.server.conftest import LabServer


def test_a_rename_reaches_every_list(new_lab: Callable[..., LabServer], until: Callable[..., Any]) -> None:
    lab = new_lab().start()
    session = lab.session("before.ipynb")
    change = {"path": "after.ipynb", "name": "after.ipynb", "type": "notebook"}
    lab.client.patch(f"{lab.url}/api/sessions/{session['id']}", json=change).raise_for_status()
    expected = str(lab.folder / "after.ipynb")
    until(
        lambda: [runtime["notebook"] for runtime in lab.get("/ownlab/api/snapshot").json()["runtimes"]] == [expected],
        "the list shows its new name",
    )
    lab.end(signal.SIGKILL)
    lab.start()
    assert [(session["id"], session["path"]) for session in lab.get("/api/sessions").json()] == [
        (session["id"], "after.ipynb")
    ]


def test_a_damaged_file_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OWNLAB_HOME", str(tmp_path / "state"))
    file = tmp_path / "sessions.db"
    file.write_bytes(b"no database at all" * 100)
    sessions = OwnlabSessionManager(
        database_filepath=str(file),
        kernel_manager=OwnlabKernelManager(),
        contents_manager=AsyncFileContentsManager(root_dir=str(tmp_path)),
    )
    try:
        assert asyncio.run(sessions.list_sessions()) == []
    finally:
        sessions.close()
    assert file.stat().st_mode & 0o777 == 0o600
    assert file.with_name("sessions.db.damaged").exists()


def test_a_stopping_server_deletes_no_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has released its kernels but still gets requests: they are not dead, and the next server finds them again."""
    monkeypatch.setenv("OWNLAB_HOME", str(tmp_path / "state"))
    kernels = OwnlabKernelManager()
    sessions = OwnlabSessionManager(
        database_filepath=str(tmp_path / "sessions.db"),
        kernel_manager=kernels,
        contents_manager=AsyncFileContentsManager(root_dir=str(tmp_path)),
    )
    row = ("a-session", "train.ipynb", "train.ipynb", "notebook", "a-kernel")
    try:
        sessions.cursor.execute("INSERT INTO session VALUES (?, ?, ?, ?, ?)", row)
        kernels.stopping = True
        with pytest.raises(HTTPError) as raised:
            asyncio.run(sessions.list_sessions())
        assert raised.value.status_code == 503
        assert len(sessions.cursor.execute("SELECT * FROM session").fetchall()) == 1
        kernels.stopping = False
        assert asyncio.run(sessions.list_sessions()) == []
    finally:
        sessions.close()

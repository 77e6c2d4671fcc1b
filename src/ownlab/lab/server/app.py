"""The server of a lab: JupyterLab with our configuration, started by the watchdog as `python -m ownlab.lab.server`.

What is not needed to answer the first request is imported and done after the server listens.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from ownlab.config.paths import kernels_folder
from ownlab.errors import LabError, OwnlabError, UsageError
from ownlab.lab.runtimes.records import CPU_TYPE
from ownlab.lab.service.labs import Lab, lab_id, labs_folder, lock_holder, take_lock, write_lab
from ownlab.lab.service.ports import HOST, is_free

if TYPE_CHECKING:
    from jupyter_server.serverapp import ServerApp
    from traitlets.config import Config

__all__ = ["EXTENSION", "lab_config", "main"]

# The module that Jupyter loads for our routes.
EXTENSION = "ownlab.lab.server.extension"
# We have a door of our own to what it does: see ports.py.
PROXY = "jupyter_server_proxy"


def main(argv: Sequence[str] | None = None) -> int:
    """Serve a folder until we are told to end; the exit code."""
    # At once, so that nothing that we start ever sees it.
    token = os.environ.pop("OWNLAB_TOKEN", "")
    try:
        return _serve(*_arguments(argv), token)
    except OwnlabError as exc:
        sys.stderr.write(f"ownlab: {exc.message}\n" + (f"{exc.hint}\n" if exc.hint else ""))
        return exc.exit_code


def lab_config(folder: str, port: int, token: str) -> Config:
    """What differs from a plain `jupyter lab`. It counts more than the person's own Jupyter configuration files."""
    from traitlets.config import Config

    lab = lab_id(folder)
    config = Config()
    config.ServerApp.ip = HOST
    config.ServerApp.port = port
    config.ServerApp.port_retries = 0  # pages that are open know this port
    config.ServerApp.open_browser = False
    config.ServerApp.root_dir = folder
    config.ServerApp.answer_yes = True
    # On a rented machine everybody is root. We listen on the loopback alone, and with a token.
    config.ServerApp.allow_root = True
    config.ServerApp.jpserver_extensions = {EXTENSION: True, PROXY: False}
    config.ServerApp.kernel_manager_class = "ownlab.lab.server.kernels.OwnlabKernelManager"
    config.ServerApp.kernel_spec_manager_class = "ownlab.lab.server.kernelspecs.OwnlabSpecManager"
    config.ServerApp.contents_manager_class = "ownlab.lab.server.contents.OwnlabContents"
    config.ServerApp.session_manager_class = "ownlab.lab.server.sessions.OwnlabSessionManager"
    config.ServerApp.kernel_websocket_connection_class = "ownlab.lab.server.connection.OwnlabConnection"
    config.IdentityProvider.token = token
    config.LabApp.collaborative = False
    config.OwnlabKernelManager.ownlab_lab = lab
    config.OwnlabContents.written_file = str(labs_folder() / f"{lab}.written")
    config.OwnlabSessionManager.database_filepath = str(labs_folder() / f"{lab}.sessions.db")
    return config


def _arguments(argv: Sequence[str] | None) -> tuple[str, int]:
    parser = argparse.ArgumentParser(prog="python -m ownlab.lab.server", description=__doc__)
    parser.add_argument("--folder", required=True, help="the folder that is served")
    parser.add_argument("--port", type=int, required=True)
    given = parser.parse_args(argv)
    return os.path.realpath(given.folder), given.port


def _serve(folder: str, port: int, token: str) -> int:
    if not token:
        raise UsageError("OWNLAB_TOKEN is not set: a lab without a token would be open to everybody on this machine")
    if not os.path.isdir(folder):
        raise LabError(f"there is no folder {folder}")
    # One server for each lab: whoever holds this lock may adopt the lab's runtimes.
    lock = take_lock(folder)
    if lock is None:
        other = lock_holder(folder)
        raise LabError(f"{folder} is served already" + (f" by process {other.pid} on {other.host}" if other else ""))
    with lock:
        if not is_free(port):
            raise LabError(f"port {port} is in use", hint="Give another one with --port.")
        return _run(folder, port, token)


def _run(folder: str, port: int, token: str) -> int:
    from jupyterlab.labapp import LabApp  # type: ignore[import-untyped]

    if not (kernels_folder() / CPU_TYPE).exists():
        from ownlab.lab.server.machine_reader import ensure_specs

        ensure_specs()
    server: ServerApp = LabApp.initialize_server(argv=[], config=lab_config(folder, port, token))
    lab = Lab(lab_id(folder), folder, server.connection_url, token, port, os.getpid(), time.time(), "ready")
    # The socket listens since `initialize_server`; this runs when the loop does, and answers.
    server.io_loop.add_callback(write_lab, lab)
    server.start()
    write_lab(msgspec.structs.replace(lab, state="down"))
    return 0

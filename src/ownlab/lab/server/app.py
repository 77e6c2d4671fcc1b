"""The server of a lab: JupyterLab with ownlab's configuration. The watchdog runs `python -m ownlab.lab.server`.

Everything that is not needed to answer the first request is imported after the server listens.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

import ownlab.lab
from ownlab.config.paths import kernels_folder
from ownlab.errors import LabError, OwnlabError, UsageError
from ownlab.lab.runtimes.records import CPU_TYPE
from ownlab.lab.service.labs import Lab, lab_id, labs_folder, lock_holder, take_lock, write_lab
from ownlab.lab.service.ports import HOST, is_free
from ownlab.text import text

if TYPE_CHECKING:
    from jupyter_server.serverapp import ServerApp
    from traitlets.config import Config

__all__ = ["EXTENSION", "PAGE_EXTENSIONS", "lab_config", "main"]

# The module that Jupyter loads for our routes.
EXTENSION = "ownlab.lab.server.extension"
# Disabled: port_proxy.py has a safer route to the same code.
PROXY = "jupyter_server_proxy"
# The folder of our JupyterLab extension (labextension/hatch_build.py). A plain `jupyter lab` does not look there.
PAGE_EXTENSIONS = Path(ownlab.lab.__file__).with_name("labextensions")


def main(argv: Sequence[str] | None = None) -> int:
    """Serve a folder until the server is stopped. Return the exit code."""
    # Remove it from the environment at once, so that no child process inherits it.
    token = os.environ.pop("OWNLAB_TOKEN", "")
    try:
        return _serve(*_arguments(argv), token)
    except OwnlabError as exc:
        sys.stderr.write(f"ownlab: {exc.message}\n" + (f"{exc.hint}\n" if exc.hint else ""))
        return exc.exit_code


def lab_config(folder: str, port: int, token: str) -> Config:
    """Return what differs from a plain `jupyter lab`. It overrides the user's own Jupyter configuration files."""
    from traitlets.config import Config

    lab = lab_id(folder)
    config = Config()
    config.ServerApp.ip = HOST
    config.ServerApp.port = port
    config.ServerApp.port_retries = 0  # open pages know this port
    config.ServerApp.open_browser = False
    config.ServerApp.root_dir = folder
    config.ServerApp.answer_yes = True
    # On a rented machine everybody is root. We listen on the loopback interface only, and require a token.
    config.ServerApp.allow_root = True
    config.ServerApp.jpserver_extensions = {EXTENSION: True, PROXY: False}
    config.ServerApp.kernel_manager_class = "ownlab.lab.server.kernels.OwnlabKernelManager"
    config.ServerApp.kernel_spec_manager_class = "ownlab.lab.server.kernelspecs.OwnlabSpecManager"
    config.ServerApp.contents_manager_class = "ownlab.lab.server.contents.OwnlabContents"
    config.ServerApp.session_manager_class = "ownlab.lab.server.sessions.OwnlabSessionManager"
    config.ServerApp.kernel_websocket_connection_class = "ownlab.lab.server.connection.OwnlabConnection"
    config.IdentityProvider.token = token
    config.LabApp.collaborative = False
    # Before the folders of the user's configuration, which are kept.
    config.LabApp.extra_labextensions_path.prepend([str(PAGE_EXTENSIONS)])
    config.OwnlabKernelManager.ownlab_lab = lab
    config.OwnlabContents.written_file = str(labs_folder() / f"{lab}.written")
    config.OwnlabSessionManager.database_filepath = str(labs_folder() / f"{lab}.sessions.db")
    return config


def _arguments(argv: Sequence[str] | None) -> tuple[str, int]:
    parser = argparse.ArgumentParser(prog="python -m ownlab.lab.server", description=__doc__)
    parser.add_argument("--folder", required=True, help="folder to serve")
    parser.add_argument("--port", type=int, required=True)
    given = parser.parse_args(argv)
    return os.path.realpath(given.folder), given.port


def _serve(folder: str, port: int, token: str) -> int:
    if not token:
        raise UsageError(text("OWNLAB_TOKEN is not set: without a token every user of this machine could use the lab."))
    if not os.path.isdir(folder):
        raise LabError(text("The folder {folder} does not exist.", folder=folder))
    if not (PAGE_EXTENSIONS / "ownlab" / "package.json").is_file():
        raise LabError(
            text(
                "{folder} is missing: JupyterLab's extension of ownlab was not built.",
                folder=PAGE_EXTENSIONS / "ownlab",
            ),
            hint=text("Install ownlab again; in a checkout of its sources run: make install"),
        )
    # One server per lab: only the holder of this lock may adopt the lab's runtimes.
    lock = take_lock(folder)
    if lock is None:
        holder = lock_holder(folder)
        if holder is None:
            raise LabError(text("{folder} is already served.", folder=folder))
        raise LabError(
            text(
                "{folder} is already served by process {pid} on {host}.",
                folder=folder,
                pid=holder.pid,
                host=holder.host,
            )
        )
    with lock:
        if not is_free(port):
            raise LabError(text("Port {port} is in use.", port=port), hint=text("Choose another port with --port."))
        return _run(folder, port, token)


def _run(folder: str, port: int, token: str) -> int:
    from jupyterlab.labapp import LabApp  # type: ignore[import-untyped]

    if not (kernels_folder() / CPU_TYPE).exists():
        from ownlab.lab.server.machine_reader import ensure_specs

        ensure_specs()
    server: ServerApp = LabApp.initialize_server(argv=[], config=lab_config(folder, port, token))
    lab = Lab(lab_id(folder), folder, server.connection_url, token, port, os.getpid(), time.time(), "ready")
    # The socket has been listening since `initialize_server`; this callback runs once the event loop can answer.
    server.io_loop.add_callback(write_lab, lab)
    server.start()
    write_lab(msgspec.structs.replace(lab, state="down"))
    return 0

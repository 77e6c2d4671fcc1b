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
from typing import TYPE_CHECKING, NamedTuple

import msgspec

import ownlab.lab
from ownlab.config.paths import kernels_folder
from ownlab.errors import LabError, OwnlabError, UsageError
from ownlab.lab.runtimes.records import CPU_TYPE
from ownlab.lab.server.page_language import set_default_language, translate_schemas
from ownlab.lab.service.labs import Lab, NetworkHost, lab_id, labs_folder, lock_holder, take_lock, write_lab
from ownlab.lab.service.ports import HOST, is_free
from ownlab.lab.service.watchdog import add_arguments, network_of
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
# The product's icons, in place of Jupyter's: of the browser's tab (idle and busy), and of the page that asks for the token.
STATIC_FILES = Path(__file__).with_name("static")


def main(argv: Sequence[str] | None = None) -> int:
    """Serve a folder until the server is stopped. Return the exit code."""
    # Remove it from the environment at once, so that no child process inherits it.
    token = os.environ.pop("OWNLAB_TOKEN", "")
    try:
        return _serve(_arguments(argv), token)
    except OwnlabError as exc:
        sys.stderr.write(f"ownlab: {exc.message}\n" + (f"{exc.hint}\n" if exc.hint else ""))
        return exc.exit_code


def lab_config(folder: str, port: int, token: str, network: NetworkHost | None = None) -> Config:
    """Return what differs from a plain `jupyter lab`. It overrides the user's own Jupyter configuration files."""
    from traitlets.config import Config

    lab = lab_id(folder)
    config = Config()
    if network is None:
        config.ServerApp.ip = HOST
    else:
        config.ServerApp.ip = network.address
        config.ServerApp.certfile, config.ServerApp.keyfile = network.certificate, network.key
        config.ServerApp.custom_display_url = network.url(port)
        # Jupyter's check of the Host header accepts no address: allowed_hosts.py is stricter.
        config.ServerApp.allow_remote_access = True
    config.ServerApp.port = port
    config.ServerApp.port_retries = 0  # open pages know this port
    config.ServerApp.open_browser = False
    config.ServerApp.root_dir = folder
    config.ServerApp.answer_yes = True
    # On a rented machine everybody is root. We require a token, and listen on the loopback interface unless TLS is used.
    config.ServerApp.allow_root = True
    config.ServerApp.jpserver_extensions = {EXTENSION: True, PROXY: False}
    config.ServerApp.kernel_manager_class = "ownlab.lab.server.kernels.OwnlabKernelManager"
    config.ServerApp.kernel_spec_manager_class = "ownlab.lab.server.kernelspecs.OwnlabSpecManager"
    config.ServerApp.contents_manager_class = "ownlab.lab.server.contents.OwnlabContents"
    config.ServerApp.session_manager_class = "ownlab.lab.server.sessions.OwnlabSessionManager"
    config.ServerApp.kernel_websocket_connection_class = "ownlab.lab.server.connection.OwnlabConnection"
    config.ServerApp.extra_static_paths.prepend([str(STATIC_FILES)])
    config.TerminalsExtensionApp.terminal_manager_class = "ownlab.lab.server.terminals.LabTerminals"
    config.IdentityProvider.token = token
    config.LabApp.collaborative = False
    # Before the folders of the user's configuration, which are kept.
    config.LabApp.extra_labextensions_path.prepend([str(PAGE_EXTENSIONS)])
    # Files of widgets in other environments (page_extensions.py).
    config.LabApp.extra_labextensions_path.extend([str(labs_folder() / f"{lab}.extensions")])
    config.OwnlabKernelManager.ownlab_lab = lab
    config.OwnlabContents.lab = lab
    config.OwnlabContents.written_file = str(labs_folder() / f"{lab}.written")
    config.OwnlabSessionManager.database_filepath = str(labs_folder() / f"{lab}.sessions.db")
    return config


def settle_lazy_values(config: Config) -> None:
    """Remove values that are added to those of the user's files, once the server has read them.

    traitlets merges them with themselves for each object that is created with this configuration, and doubles them each
    time: after some tens of kernels a server has no memory left.
    """
    from traitlets.config.loader import Config, LazyConfigValue

    for section in config.values():
        if isinstance(section, Config):
            for name in [name for name, value in section.items() if isinstance(value, LazyConfigValue)]:
                del section[name]
            settle_lazy_values(section)


class _Arguments(NamedTuple):
    folder: str
    port: int
    network: NetworkHost | None
    language: str


def _arguments(argv: Sequence[str] | None) -> _Arguments:
    parser = argparse.ArgumentParser(prog="python -m ownlab.lab.server", description=__doc__)
    parser.add_argument("--folder", required=True, help="folder to serve")
    add_arguments(parser)
    given = parser.parse_args(argv)
    return _Arguments(os.path.realpath(given.folder), given.port, network_of(given), given.language)


def _serve(arguments: _Arguments, token: str) -> int:
    folder, port, network = arguments.folder, arguments.port, arguments.network
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
        if not is_free(port, network.address if network else HOST):
            raise LabError(text("Port {port} is in use.", port=port), hint=text("Choose another port with --port."))
        return _run(arguments, token)


def _run(arguments: _Arguments, token: str) -> int:
    from jupyterlab.labapp import LabApp  # type: ignore[import-untyped]

    if not (kernels_folder() / CPU_TYPE).exists():
        from ownlab.lab.server.machine_reader import ensure_specs

        ensure_specs()
    folder, port, network, language = arguments
    server: ServerApp = LabApp.initialize_server(argv=[], config=lab_config(folder, port, token, network))
    settle_lazy_values(server.config)
    translate_schemas()
    if language:
        set_default_language(server, language)
    lab = Lab(lab_id(folder), folder, server.connection_url, token, port, os.getpid(), time.time(), "ready")
    if network is not None:
        from ownlab.lab.server.allowed_hosts import refuse_other_hosts

        refuse_other_hosts(server.web_app, {network.name, network.address})
        url = network.url(port, server.base_url)
        lab = msgspec.structs.replace(lab, url=url, listens_on=network.address, certificate=network.certificate)
    # The socket has been listening since `initialize_server`; this callback runs once the event loop can answer.
    server.io_loop.add_callback(write_lab, lab)
    server.start()
    write_lab(msgspec.structs.replace(lab, state="down"))
    return 0

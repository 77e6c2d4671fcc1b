"""The private names of jupyter_client, jupyter_server and jupyterlab_server that src/ownlab/lab/server uses or overrides.

A method that a new version renames is no longer called, without any error. pyproject.toml has upper bounds for this reason.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from jupyter_client.ioloop.restarter import AsyncIOLoopKernelRestarter
from jupyter_server.services.contents.filecheckpoints import AsyncFileCheckpoints
from jupyter_server.services.contents.handlers import ContentsHandler
from jupyter_server.services.contents.largefilemanager import AsyncLargeFileManager
from jupyter_server.services.kernels.connection.channels import ZMQChannelsWebsocketConnection
from jupyter_server.services.kernels.kernelmanager import AsyncMappingKernelManager, ServerKernelManager
from jupyter_server.services.sessions.sessionmanager import SessionManager
from jupyterlab_server import settings_utils, translation_utils, translations_handler

# What has the names (a class, or an object if they are set by __init__) -> the names.
NAMES: list[tuple[Callable[[], object], list[str]]] = [
    (
        ServerKernelManager,
        [
            "_attempted_start",
            "_close_control_socket",
            "_connect_control_socket",
            "_kernel_spec",
            "_launch_args",
            "_ready",
            "_restarter",
        ],
    ),
    (
        lambda: AsyncMappingKernelManager,
        [
            "_async_restart_kernel",
            "_async_shutdown_all",
            "_async_shutdown_kernel",
            "_async_start_kernel",
            "_check_kernel_id",
            "_default_kernel_manager_class",
            "_handle_kernel_died",
            "_kernel_connections",
            "_kernel_ports",
            "_kernels",
            "_pending_kernels",
        ],
    ),
    (lambda: AsyncIOLoopKernelRestarter, ["_fire_callbacks", "_initial_startup", "_restarting"]),
    (
        lambda: ZMQChannelsWebsocketConnection,
        [
            "_close_future",
            "_finish_kernel_info",
            "_kernel_info_future",
            "_open_sessions",
            "_open_sockets",
            "_send_status_message",
        ],
    ),
    (
        lambda: AsyncLargeFileManager,
        [
            "_base_model",
            "_dir_model",
            "_get_hash",
            "_get_os_path",
            "_notebook_model",
            "_read_notebook",
            "_save_notebook",
        ],
    ),
    (lambda: AsyncFileCheckpoints, ["_get_os_path"]),
    (lambda: ContentsHandler, ["_finish_model"]),
    (lambda: SessionManager, ["_connection", "_validate_database_filepath"]),
    # src/ownlab/lab/server/page_language.py
    (lambda: settings_utils, ["SYS_LOCALE", "_get_schema"]),
    (lambda: translation_utils, ["SYS_LOCALE"]),
    (lambda: translations_handler, ["SYS_LOCALE"]),
    (lambda: translation_utils.translator, ["_LOCALE", "_TRANSLATORS"]),
    (lambda: translation_utils.TranslationBundle("ownlab", "en"), ["_locale", "pgettext"]),
]


@pytest.mark.parametrize(("make", "names"), NAMES)
def test_private_names_exist(make: Callable[[], object], names: list[str]) -> None:
    owner = make()
    assert [name for name in names if not hasattr(owner, name)] == []

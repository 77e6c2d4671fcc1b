"""Terminals of the lab: they start in the lab's folder, and know the `ownlab` that serves it and the default environment.

So `python` and `pip` in a terminal are those of new notebooks, unless the user's own shell settings name others.

The server's own working folder stays `/`, so that nothing in the lab's folder is imported by it.
"""

# mypy: disable-error-code="misc,no-untyped-call"

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from jupyter_server.auth.decorator import authorized
from jupyter_server.utils import url_path_join
from jupyter_server_terminals.api_handlers import TerminalRootHandler
from jupyter_server_terminals.terminalmanager import TerminalManager
from tornado import web
from tornado.routing import PathMatches, Rule

from ownlab.lab.environments.builds import environment_folder
from ownlab.lab.environments.registry import DEFAULT
from ownlab.lab.server.checked_requests import CheckedBody
from ownlab.lab.server.drive import file_of

__all__ = ["PROGRAMS", "LabTerminals", "add_terminal_route", "shell_command"]

# A folder with this one program: others of ownlab's environment must not hide the user's own.
PROGRAMS = Path(__file__).resolve().parents[3] / "ownlab_guest" / "programs" / "lab"
_BOURNE_SHELLS = ("bash", "zsh", "sh", "dash", "ksh", "mksh", "ash")


class LabTerminals(TerminalManager):
    """Starts terminals; the server's configuration names this class."""

    def __init__(self, shell_command: Sequence[str], **kwargs: Any) -> None:
        super().__init__(shell_command=list(shell_command), **kwargs)

    def new_terminal(self, **kwargs: Any) -> Any:
        """Called for each terminal. `cwd`: the folder that the page asks for."""
        options = {"cwd": self._folder(), "shell_command": _with_programs(list(self.shell_command))}
        return super().new_terminal(**{**options, **kwargs})

    def make_term_env(self, *args: Any, **kwargs: Any) -> dict[str, str]:
        """Called for each terminal."""
        variables: dict[str, str] = super().make_term_env(*args, **kwargs)
        variables["OWNLAB_HOST"] = sys.executable
        variables["PATH"] = f"{_search_path()}{os.pathsep}{variables.get('PATH', os.defpath)}"
        return variables

    def _folder(self) -> str:
        # The lab's folder may have been moved away since the server started.
        folder = os.path.expanduser(str(getattr(self.parent, "root_dir", "")))
        return folder if os.path.isdir(folder) else os.path.expanduser("~")


def _with_programs(command: list[str]) -> list[str]:
    """Return the command of a terminal; one that the user has configured is kept."""
    shell = os.environ.get("SHELL") or shutil.which("sh") or "/bin/sh"
    return shell_command(shell, _search_path()) if command in ([shell], [shell, "-l"]) else command


def _search_path() -> str:
    """Return `ownlab`, and the programs of the default environment as soon as it has been built."""
    programs = environment_folder(DEFAULT) / "bin"
    return os.pathsep.join(map(str, (PROGRAMS, programs) if programs.is_dir() else (PROGRAMS,)))


def shell_command(shell: str, programs: str) -> list[str]:
    """Return the command of an interactive shell with the settings of a login, and `programs` at the start of PATH.

    Login scripts set PATH anew (/etc/profile), so it is extended after them, in a first shell that starts the second.
    """
    name = os.path.basename(shell)
    if name in _BOURNE_SHELLS:
        return [shell, "-l", "-c", 'PATH="$1:$PATH"; export PATH; exec "$2" -i', shell, programs, shell]
    if name == "fish":
        return [shell, "-l", "-c", "set -gx PATH $argv[1] $PATH; exec $argv[2] -i", programs, shell]
    return [shell, "-l"]  # its syntax is unknown


class LabTerminalsHandler(CheckedBody, TerminalRootHandler):
    """/api/terminals: a folder that the page asks for is one of the lab, not of the server's working folder."""

    fields: ClassVar = {"cwd": str, "name": str}

    @web.authenticated
    @authorized
    def post(self) -> None:
        """Start a terminal."""
        body = self.get_json_body() or {}
        wanted = {name: body[name] for name in self.fields if body.get(name)}
        folder = self._find_folder(str(wanted.pop("cwd", "")))
        model = self.terminal_manager.create(**wanted, **({"cwd": folder} if folder else {}))
        self.finish(json.dumps(model))

    def _find_folder(self, asked: str) -> str:
        """Return the folder that a JupyterLab path or an absolute path means; "" if there is none."""
        found = asked if os.path.isabs(asked) else file_of(self, asked) or ""
        return found if asked and os.path.isdir(found) else ""


def add_terminal_route(app: web.Application) -> None:
    """Put our route before that of the terminals' own extension, which is loaded first."""
    router = app.default_router
    pattern = url_path_join(app.settings["base_url"], "/api/terminals") + "$"
    rule = router.process_rule(Rule(PathMatches(pattern), LabTerminalsHandler, {"name": "jupyter_server_terminals"}))
    assert rule is not None
    router.rules.insert(0, rule)

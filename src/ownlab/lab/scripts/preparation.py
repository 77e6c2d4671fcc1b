"""A request to run a script, checked completely before anything is started."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Mapping
from typing import NamedTuple

from ownlab.errors import InputError, UsageError
from ownlab.lab.runs.validation import outer_environment
from ownlab.lab.runtimes.records import RuntimeType
from ownlab.lab.scripts.cards import check_own_lease, choose_script_type
from ownlab.lab.scripts.folder import make_run_folder, write_source, write_start
from ownlab.lab.scripts.records import StartedScript
from ownlab.text import text

__all__ = ["PreparedScript", "ScriptRequest", "check_script", "prepare_script"]

_MAX_RANKS = 1024


class ScriptRequest(NamedTuple):
    """What to run, and on what."""

    script: tuple[str, ...]  # the path, or "-m" and a module; then the arguments
    gpus: int | None = None
    nproc: int | None = None  # ranks; by default one for each GPU
    type: str | None = None
    python: str | None = None
    output: str | None = None  # the folder of its logs
    force: bool = False
    wait: bool = True
    source: bytes | None = None  # of the script "-", which was read from standard input


class PreparedScript(NamedTuple):
    """A run that can begin."""

    request: ScriptRequest
    type: RuntimeType
    start: StartedScript
    folder: str
    env: Mapping[str, str]

    @property
    def name(self) -> str:
        """What is shown as its notebook: the path of the script, or the module."""
        head, *rest = self.script
        return rest[0] if head == "-m" else os.path.abspath(head)

    @property
    def script(self) -> tuple[str, ...]:
        """The script and its arguments, as the launcher takes them."""
        return self.start.script


def prepare_script(request: ScriptRequest) -> PreparedScript:
    """Check everything that is requested, and create the folder of the run. UsageError or InputError if it is not possible."""
    stem = check_script(request.script)
    env = outer_environment()
    kind = choose_script_type(request.type, request.gpus, request.python, env)
    ranks = request.nproc or max(1, kind.cards)
    if ranks > _MAX_RANKS:
        raise UsageError(text("{n} ranks are too many for one machine.", n=ranks))
    check_own_lease(kind, env)
    folder = make_run_folder(stem, request.output, force=request.force)
    script = request.script
    if request.source is not None:
        script = (write_source(folder, request.source), *script[1:])
    start = StartedScript(
        runtime=str(uuid.uuid4()),
        script=script,
        cwd=os.getcwd(),
        ranks=ranks,
        type=kind.name,
        label=kind.label,
        started_at=time.time(),
    )
    write_start(folder, start)
    return PreparedScript(request, kind, start, folder, env)


def check_script(script: tuple[str, ...]) -> str:
    """Check that there is such a script. Return the name after which the folder of its run is named."""
    if script[0] == "-m":
        if len(script) < 2 or not script[1].replace(".", "").isidentifier():
            raise UsageError(text("-m takes the name of a module."), hint=text("For example: -m mypackage.train"))
        return script[1].rpartition(".")[2]
    path = script[0]
    if path == "-":
        return "train"
    if os.path.isdir(path):
        raise InputError(text("{path} is a folder, not a script.", path=path))
    if not os.path.exists(path):
        raise InputError(text("There is no script {path}.", path=path))
    if not os.path.isfile(path):  # a pipe would be waited for
        raise InputError(text("{path} is not a file.", path=path))
    if not os.access(path, os.R_OK):
        raise InputError(text("You may not read {path}.", path=path))
    return os.path.splitext(os.path.basename(path))[0]

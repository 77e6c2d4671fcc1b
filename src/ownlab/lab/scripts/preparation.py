"""A request to run a script, checked completely before anything is started."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Mapping
from typing import Any, NamedTuple

from ownlab.config.loader import resolve_lab_options
from ownlab.errors import InputError, UsageError
from ownlab.lab.engines.interface import Engine, JobRequest, Offer
from ownlab.lab.engines.registry import DEFAULT_ENGINE, find_engine
from ownlab.lab.runs.validation import outer_environment
from ownlab.lab.scripts.folder import make_run_folder, write_source, write_start
from ownlab.lab.scripts.records import StartedScript
from ownlab.text import text

__all__ = [
    "PreparedScript",
    "ScriptRequest",
    "check_script",
    "find_offer",
    "find_script_engine",
    "prepare_on",
    "prepare_script",
]

_MAX_RANKS = 1024


class ScriptRequest(NamedTuple):
    """What to run, and on what."""

    script: tuple[str, ...]  # the path, or "-m" and a module; then the arguments
    gpus: int | None = None
    nproc: int | None = None  # ranks; by default one for each GPU
    nodes: int | None = None  # with so many GPUs and ranks on each
    type: str | None = None
    python: str | None = None
    output: str | None = None  # the folder of its logs
    force: bool = False
    wait: bool = True
    engine: str | None = None  # None: the setting run.engine
    cluster: Mapping[str, str | None] = {}  # options of a cluster, by their names in [slurm]: partition, account …
    source: bytes | None = None  # of the script "-", which was read from standard input


class PreparedScript(NamedTuple):
    """A run that can begin."""

    request: ScriptRequest
    engine: Engine
    offer: Offer
    start: StartedScript
    folder: str
    env: Mapping[str, str]

    @property
    def name(self) -> str:
        """What is shown as its notebook: the path of the script, or the module."""
        head, *rest = self.start.script
        return rest[0] if head == "-m" else os.path.abspath(head)


def prepare_script(request: ScriptRequest) -> PreparedScript:
    """Check everything that is requested, and create the folder of the run. UsageError or InputError if it is not possible."""
    check_script(request.script)
    env = outer_environment()
    engine = find_script_engine(request.engine, request.cluster, env)
    return prepare_on(engine, find_offer(request, engine), request, env)


def find_offer(request: ScriptRequest, engine: Engine) -> Offer:
    """What an engine has for a request. UsageError or DeviceUnusable if it can never be met."""
    return engine.offers(JobRequest(request.type, request.gpus, request.nodes or 1, request.python))[0]


def prepare_on(engine: Engine, offer: Offer, request: ScriptRequest, env: Mapping[str, str]) -> PreparedScript:
    """Create the folder of a run that takes this offer. UsageError or InputError if it is not possible."""
    ranks = request.nproc or max(1, offer.type.cards)
    if ranks > _MAX_RANKS:
        raise UsageError(text("{n} ranks are too many for one machine.", n=ranks))
    folder = make_run_folder(check_script(request.script), request.output, force=request.force)
    script = request.script
    if request.source is not None:
        script = (write_source(folder, request.source), *script[1:])
    start = StartedScript(
        runtime=str(uuid.uuid4()),
        script=script,
        cwd=os.getcwd(),
        ranks=ranks * offer.nodes,
        type=offer.type.name,
        label=offer.type.label,
        started_at=time.time(),
        nodes=offer.nodes,
        engine=engine.name,
    )
    write_start(folder, start)
    return PreparedScript(request, engine, offer, start, folder, env)


def find_script_engine(name: str | None, cluster: Mapping[str, str | None], env: Mapping[str, str]) -> Engine:
    """The engine that was asked for, or that of the setting run.engine, with the options of a cluster as settings."""
    flags: dict[str, Any] = {f"slurm_{option}": value for option, value in cluster.items()}
    options = resolve_lab_options(environ=env, run_engine=name, **flags)
    given = next((option for option, value in cluster.items() if value is not None), None)
    if options.run_engine == DEFAULT_ENGINE and given is not None:
        message = text("{option} is for a cluster; this machine has none.", option=f"--{given}")
        raise UsageError(message, hint=text("Run it on a cluster with --engine slurm."))
    return find_engine(options.run_engine, env, options)


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

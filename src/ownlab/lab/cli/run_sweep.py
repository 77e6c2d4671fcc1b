"""`ownlab run --sweep`: a notebook or a script with every combination of some values."""

from __future__ import annotations

import copy
import os
import subprocess
import sys
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import click
from click.core import ParameterSource

from ownlab.errors import LabError, UsageError
from ownlab.lab.cli.run_on_node import node_request
from ownlab.lab.cli.run_script import stopped_by_signals
from ownlab.languages import english_environment
from ownlab.text import text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ownlab.lab.engines.interface import Engine, Offer
    from ownlab.lab.scripts.preparation import ScriptRequest
    from ownlab.lab.sweeps.grid import Combination
    from ownlab.lab.sweeps.sweep import Sweep, SweepRequest

# Imports are deferred, as in `run.py`.

__all__ = ["sweep_notebook", "sweep_script"]

# What a sweep decides itself. All other options are those of each run.
_OWN = frozenset({"sweep", "jobs", "detach", "as_json", "output", "force", "quiet", "target"})
# Each job of a sweep is followed by a process here, which asks Slurm for its state.
_JOBS_ON_CLUSTER = 8
_ONE_RUN_ONLY = ("inplace", "keep", "from_failed")


def sweep_notebook(
    notebook: str, type_name: str | None, given: tuple[str, ...], rest: dict[str, Any], node: dict[str, Any], *,
    jobs: int | None, detach: bool, as_json: bool,
) -> int:  # fmt: skip
    """Run a notebook with every combination of the values of its fields. `node`: what it asks of a cluster."""
    from ownlab.lab.notebooks.files import read_notebook
    from ownlab.lab.runs.runtime_type import choose_type
    from ownlab.lab.runs.validation import outer_environment
    from ownlab.lab.sweeps.grid import combinations
    from ownlab.lab.sweeps.sweep import SweepRequest

    for name in _ONE_RUN_ONLY:
        if rest[name]:
            option = f"--{name.replace('_', '-')}"
            raise UsageError(text("{option} cannot be combined with --sweep.", option=option))
    grid = combinations(given)
    content = read_notebook(notebook)
    _check_values(content, grid)
    env = outer_environment()
    on_node = node_request(kind=type_name, rest=rest, **node).get("node_type")
    request = SweepRequest(
        target=(notebook,),
        is_script=False,
        options=_options(),
        combinations=grid,
        type=on_node or choose_type(notebook, content, type_name, env).type,
        jobs=jobs or (_JOBS_ON_CLUSTER if on_node else None),
        is_local=on_node is None,
        force=rest["force"],
    )
    return _sweep(request, rest["output"], env, detach=detach, as_json=as_json)


def sweep_script(
    script: tuple[str, ...], given: dict[str, Any], values: tuple[str, ...], *, jobs: int | None, detach: bool,
    as_json: bool,
) -> int:  # fmt: skip
    """Run a script with every combination of the values of its options."""
    from ownlab.lab.engines.interface import JobRequest
    from ownlab.lab.engines.registry import DEFAULT_ENGINE
    from ownlab.lab.runs.validation import outer_environment
    from ownlab.lab.scripts.preparation import check_script, find_script_engine
    from ownlab.lab.sweeps.grid import combinations
    from ownlab.lab.sweeps.sweep import SweepRequest

    if script[0] == "-":
        raise UsageError(text("--sweep needs a script that can be read again; it cannot come from standard input."))
    check_script(script)
    env = outer_environment()
    engine = find_script_engine(given["engine"], given["cluster"], env)
    offer = engine.offers(JobRequest(given["type"], given["gpus"], given["nodes"] or 1, given["python"]))[0]
    request = SweepRequest(
        target=script,
        is_script=True,
        options=_options(),
        combinations=combinations(values),
        type=offer.type,
        ranks=given["nproc"] or max(1, offer.type.cards),
        jobs=jobs or (None if engine.has_arrays or engine.name == DEFAULT_ENGINE else _JOBS_ON_CLUSTER),
        is_local=engine.name == DEFAULT_ENGINE,
        force=given["force"],
    )
    if not engine.has_arrays:
        return _sweep(request, given["output"], env, detach=detach, as_json=as_json)
    from ownlab.lab.scripts.preparation import ScriptRequest

    array = _Array(engine, offer, ScriptRequest(script, **{**given, "output": None, "force": True}))
    return _sweep(request, given["output"], env, detach=detach, as_json=as_json, array=array)


def _check_values(notebook: dict[str, Any], grid: tuple[Combination, ...]) -> None:
    """UsageError for an unknown name or an invalid value, before anything runs."""
    from ownlab.lab.forms.parameters import set_parameters

    for name, value in dict.fromkeys(item for combination in grid for item in combination.items()):
        set_parameters(copy.deepcopy(notebook), {name: value})


def _options() -> tuple[str, ...]:
    """The options of each run, as they were given."""
    context = click.get_current_context()
    options: list[str] = []
    for option in context.command.params:
        name = option.name or ""
        is_given = context.get_parameter_source(name) is ParameterSource.COMMANDLINE
        if not isinstance(option, click.Option) or name in _OWN or not is_given:
            continue
        value = context.params[name]
        if option.is_flag:
            options.append((option.opts if value else option.secondary_opts)[-1])
        else:
            for each in value if option.multiple else (value,):
                options += [option.opts[-1], str(each)]
    return tuple(options)


class _Array(NamedTuple):
    """The cluster that takes all runs of a script as a job array."""

    engine: Engine
    offer: Offer
    request: ScriptRequest  # of each run


def _sweep(
    request: SweepRequest, output: str | None, env: Mapping[str, str], *, detach: bool, as_json: bool,
    array: _Array | None = None,
) -> int:  # fmt: skip
    from ownlab.lab.sweeps.folder import open_folder
    from ownlab.lab.sweeps.sweep import Sweep

    target = request.target[1] if request.target[0] == "-m" else os.path.basename(request.target[0])
    sweep = Sweep(request, open_folder(target, output))
    if not sweep.folder.lock():
        if request.force:
            raise LabError(text("A sweep is running in {folder}.", folder=sweep.folder.path))
        return _show(sweep, as_json, note=text("This sweep is running. So far:"))
    try:
        if detach:
            sweep.folder.unlock()
            return _in_background(sweep, as_json)
        return _run(sweep, env, as_json, array)
    finally:
        sweep.folder.unlock()


def _run(sweep: Sweep, env: Mapping[str, str], as_json: bool, array: _Array | None) -> int:
    from ownlab.lab.runs.reporter import Stop
    from ownlab.lab.sweeps.sweep import has_free_cards
    from ownlab.lab.terminal.sweep import SweepReporter

    stop, reporter = Stop(), SweepReporter(sys.stderr)
    reporter.begin(sweep.request, sweep.report(), changed=sweep.has_changed())
    with stopped_by_signals(stop):
        if array is not None:
            from ownlab.lab.sweeps.job_array import ArraySweep

            ArraySweep(sweep, array.engine, array.offer, array.request, env).run(reporter.done, stop)
            code = _show(sweep, as_json)
            return 128 + stop.signum if stop.signum else code
        # A cluster has a queue of its own.
        free = partial(has_free_cards, sweep.request.type, env) if sweep.request.is_local else lambda _: True
        sweep.run(reporter.done, free, stop)
    code = _show(sweep, as_json)
    return 128 + stop.signum if stop.signum else code


def _show(sweep: Sweep, as_json: bool, note: str = "") -> int:
    """Print all results. Return the exit code."""
    from ownlab.lab.terminal.sweep import show_results

    report = sweep.report()
    if as_json:
        from ownlab.render.documents import echo_record

        echo_record(report)
    else:
        if note:
            click.echo(note)
        show_results(report)
    return int(report.count("failed") > 0 or report.count("interrupted") > 0)


def _in_background(sweep: Sweep, as_json: bool) -> int:
    """Start the same command in a session of its own."""
    from ownlab.lab.terminal.sweep import describe_background

    context = click.get_current_context()
    own = [each for each in context.meta["own arguments"] if each not in ("--detach", "--json")]
    script = context.params["script"]
    if script:  # its name, or "-m", stands at the end of our own arguments too
        own = own[: own.index("--")] if script[0] == "-m" else own[:-1]
    with open(os.path.join(sweep.folder.path, "sweep.log"), "ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "ownlab", "run", *own, *script],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=english_environment(os.environ),
            start_new_session=True,
        )
    if as_json:
        from ownlab.render.documents import echo_record

        echo_record(sweep.report())
    else:
        click.echo(describe_background(sweep.report(), process.pid))
    return 0

"""`ownlab why`: say why a training script is slow, with the line that causes it and what fixing it is worth."""

from __future__ import annotations

import math
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from ownlab.cli.options import json_option
from ownlab.errors import UsageError
from ownlab.text import text

if TYPE_CHECKING:
    from ownlab.instruments.why.records import Evidence, Explanation

__all__ = ["command"]

# Steps that are measured if nothing is said: enough for a stable mean, and then the script runs on undisturbed.
_STEPS = 200
# Of each run of --try, and how many seconds all of them may take.
_TRIED_STEPS = 40
_BUDGET_SECONDS = 600.0
# How long a process is looked at.
_ATTACHED_SECONDS = 10.0


class WhyOptions(NamedTuple):
    """The options of the command, by their names."""

    script: tuple[str, ...]
    steps: int | None
    seconds: float | None
    save: Path | None
    chart: Path | None
    explain: str | None
    pid: int | None
    trace: str | None
    nccl: tuple[str, ...]
    try_changes: bool
    try_budget: float
    allow_writes: bool
    as_json: bool


@click.command("why", context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.argument("script", nargs=-1, type=click.UNPROCESSED, metavar="[COMMAND…|FILE]")
@click.option("--steps", type=click.IntRange(min=5), metavar="N", help="Measure N steps, then end the script.")
@click.option(
    "--seconds",
    type=click.FloatRange(min=1),
    metavar="S",
    help="End the script after S seconds; with --pid: look for S seconds (10).",
)
@click.option(
    "--save",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Keep the evidence; `ownlab why FILE` shows it.",
)
@click.option(
    "--chart",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Draw a typical step into FILE.png, .svg or .html.",
)
@click.option(
    "--pid", type=click.IntRange(min=1), metavar="PID", help="Look at a process that already runs, from outside."
)
@click.option("--trace", metavar="FILE", help="Explain a trace of torch.profiler (.json or .json.gz).")
@click.option(
    "--nccl",
    multiple=True,
    metavar="LOG",
    help="Say what NCCL chose, and what is wrong with it, from a log of NCCL_DEBUG=INFO; repeat it for several files.",
)
@click.option(
    "--try",
    "try_changes",
    is_flag=True,
    help="Measure promising changes: run some steps with each, applied from outside, then with the best together.",
)
@click.option(
    "--try-budget",
    type=click.FloatRange(min=10),
    default=_BUDGET_SECONDS,
    show_default=True,
    metavar="S",
    help="The seconds that --try may take in all.",
)
@click.option(
    "--allow-writes",
    is_flag=True,
    help="Let --try run where what the script writes cannot be thrown away.",
)
@click.option("--explain", metavar="CODE", help="Explain a finding by its code; `all` lists every code.")
@json_option
def command(**given: Any) -> None:
    """Say why a training script is slow: the line that causes it, and what fixing it is worth.

    The command is written as without ownlab, and the script is not edited. It may be python, torchrun, accelerate, or
    a shell script that starts them. Steps of the optimizer are found by themselves; the first 200 are measured, and the
    script runs to its end. Plain PyTorch loops, forked and spawned workers, and several ranks are measured.

    With --json the output of the script goes to stderr, so that stdout has the document alone.

    With --try the script is ended after 40 steps, and then run again for each change that makes sense for what was found:
    workers, threads, precision, layout, optimizer, torch.compile. Its writes go into a copy of the file systems in memory,
    which is thrown away; trackers are switched off; losses are compared. A table shows the measured speed-ups, and a diff
    the change of your code.

    Without a command, --pid explains a process that already runs, --trace a trace of torch.profiler, and --nccl a log
    of NCCL.

    \b
    ownlab why python train.py --epochs 3
    ownlab why torchrun --nproc-per-node 4 train.py
    ownlab why --try --try-budget 300 python train.py
    ownlab why --trace trace.json.gz
    ownlab why --nccl nccl.log

    The exit code is that of the script; 0 if it was ended by --steps or --seconds.
    """
    options = WhyOptions(**given)
    if options.explain is not None:
        _show_pages(options.explain, options.as_json)
        return
    if options.chart is not None:
        from ownlab.render.charts import check_chart_file

        check_chart_file(options.chart)  # before a run of minutes
    if _others(options):
        _explain_other(options)
        return
    if (options.allow_writes or options.try_budget != _BUDGET_SECONDS) and not options.try_changes:
        raise UsageError(text("--try-budget and --allow-writes belong to --try."))
    if not options.script:
        raise UsageError(
            text("Missing argument: the command that trains, or saved evidence."),
            hint=text("For example: ownlab why python train.py"),
        )
    if options.try_changes:
        _try(options)
        return
    evidence = _evidence(options)
    _show(evidence, options)
    click.get_current_context().exit(evidence.exit_code or 0 if not _is_saved(options.script) else 0)


def _explain_other(options: WhyOptions) -> None:
    """Explain a process, a trace or logs, which are there already: no command is run."""
    if options.script or options.steps or options.save or options.try_changes or len(_others(options)) > 1:
        raise UsageError(
            text("{option} stands alone: leave out the command, --steps, --save and --try.", option=_others(options)[0])
        )
    if options.seconds and options.pid is None:
        raise UsageError(text("--seconds says how long a command or --pid is measured; leave it out."))
    if options.chart is not None and options.trace is None:
        raise UsageError(text("{option} has no picture: leave out --chart.", option=_others(options)[0]))
    if options.pid is not None:
        from ownlab.instruments.why.attach.explanation import explain_process
        from ownlab.render.console import working

        with working(text("Looking at process {pid}", pid=options.pid)):
            explanation = explain_process(options.pid, options.seconds or _ATTACHED_SECONDS)
    elif options.trace is not None:
        from ownlab.instruments.why.trace.explanation import explain_trace

        explanation = explain_trace(options.trace)
        _draw(explanation, options)
    else:
        from ownlab.instruments.why.nccl.explanation import explain_nccl, read_nccl_logs

        explanation = explain_nccl(read_nccl_logs(options.nccl))
    _print(explanation, options)


def _others(options: WhyOptions) -> list[str]:
    """The options that name something else than a command."""
    given = {"--pid": options.pid, "--trace": options.trace, "--nccl": options.nccl or None}
    return [name for name, value in given.items() if value is not None]


def _is_saved(script: tuple[str, ...]) -> bool:
    """Whether the argument is a file of `--save` rather than a command."""
    return len(script) == 1 and os.path.isfile(script[0]) and not os.access(script[0], os.X_OK)


def _evidence(options: WhyOptions) -> Evidence:
    from ownlab.instruments.why.collection import load_evidence

    if _is_saved(options.script):
        if options.steps or options.seconds or options.save:
            raise UsageError(text("--steps, --seconds and --save need a command to run, not saved evidence."))
        return load_evidence(options.script[0])
    return _measure(options)


def _measure(options: WhyOptions) -> Evidence:
    from ownlab.instruments.why.collection import collect, save_evidence
    from ownlab.instruments.why.gpu.card_watch import CardWatch
    from ownlab.instruments.why.script_run import hidden_by_options, run_script, stderr_number

    hidden = hidden_by_options(options.script)
    if hidden is not None:
        click.echo(
            text(
                "ownlab why: Python runs with {option}, which ignores PYTHONPATH: nothing in it can be measured. Leave {option} out.",
                option=hidden,
            ),
            err=True,
        )
    with tempfile.TemporaryDirectory(prefix="ownlab-why-") as name:
        folder = Path(name)
        with CardWatch() as watch:
            ending = run_script(
                options.script,
                folder,
                steps=options.steps or _STEPS,
                seconds=options.seconds,
                end_after=options.steps is not None,
                stdout=stderr_number() if options.as_json else None,
            )
        evidence = collect(folder, options.script, ending.exit_code, watch.readings)
    if options.save is not None:
        save_evidence(evidence, options.save)
    return evidence


def _try(options: WhyOptions) -> None:
    """Measure changes. The script's output is not shown, unless it fails before anything is measured."""
    if _is_saved(options.script):
        raise UsageError(text("--try runs the script: name the command that trains, not saved evidence."))
    if options.save is not None or options.seconds is not None:
        raise UsageError(text("--try has its own end, and keeps no evidence: leave out --save and --seconds."))
    if not math.isfinite(options.try_budget):
        raise UsageError(text("--try-budget must be a number of seconds."))
    from ownlab.instruments.why.trials.experiment import Experiment, try_changes
    from ownlab.instruments.why.trials.trial_run import isolation_problem

    experiment = Experiment(
        command=options.script,
        steps=options.steps or _TRIED_STEPS,
        budget=options.try_budget,
        not_isolated=isolation_problem(),
        allow_writes=options.allow_writes,
        report=lambda line: click.echo(line, err=True),
    )
    tried = try_changes(experiment)
    if tried.explanation.trials is None:
        click.echo(tried.output, err=True, nl=False)
    _draw(tried.explanation, options)
    _print(tried.explanation, options)
    click.get_current_context().exit(tried.explanation.exit_code or 0)


def _show(evidence: Evidence, options: WhyOptions) -> None:
    from ownlab.instruments.why.explanation import explain

    explanation = explain(evidence)
    _draw(explanation, options)
    _print(explanation, options)
    if options.save is not None and not options.as_json:
        click.echo(text("Evidence saved to {path}. Show it again: ownlab why {path}", path=options.save))


def _draw(explanation: Explanation, options: WhyOptions) -> None:
    if options.chart is not None:
        from ownlab.instruments.why.step_chart import step_chart
        from ownlab.render.charts import save_chart

        save_chart(step_chart(explanation), options.chart)


def _print(explanation: Explanation, options: WhyOptions) -> None:
    if options.as_json:
        from ownlab.render.documents import echo_record

        echo_record(explanation)
        return
    from ownlab.instruments.why.terminal import show_explanation
    from ownlab.render.console import console

    show_explanation(explanation, console())


def _show_pages(code: str, as_json: bool) -> None:
    from ownlab.instruments.why.causes import CAUSES, find_cause
    from ownlab.instruments.why.rule import CauseList, CausePage
    from ownlab.instruments.why.terminal import show_rule_list, show_rule_page
    from ownlab.render.console import console
    from ownlab.render.documents import echo_record

    rules = CAUSES if code == "all" else (find_cause(code.lower()),)
    if as_json:
        pages = tuple(CausePage.of(rule) for rule in rules)
        echo_record(CauseList(pages) if code == "all" else pages[0])
    elif code == "all":
        show_rule_list(rules, console())
    else:
        show_rule_page(rules[0], console())

"""`ownlab bench`: measure how fast this machine is, and compare results."""

from __future__ import annotations

import math
import os
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from ownlab.cli.options import json_below, json_option
from ownlab.errors import InputError, UsageError
from ownlab.text import listing, sentences, text

if TYPE_CHECKING:
    from ownlab.instruments.bench.records import BenchReport, Request

__all__ = ["command"]

_file = click.Path(path_type=Path, dir_okay=False)
_plot_option = click.option("--plot", type=_file, metavar="FILE", help="Save a chart as FILE.png, .svg or .html.")


class BenchOptions(NamedTuple):
    """The options of the command, by name."""

    quick: bool
    full: bool
    only: tuple[str, ...]
    device: str | None
    folder: Path | None
    memory: str | None
    budget: float | None
    save: Path | None
    keep: bool
    plot: Path | None
    python: str | None
    as_json: bool


@click.group("bench", invoke_without_command=True)
@click.option("--quick", is_flag=True, help="Under half a minute: the most important tests.")
@click.option("--full", is_flag=True, help="A quarter of an hour: all sizes and types.")
@click.option(
    "--only",
    multiple=True,
    metavar="GROUP",
    help="Only this group: products, memory, copies, cpu, disk … Can be repeated.",
)
@click.option("--device", metavar="NAME", help="cuda:1, or cpu. Default: the first card, else the CPU.")
@click.option(
    "--folder",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Measure the disk of this folder. Default: the current folder.",
)
@click.option("--memory", metavar="SIZE", help="Use at most this much memory of the card: 4GiB.")
@click.option(
    "--budget",
    type=click.FloatRange(min=0, min_open=True, max=86400),
    metavar="SECONDS",
    help="Time for all tests together.",
)
@click.option("--save", type=_file, metavar="FILE", help="Also save the result in FILE.")
@click.option("--keep/--no-keep", default=True, help="Save the result in the state folder (default).")
@_plot_option
@click.option("--python", metavar="PATH", help="The Python that has torch. Default: the active environment.")
@json_option
@click.pass_context
def command(context: click.Context, /, **values: Any) -> None:
    """Measure this machine: matrix products, memory, copies, training steps, CPU, disk; and compare it with others.

    Every result is a median with its confidence interval, next to the theoretical limit. A result above the limit is a
    measurement error; for a result far below it, possible causes are listed. Ctrl-C stops and keeps the results so far.

    \b
    ownlab bench --quick
    ownlab bench --only cpu --only disk
    ownlab bench compare last h200      this machine beside a reference

    Exit code: 0 measured; 1 incomplete: the benchmark died or hung, or nothing could be measured; 130 interrupted.
    """
    options = BenchOptions(**values)
    if context.invoked_subcommand is not None:
        json_below(context, options.as_json)
        return
    request = _request(options)
    report = _measure(request, options)
    _finish(report, options)
    context.exit(_exit_code(report))


@command.command("compare")
@click.argument("names", nargs=-1, required=True, metavar="A B …")
@_plot_option
@json_option
def compare(names: tuple[str, ...], plot: Path | None, as_json: bool) -> None:
    """Compare results: ratios to the first, and whether a difference is more than noise.

    Each result is a file, a name from `ownlab bench list`, or `last`.

    \b
    ownlab bench compare last h200
    ownlab bench compare before.json after.json --plot change.png
    """
    from ownlab.instruments.bench.comparison import compare_reports
    from ownlab.instruments.bench.report_files import find_report

    if len(names) < 2:
        raise UsageError(
            text("At least two results are needed."), hint=text("Example: ownlab bench compare A.json last")
        )
    comparison = compare_reports([(_label(name), find_report(name)) for name in names])
    if plot is not None:
        from ownlab.instruments.bench.chart import comparison_chart
        from ownlab.render.charts import save_chart

        save_chart(comparison_chart(comparison), plot)
    if as_json:
        from ownlab.render.documents import echo_record

        echo_record(comparison)
        return
    from ownlab.instruments.bench.terminal import show_comparison
    from ownlab.render.console import console

    show_comparison(comparison, console())


@command.command("show")
@click.argument("name", metavar="NAME")
@_plot_option
@json_option
def show(name: str, plot: Path | None, as_json: bool) -> None:
    """Show a saved result: a file, a name from `ownlab bench list`, or `last`.

    \b
    ownlab bench show last
    ownlab bench show h200 --plot h200.png
    """
    from ownlab.instruments.bench.report_files import find_report

    _show(find_report(name), plot, as_json=as_json)


@command.command("list")
@json_option
def list_results(as_json: bool) -> None:
    """List the reference results of ownlab, and your own.

    \b
    ownlab bench list
    """
    from ownlab.instruments.bench.report_files import list_reports

    reports = list_reports()
    if as_json:
        from ownlab.render.documents import echo_record

        echo_record(reports)
        return
    from ownlab.instruments.bench.terminal import show_reports
    from ownlab.render.console import console

    show_reports(reports, console())


def _request(options: BenchOptions) -> Request:
    from ownlab.instruments.bench.records import BUDGETS, Profile, Request

    if options.quick and options.full:
        raise UsageError(text("--quick cannot be combined with --full."))
    if options.budget is not None and not math.isfinite(options.budget):
        raise UsageError(text("--budget {value} is not a finite number of seconds.", value=options.budget))
    profile: Profile = "quick" if options.quick else "full" if options.full else "default"
    _check_writable(options)
    return Request(
        profile=profile,
        groups=_parse_groups(options.only),
        device=_parse_device(options.device),
        folder=os.path.abspath(options.folder or "."),
        budget_seconds=options.budget or BUDGETS[profile],
        memory_bytes=_parse_memory(options.memory),
    )


def _parse_groups(only: tuple[str, ...]) -> tuple[str, ...] | None:
    import difflib

    from ownlab.instruments.bench.records import GROUPS

    groups = [group for value in only for group in value.split(",") if group]
    hint = text("The groups are {groups}.", groups=listing(GROUPS))
    if only and not groups:
        raise UsageError(text("--only contains no group."), hint=hint)
    for group in groups:
        if group not in GROUPS:
            close = difflib.get_close_matches(group, GROUPS, n=1)
            if close:
                hint = sentences(text("Did you mean {group}?", group=close[0]), hint)
            raise UsageError(text("--only {group}: unknown group.", group=group), hint=hint)
    return tuple(groups) or None


def _parse_device(name: str | None) -> str | None:
    import re

    if name is None or re.fullmatch(r"cpu|cuda:\d+", name):
        return name
    if name == "cuda":
        return "cuda:0"
    raise UsageError(
        text("--device {name} is neither cpu nor a card.", name=name), hint=text("Use cuda:0, cuda:1 … or cpu.")
    )


def _parse_memory(value: str | None) -> int | None:
    from ownlab.units import parse_bytes

    if value is None:
        return None
    try:
        size = parse_bytes(value)
    except ValueError as exc:
        raise UsageError(text("--memory: {error}.", error=exc)) from exc
    if size <= 0:
        raise UsageError(text("--memory must be greater than 0."))
    return size


def _check_writable(options: BenchOptions) -> None:
    """Check before minutes of measuring are lost."""
    if options.plot is not None:
        from ownlab.render.charts import check_chart_file

        check_chart_file(options.plot)
    for path in (options.save, options.plot):
        if path is not None and not os.access(path.absolute().parent, os.W_OK):
            raise InputError(text("Cannot write {path}: its folder does not exist or is not writable.", path=path))


def _measure(request: Request, options: BenchOptions) -> BenchReport:
    """Measure, and return the report, also after an interruption."""
    from ownlab.config.machine_options import resolve_machine_options
    from ownlab.instruments.bench.measurement import Progress, build_report, collect_events, run_guest
    from ownlab.instruments.bench.terminal import show_progress
    from ownlab.machine.reader import read_machine
    from ownlab.render.console import working

    target = resolve_machine_options(python=options.python)
    with working(text("Reading the machine")):
        machine = read_machine(target)
    progress = Progress()
    if target.machine_file is not None:
        progress.notes.append(
            text("The machine is not the measured one: it was read from {file}.", file=target.machine_origin)
        )
    try:
        with show_progress(text("Starting")) as on_event, closing(run_guest(request, target.python)) as events:
            collect_events(events, progress, on_event)
    except KeyboardInterrupt:
        return build_report(progress, request, machine)
    except SystemExit:  # a time limit, a closed terminal: save the result
        if progress.results:
            _save(build_report(progress, request, machine), options)
        raise
    return build_report(progress, request, machine)


def _finish(report: BenchReport, options: BenchOptions) -> None:
    """Save first, so that a closed pipe loses nothing; show the report even if saving fails."""
    from ownlab.errors import OwnlabError

    saved, failure = [], None
    try:
        saved = _save(report, options) if report.results else []
    except OwnlabError as exc:
        failure = exc
    _show(report, options.plot, as_json=options.as_json)
    for path in saved:
        click.echo(text("Saved as {path}.", path=path), err=True)
    if failure is not None:
        raise failure


def _save(report: BenchReport, options: BenchOptions) -> list[Path]:
    from ownlab.errors import OwnlabError
    from ownlab.instruments.bench.report_files import new_report_path, save_report

    saved = []
    if options.keep:
        try:
            path = new_report_path(report)
            save_report(report, path)
            saved.append(path)
        except OwnlabError as exc:  # not an error: this file was not requested
            click.echo(text("ownlab: The result was not saved. {reason}", reason=exc.message), err=True)
    if options.save is not None:
        save_report(report, options.save)
        saved.append(options.save)
    return saved


def _show(report: BenchReport, plot: Path | None, *, as_json: bool) -> None:
    if as_json:
        from ownlab.render.documents import echo_record

        echo_record(report)
    else:
        from ownlab.instruments.bench.comparison import compare_with_references, rank_card
        from ownlab.instruments.bench.terminal import show_bench
        from ownlab.render.console import console

        show_bench(report, console(), rank_card(report), compare_with_references(report))
    if plot is not None and report.results:
        from ownlab.instruments.bench.chart import bench_chart
        from ownlab.render.charts import save_chart

        save_chart(bench_chart(report), plot)


def _exit_code(report: BenchReport) -> int:
    from ownlab.instruments.bench.measurement import INTERRUPTED

    if report.trouble == INTERRUPTED:
        return 130
    return 0 if report.complete and report.results else 1


def _label(name: str) -> str:
    return Path(name).stem if name.endswith(".json") or os.sep in name else name

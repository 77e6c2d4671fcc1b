"""`ownlab bench`: how fast is this machine, and against others."""

from __future__ import annotations

import math
import os
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from ownlab.cli.options import json_below, json_option
from ownlab.errors import InputError, UsageError

if TYPE_CHECKING:
    from ownlab.instruments.bench.records import BenchReport, Request

__all__ = ["command"]

_file = click.Path(path_type=Path, dir_okay=False)
_plot_option = click.option("--plot", type=_file, metavar="FILE", help="Draw it into FILE.png, .svg or .html.")


class Wishes(NamedTuple):
    """The options, by their names."""

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
@click.option("--quick", is_flag=True, help="Under half a minute: the figures that people ask for first.")
@click.option("--full", is_flag=True, help="A quarter of an hour: every size and type.")
@click.option("--only", multiple=True, metavar="GROUP", help="products, memory, copies, cpu, disk …; may be repeated.")
@click.option("--device", metavar="NAME", help="cuda:1, or cpu. Default: the first card, else the CPU.")
@click.option(
    "--folder",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Measure the disk that this folder is on. Default: the present one.",
)
@click.option("--memory", metavar="SIZE", help="Take at most so much of the card: 4GiB.")
@click.option(
    "--budget",
    type=click.FloatRange(min=0, min_open=True, max=86400),
    metavar="SECONDS",
    help="For all tests together.",
)
@click.option("--save", type=_file, metavar="FILE", help="Also keep the result in FILE.")
@click.option("--keep/--no-keep", default=True, help="Keep the result in the state folder (the default).")
@_plot_option
@click.option("--python", metavar="PATH", help="The Python that has torch. Default: the active environment.")
@json_option
@click.pass_context
def command(context: click.Context, /, **given: Any) -> None:
    """Measure this machine: products, memory, copies, training steps, CPU, disk; and say how that compares.

    Every figure is a median with its interval, next to what is possible: above it is a measuring error, far below it
    says why that may be. Ctrl-C ends it and keeps what was measured.

    Exit code: 0 measured; 1 not complete: the guest died or hung, or nothing could be measured; 130 interrupted.
    """
    wishes = Wishes(**given)
    if context.invoked_subcommand is not None:
        json_below(context, wishes.as_json)
        return
    request = _request(wishes)
    report = _measured(request, wishes)
    _finish(report, wishes)
    context.exit(_exit_code(report))


@command.command("compare")
@click.argument("names", nargs=-1, required=True, metavar="A B …")
@_plot_option
@json_option
def compare(names: tuple[str, ...], plot: Path | None, as_json: bool) -> None:
    """Put results beside each other: ratios to the first, and whether what differs is more than noise.

    Each is a file, a name that `ownlab bench list` shows, or `last`.
    """
    from ownlab.instruments.bench.comparison import compare_reports
    from ownlab.instruments.bench.report_files import find_report

    if len(names) < 2:
        raise UsageError("two results at least are to be compared", hint="ownlab bench compare A.json B.json; or: last")
    found = compare_reports([(_label(name), find_report(name)) for name in names])
    if plot is not None:
        from ownlab.instruments.bench.chart import comparison_chart
        from ownlab.render.charts import save_chart

        save_chart(comparison_chart(found), plot)
    if as_json:
        from ownlab.render.documents import echo_record

        echo_record(found)
        return
    from ownlab.instruments.bench.terminal import show_comparison
    from ownlab.render.console import console

    show_comparison(found, console())


@command.command("show")
@click.argument("name", metavar="NAME")
@_plot_option
@json_option
def show(name: str, plot: Path | None, as_json: bool) -> None:
    """Show a result again: a file, a name that `ownlab bench list` shows, or `last`."""
    from ownlab.instruments.bench.report_files import find_report

    _show(find_report(name), plot, as_json=as_json)


@command.command("list")
@json_option
def list_results(as_json: bool) -> None:
    """List the results that came with ownlab, and one's own."""
    from ownlab.instruments.bench.report_files import list_reports

    found = list_reports()
    if as_json:
        from ownlab.render.documents import echo_record

        echo_record(found)
        return
    from ownlab.instruments.bench.terminal import show_reports
    from ownlab.render.console import console

    show_reports(found, console())


def _request(wishes: Wishes) -> Request:
    from ownlab.instruments.bench.measurement import BUDGETS
    from ownlab.instruments.bench.records import Profile, Request

    if wishes.quick and wishes.full:
        raise UsageError("--quick and --full exclude each other")
    if wishes.budget is not None and not math.isfinite(wishes.budget):
        raise UsageError(f"--budget {wishes.budget}: a number of seconds is wanted")
    profile: Profile = "quick" if wishes.quick else "full" if wishes.full else "default"
    _check_writable(wishes)
    return Request(
        profile=profile,
        groups=_groups(wishes.only),
        device=_device(wishes.device),
        folder=os.path.abspath(wishes.folder or "."),
        budget_seconds=wishes.budget or BUDGETS[profile],
        memory_bytes=_size(wishes.memory),
    )


def _groups(only: tuple[str, ...]) -> tuple[str, ...] | None:
    import difflib

    from ownlab.instruments.bench.records import GROUPS

    words = [word for each in only for word in each.split(",") if word]
    if only and not words:
        raise UsageError("--only names no group", hint=f"There are {', '.join(GROUPS)}.")
    for word in words:
        if word not in GROUPS:
            close = difflib.get_close_matches(word, GROUPS, n=1)
            hint = f"Did you mean {close[0]}? " if close else ""
            raise UsageError(f"--only {word}: there is no such group", hint=f"{hint}There are {', '.join(GROUPS)}.")
    return tuple(words) or None


def _device(asked: str | None) -> str | None:
    import re

    if asked is None or re.fullmatch(r"cpu|cuda:\d+", asked):
        return asked
    if asked == "cuda":
        return "cuda:0"
    raise UsageError(f"--device {asked} is neither cpu nor a card", hint="Write cuda:0, cuda:1 … or cpu.")


def _size(asked: str | None) -> int | None:
    from ownlab.units import parse_bytes

    if asked is None:
        return None
    try:
        size = parse_bytes(asked)
    except ValueError as exc:
        raise UsageError(f"--memory: {exc}") from exc
    if size <= 0:
        raise UsageError("--memory 0 leaves nothing to measure with")
    return size


def _check_writable(wishes: Wishes) -> None:
    """Minutes of measuring are not to be lost to a folder that is not there."""
    if wishes.plot is not None:
        from ownlab.render.charts import drawn_kind

        drawn_kind(wishes.plot)
    for path in (wishes.save, wishes.plot):
        if path is not None and not os.access(path.absolute().parent, os.W_OK):
            raise InputError(f"{path} cannot be written: its folder is not there, or may not be written to")


def _measured(request: Request, wishes: Wishes) -> BenchReport:
    """All of it, or what there was when it was interrupted."""
    from ownlab.config.target import resolve_machine_options
    from ownlab.instruments.bench.measurement import Gathered, ask_events, gather, report_of
    from ownlab.instruments.bench.terminal import following
    from ownlab.machine.reader import read_machine
    from ownlab.render.console import working

    options = resolve_machine_options(python=wishes.python)
    with working("Looking at the machine"):
        machine = read_machine(options)
    gathered = Gathered()
    if options.machine_file is not None:
        gathered.notes.append(
            f"The machine is not the one that was measured: {options.machine_origin} stands in for it."
        )
    try:
        with following("Starting") as heard, closing(ask_events(request, options.python)) as events:
            gather(events, gathered, heard)
    except KeyboardInterrupt:
        return report_of(gathered, request, machine)
    except SystemExit:  # a time limit, a closed terminal: nobody reads, but the result is kept
        if gathered.results:
            _keep(report_of(gathered, request, machine), wishes)
        raise
    return report_of(gathered, request, machine)


def _finish(report: BenchReport, wishes: Wishes) -> None:
    """Kept first, so that a closed pipe does not lose it; shown whatever becomes of files."""
    from ownlab.errors import OwnlabError

    kept, refused = [], None
    try:
        kept = _keep(report, wishes) if report.results else []
    except OwnlabError as exc:
        refused = exc
    _show(report, wishes.plot, as_json=wishes.as_json)
    for path in kept:
        click.echo(f"Kept in {path}", err=True)
    if refused is not None:
        raise refused


def _keep(report: BenchReport, wishes: Wishes) -> list[Path]:
    from ownlab.errors import OwnlabError
    from ownlab.instruments.bench.report_files import save_report, where_kept

    kept = []
    if wishes.keep:
        try:
            path = where_kept(report)
            save_report(report, path)
            kept.append(path)
        except OwnlabError as exc:  # nobody asked for this file by name: it is no failure
            click.echo(f"ownlab: the result was not kept: {exc.message}", err=True)
    if wishes.save is not None:
        save_report(report, wishes.save)
        kept.append(wishes.save)
    return kept


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

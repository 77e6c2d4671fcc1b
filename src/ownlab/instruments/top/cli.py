"""`ownlab top`: what the GPUs do, as a full screen, a table, a recording, or for Prometheus.

Imports little: the child process that queries the driver is started first, and the rest loads while it starts.
"""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from ownlab.cli.options import json_below, json_option
from ownlab.errors import DeviceUnusable, UsageError
from ownlab.json_encoding import encode_json
from ownlab.text import text

if TYPE_CHECKING:
    from ownlab.instruments.top.records import Owner, Sample, TopReading
    from ownlab.instruments.top.source import Source
    from ownlab.instruments.top.verdict_window import Window

__all__ = ["command"]

_LEAST_INTERVAL = 0.1
_INTERVAL = 1.0


class TopOptions(NamedTuple):
    """The options of the command, by name."""

    once: bool
    as_json: bool
    watch: float | None
    interval: float | None
    window: float
    cards: str | None
    query: str | None
    form: str | None
    record: Path | None
    fields: str | None
    replay: Path | None
    speed: float | None
    serve: str | None
    token_file: Path | None

    @property
    def every(self) -> float:
        """Seconds between two samples."""
        return self.interval or _INTERVAL

    @property
    def plain(self) -> bool:
        """Whether to print lines instead of the full screen."""
        lines = self.once or self.as_json or self.watch is not None or self.query is not None
        is_terminal = sys.stdout.isatty() and sys.stdin.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        return lines or not is_terminal

    @property
    def single(self) -> bool:
        """Whether to take a single reading."""
        once = self.record is None or self.once or self.as_json or self.query is not None
        return self.plain and self.serve is None and self.watch is None and once


class _Finite(click.FloatRange):
    """A range without "inf" and "nan", which click accepts."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(text("{value} is not a finite number.", value=value), param, ctx)
        return number


_path = click.Path(path_type=Path, dir_okay=False)
_seconds = _Finite(min=_LEAST_INTERVAL)


@click.group("top", invoke_without_command=True)
@click.option(
    "--once", is_flag=True, help="Print one table, over 0.1 s or --interval. Also the default when output is piped."
)
@json_option
@click.option(
    "--watch",
    "-l",
    "--loop",
    "watch",
    type=_seconds,
    metavar="SECONDS",
    help="Print repeatedly; with --json, one line each time.",
)
@click.option(
    "--interval",
    type=_seconds,
    metavar="SECONDS",
    help="Time between two samples. Default: 1; for a single reading (--once, --json, --query) 0.1. Minimum: 0.1.",
)
@click.option(
    "--window", type=_seconds, default=30.0, metavar="SECONDS", help="Time that a verdict is based on. Default: 30."
)
@click.option("--cards", "-i", "--id", "cards", metavar="0,1", help="Only these cards: numbers or UUIDs.")
@click.option(
    "--query", "--query-gpu", metavar="FIELDS", help="Print fields by their names in nvidia-smi; `help` lists all."
)
@click.option("--format", "form", metavar="csv[,noheader][,nounits]", help="Format of --query, as in nvidia-smi.")
@click.option("--record", type=_path, metavar="FILE", help="Record samples in FILE.ndjson or FILE.csv.")
@click.option("--fields", metavar="FIELDS", help="The fields that --record writes; names as for --query.")
@click.option("--replay", type=_path, metavar="FILE", help="Show a recording instead of this machine.")
@click.option("--speed", type=_Finite(min=0.01), metavar="X", help="Speed of --replay; 10: ten times as fast.")
@click.option(
    "--serve", metavar="ADDRESS:PORT", help="Serve metrics for Prometheus at /metrics, with the names of dcgm-exporter."
)
@click.option("--token-file", type=_path, metavar="FILE", help="With --serve: require the token in FILE.")
@click.pass_context
def command(context: click.Context, /, **values: Any) -> None:
    """Show what the GPUs do: not only whether something runs, but how much of each card is active.

    In a terminal it fills the screen (? shows the keys). Each card gets a sentence that names what limits its work, and
    advice. Processes are shown with their notebook.

    \b
    ownlab top --once                   a single reading
    ownlab top --once --json            the same for programs
    ownlab top --record run.ndjson      then: ownlab top report run.ndjson
    """
    options = TopOptions(**values)
    if context.invoked_subcommand is not None:
        json_below(context, options.as_json)
        return
    _check(options)
    if options.query == "help":
        _list_fields()
        return
    with ExitStack() as stack:
        if options.serve is not None:
            _serve(options, stack)
        elif options.plain:
            _print(options, stack)
        else:
            _run_screen(options, stack)


@command.command("report")
@click.argument("file", type=_path)
@click.option("--save", type=_path, metavar="FILE", help="Save a chart as FILE.png, FILE.svg or FILE.html.")
@json_option
def report(file: Path, save: Path | None, as_json: bool) -> None:
    """Summarise a recording: verdicts over time, means, peaks and energy.

    \b
    ownlab top --record run.ndjson
    ownlab top report run.ndjson --save run.png
    """
    from ownlab.instruments.top.recording import read
    from ownlab.instruments.top.report import build_report
    from ownlab.render.documents import echo_record

    summary = build_report(read(file))
    if save is not None:
        from ownlab.instruments.top.chart import report_chart
        from ownlab.render.charts import save_chart

        save_chart(report_chart(summary), save)
    if as_json:
        echo_record(summary)
        return
    from ownlab.instruments.top.report_terminal import show_report
    from ownlab.render.console import console

    show_report(summary, console())
    if save is not None:
        click.echo(text("Chart saved as {file}.", file=save))


def _check(options: TopOptions) -> None:
    """Refuse invalid combinations before anything starts."""
    conflicts = (
        (options.once and options.watch is not None, text("--once cannot be combined with --watch.")),
        (options.speed is not None and options.replay is None, text("--speed needs --replay FILE.")),
        (options.fields is not None and options.record is None, text("--fields needs --record FILE.")),
        (options.form is not None and options.query is None, text("--format needs --query FIELDS.")),
        (options.query is not None and options.as_json, text("--query prints CSV and cannot be combined with --json.")),
        (
            options.record is not None and options.replay is not None,
            text("--record cannot be combined with --replay."),
        ),
        (options.token_file is not None and options.serve is None, text("--token-file needs --serve ADDRESS:PORT.")),
        (
            options.serve is not None
            and (options.once or options.as_json or options.query or options.record or options.replay),
            text("--serve cannot be combined with --once, --json, --query, --record or --replay."),
        ),
    )
    for applies, message in conflicts:
        if applies:
            raise UsageError(message)


# -- the source of samples ---------------------------------------------------------------------------------------------


def _open_source(options: TopOptions, stack: ExitStack) -> Source:
    source: Source
    if options.replay is not None:
        from ownlab.instruments.top.recording import Replay

        source = Replay(options.replay)
    else:
        from ownlab.instruments.top.nvml_child import take_prestarted
        from ownlab.instruments.top.sampler import Sampler

        source = sampler = Sampler(_owners(stack), child=take_prestarted())
        if options.single:
            sampler.begin()
    stack.callback(source.close)
    if options.cards is not None:
        from ownlab.instruments.top.source import CardFilter

        source = CardFilter(source, options.cards)
    return source


def _owners(stack: ExitStack) -> Callable[[], Mapping[int, Owner]]:
    """Return the owners of processes. Reading a store is a third of the start-up time, so look for traces of one first."""
    from ownlab.config.paths import SYSTEM_CONFIG, config_file, state_folder

    local = f"/var/tmp/ownlab-{os.geteuid()}"  # noqa: S108  # existence check only; lab.store.places checks its owner
    traces = (state_folder(make=False) / "store", config_file(), SYSTEM_CONFIG, "/var/lib/ownlab", local)
    if "OWNLAB_STORE" not in os.environ and not any(os.path.lexists(trace) for trace in traces):
        return dict
    from ownlab.lab.runtimes.process_owners import StoreOwners

    owners = StoreOwners()
    stack.callback(owners.close)
    return owners


def _open_recorder(options: TopOptions, stack: ExitStack) -> Callable[[Sample], None]:
    """Return a function that records a sample; without --record it does nothing."""
    if options.record is None:
        return lambda sample: None
    from ownlab.instruments.top.fields import parse_fields
    from ownlab.instruments.top.recording import Recorder

    recorder = Recorder(options.record, parse_fields(options.fields) if options.fields is not None else None)
    stack.callback(recorder.close)
    return recorder.add


# -- lines ---------------------------------------------------------------------------------------------------------------


def _print(options: TopOptions, stack: ExitStack) -> None:
    source = _open_source(options, stack)
    record = _open_recorder(options, stack)
    show = _printer(options)
    if options.single:
        reading = _single_reading(options, source)
        record(reading.sample)
        show(reading)
        return
    if options.watch is None:
        click.echo(text("Recording to {file}. Stop with Ctrl-C.", file=options.record), err=True)
    due = 0.0
    for reading in _readings(options, source):
        record(reading.sample)
        if options.watch is None or reading.sample.at < due - options.every / 2:  # samples are never exactly on time
            continue
        due = max(due + options.watch, reading.sample.at)
        show(reading)
        sys.stdout.flush()


def _single_reading(options: TopOptions, source: Source) -> TopReading:
    """Return a reading of this moment, or of the end of a recording."""
    from ownlab.instruments.top.records import TopReading
    from ownlab.instruments.top.source import settle
    from ownlab.instruments.top.verdict_window import Window

    window = Window(options.window)
    if options.replay is None:
        sample = settle(source)
        window.add(sample)
        remaining = (options.interval or 0.0) - (sample.seconds or 0.0)
        if remaining > 0:
            time.sleep(remaining)
            sample = source.take()
            window.add(sample)
    else:
        sample = _last_sample(source, window)
    return TopReading(sample, window.verdicts())


def _last_sample(source: Source, window: Window) -> Sample:
    """Return the last sample of a recording, and add all samples to the window."""
    from ownlab.errors import InputError
    from ownlab.instruments.top.source import StreamEnded

    sample = None
    try:
        while True:
            sample = source.take()
            window.add(sample)
    except StreamEnded:
        if sample is None:
            raise InputError(text("The recording contains no sample.")) from None
        return sample


def _readings(options: TopOptions, source: Source) -> Iterator[TopReading]:
    """Yield readings at their times."""
    from ownlab.instruments.top.records import TopReading
    from ownlab.instruments.top.source import follow
    from ownlab.instruments.top.verdict_window import Window

    window = Window(options.window)
    interval = min(options.every, options.watch or options.every)
    for sample in follow(source, interval=interval, speed=_speed(options)):
        window.add(sample)
        if sample.seconds is not None or options.replay is not None:  # the first sample has no rates
            yield TopReading(sample, window.verdicts())


def _speed(options: TopOptions) -> float | None:
    return None if options.replay is None else options.speed or 1.0


def _printer(options: TopOptions) -> Callable[[TopReading], None]:
    """Return the function that prints a reading."""
    if options.query is not None:
        return _csv_printer(options)
    if options.as_json:
        return lambda reading: _echo_json(reading, indented=options.watch is None)
    from ownlab.instruments.top.terminal import show_reading
    from ownlab.render.console import console

    out = console()

    def show(reading: TopReading) -> None:
        if options.watch is not None:
            out.print(time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(reading.sample.at)), style="dim")
        show_reading(reading, out)
        if options.watch is not None:
            out.print()

    return show


def _echo_json(reading: TopReading, *, indented: bool) -> None:
    import msgspec

    document = encode_json(reading)
    click.echo(msgspec.json.format(document, indent=1) if indented else document)


def _csv_printer(options: TopOptions) -> Callable[[TopReading], None]:
    """Return a printer of CSV in nvidia-smi's format, with one header line."""
    from ownlab.instruments.top.fields import format_header, format_rows, has_card_fields, parse_fields

    flags = {word.strip() for word in (options.form or "csv").split(",")}
    if not flags <= {"csv", "noheader", "nounits"}:
        raise UsageError(
            text("Unknown format {format!r}.", format=options.form),
            hint=text("Use csv, csv,noheader or csv,noheader,nounits."),
        )
    fields = parse_fields(options.query or "")
    units = "nounits" not in flags
    title = "" if "noheader" in flags else format_header(fields) if units else ", ".join(field.name for field in fields)
    needs_cards = has_card_fields(fields)
    shown = False

    def show(reading: TopReading) -> None:
        nonlocal shown
        if needs_cards and not reading.sample.cards:
            reason = reading.sample.trouble or text("NVML finds none on this machine")
            message = text("No GPU to query: {reason}.", reason=reason)
            if not shown:
                raise DeviceUnusable(message)
            click.echo(f"ownlab: {message}", err=True)  # it may come back
            return
        if title and not shown:
            click.echo(title)
        shown = True
        for line in format_rows(fields, reading.sample, reading.verdicts, units=units):
            click.echo(line)

    return show


def _list_fields() -> None:
    from ownlab.instruments.top.fields import FIELDS
    from ownlab.render.console import console, hanging

    out, width = console(), max(map(len, FIELDS))
    for field in FIELDS.values():
        unit = f" ({field.unit})" if field.unit else ""
        hanging(out, f"{field.name:<{width}}  ", f"{field.meaning}{unit}")


# -- Prometheus, and the full screen -------------------------------------------------------------------------------------


def _serve(options: TopOptions, stack: ExitStack) -> None:
    source = _open_source(options, stack)
    from ownlab.instruments.top.metrics_server import MetricsServer, ScrapeSampler

    assert options.serve is not None
    server = MetricsServer(ScrapeSampler(source, options.window), options.serve, token_file=options.token_file)
    click.echo(text("Serving metrics for Prometheus at {url}. Stop with Ctrl-C.", url=server.url), err=True)
    server.serve()


def _run_screen(options: TopOptions, stack: ExitStack) -> None:
    source = _open_source(options, stack)
    record = _open_recorder(options, stack)
    from ownlab.instruments.top.screen.app import run_screen
    from ownlab.instruments.top.screen.model import Feed, View
    from ownlab.instruments.top.verdict_window import Window

    feed = Feed(source, interval=options.every, speed=_speed(options), record=record)
    run_screen(View(Window(options.window)), feed, _heading(options))


def _heading(options: TopOptions) -> str:
    import socket

    parts = ["ownlab top"]
    if options.replay is None:
        parts += [socket.gethostname(), text("every {seconds:g} s", seconds=options.every)]
    else:
        parts += [
            text("recording {file}", file=options.replay.name),
            text("speed {speed:g} ×", speed=options.speed or 1),
        ]
    parts.append(text("verdicts over {seconds:g} s", seconds=options.window))
    if options.record is not None:
        parts.append(text("recording to {file}", file=options.record.name))
    return " · ".join(parts)

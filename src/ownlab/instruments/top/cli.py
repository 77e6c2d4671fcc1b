"""`ownlab top`: what the GPUs really do, live, once, into a file, or for Prometheus.

Imports little: the child that asks the driver is started first, and what else is needed is loaded while it starts.
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

if TYPE_CHECKING:
    from ownlab.instruments.top.records import Look, Owner, Sample
    from ownlab.instruments.top.source import Source
    from ownlab.instruments.top.window import Window

__all__ = ["command"]

_LEAST_INTERVAL = 0.1
_INTERVAL = 1.0


class Wishes(NamedTuple):
    """The options, by their names."""

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
        """Whether lines are wanted, and no full screen."""
        lines = self.once or self.as_json or self.watch is not None or self.query is not None
        can_be_filled = sys.stdout.isatty() and sys.stdin.isatty() and os.environ.get("TERM", "dumb") != "dumb"
        return lines or not can_be_filled

    @property
    def looks_once(self) -> bool:
        """Whether this moment is all that is wanted."""
        once = self.record is None or self.once or self.as_json or self.query is not None
        return self.plain and self.serve is None and self.watch is None and once


class _Finite(click.FloatRange):
    """Neither "inf" nor "nan", which no range keeps out."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        found = super().convert(value, param, ctx)
        if not math.isfinite(found):
            self.fail(f"{value} is no length of time.", param, ctx)
        return found


_path = click.Path(path_type=Path, dir_okay=False)
_seconds = _Finite(min=_LEAST_INTERVAL)


@click.group("top", invoke_without_command=True)
@click.option("--once", is_flag=True, help="Print a table once, over 0.1 s or --interval. So it is in a pipe too.")
@json_option
@click.option(
    "--watch",
    "-l",
    "--loop",
    "watch",
    type=_seconds,
    metavar="SECONDS",
    help="Print it again and again; with --json, a line each time.",
)
@click.option(
    "--interval",
    type=_seconds,
    metavar="SECONDS",
    help="Between two samples; 1, 0.1 at least. A single look (--once, --json, --query) takes 0.1 s without it.",
)
@click.option("--window", type=_seconds, default=30.0, metavar="SECONDS", help="What a verdict is drawn from; 30.")
@click.option("--cards", "-i", "--id", "cards", metavar="0,1", help="Only these: numbers, or UUIDs.")
@click.option("--query", "--query-gpu", metavar="FIELDS", help="Print fields by nvidia-smi's names; `help` lists all.")
@click.option("--format", "form", metavar="csv[,noheader][,nounits]", help="How --query prints; as in nvidia-smi.")
@click.option("--record", type=_path, metavar="FILE", help="Keep samples in FILE.ndjson or FILE.csv.")
@click.option("--fields", metavar="FIELDS", help="What --record keeps in a CSV file; the names of --query.")
@click.option("--replay", type=_path, metavar="FILE", help="Show a recording instead of this machine.")
@click.option("--speed", type=_Finite(min=0.01), metavar="X", help="Of --replay; 10: ten times as fast.")
@click.option("--serve", metavar="ADDRESS:PORT", help="Answer Prometheus at /metrics, with dcgm-exporter's names.")
@click.option("--token-file", type=_path, metavar="FILE", help="With --serve: who asks must have the token in it.")
@click.pass_context
def command(context: click.Context, /, **given: Any) -> None:
    """Show what each GPU's time goes into: not only whether something runs, but how much of the card works.

    In a terminal it fills the screen (? shows its keys). Each card gets a sentence that says what limits its work, and
    what to try; processes are named by their notebook.
    """
    wishes = Wishes(**given)
    if context.invoked_subcommand is not None:
        json_below(context, wishes.as_json)
        return
    _refuse(wishes)
    if wishes.query == "help":
        _list_fields()
        return
    with ExitStack() as stack:
        if wishes.serve is not None:
            _serve(wishes, stack)
        elif wishes.plain:
            _print(wishes, stack)
        else:
            _fill_screen(wishes, stack)


@command.command("report")
@click.argument("file", type=_path)
@click.option("--save", type=_path, metavar="FILE", help="Draw it into FILE.png, FILE.svg or FILE.html.")
@json_option
def report(file: Path, save: Path | None, as_json: bool) -> None:
    """Say what the GPUs' time went into in a recording: verdicts over time, means, peaks and energy."""
    from ownlab.instruments.top.recording import read
    from ownlab.instruments.top.report import report as report_of
    from ownlab.render.documents import echo_record

    found = report_of(read(file))
    if save is not None:
        from ownlab.instruments.top.chart import report_chart
        from ownlab.render.charts import save_chart

        save_chart(report_chart(found), save)
    if as_json:
        echo_record(found)
        return
    from ownlab.instruments.top.report_terminal import show_report
    from ownlab.render.console import console

    show_report(found, console())
    if save is not None:
        click.echo(f"Drawn into {save}.")


def _refuse(wishes: Wishes) -> None:
    """What does not go together is said before anything starts."""
    wrong = (
        (wishes.once and wishes.watch is not None, "--once prints once; --watch again and again"),
        (wishes.speed is not None and wishes.replay is None, "--speed is that of a recording: give --replay FILE too"),
        (wishes.fields is not None and wishes.record is None, "--fields says what --record keeps: give --record too"),
        (wishes.form is not None and wishes.query is None, "--format says how --query prints: give --query too"),
        (wishes.query is not None and wishes.as_json, "--query prints CSV; it does not go with --json"),
        (
            wishes.record is not None and wishes.replay is not None,
            "a recording that is shown again is not recorded anew",
        ),
        (wishes.token_file is not None and wishes.serve is None, "--token-file goes with --serve"),
        (
            wishes.serve is not None
            and (wishes.once or wishes.as_json or wishes.query or wishes.record or wishes.replay),
            "--serve answers Prometheus and does nothing else",
        ),
    )
    for is_so, why in wrong:
        if is_so:
            raise UsageError(why)


# -- where samples come from ---------------------------------------------------------------------------------------------


def _source(wishes: Wishes, stack: ExitStack) -> Source:
    source: Source
    if wishes.replay is not None:
        from ownlab.instruments.top.recording import Replay

        source = Replay(wishes.replay)
    else:
        from ownlab.instruments.top.nvml_child import take_hastened
        from ownlab.instruments.top.sampler import Sampler

        source = sampler = Sampler(_owners(stack), child=take_hastened())
        if wishes.looks_once:
            sampler.begin()
    stack.callback(source.close)
    if wishes.cards is not None:
        from ownlab.instruments.top.source import ChosenCards

        source = ChosenCards(source, wishes.cards)
    return source


def _owners(stack: ExitStack) -> Callable[[], Mapping[int, Owner]]:
    """Whose runtimes there are. What reads a store is a third of the start-up time: not without any sign of one."""
    from ownlab.config.paths import SYSTEM_CONFIG, config_file, state_folder

    local = f"/var/tmp/ownlab-{os.geteuid()}"  # noqa: S108  # only looked for; lab.store.places says whose it must be
    signs = (state_folder(make=False) / "store", config_file(), SYSTEM_CONFIG, "/var/lib/ownlab", local)
    if "OWNLAB_STORE" not in os.environ and not any(os.path.lexists(sign) for sign in signs):
        return dict
    from ownlab.lab.runtimes.process_owners import StoreOwners

    owners = StoreOwners()
    stack.callback(owners.close)
    return owners


def _recorder(wishes: Wishes, stack: ExitStack) -> Callable[[Sample], None]:
    """Takes samples into the file; where none is wanted, nowhere."""
    if wishes.record is None:
        return lambda sample: None
    from ownlab.instruments.top.fields import pick
    from ownlab.instruments.top.recording import Recorder

    recorder = Recorder(wishes.record, pick(wishes.fields) if wishes.fields is not None else None)
    stack.callback(recorder.close)
    return recorder.add


# -- lines ---------------------------------------------------------------------------------------------------------------


def _print(wishes: Wishes, stack: ExitStack) -> None:
    source = _source(wishes, stack)
    record = _recorder(wishes, stack)
    show = _shower(wishes)
    if wishes.looks_once:
        for look in _one_look(wishes, source):
            record(look.sample)
            show(look)
        return
    if wishes.watch is None:
        click.echo(f"Recording into {wishes.record}; Ctrl-C ends it.", err=True)
    due = 0.0
    for look in _looks(wishes, source):
        record(look.sample)
        if wishes.watch is None or look.sample.at < due - wishes.every / 2:  # a sample is never quite in time
            continue
        due = max(due + wishes.watch, look.sample.at)
        show(look)
        sys.stdout.flush()


def _one_look(wishes: Wishes, source: Source) -> Iterator[Look]:
    """This moment; of a recording, its end."""
    from ownlab.instruments.top.records import Look
    from ownlab.instruments.top.source import settle
    from ownlab.instruments.top.window import Window

    window = Window(wishes.window)
    if wishes.replay is None:
        sample = settle(source)
        window.add(sample)
        left = (wishes.interval or 0.0) - (sample.seconds or 0.0)
        if left > 0:
            time.sleep(left)
            sample = source.take()
            window.add(sample)
    else:
        sample = _last(source, window)
    yield Look(sample, window.verdicts())


def _last(source: Source, window: Window) -> Sample:
    """The last sample of a recording, with all that were before it in the window."""
    from ownlab.errors import InputError
    from ownlab.instruments.top.source import StreamEnded

    sample = None
    try:
        while True:
            sample = source.take()
            window.add(sample)
    except StreamEnded:
        if sample is None:
            raise InputError("the recording has no sample in it") from None
        return sample


def _looks(wishes: Wishes, source: Source) -> Iterator[Look]:
    """One after the other, in their time."""
    from ownlab.instruments.top.records import Look
    from ownlab.instruments.top.source import follow
    from ownlab.instruments.top.window import Window

    window = Window(wishes.window)
    interval = min(wishes.every, wishes.watch or wishes.every)
    for sample in follow(source, interval=interval, speed=_speed(wishes)):
        window.add(sample)
        if sample.seconds is not None or wishes.replay is not None:  # a first one has no rates
            yield Look(sample, window.verdicts())


def _speed(wishes: Wishes) -> float | None:
    return None if wishes.replay is None else wishes.speed or 1.0


def _shower(wishes: Wishes) -> Callable[[Look], None]:
    """How a look is printed."""
    if wishes.query is not None:
        return _csv_shower(wishes)
    if wishes.as_json:
        return lambda look: _echo_json(look, indented=wishes.watch is None)
    from ownlab.instruments.top.terminal import show_look
    from ownlab.render.console import console

    out = console()

    def show(look: Look) -> None:
        if wishes.watch is not None:
            out.print(time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(look.sample.at)), style="dim")
        show_look(look, out)
        if wishes.watch is not None:
            out.print()

    return show


def _echo_json(look: Look, *, indented: bool) -> None:
    # Not show.document: it knows the records of all commands, and loads them.
    import msgspec

    document = encode_json(look)
    click.echo(msgspec.json.format(document, indent=1) if indented else document)


def _csv_shower(wishes: Wishes) -> Callable[[Look], None]:
    """Lines as nvidia-smi prints them; its header comes once."""
    from ownlab.instruments.top.fields import header, pick, rows, speak_of_cards

    how = {word.strip() for word in (wishes.form or "csv").split(",")}
    if not how <= {"csv", "noheader", "nounits"}:
        raise UsageError(f"there is no format {wishes.form!r}", hint="Write csv, csv,noheader or csv,noheader,nounits.")
    fields = pick(wishes.query or "")
    units = "nounits" not in how
    title = "" if "noheader" in how else header(fields) if units else ", ".join(field.name for field in fields)
    of_cards = speak_of_cards(fields)
    shown = False

    def show(look: Look) -> None:
        nonlocal shown
        if of_cards and not look.sample.cards:
            trouble = f"no GPU to ask: {look.sample.trouble or 'this machine has none that NVML knows'}"
            if not shown:
                raise DeviceUnusable(trouble)
            click.echo(f"ownlab: {trouble}", err=True)  # it may come back
            return
        if title and not shown:
            click.echo(title)
        shown = True
        for line in rows(fields, look.sample, look.verdicts, units=units):
            click.echo(line)

    return show


def _list_fields() -> None:
    from ownlab.instruments.top.fields import FIELDS

    width = max(map(len, FIELDS))
    for field in FIELDS.values():
        click.echo(f"{field.name:<{width}}  {field.meaning}{f' ({field.unit})' if field.unit else ''}")


# -- Prometheus, and the full screen -------------------------------------------------------------------------------------


def _serve(wishes: Wishes, stack: ExitStack) -> None:
    source = _source(wishes, stack)
    from ownlab.instruments.top.metrics_server import MetricsServer, OnDemand

    assert wishes.serve is not None
    server = MetricsServer(OnDemand(source, wishes.window), wishes.serve, token_file=wishes.token_file)
    click.echo(f"Figures for Prometheus at {server.url}; Ctrl-C ends it.", err=True)
    server.serve()


def _fill_screen(wishes: Wishes, stack: ExitStack) -> None:
    source = _source(wishes, stack)
    record = _recorder(wishes, stack)
    from ownlab.instruments.top.screen.app import run_screen
    from ownlab.instruments.top.screen.model import Feed, View
    from ownlab.instruments.top.window import Window

    feed = Feed(source, interval=wishes.every, speed=_speed(wishes), record=record)
    run_screen(View(Window(wishes.window)), feed, _heading(wishes))


def _heading(wishes: Wishes) -> str:
    import socket

    parts = [
        "ownlab top",
        f"recording {wishes.replay.name}" if wishes.replay is not None else socket.gethostname(),
        f"every {wishes.every:g} s" if wishes.replay is None else f"{wishes.speed or 1:g} × as fast",
        f"verdicts over {wishes.window:g} s",
        f"to {wishes.record.name}" if wishes.record is not None else "",
    ]
    return " · ".join(part for part in parts if part)

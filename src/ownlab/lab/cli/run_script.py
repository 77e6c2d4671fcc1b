"""`ownlab run SCRIPT`: run a Python script on some of this machine's GPUs."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from ownlab.lab.runs.reporter import Stop

# Imports are deferred, as in `run.py`.

__all__ = ["MODULE", "SCRIPT_ENDING", "STDIN", "run_script_command", "stopped_by_signals"]

SCRIPT_ENDING = ".py"
MODULE = "-m"  # stands in the place of a notebook
STDIN = "-"

_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run_script_command(
    script: tuple[str, ...], request: dict[str, Any], *, detach: bool, quiet: bool, as_json: bool
) -> int:
    """Run a script, and return the exit code of the command."""
    from ownlab.lab.runs.reporter import Stop
    from ownlab.lab.scripts.preparation import ScriptRequest, prepare_script
    from ownlab.lab.scripts.run import run_script, start_in_background
    from ownlab.lab.terminal.script import TerminalScriptReporter, describe_background, print_end

    source = sys.stdin.buffer.read() if script[0] == STDIN else None
    prepared = prepare_script(ScriptRequest(script, source=source, **request))
    if detach:
        report = start_in_background(prepared)
    else:
        stop = Stop()
        reporter = TerminalScriptReporter(sys.stderr, None if quiet or as_json else sys.stdout)
        with stopped_by_signals(stop):
            report = run_script(prepared, reporter, stop)
        reporter.finish()
    if as_json:
        from ownlab.render.documents import echo_record

        echo_record(report)
    if detach and report.status in ("waiting", "running"):
        if not as_json:
            click.echo(describe_background(report))
        return 0
    print_end(report, sys.stderr)
    return 128 + stop.signum if not detach and stop.signum and report.status != "done" else report.shell_code


@contextmanager
def stopped_by_signals(stop: Stop) -> Iterator[None]:
    """Pass these signals on to a run. One that is ignored stays so, as under nohup."""
    before = {}
    for number in _STOP_SIGNALS:
        if signal.getsignal(number) != signal.SIG_IGN:
            before[number] = signal.signal(number, lambda signum, _: stop.request(signum))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

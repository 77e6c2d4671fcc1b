"""The run of a script in the terminal: what rank 0 prints on stdout; what ownlab has to say, and the first failure, on stderr."""

from __future__ import annotations

import os
from typing import TextIO

from ownlab.lab.engines.interface import JobStatus
from ownlab.lab.engines.registry import DEFAULT_ENGINE
from ownlab.lab.scripts.preparation import PreparedScript
from ownlab.lab.scripts.records import ScriptReport
from ownlab.lab.scripts.run import ScriptReporter
from ownlab.lab.terminal.cell_output import CellOutput, clean, write
from ownlab.lab.terminal.run import format_elapsed
from ownlab.text import Text, listing, plural, text

__all__ = ["TerminalScriptReporter", "describe_background", "print_end", "short_folder"]

# Lines of a failed rank's log that are shown if it has left no traceback.
_TAIL = 20


class TerminalScriptReporter(ScriptReporter):
    """Reports on two streams."""

    def __init__(self, stderr: TextIO, stdout: TextIO | None) -> None:
        """`stdout` gets what rank 0 prints; None: nothing."""
        self._stderr = stderr
        self._output = None if stdout is None else CellOutput(stdout, stderr)

    def waiting(self, prepared: PreparedScript, status: JobStatus) -> None:
        label = prepared.start.label
        _print(self._stderr, text("Waiting for {label}: {reason}", label=label, reason=status.reason))

    def started(self, prepared: PreparedScript, status: JobStatus) -> None:
        if status.nodes:
            _print(self._stderr, _describe_job(prepared, status))
            return
        start, cards = prepared.start, status.cards
        values = {
            "label": start.label,
            "cards": listing(map(str, cards)),
            "folder": short_folder(prepared.folder),
            "runtime": start.runtime[:8],
        }
        if cards:
            line = plural(
                start.ranks,
                "1 process on {label}, GPU {cards}; runtime {runtime}, log in {folder}",
                "{n} ranks on {label}, GPU {cards}; runtime {runtime}, logs in {folder}",
                **values,
            )
        else:
            line = plural(
                start.ranks,
                "1 process on {label}; runtime {runtime}, log in {folder}",
                "{n} ranks on {label}; runtime {runtime}, logs in {folder}",
                **values,
            )
        _print(self._stderr, line)

    def output(self, printed: str) -> None:
        if self._output is not None:
            self._output.show({"output_type": "stream", "name": "stdout", "text": printed})

    def interrupting(self) -> None:
        self.finish()
        _print(self._stderr, text("Interrupting. Press Ctrl-C again to end it at once."))

    def finish(self) -> None:
        """Complete the last line of the output."""
        if self._output is not None:
            self._output.finish()


def _describe_job(prepared: PreparedScript, status: JobStatus) -> Text:
    """The first line of a run on a cluster. The number of the job is what other commands of the cluster take."""
    start = prepared.start
    values = {"label": start.label, "folder": short_folder(prepared.folder), "runtime": start.runtime[:8]}
    values["nodes"] = listing(status.nodes)
    return plural(
        start.ranks,
        "1 process on {nodes} ({label}); runtime {runtime}, log in {folder}",
        "{n} ranks on {nodes} ({label}); runtime {runtime}, logs in {folder}",
        **values,
    )


def print_end(report: ScriptReport, stream: TextIO) -> None:
    """Print how a run ended: the first failure with its traceback, and where the logs are."""
    _print(stream, _summary(report))
    failure = report.failure
    if failure is not None:
        tail = failure.traceback.rstrip() or _tail(failure.log)
        if tail and report.ranks > 1:  # a single process has just printed it
            write(stream, "".join(f"  {line}\n" for line in clean(tail, colours=False).splitlines()))
        _print(stream, text("  Its log: {path}", path=short_folder(failure.log)))
        if hint := _signal_hint(report):
            _print(stream, f"  {hint}")
    elif report.status == "failed":
        _print(stream, text("  Logs: {folder}", folder=short_folder(report.folder)))


def describe_background(report: ScriptReport) -> str:
    """Return what the user needs to know about a run in the background."""
    runtime = report.runtime[:8]
    lines: list[str]
    if report.engine != DEFAULT_ENGINE:
        values = {"job": report.reference, "label": report.label, "runtime": runtime}
        lines = [text("The script is job {job}, {label}, as runtime {runtime}.", **values)]
    elif report.status == "running":
        lines = [text("The script has started, as runtime {runtime}.", runtime=runtime)]
    else:
        lines = [text("The script waits for a GPU, as runtime {runtime}.", runtime=runtime)]
    lines.append(text("  logs    {folder}", folder=short_folder(report.folder)))
    lines.append(text("  follow  ownlab runtimes log -f {runtime}", runtime=runtime))
    lines.append(text("  stop    ownlab runtimes stop {runtime}", runtime=runtime))
    return "\n".join(lines)


def short_folder(path: str) -> str:
    """A path below the current folder without that folder."""
    short = os.path.relpath(path)
    return path if short.startswith("..") else short


def _summary(report: ScriptReport) -> Text:
    values = {
        "duration": format_elapsed(report.seconds),
        "folder": short_folder(report.folder),
        "reason": report.reason,
        "name": " ".join(report.script[: 2 if report.script[0] == "-m" else 1]),
    }
    if report.status == "done":
        return text("Done in {duration}. Logs: {folder}", **values)
    if report.status in ("stopped", "interrupted"):
        return text("ownlab: {name} ended after {duration}: {reason}. Logs: {folder}", **values)
    if report.status == "failed":
        return text("ownlab: {name} failed after {duration}: {reason}", **values)
    return text("{name} has been running for {duration}. Logs: {folder}", **values)


def _signal_hint(report: ScriptReport) -> str:
    failure = report.failure
    if failure is None or failure.signal != 9:
        return ""
    return text("A process that is killed (signal 9) has usually run out of memory.")


def _tail(path: str) -> str:
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - 8192))
            return "\n".join(file.read().decode(errors="replace").splitlines()[-_TAIL:])
    except OSError:  # it has printed nothing
        return ""


def _print(stream: TextIO, line: str) -> None:
    write(stream, clean(line, colours=False) + "\n")

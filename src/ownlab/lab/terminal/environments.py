"""Environments and the progress of their builds in the terminal."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from rich.console import Console
from rich.text import Text

from ownlab.lab.environments.builds import Build, is_building, read_build
from ownlab.lab.environments.records import EnvironmentState
from ownlab.render.console import labelled
from ownlab.render.wide_text import align_left, cell_width
from ownlab.text import facts, sentences, text
from ownlab.units import format_bytes, format_seconds

__all__ = ["ProgressLines", "follow_build", "show_environments"]

_FOLLOW_SECONDS = 0.3
_LINE_SECONDS = 5.0  # between two lines about the same download


class ProgressLines:
    """Plain lines about a build: one per step, and one every few seconds during downloads."""

    def __init__(self, name: str, say: Callable[[str], None]) -> None:
        self._name, self._say = name, say
        self._step = self._message = ""
        self._notes: tuple[str, ...] = ()
        self._said_at = float("-inf")

    def show(self, build: Build) -> None:
        """Say what is new."""
        for note in build.notes[len(self._notes) :]:
            self._line(note)
        self._notes = build.notes
        progress = build.progress
        if progress is not None:
            now = time.monotonic()
            late = progress.message != self._message and now - self._said_at >= _LINE_SECONDS
            if progress.phase != self._step or late:
                self._step, self._message, self._said_at = progress.phase, progress.message, now
                self._line(progress.message)
        elif build.outcome == "ready" and self._step != "ready":
            self._step = "ready"
            self._line(_summary(build))

    def fail(self, build: Build) -> None:
        """Say how a build ended that did not end well, and what to do."""
        stopped = text("The build was stopped. Continue: ownlab env create {name}", name=self._name)
        for line in sentences(build.error or stopped).splitlines() + build.hint.splitlines():
            self._line(line)

    def _line(self, message: str) -> None:
        self._say(text("{name}: {message}", name=self._name, message=message))


def follow_build(name: str, say: Callable[[str], None]) -> Build | None:
    """Print the progress of a build that another process makes, until it ends; return its last state."""
    lines = ProgressLines(name, say)
    while is_building(name):
        if (build := read_build(name)) is not None:
            lines.show(build)
        time.sleep(_FOLLOW_SECONDS)
    build = read_build(name)
    if build is not None:
        lines.show(build)
        if build.outcome != "ready":
            lines.fail(build)
    return build


def _summary(build: Build) -> str:
    size = format_bytes(build.size_bytes or 0)
    ready = text("Ready in {time}, {size} on disk.", time=format_seconds(build.seconds or 0.0), size=size)
    return sentences(ready, text("{proof}.", proof=build.proof) if build.proof else "")


def show_environments(states: Sequence[EnvironmentState], out: Console) -> None:
    """Print a line per environment, with what is wrong below it; or how to get one."""
    if not states:
        out.print(text("There are no environments. Runtimes start in ownlab's own environment."))
        out.print(Text(text("Create one: ownlab env create NAME --with torch"), style="dim"))
        out.print(Text(text("Add one: ownlab env add NAME --python PATH"), style="dim"))
        return
    names = max(cell_width(state.name) for state in states) + 2
    for state in states:
        line = Text.assemble(
            (align_left(state.name, names), "bold"),
            align_left(f"Python {state.version}" if state.version else "", 16),
            state.python,
            ("" if state.status == "ready" else f"  ({_STATUS[state.status]})", "bold red"),
            (_details(state), "dim"),
        )
        out.print(line, no_wrap=True, overflow="ignore", crop=False)
        for message in (state.progress.message if state.progress else "", state.error, state.hint):
            if message:
                labelled(out, "", message, indent=2, width=0)


_STATUS = {
    "ready": text("ready"),
    "building": text("being built"),
    "updating": text("being updated"),
    "failed": text("failed"),
    "cancelled": text("cancelled"),
    "interrupted": text("interrupted"),
    "missing": text("missing"),
}


def _details(state: EnvironmentState) -> str:
    size = format_bytes(state.size_bytes) if state.size_bytes is not None else ""
    known = facts(size, state.proof)
    return f"  {known}" if known else ""

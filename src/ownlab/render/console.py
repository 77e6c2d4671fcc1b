"""The terminal as it is: its width, its colours, or a pipe that wants neither."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterable, Iterator

from rich.console import Console, ConsoleOptions, RenderableType
from rich.padding import Padding
from rich.segment import Segment
from rich.text import Text

__all__ = ["console", "labelled", "working"]

# A pipe has no width: nothing is wrapped, so that grep finds whole lines.
_PIPE_WIDTH = 10_000
# Lines longer than this are hard to read, however wide the terminal is.
_WIDEST = 110
# A text column narrower than this goes below its label instead of beside it.
_NARROWEST = 24


# Other people's processes and notebooks may have any name: what would steer this terminal is shown as a sign instead.
_SIGNS = {number: "\N{REPLACEMENT CHARACTER}" for number in (*range(32), *range(127, 160)) if number not in b"\n\t"}


class _Results(Console):
    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Called by rich for all that is printed; what it adds itself to colour or move comes as a control, or later."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=segment.text.translate(_SIGNS))

    def on_broken_pipe(self) -> None:
        """Rich would end the program here with exit code 1; `main` knows what a closed pipe means."""
        raise BrokenPipeError


def console() -> Console:
    """The console for results, on stdout. Rich itself honours NO_COLOR, FORCE_COLOR and TERM=dumb."""
    # In a notebook it is text as well: Rich would make a box of HTML of each line.
    made = _Results(file=sys.stdout, highlight=False, soft_wrap=False, force_jupyter=False)
    made.width = min(made.width, _WIDEST) if sys.stdout.isatty() else _PIPE_WIDTH
    return made


@contextlib.contextmanager
def working(what: str) -> Iterator[None]:
    """Show on stderr that something takes its time, where a person watches; it is gone when it is done."""
    progress = Console(file=sys.stderr)
    if not progress.is_terminal:
        yield
        return
    with progress.status(f"{what} …", spinner="dots"):
        yield


def labelled(
    out: Console, label: str, text: Text | str, *, indent: int = 2, width: int = 10, wrapped: bool = True
) -> None:
    """A label and a text beside it that stays in its column when it wraps; unwrapped, it is one line to copy."""
    body = Text(text) if isinstance(text, str) else text
    room = out.width - indent - width
    if room < _NARROWEST:
        if label:
            out.print(Padding(Text(label, style="dim"), (0, 0, 0, indent)))
        indent, width, label, room = indent + 2, 0, "", out.width - indent - 2
    lines = body.wrap(out, room) if wrapped else body.split("\n")
    for number, line in enumerate(lines):
        line.rstrip()
        head = Text((label if number == 0 else "").ljust(width), style="dim")
        out.print(Text(" " * indent) + head + line, no_wrap=True, overflow="ignore", crop=False)

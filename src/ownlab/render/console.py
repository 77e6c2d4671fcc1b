"""The Rich console: the width and the colours of the terminal; neither in a pipe."""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Callable, Iterable, Iterator

from rich.console import Console, ConsoleOptions, RenderableType
from rich.padding import Padding
from rich.segment import Segment
from rich.text import Text

from ownlab.render.wide_text import align_left, cell_width, install
from ownlab.text import CONTROL_CHARACTERS, is_translated

__all__ = ["console", "hanging", "labelled", "print_to_text", "show_page", "working"]

# Nothing is wrapped in a pipe, so that grep finds whole lines.
_PIPE_WIDTH = 10_000
# Longer lines are hard to read, however wide the terminal is.
_WIDEST = 110
# Pages of Markdown are narrower still.
_PAGE_WIDTH = 100
# A text column narrower than this goes below its label instead of beside it.
_NARROWEST = 24


class _Results(Console):
    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Replace control characters in everything that is printed: names of other users' processes and notebooks may contain them.

        Rich adds its own control sequences later.
        """
        for segment in super().render(renderable, options):
            yield segment if segment.control else segment._replace(text=segment.text.translate(CONTROL_CHARACTERS))

    def on_broken_pipe(self) -> None:
        """Raise, since Rich would exit with code 1 here; `main` handles a closed pipe."""
        raise BrokenPipeError


def console() -> Console:
    """Return the console for results, on stdout. Rich itself honours NO_COLOR, FORCE_COLOR and TERM=dumb."""
    if is_translated():
        install()
    # Plain text in a notebook too: Rich would turn each line into an HTML box.
    made = _Results(file=sys.stdout, highlight=False, soft_wrap=False, force_jupyter=False)
    made.width = min(made.width, _WIDEST) if sys.stdout.isatty() else _PIPE_WIDTH
    return made


def print_to_text(show: Callable[[Console], None], width: int = _PIPE_WIDTH) -> str:
    """Return what `show` prints to a console of this width, instead of printing it."""
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        out = console()
        out.width = width
        show(out)
    return printed.getvalue()


@contextlib.contextmanager
def working(what: str) -> Iterator[None]:
    """Show a spinner on stderr while something takes time, if stderr is a terminal."""
    progress = Console(file=sys.stderr)
    if not progress.is_terminal:
        yield
        return
    with progress.status(f"{what} …", spinner="dots"):
        yield


def labelled(
    out: Console, label: str, text: Text | str, *, indent: int = 2, width: int = 10, wrapped: bool = True
) -> None:
    """Print a label and a text that wraps in its own column; with wrapped=False it stays one line, to be copied."""
    body = Text(text) if isinstance(text, str) else text
    if label and not label.endswith(" "):
        width = max(width, cell_width(label) + 1)
    room = out.width - indent - width
    if room < _NARROWEST:
        if label:
            out.print(Padding(Text(label, style="dim"), (0, 0, 0, indent)))
        indent, width, label, room = indent + 2, 0, "", out.width - indent - 2
    lines = body.wrap(out, room) if wrapped else body.split("\n")
    for number, line in enumerate(lines):
        line.rstrip()
        head = Text(align_left(label if number == 0 else "", width), style="dim")
        out.print(Text(" " * indent) + head + line, no_wrap=True, overflow="ignore", crop=False)


def hanging(out: Console, head: Text | str, body: str) -> None:
    """Print a text that wraps in its own column beside its head."""
    head = Text(head) if isinstance(head, str) else head
    for number, line in enumerate(Text(body).wrap(out, max(_NARROWEST, out.width - head.cell_len))):
        line.rstrip()
        start = head if number == 0 else Text(" " * head.cell_len)
        out.print(start + line, no_wrap=True, overflow="ignore", crop=False)


def show_page(head: Text, markdown: str, out: Console) -> None:
    """Print a page of Markdown below its head."""
    from rich.markdown import Markdown  # slow to import, and most output does not need it

    out.print(head)
    out.print()
    # Rich pads every line of Markdown to the console's width, which is unlimited in a pipe.
    page = Console(
        file=io.StringIO(), width=min(out.width, _PAGE_WIDTH), force_terminal=out.is_terminal, no_color=out.no_color
    )
    with page.capture() as captured:
        page.print(Markdown(markdown))
    out.print(Text.from_ansi("\n".join(line.rstrip() for line in captured.get().splitlines())), soft_wrap=True)

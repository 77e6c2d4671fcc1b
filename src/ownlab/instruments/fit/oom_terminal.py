"""An out-of-memory explanation in the terminal: the cause, the figures behind it, then what helps, best first."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text as RichText

from ownlab.instruments.fit.oom import OomExplanation
from ownlab.render.console import labelled
from ownlab.text import facts, plural, text

__all__ = ["show_oom"]

_WIDTH = 9


def show_oom(answer: OomExplanation, out: Console) -> None:
    """Print an explanation."""
    out.print(RichText(answer.sentence, style="bold"))
    out.print()
    where = facts(answer.line, _PHASES[answer.phase] if answer.phase else None)
    _list(out, text("where"), [where] if where else [])
    _list(out, text("figures"), answer.reasons)
    _list(out, text("first"), answer.fix[:1])
    _list(out, text("then"), answer.fix[1:])
    if answer.remedies:
        out.print()
        out.print(RichText(text("What reduces memory"), style="bold"))
        for remedy in answer.remedies:
            labelled(out, "·", remedy.title, width=2)
            _list(out, text("code"), [remedy.how], indent=4)
            _list(out, text("saves"), [remedy.saves], indent=4)
            _list(out, text("costs"), [remedy.costs], indent=4)
            _list(out, text("try"), [f"ownlab fit FILE.py:build {remedy.option}"] if remedy.option else [], indent=4)
    if answer.more:
        note = plural(
            answer.more,
            "The text has one more such message; this one has most figures.",
            "The text has {n} more such messages; this one has most figures.",
        )
        out.print(RichText(note, style="dim"))


_PHASES = {
    "loading": text("while loading weights"),
    "forward": text("in the forward pass"),
    "backward": text("in the backward pass"),
    "optimizer": text("in the optimizer step"),
}


def _list(out: Console, label: str, lines: tuple[str, ...] | list[str], *, indent: int = 2) -> None:
    for number, line in enumerate(lines):
        labelled(out, label if number == 0 else "", line, indent=indent, width=_WIDTH, wrapped=not _is_command(line))


def _is_command(line: str) -> bool:
    """Whether a line is a command to copy, which must not be wrapped. Sentences begin with a capital letter."""
    first = line.split(maxsplit=1)[0]
    return first in ("export", "set", "nvidia-smi", "rocm-smi", "ownlab") or first.startswith("torch.")

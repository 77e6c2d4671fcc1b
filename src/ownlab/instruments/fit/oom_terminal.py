"""Why memory ran out, in the terminal: the cause first, the figures behind it, then what helps, best first."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from ownlab.instruments.fit.oom import OomExplanation
from ownlab.render.console import labelled

__all__ = ["show_oom"]

_WIDTH = 9


def show_oom(answer: OomExplanation, out: Console) -> None:
    """Print an explanation."""
    out.print(Text(answer.sentence, style="bold"))
    out.print()
    where = ", ".join(part for part in (answer.line, f"in {_PHASES[answer.phase]}" if answer.phase else "") if part)
    _list(out, "where", [where] if where else [])
    _list(out, "says", answer.reasons)
    _list(out, "first", answer.fix[:1])
    _list(out, "then", answer.fix[1:])
    if answer.remedies:
        out.print()
        out.print(Text("So that it needs less", style="bold"))
        for remedy in answer.remedies:
            labelled(out, "·", remedy.title, width=2)
            _list(out, "write", [remedy.how], indent=4)
            _list(out, "saves", [remedy.saves], indent=4)
            _list(out, "costs", [remedy.costs], indent=4)
            _list(out, "try", [f"ownlab fit FILE.py:build {remedy.option}"] if remedy.option else [], indent=4)
    if answer.more:
        out.print(Text(f"The text has {answer.more} more of such messages; this one says most.", style="dim"))


_PHASES = {
    "loading": "the loading of weights",
    "forward": "the forward pass",
    "backward": "the backward pass",
    "optimizer": "the optimizer's step",
}


def _list(out: Console, label: str, texts: tuple[str, ...] | list[str], *, indent: int = 2) -> None:
    for number, text in enumerate(texts):
        labelled(out, label if number == 0 else "", text, indent=indent, width=_WIDTH, wrapped=not _is_command(text))


def _is_command(text: str) -> bool:
    """Whether it is to be copied: then it stays in one line. Sentences begin with a capital."""
    first = text.split(maxsplit=1)[0]
    return first in ("export", "set", "nvidia-smi", "rocm-smi", "ownlab") or first.startswith("torch.")

"""`ownlab fit` in the terminal: what it needs, on which cards, what holds it, and memory over the step."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from ownlab.instruments.fit.memory_chart import GLYPHS, plot
from ownlab.instruments.fit.records import KINDS, CardFit, Fit, Kind, ModuleShare
from ownlab.render.console import labelled
from ownlab.units import format_bytes, format_seconds

__all__ = ["show_fit", "show_timeline"]

_LABEL = 14
_COLOURS: dict[str, str] = {
    "weights": "blue",
    "optimizer": "magenta",
    "inputs": "white",
    "gradients": "yellow",
    "activations": "green",
    "temporary": "red",
    "workspace": "cyan",
}
_WORDS: dict[str, str] = {
    "weights": "weights",
    "gradients": "gradients",
    "optimizer": "optimizer",
    "activations": "activations",
    "inputs": "inputs",
    "temporary": "temporary",
    "workspace": "libraries",
    "slack": "cached",
    "context": "CUDA itself",
}
_BAR = 24
_MODULES = 12
_PLOT_ROWS = 10
# So little more or less arithmetic is none.
_SAME = 0.02
_PLOT_WIDEST = 90
_PHASES = {
    "setup": "the preparation",
    "forward": "the forward pass",
    "backward": "the backward pass",
    "optimizer": "the optimizer's step",
}


def show_fit(fit: Fit, out: Console, *, timeline: bool = True) -> None:
    """Print a prediction; without its timeline where a drawing of that follows."""
    labelled(out, "", Text(_sentence(fit), style="bold"), indent=0, width=0)
    labelled(out, "", Text(_setting(fit), style="dim"), indent=0, width=0)
    out.print()
    _line(out, "parameters", _parameters(fit))
    _line(out, "arithmetic", _arithmetic(fit))
    _line(out, "peak", _peak(fit))
    if fit.cards:
        _heading(out, "Cards")
        _show_cards(fit, out)
    _heading(out, f"What holds it at the peak, in {_PHASES[fit.peak.phase]}")
    _show_parts(fit, out)
    if fit.modules:
        _heading(out, "Which modules")
        _show_modules(fit, out)
    if timeline:
        _heading(out, "Over one step")
        show_timeline(fit, out)
    if fit.remedies:
        _heading(out, "What makes it need less, tried on this model")
        _show_remedies(fit, out)
    elif fit.cards and all(card.fits == "no" for card in fit.cards):
        out.print()
        _line(out, "then", "ownlab fit … --remedies tries what makes it need less, and says what each saves")
    for number, guess in enumerate(fit.guesses):
        if number == 0:
            out.print()
        _line(out, "guessed" if number == 0 else "", guess)


def _sentence(fit: Fit) -> str:
    what = "training" if fit.request.train else "inference"
    fitting = [card for card in fit.cards if card.fits == "yes"]
    least = min(fitting, key=lambda card: card.memory_bytes, default=None)
    where = "" if least is None else f", and fits {_article(least)}"
    if fit.cards and least is None:
        tight = any(card.fits == "tight" for card in fit.cards)
        where = "; on none of these cards is it sure to fit" if tight else ", more than any of these cards has"
    return f"A step of {what} takes {_span(fit)} of a card{where}."


def _article(card: CardFit) -> str:
    return card.name.replace("any with", "any card with") if card.name.startswith("any") else f"the {card.name}"


def _span(fit: Fit) -> str:
    """One figure where both ends read the same, else both."""
    low, high = format_bytes(fit.band.device_low_bytes), format_bytes(fit.band.device_high_bytes)
    if low == high:
        return low
    number, unit = low.split()
    return f"{number if unit == high.split()[1] else low} to {high}"


def _setting(fit: Fit) -> str:
    request = fit.request
    size = [f"batch {request.batch}" if request.batch else "", f"sequence {request.seq}" if request.seq else ""]
    how = [
        request.precision,
        f"{request.optimizer}{' fused' if request.fused else ''}" if request.train else "",
        "checkpointing" if request.checkpointing else "",
        "channels last" if request.channels_last else "",
        f"{request.accumulate} batches accumulated" if request.accumulate > 1 else "",
        fit.allocator,
        f"torch {fit.torch}",
    ]
    return ", ".join(part for part in (request.target.rpartition("/")[2], *size, *how) if part)


def _parameters(fit: Fit) -> str:
    counts = fit.parameters
    parts = [f"{_count(counts.total)}"]
    if counts.trainable != counts.total:
        parts.append(f"{_count(counts.trainable)} of them trained")
    if counts.buffers:
        parts.append(f"{_count(counts.buffers)} in buffers")
    if counts.tied:
        parts.append(f"{_count(counts.tied)} used twice")
    return ", ".join(parts)


def _arithmetic(fit: Fit) -> str:
    flops = fit.flops
    both = f" ({_count(flops.forward)} forward, {_count(flops.backward)} backward)" if flops.backward else ""
    return f"{_count(flops.total)} FLOPs a step{both}, which are {_count(flops.total / 2)} multiply-adds"


def _count(number: float) -> str:
    for power, unit in ((1e15, " P"), (1e12, " T"), (1e9, " G"), (1e6, " M"), (1e3, " k")):
        if number >= power:
            return f"{number / power:.4g}{unit}"
    return f"{number:.0f}"


def _peak(fit: Fit) -> str:
    peak = fit.peak
    return (
        f"{format_bytes(peak.allocated_bytes)} allocated, {format_bytes(peak.reserved_bytes)} reserved, "
        f"{format_bytes(peak.device_bytes)} on the card; {format_bytes(fit.smallest_bytes)} would do"
    )


def _show_cards(fit: Fit, out: Console) -> None:
    width = max(len(card.name) for card in fit.cards) + 2
    floors = max(len(_floor(card)) for card in fit.cards) + 2
    batches = any(card.biggest_batch is not None for card in fit.cards)
    for card in fit.cards:
        verdict, style = {"yes": ("fits", "green"), "tight": ("tight", "yellow"), "no": ("no", "red")}[card.fits]
        line = Text(f"  {card.name.ljust(width)}{format_bytes(card.memory_bytes).rjust(9)}  ")
        line.append(verdict.ljust(6), style=style)
        line.append(_spare(card).ljust(17))
        line.append(_floor(card).ljust(floors))
        if batches:
            line.append("no batch" if card.biggest_batch is None else f"batch up to {card.biggest_batch}")
        line.rstrip()
        out.print(line, no_wrap=True, overflow="ignore", crop=False)
    if not all(card.calibrated for card in fit.cards):
        note = "What CUDA and its libraries take was measured on an H200; on other cards it is taken to be the same."
        labelled(out, "", Text(note, style="dim"), indent=2, width=0)


def _show_remedies(fit: Fit, out: Console) -> None:
    width = max(len(price.option) for price in fit.remedies) + 2
    for price in fit.remedies:
        if price.device_bytes is None or price.saved_bytes is None or price.arithmetic is None:
            labelled(out, price.option.ljust(width), Text(f"not here: {price.refused}", style="dim"), width=width)
            continue
        saves = f"{format_bytes(abs(price.saved_bytes))} {'less' if price.saved_bytes >= 0 else 'more'}"
        more = f", {price.arithmetic:.2f} × the arithmetic" if abs(price.arithmetic - 1) > _SAME else ""
        where = f", fits {', '.join(price.fits)}" if price.fits else ""
        note = f"; {price.note}" if price.note else ""
        line = f"{format_bytes(price.device_bytes)}, {saves}{more}{where}{note}"
        labelled(out, price.option.ljust(width), line, width=width)


def _spare(card: CardFit) -> str:
    return f"{format_bytes(abs(card.spare_bytes))} {'left' if card.spare_bytes >= 0 else 'short'}"


def _floor(card: CardFit) -> str:
    if card.floor_seconds is None:
        return ""
    return f"≥ {format_seconds(card.floor_seconds)} ({card.bound_by})"


def _show_parts(fit: Fit, out: Console) -> None:
    total = fit.peak.device_bytes or 1
    for name in (*KINDS, "slack", "context"):
        size = getattr(fit.parts, name)
        if size <= 0:
            continue
        line = Text(f"  {_WORDS[name].ljust(_LABEL)}{format_bytes(size).rjust(9)} {100 * size / total:4.0f} %  ")
        line.append("█" * round(_BAR * size / total), style=_COLOURS.get(name, "dim"))
        line.rstrip()
        out.print(line, no_wrap=True, overflow="ignore", crop=False)


def _show_modules(fit: Fit, out: Console) -> None:
    """The greatest, at their places in the tree."""
    greatest = sorted(fit.modules, key=lambda share: -share.bytes)[:_MODULES]
    kept = set(map(id, greatest))
    shown = [share for share in fit.modules if id(share) in kept]
    width = max(len(_module(share)) for share in shown) + 2
    for share in shown:
        line = f"  {_module(share).ljust(width)}{format_bytes(share.bytes).rjust(9)} {100 * share.bytes / (fit.peak.allocated_bytes or 1):4.0f} %"
        out.print(Text(line), no_wrap=True, overflow="ignore", crop=False)
    if len(fit.modules) > len(shown):
        labelled(out, "", Text(f"and {len(fit.modules) - len(shown)} smaller ones; all: --json", style="dim"), width=0)


def _module(share: ModuleShare) -> str:
    last = share.module.rpartition(".")[2] or "outside of them"
    return f"{'  ' * share.depth}{last}{f' ({share.count})' if share.count > 1 else ''}"


def show_timeline(fit: Fit, out: Console) -> None:
    """Print memory over one step, drawn with letters."""
    width = min(_PLOT_WIDEST, max(30, out.width - 14))
    drawn = plot(fit.timeline, width, _PLOT_ROWS)
    for number, row in enumerate(drawn.rows):
        label = format_bytes(drawn.highest * (len(drawn.rows) - number) / len(drawn.rows)) if number % 3 == 0 else ""
        out.print(Text(f"  {label.rjust(9)} ", style="dim") + _cells(row), no_wrap=True, overflow="ignore", crop=False)
    marks = [" "] * width
    for column, phase in drawn.phases:
        for offset, letter in enumerate(f"│{phase}"):
            if column + offset < width:
                marks[column + offset] = letter
    out.print(Text(" " * 12 + "".join(marks).rstrip(), style="dim"), no_wrap=True, overflow="ignore", crop=False)
    out.print(Text(" " * (12 + drawn.peak_column) + "▲ peak"), no_wrap=True, overflow="ignore", crop=False)
    legend = Text(" " * 12)
    for kind in KINDS:
        if any(fit.timeline.held[kind]):
            legend.append(GLYPHS[kind], style=_COLOURS[kind]).append(f" {_WORDS[kind]}  ")
    legend.rstrip()
    out.print(legend)


def _cells(row: list[Kind | None]) -> Text:
    line = Text()
    for kind in row:
        line.append(" " if kind is None else GLYPHS[kind], style="" if kind is None else _COLOURS[kind])
    line.rstrip()
    return line


def _heading(out: Console, text: str) -> None:
    out.print()
    out.print(Text(text, style="bold"))


def _line(out: Console, label: str, text: str) -> None:
    labelled(out, label, text, indent=2, width=_LABEL)

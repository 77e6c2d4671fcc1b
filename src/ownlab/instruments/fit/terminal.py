"""`ownlab fit` in the terminal: what a step needs, on which cards it fits, what holds the memory, and memory over time."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text as RichText

from ownlab.instruments.fit.card_specs import usable_of_size
from ownlab.instruments.fit.memory_chart import GLYPHS, PHASES, plot
from ownlab.instruments.fit.records import KINDS, CardFit, Fit, Kind, ModuleShare, Sharing
from ownlab.render.console import labelled
from ownlab.render.wide_text import align_left, align_right, cell_width, shorten
from ownlab.text import facts, in_english, listing, plural, sentences, template, text
from ownlab.units import GIB, format_bytes, format_seconds

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
_LABELS: dict[str, str] = {
    "weights": text("weights"),
    "gradients": text("gradients"),
    "optimizer": text("optimizer"),
    "activations": text("activations"),
    "inputs": text("inputs"),
    "temporary": text("temporary"),
    "workspace": text("libraries"),
    "slack": text("cached"),
    "context": text("CUDA itself"),
}
_BAR = 24
_ANY = "any with "  # a size is given instead of a card (catalog/cards.py)
_MODULES = 12
_PLOT_ROWS = 10
# Arithmetic that differs by less than this counts as equal.
_SAME = 0.02
_PLOT_WIDEST = 90
_PEAK_HEADINGS = {
    "setup": text("What holds the memory at the peak, during setup"),
    "forward": text("What holds the memory at the peak, in the forward pass"),
    "backward": text("What holds the memory at the peak, in the backward pass"),
    "optimizer": text("What holds the memory at the peak, in the optimizer step"),
}
_VERDICTS = {
    "yes": (text("fits"), "green"),
    "tight": (text("tight"), "yellow"),
    "no": (text("does not fit"), "red"),
    "unknown": (text("not sure"), "yellow"),
}


def show_fit(fit: Fit, out: Console, *, timeline: bool = True) -> None:
    """Print a prediction; without its timeline where a chart of it follows."""
    for line in (_biggest_batches(fit), _summary(fit)) if fit.searched is not None else (_summary(fit),):
        labelled(out, "", RichText(line, style="bold"), indent=0, width=0)
    labelled(out, "", RichText(_setting(fit), style="dim"), indent=0, width=0)
    out.print()
    _line(out, text("parameters"), _parameters(fit))
    _line(out, text("arithmetic"), _arithmetic(fit))
    _line(out, text("peak"), _peak(fit))
    if fit.cards:
        _heading(out, text("Cards"))
        _show_cards(fit, out)
    if fit.sharing is not None:
        _show_sharing(fit.sharing, out)
    _heading(out, _PEAK_HEADINGS[fit.peak.phase])
    _show_parts(fit, out)
    if fit.modules:
        _heading(out, text("Modules"))
        _show_modules(fit, out)
    if timeline:
        _heading(out, text("Over one step"))
        show_timeline(fit, out)
    if fit.remedies:
        _heading(out, text("What reduces memory, tried on this model"))
        _show_remedies(fit, out)
    elif fit.cards and all(card.fits == "no" for card in fit.cards):
        out.print()
        _line(out, text("next"), text("ownlab fit … --remedies tries what reduces memory, and reports what each saves"))
    for number, guess in enumerate(fit.guesses):
        if number == 0:
            out.print()
        _line(out, text("guessed") if number == 0 else "", guess)


def _show_sharing(sharing: Sharing, out: Console) -> None:
    """What each of several cards holds, and that it is computed."""
    _heading(out, text("{strategy} on {world} cards, computed", strategy=sharing.strategy, world=sharing.world))
    _line(out, text("each card"), format_bytes(sharing.device_bytes))
    held = (
        (text("weights"), sharing.weights),
        (text("gradients"), sharing.gradients),
        (text("optimizer"), sharing.optimizer),
        (text("gathered"), sharing.gathered),
        (text("the rest"), sharing.rest),
    )
    for label, size in held:
        if size:
            _line(out, label, format_bytes(size))
    _line(out, text("fits"), listing(sharing.fits) if sharing.fits else text("none of these cards"))
    _line(out, "", sharing.note)


def _biggest_batches(fit: Fit) -> str:
    """The answer to `--batch max`: it comes first, because the figures below are those of one batch among many."""
    assert fit.searched is not None
    most = fit.searched[1]
    fitting = [card for card in fit.cards if card.biggest_batch is not None]
    if not fitting:
        return text("No batch fits any of these cards, not even {least}.", least=fit.searched[0])
    batches = [
        (template("{batch} or more on {card}") if card.biggest_batch == most else template("{batch} on {card}")).fill(
            batch=card.biggest_batch, card=_name_in_sentence(card)
        )
        for card in fitting
    ]
    none = [_name_in_sentence(card) for card in fit.cards if card.biggest_batch is None]
    return sentences(
        text("The biggest batch that fits is {batches}.", batches=listing(batches, "{items} and {last}")),
        text("No batch fits {cards}.", cards=listing(none, "{items} or {last}")) if none else None,
    )


def _summary(fit: Fit) -> str:
    """What one step takes, and the smallest card that holds it and has units for its precision."""
    memory, train = _span(fit), fit.request.train
    if fit.searched is not None:
        if train:
            return text("A training step with batch {batch} takes {memory}.", batch=fit.request.batch, memory=memory)
        return text("An inference step with batch {batch} takes {memory}.", batch=fit.request.batch, memory=memory)
    fitting = [card for card in fit.cards if card.fits == "yes"]
    if fitting:
        best = min(fitting, key=lambda card: (bool(card.precision), card.memory_bytes))
        card = _name_in_sentence(best)
        if best.precision and train:
            return text(
                "A training step takes {memory} of a card. The memory of {card} is enough, but it has {missing}.",
                memory=memory,
                card=card,
                missing=best.precision,
            )
        if best.precision:
            return text(
                "An inference step takes {memory} of a card. The memory of {card} is enough, but it has {missing}.",
                memory=memory,
                card=card,
                missing=best.precision,
            )
        if train:
            return text("A training step takes {memory} of a card, and fits {card}.", memory=memory, card=card)
        return text("An inference step takes {memory} of a card, and fits {card}.", memory=memory, card=card)
    if any(card.fits in ("tight", "unknown") for card in fit.cards):
        if train:
            return text("A training step takes {memory} of a card. It is not sure to fit any of these.", memory=memory)
        return text("An inference step takes {memory} of a card. It is not sure to fit any of these.", memory=memory)
    if fit.cards:
        if train:
            return text("A training step takes {memory} of a card, more than any of these cards has.", memory=memory)
        return text("An inference step takes {memory} of a card, more than any of these cards has.", memory=memory)
    if train:
        return text("A training step takes {memory} of a card.", memory=memory)
    return text("An inference step takes {memory} of a card.", memory=memory)


def _name_in_sentence(card: CardFit) -> str:
    name = in_english(card.name)
    if name.startswith(_ANY):
        return text("any card with {memory}", memory=name.removeprefix(_ANY))
    return text("the {card}", card=card.name)


def _span(fit: Fit) -> str:
    """Return one figure where both ends of the band read the same, else both."""
    low, high = format_bytes(fit.band.device_low_bytes), format_bytes(fit.band.device_high_bytes)
    if low == high:
        return low
    number, unit = low.split()
    return text("{low} to {high}", low=number if unit == high.split()[1] else low, high=high)


def _setting(fit: Fit) -> str:
    """The target and the settings of the step."""
    request = fit.request
    return facts(
        request.target.rpartition("/")[2],
        text("batch {batch}", batch=request.batch) if request.batch else "",
        text("sequence {seq}", seq=request.seq) if request.seq else "",
        request.precision,
        text("{format} weights", format=request.weights) if request.weights else "",
        text("LoRA {arguments}", arguments=request.lora) if request.lora else "",
        _optimizer(fit) if request.train else "",
        text("checkpointing") if request.checkpointing else "",
        text("channels last") if request.channels_last else "",
        text("{count} batches accumulated", count=request.accumulate) if request.accumulate > 1 else "",
        fit.allocator,
        f"torch {fit.torch}",
    )


def _optimizer(fit: Fit) -> str:
    name = fit.request.optimizer
    if name in ("sgd", "sgd-plain"):  # half of its users mean one, half the other
        momentum = (fit.optimizer_arguments or {"momentum": 0.9}).get("momentum", 0.0)
        name = text("sgd with momentum {momentum:g}", momentum=momentum) if momentum else text("sgd without momentum")
    return text("{optimizer} fused", optimizer=name) if fit.request.fused else name


def _parameters(fit: Fit) -> str:
    counts = fit.parameters
    details = []
    if fit.request.train and counts.trainable != counts.total:
        details.append(text("{count} of them are trained.", count=_count(counts.trainable)))
    if counts.buffers:
        details.append(text("Buffers hold {count} more values.", count=_count(counts.buffers)))
    if counts.tied:
        details.append(text("{count} are used twice.", count=_count(counts.tied)))
    total = _count(counts.total)
    return sentences(text("{count} in total.", count=total), *details) if details else total


def _arithmetic(fit: Fit) -> str:
    flops = fit.flops
    total, multiply_adds = _count(flops.total), _count(flops.total / 2)
    if not flops.backward:
        return text("{total} FLOPs per step ({macs} multiply-adds)", total=total, macs=multiply_adds)
    return text(
        "{total} FLOPs per step: {forward} forward, {backward} backward ({macs} multiply-adds)",
        total=total,
        forward=_count(flops.forward),
        backward=_count(flops.backward),
        macs=multiply_adds,
    )


def _count(number: float) -> str:
    for power, unit in ((1e15, " P"), (1e12, " T"), (1e9, " G"), (1e6, " M"), (1e3, " k")):
        if number >= power:
            return f"{number / power:.4g}{unit}"
    return f"{number:.0f}"


def _peak(fit: Fit) -> str:
    return text(
        "{allocated} allocated, {reserved} reserved, {device} on the card; {smallest} would be enough",
        allocated=format_bytes(fit.peak.allocated_bytes),
        reserved=format_bytes(fit.peak.reserved_bytes),
        device=format_bytes(fit.peak.device_bytes),
        smallest=format_bytes(fit.smallest_bytes),
    )


def _show_cards(fit: Fit, out: Console) -> None:
    width = max(cell_width(card.name) for card in fit.cards) + 2
    memories = max(cell_width(_memory(card)) for card in fit.cards)
    verdicts = max(cell_width(_VERDICTS[card.fits][0]) for card in fit.cards) + 2
    floors = max(cell_width(_floor(card)) for card in fit.cards) + 2
    for card in fit.cards:
        verdict, style = _VERDICTS[card.fits]
        line = RichText(f"  {align_left(card.name, width)}{align_right(_memory(card), max(9, memories))}  ")
        line.append(align_left(verdict, max(6, verdicts)), style=style)
        line.append(align_left(_spare(card), 17))
        line.append(align_left(_floor(card), floors))
        if fit.searched is not None or card.biggest_batch is not None:
            line.append(_biggest_batch(card))
        line.rstrip()
        out.print(line, no_wrap=True, overflow="ignore", crop=False)
        if card.precision:
            labelled(out, "", RichText(card.precision, style="yellow"), indent=4, width=0)
    for note in _card_notes(fit.cards):
        labelled(out, "", RichText(note, style="dim"), indent=2, width=0)


def _memory(card: CardFit) -> str:
    """The memory that programs can use; "≥" where it is inferred from cards like it."""
    size = format_bytes(card.memory_bytes)
    return size if card.memory_high_bytes is None else f"≥ {size}"


def _card_notes(cards: tuple[CardFit, ...]) -> list[str]:
    notes: list[str] = []
    if not all(card.calibrated for card in cards):
        notes.append(
            text(
                "The memory of CUDA and its libraries was measured on an H200, and is assumed to be the same on other cards."
            )
        )
    for size in sorted({round(card.memory_bytes / GIB, 3) for card in cards if in_english(card.name).startswith(_ANY)}):
        usable = usable_of_size(size)
        if usable is not None:
            notes.append(
                text(
                    "{size:g} GiB is what programs can use. Of cards sold with {size:g} GB they can use {low:.1f} to {high:.1f} GiB.",
                    size=size,
                    low=usable[0],
                    high=usable[1],
                )
            )
    if any(card.memory_high_bytes is not None for card in cards):
        notes.append(
            text(
                "≥: nobody reported what programs can use of this card, so it is inferred from cards like it (--json)."
            )
        )
    return notes


def _biggest_batch(card: CardFit) -> str:
    if card.biggest_batch is None:
        return text("no batch")
    return text("batch up to {batch}", batch=card.biggest_batch)


def _show_remedies(fit: Fit, out: Console) -> None:
    width = max(cell_width(trial.option) for trial in fit.remedies) + 2
    for trial in fit.remedies:
        if trial.device_bytes is None or trial.saved_bytes is None or trial.arithmetic is None:
            reason = text("not possible here: {reason}", reason=trial.refused)
            labelled(out, align_left(trial.option, width), RichText(reason, style="dim"), width=width)
            continue
        effect = template("{memory}, {size} less.") if trial.saved_bytes >= 0 else template("{memory}, {size} more.")
        memory, size = format_bytes(trial.device_bytes), format_bytes(abs(trial.saved_bytes))
        more_arithmetic = abs(trial.arithmetic - 1) > _SAME
        result = sentences(
            effect.fill(memory=memory, size=size),
            text("{factor:.2f} × the arithmetic.", factor=trial.arithmetic) if more_arithmetic else None,
            text("It fits {cards}.", cards=listing(trial.fits)) if trial.fits else None,
            trial.note,
        )
        labelled(out, align_left(trial.option, width), result, width=width)


def _spare(card: CardFit) -> str:
    size = format_bytes(abs(card.spare_bytes))
    return text("{size} left", size=size) if card.spare_bytes >= 0 else text("{size} short", size=size)


def _floor(card: CardFit) -> str:
    if card.floor_seconds is None:
        return ""
    seconds = format_seconds(card.floor_seconds)
    if card.bound_by == "arithmetic":
        return text("≥ {seconds} (arithmetic)", seconds=seconds)
    return text("≥ {seconds} (memory)", seconds=seconds)


def _show_parts(fit: Fit, out: Console) -> None:
    total = fit.peak.device_bytes or 1
    for name in (*KINDS, "slack", "context"):
        size = getattr(fit.parts, name)
        if size <= 0:
            continue
        line = RichText(
            f"  {align_left(_LABELS[name], _LABEL)}{align_right(format_bytes(size), 9)} {100 * size / total:4.0f} %  "
        )
        line.append("█" * round(_BAR * size / total), style=_COLOURS.get(name, "dim"))
        line.rstrip()
        out.print(line, no_wrap=True, overflow="ignore", crop=False)


def _show_modules(fit: Fit, out: Console) -> None:
    """Print the largest modules, in the order of the tree."""
    largest = sorted(fit.modules, key=lambda share: -share.bytes)[:_MODULES]
    kept = set(map(id, largest))
    shown = [share for share in fit.modules if id(share) in kept]
    width = max(cell_width(_module(share)) for share in shown) + 2
    for share in shown:
        line = f"  {align_left(_module(share), width)}{align_right(format_bytes(share.bytes), 9)} {100 * share.bytes / (fit.peak.allocated_bytes or 1):4.0f} %"
        out.print(RichText(line), no_wrap=True, overflow="ignore", crop=False)
    if len(fit.modules) > len(shown):
        note = plural(
            len(fit.modules) - len(shown),
            "and one smaller module; --json lists all",
            "and {n} smaller modules; --json lists all",
        )
        labelled(out, "", RichText(note, style="dim"), width=0)


def _module(share: ModuleShare) -> str:
    last = share.module.rpartition(".")[2] or text("outside of modules")
    return f"{'  ' * share.depth}{last}{f' ({share.count})' if share.count > 1 else ''}"


def show_timeline(fit: Fit, out: Console) -> None:
    """Print memory over one step as a plot of characters."""
    width = min(_PLOT_WIDEST, max(30, out.width - 14))
    drawn = plot(fit.timeline, width, _PLOT_ROWS)
    for number, row in enumerate(drawn.rows):
        label = format_bytes(drawn.highest * (len(drawn.rows) - number) / len(drawn.rows)) if number % 3 == 0 else ""
        out.print(
            RichText(f"  {align_right(label, 9)} ", style="dim") + _cells(row),
            no_wrap=True,
            overflow="ignore",
            crop=False,
        )
    marks = ""
    ends = [*(column for column, _ in drawn.phases[1:]), width]
    for (column, phase), end in zip(drawn.phases, ends, strict=True):
        marks = align_left(marks, column) + shorten(f"│{PHASES[phase]}", end - column)
    out.print(RichText(" " * 12 + marks, style="dim"), no_wrap=True, overflow="ignore", crop=False)
    indent = " " * (12 + drawn.peak_column)
    out.print(RichText(f"{indent}{text('▲ peak')}"), no_wrap=True, overflow="ignore", crop=False)
    legend = RichText(" " * 12)
    for kind in KINDS:
        if any(fit.timeline.held[kind]):
            legend.append(GLYPHS[kind], style=_COLOURS[kind]).append(f" {_LABELS[kind]}  ")
    legend.rstrip()
    out.print(legend)


def _cells(row: list[Kind | None]) -> RichText:
    line = RichText()
    for kind in row:
        line.append(" " if kind is None else GLYPHS[kind], style="" if kind is None else _COLOURS[kind])
    line.rstrip()
    return line


def _heading(out: Console, heading: str) -> None:
    out.print()
    out.print(RichText(heading, style="bold"))


def _line(out: Console, label: str, body: str) -> None:
    labelled(out, label, body, indent=2, width=_LABEL)

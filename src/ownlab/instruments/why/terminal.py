"""The explanation in the terminal: one sentence, a typical step, the findings; and the rules' pages."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Console
from rich.text import Text

from ownlab.instruments.why.attach.terminal import show_processes
from ownlab.instruments.why.formatting import NAMES, format_band, format_ms, format_place, format_share
from ownlab.instruments.why.nccl.terminal import show_connections
from ownlab.instruments.why.records import Explanation, Finding, Lane
from ownlab.instruments.why.rule import Cause
from ownlab.instruments.why.trace.terminal import show_trace
from ownlab.instruments.why.trials.terminal import show_trials
from ownlab.render.console import hanging, labelled, show_page
from ownlab.render.wide_text import align_left, cell_width
from ownlab.text import facts, text

__all__ = ["GLYPHS", "show_explanation", "show_lanes", "show_rule_list", "show_rule_page"]

_LABEL_WIDTH = 9
_LANE_WIDTH = 64
_NARROWEST_LANE = 20
# Distinguishable without colours, too.
GLYPHS = {
    "forward": ("f", "green"),
    "backward": ("b", "green"),
    "optimizer": ("o", "green"),
    "data": ("·", "red"),
    "fetch": ("█", "cyan"),
    "workers": ("w", "red"),
    "validation": ("v", "yellow"),
    "save": ("S", "magenta"),
    "log": ("l", "magenta"),
    "sync": ("y", "red"),
    "copy": ("c", "yellow"),
    "gc": ("g", "magenta"),
    "cache": ("e", "magenta"),
    "graph": ("G", "green"),
    "kernel": ("█", "green"),
    "other": ("-", "default"),
}


def show_explanation(explanation: Explanation, out: Console, *, lanes: bool = True) -> None:
    """Print an explanation; without the picture where a better one is shown."""
    out.print(Text(explanation.sentence, style="bold"))
    if explanation.step is not None:
        out.print()
        _show_parts(explanation, out)
    if lanes and any(lane.segments for lane in explanation.lanes):
        out.print()
        show_lanes(explanation.lanes, out)
    if explanation.nccl is not None:
        show_connections(explanation.nccl, out)
    if explanation.observed is not None:
        show_processes(explanation.observed, out)
    if explanation.trace is not None:
        show_trace(explanation.trace, out)
    for finding in explanation.findings:
        out.print()
        _show_finding(finding, explanation, out)
    if explanation.trials is not None:
        show_trials(explanation.trials, out)
    for note in explanation.notes:
        out.print()
        out.print(Text(note, style="dim"))
    if explanation.findings:
        code = explanation.findings[0].code
        out.print()
        out.print(Text(text("Explain a finding: ownlab why --explain {code}", code=code), style="dim"))


def _show_parts(explanation: Explanation, out: Console) -> None:
    step = explanation.step
    assert step is not None
    shown = {name: ms for name, ms in step.parts_ms.items() if ms >= 0.01 * step.step_ms}
    parts = [text("{what} {time}", what=NAMES.get(name, name), time=format_ms(ms)) for name, ms in shown.items()]
    quartiles = format_band(step.step_ms_quartiles)
    head = text("Mean of {count} steps (the middle half takes {quartiles}): ", count=step.count, quartiles=quartiles)
    out.print(Text.assemble((head, "dim"), facts(*parts)))
    if step.gpu_parts_ms:
        works = [
            text("{what} {time}", what=NAMES.get(name, name), time=format_ms(ms))
            for name, ms in step.gpu_parts_ms.items()
        ]
        out.print(Text.assemble((text("The GPU works: "), "dim"), facts(*works)))
    idle = {name: ms for name, ms in step.gpu_idle_ms.items() if ms >= 0.01 * step.step_ms}
    if idle:
        waits = [text("{what} {time}", what=NAMES.get(name, name), time=format_ms(ms)) for name, ms in idle.items()]
        out.print(Text.assemble((text("It is idle while the host is at: "), "dim"), facts(*waits)))


def show_lanes(lanes: Iterable[Lane], out: Console) -> None:
    """Print the picture of a typical step in characters."""
    drawn = [lane for lane in lanes if lane.segments]
    end = max(lane.segments[-1].end_ms for lane in drawn)
    label = max(cell_width(lane.name) for lane in drawn)
    width = max(_NARROWEST_LANE, min(_LANE_WIDTH, out.width - label - 6))
    out.print(Text(text("A typical step ({duration})", duration=format_ms(end)), style="dim"))
    used: dict[str, None] = {}
    for lane in drawn:
        line = Text("  " + align_left(lane.name, label) + "  ")
        for what in _cells(lane, end, width):
            glyph, style = GLYPHS.get(what, (" ", "default")) if what else (" ", "default")
            line.append(glyph, style=style)
            if what:
                used[what] = None
        out.print(line, no_wrap=True, overflow="crop")
    legend = Text("  ")
    for what in used:
        glyph, style = GLYPHS.get(what, (" ", "default"))
        legend.append(f"{glyph} ", style=style).append(f"{NAMES.get(what, what)}  ", style="dim")
    out.print(legend)


def _cells(lane: Lane, end: float, width: int) -> list[str]:
    """What filled most of each cell; "" for nothing."""
    cells = []
    for number in range(width):
        first, last = end * number / width, end * (number + 1) / width
        within = {
            segment.what: max(0.0, min(last, segment.end_ms) - max(first, segment.begin_ms))
            for segment in lane.segments
        }
        for segment in lane.segments:
            overlap = max(0.0, min(last, segment.end_ms) - max(first, segment.begin_ms))
            within[segment.what] = max(within[segment.what], overlap)
        what = max(within, key=within.__getitem__)
        cells.append(what if within[what] >= (last - first) * 0.3 else "")
    return cells


def _show_finding(finding: Finding, explanation: Explanation, out: Console) -> None:
    cost = text("{cost} ({share})", cost=format_ms(finding.cost_ms), share=format_share(finding.share))
    head = cost if finding.cost_ms else _head_without_cost(finding, explanation)
    style = "bold red" if finding.share >= 0.2 else "bold yellow" if finding.cost_ms else "bold cyan"
    out.print(
        Text.assemble((f"{head}  " if head else "", style), (finding.title, "bold"), (f"  [{finding.code}]", "dim"))
    )
    if finding.where is not None:
        labelled(out, text("where"), format_place(finding.where), width=_LABEL_WIDTH)
    for number, line in enumerate(finding.evidence):
        labelled(out, text("seen") if number == 0 else "", line, width=_LABEL_WIDTH)
    labelled(out, text("means"), finding.meaning, width=_LABEL_WIDTH)
    for number, step in enumerate(finding.advice):
        labelled(out, text("change") if number == 0 else "", step, width=_LABEL_WIDTH)
    if finding.change is not None:
        for line in finding.change.diff.splitlines():
            color = "red" if line.startswith("-") else "green"
            out.print(Text(" " * (_LABEL_WIDTH + 2) + line, style=color), no_wrap=True, overflow="ignore", crop=False)
    if finding.step_ms_after is not None and explanation.step is not None:
        labelled(out, text("worth"), _worth(finding.step_ms_after, explanation.step.step_ms), width=_LABEL_WIDTH)


def _head_without_cost(finding: Finding, explanation: Explanation) -> str:
    if explanation.nccl is not None:
        return ""  # a log has no times
    return format_share(finding.share) if finding.share else text("cost unknown")


def _worth(after: tuple[float, float], step_ms: float) -> str:
    middle = sum(after) / 2
    return text(
        "a step is then predicted to take {band} instead of {now} (×{factor:.2g})",
        band=format_band(after),
        now=format_ms(step_ms),
        factor=step_ms / max(1e-9, middle),
    )


def show_rule_page(rule: type[Cause], out: Console) -> None:
    """Print the page of one rule."""
    show_page(Text.assemble((rule.code, "bold"), f"  {rule.title}"), rule.page(), out)


def show_rule_list(rules: Iterable[type[Cause]], out: Console) -> None:
    """Print all rules, one line each."""
    listed = list(rules)
    width = max(len(rule.code) for rule in listed) + 2
    for rule in listed:
        hanging(out, Text(align_left(rule.code, width), style="bold"), rule.title)

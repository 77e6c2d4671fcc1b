"""Makes the explanation of a trace: one sentence, the findings by what they cost, and what took longest."""

from __future__ import annotations

from ownlab.errors import NotRecognised
from ownlab.instruments.why.formatting import format_ms, format_share
from ownlab.instruments.why.records import Explanation, Finding
from ownlab.instruments.why.trace.event_stream import EventStream
from ownlab.instruments.why.trace.records import Copies, TimedName, TraceSummary
from ownlab.instruments.why.trace.rules import TRACE_RULES
from ownlab.instruments.why.trace.timeline import Timeline
from ownlab.instruments.why.trace.trace_reader import Totals, TraceReader
from ownlab.text import Text, sentences, text

__all__ = ["explain_trace"]

_MOST_SHOWN = 15


def explain_trace(path: str) -> Explanation:
    """Read a trace, and explain it. NotRecognised if it has no events of torch.profiler."""
    stream, reader = EventStream(path), TraceReader()
    reader.read(stream)
    line = Timeline(reader.trace)
    if not line.steps:
        raise NotRecognised(
            text("{path} has no operators and no kernels of torch.profiler.", path=path),
            hint=text(
                "Write one with profiler.export_chrome_trace(FILE). Traces of other programs are not understood."
            ),
        )
    findings = [finding for rule in TRACE_RULES for finding in rule().check(line)]
    findings.sort(key=lambda finding: -finding.cost_ms)
    return Explanation(
        sentence=_sentence(line, findings),
        findings=tuple(findings),
        notes=tuple(_notes(line, complete=stream.complete)),
        command=(),
        exit_code=None,
        device="cpu" if line.gpu is None else "cuda",
        ranks=1,
        step=line.step_times(),
        lanes=line.lanes(),
        trace=_summary(path, line, complete=stream.complete),
    )  # fmt: skip


def _sentence(line: Timeline, findings: list[Finding]) -> Text:
    figures = {"step": format_ms(line.step_ms)}
    if line.gpu_busy_ms is not None:
        busy = line.gpu_busy_ms
        figures |= {"busy": format_ms(busy), "share": format_share(busy / line.step_ms)}
        if line.steps_by == "trace":
            first = text("In {step} of this trace the GPU works {busy} ({share}).", **figures)
        else:
            first = text("A step takes {step}; the GPU works {busy} of it ({share}).", **figures)
    elif line.steps_by == "trace":
        first = text("The trace covers {step}, without work of a GPU.", **figures)
    else:
        first = text("A step takes {step}; the trace has no work of a GPU.", **figures)
    if findings:
        return sentences(first, findings[0].headline)
    return sentences(first, text("Nothing was found that costs 5 % of it."))


def _notes(line: Timeline, *, complete: bool) -> list[str]:
    notes: list[str] = []
    if not complete:
        notes.append(text("The file ends within the list of events; what is there was used."))
    if line.steps_by == "optimizer":
        notes.append(
            text(
                "The trace has no steps of the profiler (profiler.step()); a step ends where the optimizer has stepped."
            )
        )
    if line.steps_by == "trace":
        notes.append(text("The trace has no steps: neither profiler.step() nor an optimizer. All of it counts as one."))
    elif len(line.steps) < 5:
        notes.append(text("The trace has {count} steps: the figures are rough.", count=len(line.steps)))
    if len(line.trace.gpus) > 1:
        notes.append(
            text("{count} GPUs are in the trace; the one that works most is shown.", count=len(line.trace.gpus))
        )
    if any(times.full for times in (*line.trace.host.values(), *line.trace.gpus.values())):
        notes.append(text("The trace has too many events: those at its end were left out of the picture of a step."))
    notes.append(text("The profiler itself takes time on the host, in each operator; the GPU's times are its own."))
    return notes  # fmt: skip


def _summary(path: str, line: Timeline, *, complete: bool) -> TraceSummary:
    trace = line.trace
    return TraceSummary(
        file=path,
        events=trace.events,
        complete=complete,
        steps=len(line.steps),
        steps_by=line.steps_by,
        devices=len(trace.gpus),
        gpu_busy_ms=line.gpu_busy_ms,
        idle_ms=line.idle_ms if line.gpu is not None else {},
        kernels=_longest(trace.kernels),
        operators=_longest(trace.operators),
        runtime=_longest(trace.runtime),
        copies=tuple(
            Copies(name, int(count), int(size), round(microseconds / 1e3, 3))
            for name, (count, microseconds, size) in sorted(trace.copies.of.items(), key=lambda item: -item[1][1])
        )[:_MOST_SHOWN],
    )


def _longest(totals: Totals) -> tuple[TimedName, ...]:
    ordered = sorted(totals.of.items(), key=lambda item: -item[1][1])
    return tuple(TimedName(name, int(count), round(us / 1e3, 3)) for name, (count, us, _) in ordered[:_MOST_SHOWN])

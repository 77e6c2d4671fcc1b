"""`ownlab data bench` in the terminal."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from ownlab.instruments.data.rates.records import DataBench, Measured, Rate
from ownlab.render.console import labelled
from ownlab.text import facts, text
from ownlab.units import format_bytes, format_rate, format_seconds

__all__ = ["show_data_bench"]

_OPTIONS = {
    "now": text("now, first epoch"),
    "later-epochs": text("later epochs"),
    "packed": text("packed"),
    "local-copy": text("a local copy"),
    "twice-the-cores": text("twice the cores"),
    "undecoded": text("without decoding"),
}
_WIDTH = 22


def show_data_bench(bench: DataBench, out: Console) -> None:
    """Print the verdict, what was measured, and what would help."""
    measured = bench.measured
    labelled(out, "", Text(bench.verdict, style="bold"), indent=0, width=0)
    for advice in bench.advice:
        labelled(out, "", advice, indent=0, width=0)
    for note in bench.notes:
        labelled(out, "", Text(note, style="yellow"), indent=0, width=0)
    out.print()
    labelled(out, "", Text(_about(measured), style="dim"), indent=0, width=0)
    _line(
        out, text("files, from the disk") if measured.kind == "files" else text("blocks, from the disk"), measured.cold
    )
    _line(out, text("with 8 threads"), measured.cold_parallel)
    _line(out, text("from memory"), measured.warm)
    if measured.sequential is not None:
        labelled(out, text("large reads"), format_rate(measured.sequential.bytes_per_second, "B/s"), width=_WIDTH)
    if measured.decode_seconds:
        rate = measured.cores / measured.decode_seconds
        decoding = text(
            "{time} of a core each: {rate:,.0f}/s with {cores} cores",
            time=format_seconds(measured.decode_seconds),
            rate=rate,
            cores=measured.cores,
        )
        labelled(out, text("decoding"), decoding, width=_WIDTH)
    out.print()
    labelled(out, "", Text(text("At most, in samples per second:"), style="dim"), indent=0, width=0)
    for option in bench.options:
        line = Text(f"{option.per_second:>10,.0f}")
        line.append(f"  ×{option.gain:.1f}", style="dim")
        if option.meets_need is not None:
            line.append("  ✓" if option.meets_need else "  ✗", style="green" if option.meets_need else "red")
        labelled(out, _OPTIONS[option.name], line, width=_WIDTH)


def _about(measured: Measured) -> str:
    kind = (
        text("{n:,} files", n=measured.files)
        if measured.kind == "files"
        else text("{n:,} packed samples", n=measured.files)
    )
    disk = (
        None
        if measured.rotational is None
        else text("hard disk or virtual disk")
        if measured.rotational
        else text("SSD")
    )
    size = text("{size} each", size=format_bytes(measured.mean_bytes))
    return facts(kind, size, measured.file_system or None, disk, text("{n} cores", n=measured.cores))


def _line(out: Console, label: str, rate: Rate | None) -> None:
    if rate is not None:
        line = text("{rate:,.0f}/s, {bytes}", rate=rate.per_second, bytes=format_rate(rate.bytes_per_second, "B/s"))
        labelled(out, label, line, width=_WIDTH)

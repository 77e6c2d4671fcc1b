"""`ownlab data inspect` in the terminal."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from ownlab.instruments.data.inspection.records import Inspection
from ownlab.render.console import labelled
from ownlab.render.wide_text import cell_width
from ownlab.text import facts, plural, text, translated
from ownlab.units import format_bytes

__all__ = ["show_inspection"]

_SHOWN = 12
_BAR = 30
_UNBALANCED = 10


def show_inspection(inspection: Inspection, out: Console) -> None:
    """Print what there is, and then what is wrong with it."""
    if inspection.is_table:
        title = facts(inspection.path, plural(inspection.files, "one row", "{n:,} rows"))
    else:
        files = plural(inspection.files, "one file", "{n:,} files")
        title = facts(inspection.path, files, format_bytes(inspection.bytes))
    labelled(out, "", Text(title, style="bold"), indent=0, width=0)
    for kind in () if inspection.is_table else inspection.kinds[:_SHOWN]:
        count = plural(kind.files, "one file", "{n:,} files")
        span = text("{low} to {high} each", low=format_bytes(kind.smallest), high=format_bytes(kind.largest))
        labelled(out, f".{kind.extension}", facts(count, format_bytes(kind.bytes), span))
    _show_images(inspection, out)
    _show_classes(inspection, out)
    for column in inspection.columns:
        filled = None if column.filled is None else text("{n:,} of {rows:,} filled", n=column.filled, rows=column.rows)
        distinct = None if column.distinct is None else text("{n:,} distinct", n=column.distinct)
        labelled(out, column.name, facts(translated(column.kind), filled, distinct), width=20)
    if inspection.is_table and not inspection.broken_count:
        _show_copied_rows(inspection, out)
    else:
        _show_problems(inspection, out)


def _show_copied_rows(inspection: Inspection, out: Console) -> None:
    note = plural(inspection.duplicate_count, "One row is a copy of another.", "{n:,} rows are copies of others.")
    out.print()
    if inspection.duplicate_count:
        labelled(out, "", Text(note, style="yellow"), indent=0, width=0)
    else:
        labelled(out, "", Text(text("No row is there twice."), style="green"), indent=0, width=0)


def _show_images(inspection: Inspection, out: Console) -> None:
    if not inspection.image_sizes:
        return
    first = inspection.image_sizes[0]
    count = plural(inspection.image_size_count, "one size", "{n:,} sizes")
    common = text("most often {width}×{height} ({n:,})", width=first.width, height=first.height, n=first.images)
    labelled(out, text("images"), facts(count, common))


def _show_classes(inspection: Inspection, out: Console) -> None:
    classes = inspection.classes
    if not classes:
        return
    out.print()
    most, least = classes[0].samples, classes[-1].samples
    labelled(out, "", Text(plural(len(classes), "One class", "{n:,} classes"), style="bold"), indent=0, width=0)
    width = min(30, max(cell_width(entry.name) for entry in classes[:_SHOWN]) + 2)
    for entry in classes[:_SHOWN]:
        bar = "█" * max(1, round(_BAR * entry.samples / most))
        labelled(out, entry.name, text("{n:>9,}  {bar}", n=entry.samples, bar=bar), width=width)
    if len(classes) > _SHOWN:
        labelled(out, "", text("… and {n:,} more, down to {least:,}", n=len(classes) - _SHOWN, least=least))
    if most >= _UNBALANCED * least:
        note = text("The largest class has {ratio:.0f} times as many samples as the smallest.", ratio=most / least)
        labelled(out, "", Text(note, style="yellow"), indent=0, width=0)


def _show_problems(inspection: Inspection, out: Console) -> None:
    out.print()
    if inspection.broken_count:
        count = plural(inspection.broken_count, "One file is broken:", "{n:,} files are broken:")
        labelled(out, "", Text(count, style="red"), indent=0, width=0)
        for broken in inspection.broken[:_SHOWN]:
            labelled(out, "", text("{name}: {reason}", name=broken.name, reason=broken.reason))
    if inspection.duplicate_count:
        count = plural(
            inspection.duplicate_count,
            "One file is a copy of another:",
            "{n:,} files are copies of others; `ownlab data pack --dedupe` leaves them out:",
        )
        labelled(out, "", Text(count, style="yellow"), indent=0, width=0)
        for name in inspection.duplicates[:_SHOWN]:
            labelled(out, "", name)
    if not inspection.images_checked:
        note = text("Images were not decoded: this Python lacks Pillow. Choose another environment with --python.")
        labelled(out, "", Text(note, style="yellow"), indent=0, width=0)
    if not inspection.broken_count and not inspection.duplicate_count:
        labelled(out, "", Text(text("No file is broken, and none is there twice."), style="green"), indent=0, width=0)

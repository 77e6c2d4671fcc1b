"""`ownlab data pack` and `verify` in the terminal."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from ownlab.instruments.data.packing.records import Packed, Verified
from ownlab.render.console import labelled
from ownlab.text import listing, plural, sentences, text
from ownlab.units import format_bytes, format_rate, format_seconds

__all__ = ["show_packed", "show_verified"]

_NAMED = 10
_CLASSES_NAMED = 8


def show_packed(packed: Packed, out: Console) -> None:
    """Print what was packed, what was not, and how it is read."""
    samples = plural(packed.samples, "one sample", "{n:,} samples")
    shards = plural(packed.shards, "one shard", "{n:,} shards")
    size = format_bytes(packed.bytes)
    if packed.already_packed:
        line = text(
            "{folder} is packed already: {samples} in {shards}, {size}.",
            folder=packed.folder,
            samples=samples,
            shards=shards,
            size=size,
        )
    else:
        line = text(
            "Packed {samples} into {shards}, {size}, in {folder}.",
            samples=samples,
            shards=shards,
            size=size,
            folder=packed.folder,
        )
    labelled(out, "", Text(line, style="bold"), indent=0, width=0)
    if not packed.already_packed and packed.seconds > 0:
        rate = format_rate(packed.payload_bytes / packed.seconds, "B/s")
        labelled(
            out, "", text("It took {time}: {rate}.", time=format_seconds(packed.seconds), rate=rate), indent=0, width=0
        )
    if packed.classes:
        labelled(out, "", _class_line(packed.classes), indent=0, width=0)
    for note in _notes(packed):
        labelled(out, "", Text(note, style="yellow"), indent=0, width=0)
    for skipped in packed.skipped_names[:_NAMED]:
        labelled(out, "", text("{name}: {reason}", name=skipped.name, reason=skipped.reason), width=0)
    code = f"ownlab.data.open({packed.folder!r}, shuffle=True)"
    labelled(out, "", text("Read it with {code}, or with WebDataset or DALI.", code=code), indent=0, width=0)


def _class_line(classes: tuple[str, ...]) -> str:
    named = listing(classes[:_CLASSES_NAMED])
    if len(classes) <= _CLASSES_NAMED:
        return plural(len(classes), "One class: {names}.", "{n} classes: {names}.", names=named)
    return text("{n:,} classes: {names} …", n=len(classes), names=named)


def _notes(packed: Packed) -> list[str]:
    notes: list[str] = []
    if packed.duplicates:
        notes.append(plural(packed.duplicates, "One duplicate was left out.", "{n:,} duplicates were left out."))
    if packed.left_out:
        notes.append(
            plural(
                packed.left_out,
                "One file beside the folders of the classes was left out.",
                "{n:,} files beside the folders of the classes were left out.",
            )
        )
    if packed.skipped:
        notes.append(plural(packed.skipped, "One sample could not be read:", "{n:,} samples could not be read:"))
    return notes


def show_verified(verified: Verified, out: Console) -> None:
    """Print whether the data set is as it was packed, and what is not."""
    for problem in verified.problems[:_NAMED]:
        mark, style = ("✓", "green") if problem.repaired else ("✗", "red")
        message = sentences(problem.message, text("Repaired.")) if problem.repaired else problem.message
        labelled(out, "", Text(f"{mark} {message}", style=style), indent=0, width=0)
    left = verified.problem_count - min(verified.problem_count, _NAMED)
    if left:
        labelled(out, "", plural(left, "… and one more.", "… and {n:,} more."), indent=0, width=0)
    labelled(out, "", Text(_verdict(verified), style="bold"), indent=0, width=0)


def _verdict(verified: Verified) -> str:
    samples = plural(verified.samples, "one sample", "{n:,} samples")
    if verified.problem_count > verified.repaired:
        count = verified.problem_count - verified.repaired
        return plural(
            count,
            "{folder} has one problem. Repair it from where it was packed: ownlab data verify {folder} --full --repair SOURCE",
            "{folder} has {n:,} problems. Repair it from where it was packed: ownlab data verify {folder} --full --repair SOURCE",
            folder=verified.folder,
        )
    if verified.repaired:
        return text("{folder} is repaired: {samples}.", folder=verified.folder, samples=samples)
    if verified.full:
        return text(
            "{folder} is as it was packed: {samples}, every byte checked.", folder=verified.folder, samples=samples
        )
    return text(
        "{folder} is complete: {samples}. Sizes and indexes were checked; --full also reads the samples.",
        folder=verified.folder,
        samples=samples,
    )

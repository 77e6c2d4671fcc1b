"""Decides from measured rates what limits reading, and what packing, a local copy or more cores would give.

Reading and decoding overlap in a data loader, so the slower of the two counts. Predictions are upper bounds: they leave out
what the loader itself costs.
"""

from __future__ import annotations

from ownlab.instruments.data.rates.records import DataBench, Limit, Measured, Option, Rate
from ownlab.text import sentence, text

__all__ = ["assess"]

# Below this gain, measurements of a shared machine show nothing.
_NOTICEABLE = 1.25
# Files are read so much slower than large blocks: it is seeking (or opening) that costs.
_SEEK_BOUND = 0.5
# Packed samples have a header and a label: 1.5 to 2.5 KB each.
_TAR_OVERHEAD_BYTES = 2048
# More than reading a packed sample takes of a core: 40 KB took 5 µs with its checksum by isal, 10 by zlib (benchmarks/RESULTS.md).
_PACKED_CPU_SECONDS = 2e-5


def assess(measured: Measured, need: float | None = None) -> DataBench:
    """Return what the measurement means. `need`: samples per second that the model takes."""
    decode = None if not measured.decode_seconds else measured.cores / measured.decode_seconds
    fetch_now, fetch_later = _fetch_rates(measured)
    options = _options(measured, decode, fetch_now, fetch_later, need)
    now = options[0].per_second
    limit = _limit(measured, decode, fetch_now)
    packed = next((option for option in options if option.name == "packed"), None)
    pays = None if packed is None else packed.gain >= _NOTICEABLE
    return DataBench(
        measured=measured,
        limit=limit,
        options=options,
        packing_pays=pays,
        verdict=_verdict(limit, now, need),
        advice=tuple(_advice(measured, options, limit, pays)),
        need_per_second=need,
        notes=tuple(_notes(measured)),
    )


def _fetch_rates(measured: Measured) -> tuple[float, float]:
    """Samples per second from the disk, and from memory once they are there."""
    best = max(measured.cold, measured.cold_parallel or measured.cold, key=lambda rate: rate.per_second)
    warm = max(measured.warm.per_second, best.per_second)
    fits = measured.memory_bytes is not None and _total_bytes(measured) < 0.7 * measured.memory_bytes
    later = warm * measured.cores if fits else best.per_second
    return best.per_second, max(later, best.per_second)


def _total_bytes(measured: Measured) -> float:
    return measured.files * measured.mean_bytes if measured.listed_all else float("inf")


def _options(
    measured: Measured, decode: float | None, fetch_now: float, fetch_later: float, need: float | None
) -> tuple[Option, ...]:
    now = _slower(fetch_now, decode)

    def option(name: str, rate: float) -> Option:
        return Option(name, rate, rate / now, None if need is None else rate >= need)  # type: ignore[arg-type]

    found = [option("now", now), option("later-epochs", _slower(fetch_later, decode))]
    if measured.kind == "files" and measured.sequential is not None:
        found.append(option("packed", max(now, _slower(_packed_rate(measured, measured.sequential), decode))))
    if measured.scratch is not None:
        found.append(option("local-copy", _slower(measured.scratch.cold.per_second * measured.cores, decode)))
    if decode is not None:
        found.append(option("twice-the-cores", _slower(fetch_now, 2 * decode)))
        found.append(option("undecoded", fetch_now))
    return tuple(found)


def _slower(fetch: float, decode: float | None) -> float:
    return fetch if decode is None else min(fetch, decode)


def _packed_rate(measured: Measured, sequential: Rate) -> float:
    by_disk = sequential.bytes_per_second / (measured.mean_bytes + _TAR_OVERHEAD_BYTES)
    return min(by_disk, measured.cores / _PACKED_CPU_SECONDS)


def _limit(measured: Measured, decode: float | None, fetch: float) -> Limit:
    if decode is not None and decode <= fetch:
        return "decoder"
    if measured.kind == "files" and measured.sequential is not None:
        share = fetch * measured.mean_bytes / measured.sequential.bytes_per_second
        if share < _SEEK_BOUND:
            return "opening" if measured.cold.cold is False else "seeks"
    return "bandwidth"


def _verdict(limit: Limit, now: float, need: float | None) -> str:
    rate = f"{now:,.0f}"
    if need is not None and now >= need:
        return text("The data keep up: {rate} samples/s, and the model needs {need:,.0f}.", rate=rate, need=need)
    return {
        "decoder": text("Decoding limits: {rate} samples/s with all cores, however fast they are read.", rate=rate),
        "seeks": text("Seeking limits: {rate} samples/s, since each file is read on its own.", rate=rate),
        "opening": text("Opening files limits: {rate} samples/s. The disk itself is not the problem.", rate=rate),
        "bandwidth": text("The bandwidth of the disk limits: {rate} samples/s.", rate=rate),
    }[limit]


def _advice(measured: Measured, options: tuple[Option, ...], limit: Limit, pays: bool | None) -> list[str]:
    named = {option.name: option for option in options}
    advice: list[str] = []
    later = named["later-epochs"].per_second
    if pays and later >= named["packed"].per_second:
        advice.append(
            text(
                "Packing would give {gain:.1f} times as much in the first epoch: ownlab data pack {path} -o OUT. Later epochs come from "
                "memory either way.",
                gain=named["packed"].gain,
                path=measured.path,
            )
        )
    elif pays:
        advice.append(
            text(
                "Packing would give {gain:.1f} times as much: ownlab data pack {path} -o OUT",
                gain=named["packed"].gain,
                path=measured.path,
            )
        )
    elif pays is False:
        advice.append(text("Packing does not pay here: reading the files is not what is slow."))
    copy = named.get("local-copy")
    if copy is not None and copy.gain >= _NOTICEABLE:
        advice.append(
            text(
                "A copy on {folder} would give {gain:.1f} times as much.",
                folder=measured.scratch.folder if measured.scratch else "",
                gain=copy.gain,
            )
        )
    if limit == "decoder":
        advice.append(
            text(
                "Smaller images help: `ownlab data pack --resize` decodes them once and for all. So do more cores, or decoding on the GPU."
            )
        )
    elif named["later-epochs"].gain >= _NOTICEABLE:
        advice.append(
            text(
                "From the second epoch on the files are in memory: {rate:,.0f} samples/s.",
                rate=named["later-epochs"].per_second,
            )
        )
    return advice


def _notes(measured: Measured) -> list[str]:
    notes: list[str] = []
    if measured.cold.cold is not True:
        notes.append(
            text(
                "The files came from memory, although they were to be read from the disk: rates of the first epoch may be lower."
            )
        )
    if measured.decode_missing:
        notes.append(text("Decoding was not measured: {reason}", reason=sentence(measured.decode_missing)))
    if measured.kind == "files" and measured.sequential is None:
        notes.append(text("Large reads were not measured: the folder cannot be written to."))
    if not measured.listed_all:
        notes.append(text("Only {n:,} files were listed; there are more.", n=measured.files))
    return notes

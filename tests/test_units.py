"""Bytes, seconds and FLOP/s, both ways."""

from __future__ import annotations

import pytest

from ownlab.units import format_bytes, format_flops, format_seconds, parse_bytes


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1536, "1.5 KiB"),
        (143771 * 1024**2, "140 GiB"),
        (24 * 1024**3, "24 GiB"),
        (5 * 1024**6, "5120 PiB"),
    ],
)
def test_bytes_are_written_in_powers_of_1024(count: int, text: str) -> None:
    assert format_bytes(count) == text


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("80GiB", 80 * 1024**3),
        ("24 GB", 24 * 10**9),
        ("64m", 64 * 1024**2),
        ("512", 512),
        ("1.5 KiB", 1536),
        ("2Gi", 2 * 1024**3),
    ],
)
def test_sizes_are_read(text: str, count: int) -> None:
    assert parse_bytes(text) == count


@pytest.mark.parametrize("text", ["", "many", "12 bits", "-1 GiB", "1.2.3 GB"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a size"):
        parse_bytes(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.00012, "120 µs"),
        (0.25, "250 ms"),
        (42, "42 s"),
        (90, "2 min"),
        (5400, "1 h 30 min"),
        (3 * 86400, "3 d"),
        (50 * 3600, "2 d 2 h"),
    ],
)
def test_times_are_written(seconds: float, text: str) -> None:
    assert format_seconds(seconds) == text


@pytest.mark.parametrize(
    ("rate", "text"), [(7.9e14, "790 TFLOP/s"), (1.2e15, "1.2 PFLOP/s"), (5e10, "50 GFLOP/s"), (10.0, "10 FLOP/s")]
)
def test_rates_are_written(rate: float, text: str) -> None:
    assert format_flops(rate) == text

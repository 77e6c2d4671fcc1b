"""What measured rates mean: the same files on a hard disk, on a warm SSD, on NFS, and where decoding is what is slow."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from ownlab.instruments.data.rates.assessment import assess
from ownlab.instruments.data.rates.records import Measured, Rate, Scratch

SIZE = 40_000.0


def rate(per_second: float, *, cold: bool | None = True) -> Rate:
    return Rate(per_second, per_second * SIZE, 5e-5, 1.0 if cold else 0.0, cold)


# Figures of a disk with 150 operations and 150 MB per second, eight cores, decoding in 1.5 ms.
HARD_DISK = Measured(
    path="/data",
    kind="files",
    files=1_000_000,
    listed_all=True,
    mean_bytes=SIZE,
    cold=rate(75),
    cold_parallel=rate(75),
    warm=rate(15_000, cold=False),
    sequential=Rate(150e6, 150e6, 0.0, 1.0, True),
    decode_seconds=1.5e-3,
    decode_missing="",
    scratch=None,
    file_system="ext4",
    rotational=True,
    cores=8,
    memory_bytes=16 << 30,
    seconds=20.0,
)
WARM_SSD = replace(
    HARD_DISK,
    cold=rate(15_000, cold=False),
    cold_parallel=rate(30_000, cold=False),
    sequential=Rate(3e9, 3e9, 0.0, 0.0, False),
)


def test_a_hard_disk_is_limited_by_seeks_and_packing_pays() -> None:
    bench = assess(HARD_DISK, need=3000)
    packed = next(option for option in bench.options if option.name == "packed")
    assert (bench.limit, bench.packing_pays) == ("seeks", True)
    assert packed.per_second == pytest.approx(150e6 / (SIZE + 2048))
    assert packed.meets_need
    assert not bench.options[0].meets_need
    assert "ownlab data pack /data" in bench.advice[0]


def test_on_a_warm_ssd_packing_does_not_pay() -> None:
    bench = assess(WARM_SSD)
    assert (bench.limit, bench.packing_pays) == ("decoder", False)
    assert any("does not pay" in advice for advice in bench.advice)
    assert any("came from memory" in note for note in bench.notes)


def test_what_fits_into_memory_is_slow_once() -> None:
    small = replace(HARD_DISK, files=10_000)
    assert "first epoch" in assess(small).advice[0]
    assert "first epoch" not in assess(HARD_DISK).advice[0]


def test_without_a_decoder_the_disk_is_compared_alone() -> None:
    bench = assess(replace(WARM_SSD, decode_seconds=None, decode_missing="Pillow is missing."))
    assert {option.name for option in bench.options} == {"now", "later-epochs", "packed"}
    assert any("Pillow is missing" in note for note in bench.notes)


def test_a_local_copy_of_a_slow_mount() -> None:
    mount = replace(HARD_DISK, sequential=None, file_system="fuse.rclone", scratch=Scratch("/scratch", rate(3000)))
    bench = assess(mount)
    assert next(option for option in bench.options if option.name == "local-copy").gain > 10
    assert any("/scratch" in advice for advice in bench.advice)


def test_packed_data_are_not_to_be_packed() -> None:
    bench = assess(replace(HARD_DISK, kind="packed", cold_parallel=None, cold=rate(3500)))
    assert bench.packing_pays is None
    assert bench.limit == "bandwidth"


def test_a_model_that_needs_little_is_satisfied() -> None:
    bench = assess(WARM_SSD, need=100)
    assert "keep up" in bench.verdict

"""The model of torch's allocator, against the rules of c10/cuda/CUDACachingAllocator.cpp."""

from __future__ import annotations

import gzip
import json
import random
from pathlib import Path

import pytest

from ownlab.instruments.fit.torch_allocator import Allocator, AllocatorSettings, OutOfMemory
from ownlab.instruments.fit.torch_allocator_expandable import ExpandableAllocator
from ownlab.units import GIB, KIB, MIB

HISTORIES = Path(__file__).parents[3] / "tests_gpu" / "fit" / "histories-h200.json.gz"


@pytest.mark.parametrize(
    ("size", "allocated", "reserved"),
    [
        (1, 512, 2 * MIB),
        (513, 1024, 2 * MIB),
        (1 * MIB, 1 * MIB, 2 * MIB),
        (1 * MIB + 1, 1 * MIB + 512, 20 * MIB),
        (10 * MIB - 512, 10 * MIB - 512, 20 * MIB),
        (10 * MIB, 10 * MIB, 10 * MIB),
        (11 * MIB, 12 * MIB, 12 * MIB),  # what is left is not worth cutting off: it counts as allocated
        (101 * MIB, 102 * MIB, 102 * MIB),
    ],
)
def test_one_tensor(size: int, allocated: int, reserved: int) -> None:
    allocator = Allocator()
    allocator.allocate(1, size)
    assert (allocator.allocated, allocator.reserved) == (allocated, reserved)


def test_an_empty_tensor_takes_nothing() -> None:
    allocator = Allocator()
    allocator.allocate(1, 0)
    allocator.free(1)
    assert allocator.peak_reserved == 0


def test_the_smallest_sufficient_block_is_taken() -> None:
    allocator = Allocator()
    for name, size in enumerate((100, 30, 60)):
        allocator.allocate(name, size * MIB)
    for name in range(3):
        allocator.free(name)
    allocator.allocate(3, 25 * MIB)  # out of 30: 5 are left
    allocator.allocate(4, 50 * MIB)  # out of 60
    allocator.allocate(5, 100 * MIB)
    assert allocator.reserved == 190 * MIB
    allocator.allocate(6, 11 * MIB)
    assert allocator.reserved == 202 * MIB


def test_free_neighbours_are_merged() -> None:
    allocator = Allocator()
    allocator.allocate(0, 60 * MIB)
    allocator.free(0)
    for name in (1, 2, 3):
        allocator.allocate(name, 20 * MIB)
    for name in (1, 3, 2):
        allocator.free(name)
    allocator.allocate(4, 60 * MIB)
    assert allocator.reserved == 60 * MIB


def test_blocks_of_two_segments_are_not_merged() -> None:
    allocator = Allocator()
    for name in (1, 2):
        allocator.allocate(name, 30 * MIB)
    for name in (1, 2):
        allocator.free(name)
    allocator.allocate(3, 60 * MIB)
    assert allocator.reserved == 120 * MIB


def test_the_cache_is_released_before_it_fails() -> None:
    allocator = Allocator(capacity=100 * MIB)
    for name in (1, 2):
        allocator.allocate(name, 40 * MIB)
        allocator.free(name)
    allocator.allocate(3, 40 * MIB)
    allocator.free(3)
    allocator.allocate(4, 80 * MIB)
    assert (allocator.reserved, allocator.retries) == (80 * MIB, 1)
    with pytest.raises(OutOfMemory):
        allocator.allocate(5, 40 * MIB)


def test_a_segment_in_use_is_not_released() -> None:
    allocator = Allocator(capacity=100 * MIB)
    allocator.allocate(1, 60 * MIB)
    allocator.free(1)
    allocator.allocate(2, 20 * MIB)  # a piece of it
    with pytest.raises(OutOfMemory):
        allocator.allocate(3, 50 * MIB)


def test_max_split_size_keeps_large_blocks_whole() -> None:
    allocator = Allocator(settings=AllocatorSettings(max_split_size=128 * MIB))
    allocator.allocate(1, 200 * MIB)
    allocator.free(1)
    allocator.allocate(2, 50 * MIB)
    assert allocator.reserved == 250 * MIB
    allocator.allocate(3, 190 * MIB)
    assert (allocator.reserved, allocator.allocated) == (250 * MIB, 250 * MIB)


def test_max_split_size_releases_large_blocks_first() -> None:
    allocator = Allocator(capacity=400 * MIB, settings=AllocatorSettings(max_split_size=128 * MIB))
    allocator.allocate(1, 250 * MIB)
    allocator.free(1)
    allocator.allocate(2, 60 * MIB)
    allocator.free(2)
    allocator.allocate(3, 200 * MIB)  # 250 are too many for it
    assert (allocator.reserved, allocator.retries) == (260 * MIB, 0)  # the 60 are still cached


def test_roundup_power2_divisions() -> None:
    allocator = Allocator(settings=AllocatorSettings(roundup_power2_divisions=4))
    assert allocator.round_size(1200 * KIB) == 1280 * KIB
    assert allocator.round_size(1024 * KIB) == 1024 * KIB
    assert allocator.round_size(600) == 1024


def test_garbage_is_collected_above_the_threshold() -> None:
    allocator = Allocator(capacity=1 * GIB, settings=AllocatorSettings(garbage_collection_threshold=0.5))
    for name, size in enumerate((100, 200, 300)):
        allocator.allocate(name, size * MIB)
    allocator.free(0)
    allocator.free(1)
    allocator.allocate(3, 210 * MIB)  # neither of the free ones suffices, and they are as old as each other: both go
    assert allocator.reserved == (300 + 210) * MIB


def test_garbage_older_than_the_average_is_released_first() -> None:
    allocator = Allocator(capacity=2 * GIB, settings=AllocatorSettings(garbage_collection_threshold=0.5))
    for name, size in enumerate((100, 200, 300)):
        allocator.allocate(name, size * MIB)
    allocator.free(0)
    allocator.allocate(3, 150 * MIB)
    allocator.free(1)
    allocator.allocate(4, 300 * MIB)
    allocator.allocate(5, 250 * MIB)  # 1050 MiB are above the threshold; without the older block they are not
    assert allocator.reserved == (200 + 300 + 150 + 300 + 250) * MIB


def test_large_blocks_are_not_released_for_small_requests() -> None:
    allocator = Allocator(capacity=256 * MIB, settings=AllocatorSettings(max_split_size=64 * MIB))
    allocator.allocate(1, 156 * MIB)
    allocator.allocate(2, 100 * MIB)
    allocator.free(1)
    allocator.allocate(3, 1 * KIB)  # only when all that is cached goes there is room for it
    assert (allocator.reserved, allocator.retries) == (102 * MIB, 1)


def test_expandable_segments() -> None:
    allocator = ExpandableAllocator()
    allocator.allocate(1, 30 * MIB)
    assert allocator.reserved == 40 * MIB
    allocator.allocate(2, 8 * MIB)
    assert allocator.reserved == 40 * MIB
    allocator.allocate(3, 8 * MIB)  # 2 are left at the end
    assert allocator.reserved == 60 * MIB
    allocator.free(1)
    allocator.allocate(4, 40 * MIB)
    assert allocator.reserved == 100 * MIB


def test_the_end_of_an_expandable_segment_is_kept_for_large_requests() -> None:
    allocator = ExpandableAllocator()
    allocator.allocate(1, 30 * MIB)
    allocator.allocate(2, 5 * MIB)  # 5 are left at the end, which could become any size
    allocator.free(1)
    allocator.allocate(3, 4 * MIB)  # so it is cut from the 30, though the end would be the smaller
    allocator.allocate(4, 26 * MIB)
    assert allocator.reserved == 40 * MIB


def test_free_pages_are_unmapped_before_it_fails() -> None:
    allocator = ExpandableAllocator(capacity=200 * MIB)
    for name in range(5):
        allocator.allocate(name, 40 * MIB)
    for name in (0, 2):
        allocator.free(name)
    allocator.allocate(5, 80 * MIB)  # two holes of 40, not beside each other
    assert (allocator.reserved, allocator.retries) == (200 * MIB, 1)
    with pytest.raises(OutOfMemory):
        allocator.allocate(6, 20 * MIB)
    allocator.free(5)
    allocator.allocate(7, 40 * MIB)


@pytest.mark.parametrize("kind", [Allocator, ExpandableAllocator])
def test_random_allocations_add_up(kind: type[Allocator]) -> None:
    """Never less reserved than allocated, and nothing left when all has gone."""
    chance = random.Random(0)
    allocator = kind(capacity=2 * GIB)
    living: list[int] = []
    for name in range(4000):
        if living and chance.random() < 0.5:
            allocator.free(living.pop(chance.randrange(len(living))))
        else:
            size = int(2 ** chance.uniform(4, 26))
            try:
                allocator.allocate(name, size)
                living.append(name)
            except OutOfMemory:
                assert allocator.reserved <= 2 * GIB
        assert allocator.allocated <= allocator.reserved <= 2 * GIB
    for name in living:
        allocator.free(name)
    allocator.empty_cache()
    assert (allocator.allocated, allocator.reserved) == (0, 0)


def test_real_histories_reserve_what_they_reserved() -> None:
    """Allocations of nine networks on an H200, which end in the same reserved memory to the byte."""
    networks = json.loads(gzip.decompress(HISTORIES.read_bytes()))["networks"]
    assert len(networks) == 9
    for name, network in networks.items():
        allocator = Allocator()
        for storage, size in network["events"]:
            if size < 0:
                allocator.free(storage)
            else:
                allocator.allocate(storage, size)
        assert allocator.peak_reserved == network["reserved"], name


def test_of_equal_blocks_the_newer_segment_is_taken() -> None:
    """Addresses go down; what is left of a chunk of 32 MiB takes small segments."""
    allocator = Allocator()
    for name in (1, 2):
        allocator.allocate(name, 40 * MIB)
    allocator.allocate(3, 20 * MIB)  # behind the second one, in the same 64 MiB
    addresses = [allocator._blocks_by_name[name].address for name in (1, 2, 3)]
    assert addresses[1] == addresses[0] - 64 * MIB
    assert addresses[2] == addresses[1] + 40 * MIB
    allocator.free(1)
    allocator.free(2)
    allocator.allocate(4, 40 * MIB)
    assert allocator._blocks_by_name[4].address == addresses[1]

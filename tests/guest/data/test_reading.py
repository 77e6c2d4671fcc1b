"""Reading: every sample once per epoch, exact continuation with any number of processes, and nothing damaged gets through."""

from __future__ import annotations

import itertools
import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.guest.data.samples import contents, make_folder, names_of, open_names, pack_all
from tests.web_server import serve_web

from ownlab_guest.data import epoch_order
from ownlab_guest.data.dataset import PackedDataset, open_dataset
from ownlab_guest.data.epoch_order import EpochOrder, cut_segments, of_worker, share, split_segments
from ownlab_guest.data.errors import DamagedData, DataError
from ownlab_guest.data.manifest import Shard


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("packed")
    make_folder(folder / "in", 300)
    pack_all(folder / "in", folder / "out")
    return folder / "out"


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks that are small enough for a small data set to have many windows."""
    monkeypatch.setattr(epoch_order, "BLOCK_BYTES", 10_000)


def dataset_at(packed: Path, rank: int = 0, world: int = 1, **options: Any) -> PackedDataset:
    return open_dataset(packed, shuffle=True, seed=7, as_dict=True, decode=False, rank=rank, world=world, **options)


def take(dataset: PackedDataset, count: int) -> list[str]:
    """Take some samples, as a script that is interrupted."""
    iterator = iter(dataset)
    return [next(iterator)["__name__"] for _ in range(count)]


def test_each_epoch_has_each_sample_once_in_another_order(packed: Path) -> None:
    dataset = dataset_at(packed)
    first, second = names_of(dataset), names_of(dataset)
    assert sorted(first) == sorted(second) == sorted(contents(packed))
    assert first != second
    dataset.set_epoch(0)
    assert names_of(dataset) == first


def test_list_access(packed: Path) -> None:
    dataset = dataset_at(packed)
    stored = open_names(packed)
    assert [dataset[number]["__name__"] for number in (0, 150, -1)] == [stored[0], stored[150], stored[-1]]
    assert dataset.name(150) == stored[150]
    with pytest.raises(IndexError):
        dataset[300]
    assert len(dataset.targets) == len(dataset) == 300


def test_batches(packed: Path) -> None:
    assert [len(batch) for batch in open_dataset(packed, batch=128, decode=False)] == [128, 128, 44]
    assert [len(batch) for batch in open_dataset(packed, batch=128, decode=False, drop_last=True)] == [128, 128]


def test_breaking_off_begins_a_new_epoch(packed: Path) -> None:
    dataset = dataset_at(packed)
    take(dataset, 5)
    assert len(names_of(dataset)) == 300
    assert dataset.epoch == 2


@settings(max_examples=40, deadline=None)
@given(
    samples=st.integers(1, 500),
    steps=st.lists(st.tuples(st.integers(1, 7), st.integers(0, 120)), max_size=4),
    world=st.integers(1, 7),
)
def test_any_series_of_world_sizes_reads_each_position_once(
    samples: int, steps: list[tuple[int, int]], world: int
) -> None:
    read: list[int] = []
    splits: list[tuple[int, int]] = []
    for ranks, taken in steps:
        for rank in range(ranks):
            read += positions(split_segments(share(samples, splits, rank, ranks), taken)[0])
        splits.append((ranks, taken))
    for rank in range(world):
        read += positions(share(samples, splits, rank, world))
    assert sorted(read) == list(range(samples))


@given(samples=st.integers(0, 300), parts=st.integers(1, 9))
def test_shares_differ_by_one_at_most(samples: int, parts: int) -> None:
    sizes = [len(positions(part)) for part in cut_segments([(0, samples)] if samples else [], parts)]
    assert max(sizes) - min(sizes) <= 1
    assert sizes[0] == max(sizes)  # whose state is saved has taken as many as anybody


@given(samples=st.integers(0, 300), batch=st.integers(1, 40), workers=st.integers(1, 6), cut=st.integers(1, 299))
def test_workers_in_turn_give_the_batches_of_one(samples: int, batch: int, workers: int, cut: int) -> None:
    segments = [
        segment
        for segment in ((0, min(cut, samples)), (min(cut, samples) + 10, samples + 10))
        if segment[0] < segment[1]
    ]
    all_positions = positions(segments)
    wanted = [all_positions[at : at + batch] for at in range(0, len(all_positions), batch)]
    found: list[list[int]] = [[] for _ in wanted]
    for worker in range(workers):
        mine = positions(of_worker(segments, batch, worker, workers))
        for number in range(worker, len(wanted), workers):
            found[number], mine = mine[: len(wanted[number])], mine[len(wanted[number]) :]
        assert not mine
    assert found == wanted


@given(
    counts=st.lists(st.tuples(st.integers(1, 60), st.integers(1, 90_000)), min_size=1, max_size=20),
    seed=st.integers(0, 5),
    shuffle=st.booleans(),
    data=st.data(),
)
def test_parts_of_an_order_are_the_order(
    counts: list[tuple[int, int]], seed: int, shuffle: bool, data: st.DataObject
) -> None:
    shards = [Shard(f"data-{n}.tar", samples, size, 0) for n, (samples, size) in enumerate(counts)]
    order = EpochOrder(shards, shuffle=shuffle, seed=seed, epoch=1)
    everything = flat(order, [(0, order.samples)])
    assert sorted(everything) == [(n, row) for n, (samples, _) in enumerate(counts) for row in range(samples)]
    assert shuffle or everything == sorted(everything)
    cuts = sorted(data.draw(st.lists(st.integers(0, order.samples), max_size=6)))
    bounds = [0, *cuts, order.samples]
    pieces = [(low, high) for low, high in itertools.pairwise(bounds) if low < high]
    assert flat(order, pieces) == everything
    assert [sample for piece in pieces for sample in flat(order, [piece])] == everything
    assert {shard for shard, _ in everything} == set(order.shards([(0, order.samples)]))


def positions(segments: list[tuple[int, int]]) -> list[int]:
    return [position for low, high in segments for position in range(low, high)]


def flat(order: EpochOrder, segments: list[tuple[int, int]]) -> list[tuple[int, int]]:
    found = []
    for run in order.runs(segments):
        samples = [(block.shard, block.first + row) for block in run.blocks for row in range(block.samples)]
        found += [samples[number] for number in run.samples]
    return found


@pytest.mark.parametrize(("first", "second"), [(1, 1), (1, 4), (4, 1), (2, 3), (3, 2)])
def test_continuing_with_another_world_size(packed: Path, first: int, second: int) -> None:
    read: list[str] = []
    states = []
    for rank in range(first):
        dataset = dataset_at(packed, rank, first)
        read += take(dataset, 37)
        states.append(json.loads(json.dumps(dataset.state_dict())))
    assert all(state == states[0] for state in states)
    for rank in range(second):
        dataset = dataset_at(packed, rank, second)
        dataset.load_state_dict(states[0])
        read += names_of(dataset)
        assert dataset.epoch == 1
    assert sorted(read) == sorted(contents(packed))


def test_continuing_gives_exactly_what_was_left(packed: Path) -> None:
    whole = names_of(dataset_at(packed))
    for count in (0, 1, 64, 299):
        dataset = dataset_at(packed)
        begun = take(dataset, count)
        other = dataset_at(packed, threads=3)
        other.load_state_dict(dataset.state_dict())
        assert begun + names_of(other) == whole


def test_a_state_of_something_else_is_refused(packed: Path) -> None:
    state = dataset_at(packed).state_dict()
    with pytest.raises(DataError, match="seed"):
        open_dataset(packed, shuffle=True, seed=8).load_state_dict(state)
    with pytest.raises(DataError, match="samples"):
        dataset_at(packed).load_state_dict({**state, "samples": 5})


def test_a_changed_byte_is_never_given_out(packed: Path, tmp_path: Path) -> None:
    copy = copied(packed, tmp_path)
    shard = next(copy.glob("*.tar"))
    content = bytearray(shard.read_bytes())
    content[600] ^= 1
    shard.write_bytes(content)
    with pytest.raises(DamagedData, match="checksum"):
        names_of(dataset_at(copy))


def test_a_cut_shard_and_a_missing_one(packed: Path, tmp_path: Path) -> None:
    copy = copied(packed, tmp_path)
    shard = sorted(copy.glob("*.tar"))[1]
    os.truncate(shard, 20_000)
    with pytest.raises(DamagedData, match="cut off"):
        names_of(dataset_at(copy))
    shard.unlink()
    with pytest.raises(DataError, match="Cannot read"):
        names_of(dataset_at(copy))


@settings(max_examples=30, deadline=None)
@given(place=st.integers(0, 10**6), value=st.integers(1, 255), cut=st.integers(0, 10**6) | st.none())
def test_damage_anywhere_is_an_error_of_ours_or_harmless(
    place: int, value: int, cut: int | None, packed: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    copy = copied(packed, tmp_path_factory.mktemp("copy"))
    file = sorted(copy.iterdir())[place % len(list(copy.iterdir()))]
    content = bytearray(file.read_bytes())
    content[place % len(content)] ^= value
    file.write_bytes(content if cut is None else content[: cut % len(content)])
    good = contents(packed)
    try:
        found = contents(copy)
    except DataError:
        return
    assert found == good or file.suffix in (".json", ".tar")
    assert sorted(found.values()) == sorted(good.values())


def copied(packed: Path, to: Path) -> Path:
    for file in packed.iterdir():
        (to / file.name).write_bytes(file.read_bytes())
    return to


def test_ranks_come_from_torchrun(packed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = []
    for rank in range(3):
        monkeypatch.setenv("RANK", str(rank))
        monkeypatch.setenv("WORLD_SIZE", "3")
        read += open_names(packed, shuffle=True)
    assert sorted(read) == sorted(contents(packed))


def test_the_reading_thread_ends_with_its_iterator(packed: Path) -> None:
    import threading

    iterator = iter(dataset_at(packed))
    next(iterator)
    reader = next(thread for thread in threading.enumerate() if thread.name == "ownlab-data")
    del iterator
    reader.join(30)
    assert not reader.is_alive()


def test_shards_of_a_server_are_cached_up_to_a_limit(packed: Path, tmp_path: Path) -> None:
    with serve_web() as web:
        for file in packed.iterdir():
            web.answer(f"/set/{file.name}", file.read_bytes())
        limit = 2 * max(file.stat().st_size for file in packed.glob("*.tar")) + 100_000
        options = {"cache": tmp_path / "cache", "cache_bytes": limit, "shuffle": True, "as_dict": True, "decode": False}
        assert open_names(f"{web.url}/set", **options) == open_names(packed, shuffle=True)
        kept = sum(file.stat().st_size for file in (tmp_path / "cache").glob("data-*"))
        assert 0 < kept <= limit + 200_000  # what is fetched ahead may pass it by a shard
        requested = len(web.requested)
        options["cache_bytes"] = 10**9
        open_names(f"{web.url}/set", **options)
        between = len(web.requested)
        open_names(f"{web.url}/set", **options)
        assert between > requested
        assert web.requested[between:] == ["/set/dataset.json"]


def test_a_server_that_lies_about_a_shard(packed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ownlab_guest.data.shard_cache._FIRST_WAIT_SECONDS", 0.0)
    with serve_web() as web:
        for file in packed.iterdir():
            web.answer(f"/{file.name}", file.read_bytes() if file.suffix != ".tar" else b"<html>no shard</html>")
        with pytest.raises(DataError, match="size"):
            open_names(web.url, cache=tmp_path)
        assert not list(tmp_path.glob("*.tar"))

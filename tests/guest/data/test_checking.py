"""When samples are compared with their checksums, and who may keep what was read."""

from __future__ import annotations

import os
import pickle
import random
from pathlib import Path

import pytest
from tests.guest.data.samples import make_folder, pack_all

from ownlab_guest.data import epoch_order, page_cache
from ownlab_guest.data.checked_samples import PAYLOAD, WHOLE, CheckedSamples, fastest_crc32
from ownlab_guest.data.dataset import PackedDataset, open_dataset
from ownlab_guest.data.errors import DamagedData, DataError
from ownlab_guest.data.manifest import Shard


@pytest.fixture
def packed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(epoch_order, "BLOCK_BYTES", 10_000)
    make_folder(tmp_path / "in", 120)
    pack_all(tmp_path / "in", tmp_path / "out")
    return tmp_path / "out"


def flip(packed: Path, *, unnoticed: bool) -> None:
    """Change a byte of the first sample where it lies."""
    shard = min(packed.glob("*.tar"))
    times = shard.stat().st_mtime_ns
    with open(shard, "rb+") as file:
        file.seek(512)
        byte = file.read(1)[0]
        file.seek(512)
        file.write(bytes([byte ^ 1]))
    os.utime(shard, ns=(times, times + (0 if unnoticed else 1)))


def read_pass(dataset: PackedDataset) -> int:
    return sum(1 for _ in dataset)


def test_once_is_once_for_each_sample(packed: Path) -> None:
    dataset = open_dataset(packed, decode=False)
    assert read_pass(dataset) == 120
    flip(packed, unnoticed=True)
    assert read_pass(dataset) == 120
    with pytest.raises(DamagedData, match="checksum"):
        read_pass(open_dataset(packed, decode=False))


def test_always_and_never(packed: Path) -> None:
    always, never = (open_dataset(packed, decode=False, check=check) for check in ("always", "never"))
    assert read_pass(always) == read_pass(never) == 120
    flip(packed, unnoticed=True)
    assert read_pass(never) == 120
    with pytest.raises(DamagedData, match="checksum"):
        read_pass(always)
    with pytest.raises(DataError, match="once, always, never"):
        open_dataset(packed, check="sometimes")


def test_single_samples_are_checked_too(packed: Path) -> None:
    flip(packed, unnoticed=True)
    assert len(open_dataset(packed, decode=False, check="never")[0]) == 2
    with pytest.raises(DamagedData, match="checksum"):
        open_dataset(packed, decode=False)[0]


def test_a_file_that_was_written_to_is_checked_again_when_it_is_opened(packed: Path) -> None:
    dataset = open_dataset(packed, decode=False)
    read_pass(dataset)
    flip(packed, unnoticed=False)
    dataset._store.close()
    with pytest.raises(DamagedData, match="checksum"):
        read_pass(dataset)


def test_a_checked_payload_is_not_a_checked_sample(packed: Path) -> None:
    """The label of a sample is a member of its own, which pairs do not read."""
    dataset = open_dataset(packed, decode=False)
    read_pass(dataset)
    shard = min(packed.glob("*.tar"))
    index = dataset._store.index(0)
    label = next(member for member in index.members(0) if member.extension == "cls")
    with open(shard, "rb+") as file:
        file.seek(label.offset)
        file.write(b"9")
    with pytest.raises(DamagedData, match="checksum"):
        list(dataset._reader.one(0, 0).fields)


def test_a_worker_checks_for_the_process_that_forked_it(packed: Path) -> None:
    samples = CheckedSamples([Shard("a", 3, 100, 0), Shard("b", 2, 100, 0)])
    samples.opened(1, 77)
    child = os.fork()
    if child == 0:
        samples[samples.place(1, 0)] = PAYLOAD
        samples[samples.place(1, 1)] = WHOLE
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert samples.all(samples.place(1, 0), 2)
    assert not samples.all(samples.place(0, 0), 3)
    samples.opened(1, 77)
    assert samples[samples.place(1, 1)] == WHOLE
    samples.opened(1, 78)
    assert not samples[samples.place(1, 0)]
    assert not pickle.loads(pickle.dumps(samples))[samples.place(1, 1)]


def test_what_is_not_copied_may_be_kept(packed: Path) -> None:
    views = [data for data, _ in open_dataset(packed, decode=False, copy=False)]
    assert all(isinstance(data, memoryview) and data.readonly for data in views)
    assert [bytes(data) for data in views] == [data for data, _ in open_dataset(packed, decode=False)]


@pytest.mark.parametrize("in_memory", [True, False])
def test_both_ways_of_reading_give_the_same(packed: Path, monkeypatch: pytest.MonkeyPatch, in_memory: bool) -> None:
    """Blocks come from the page cache, or from the disk through buffers that are used again."""
    monkeypatch.setattr("ownlab_guest.data.block_reader.cached_share", lambda *_: float(in_memory))
    kept = [data for data, _ in open_dataset(packed, decode=False, copy=False, shuffle=True)]
    copied = [data for data, _ in open_dataset(packed, decode=False, shuffle=True)]
    assert [bytes(data) for data in kept] == copied


def test_any_checksum_is_that_of_zlib() -> None:
    import zlib

    content = random.Random(1).randbytes(100_003)
    assert fastest_crc32()(memoryview(content)[3:]) == zlib.crc32(content[3:])


def test_both_ways_of_asking_know_what_is_cached(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(random.Random(1).randbytes(1 << 20))
    with open(path, "rb") as file:
        os.fsync(file.fileno())
        file.read()
        answers = [ask(file.fileno(), 5000, 900_000) for ask in (page_cache.cached_share, page_cache._answers_at_once)]
        assert answers == [1, True]
        assert page_cache.cached_share(file.fileno(), 0, 2 << 20) == 0.5  # there is no so much of it

"""verify finds every kind of damage, and repairs it only with the right bytes."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.guest.data.samples import digest_of, make_folder, pack_all

from ownlab_guest.data.errors import DataError
from ownlab_guest.data.verification import verify


class Set:
    """A packed data set with its source and a second copy."""

    def __init__(self, folder: Path) -> None:
        self.source, self.out, self.copy = folder / "in", folder / "out", folder / "copy"
        make_folder(self.source, 120)
        pack_all(self.source, self.out)
        shutil.copytree(self.out, self.copy)
        self.digest = digest_of(self.out)
        self.shards = sorted(self.out.glob("*.tar"))


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Set:
    return Set(tmp_path_factory.mktemp("verify"))


@pytest.fixture
def packed(original: Set, tmp_path: Path) -> Set:
    shutil.copytree(original.out.parent, tmp_path / "set")
    made: Set = object.__new__(Set)
    made.source, made.out, made.copy = (tmp_path / "set" / name for name in ("in", "out", "copy"))
    made.digest, made.shards = original.digest, sorted(made.out.glob("*.tar"))
    return made


def check(folder: Path, source: Path | None = None, *, full: bool = True) -> dict[str, Any]:
    *_, result = verify(str(folder), full=full, repair_from=None if source is None else str(source))
    return result


def flip(path: Path, place: int) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 4
    path.write_bytes(content)


def unlink_all(paths: Iterable[Path]) -> None:
    for path in list(paths):
        path.unlink()


DAMAGES: dict[str, Callable[[Set], object]] = {
    "sample": lambda packed: flip(packed.shards[0], 700),
    "header": lambda packed: flip(packed.shards[0], 3),
    "end": lambda packed: flip(packed.shards[0], packed.shards[0].stat().st_size - 1),
    "cut": lambda packed: os.truncate(packed.shards[1], 5000),
    "longer": lambda packed: os.truncate(packed.shards[1], packed.shards[1].stat().st_size + 512),
    "tar missing": lambda packed: packed.shards[0].unlink(),
    "index damaged": lambda packed: flip(packed.shards[0].with_suffix(".index"), 60),
    "index missing": lambda packed: packed.shards[0].with_suffix(".index").unlink(),
    "both missing": lambda packed: unlink_all(packed.out.glob("data-00000.*")),
    "exchanged": lambda packed: shutil.copy(
        packed.shards[0].with_suffix(".index"), packed.shards[1].with_suffix(".index")
    ),
    "interrupted repair": lambda packed: (packed.out / "data-00000.tar.part").write_bytes(b"x"),
}


def test_a_whole_set_is_whole(packed: Set) -> None:
    for full in (False, True):
        result = check(packed.out, full=full)
        assert (result["ok"], result["problem_count"], result["samples"]) == (True, 0, 120)


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("origin", ["source", "copy"])
def test_each_damage_is_found_and_repaired(packed: Set, damage: str, origin: str) -> None:
    DAMAGES[damage](packed)
    found = check(packed.out)
    assert not found["ok"]
    assert found["problem_count"] >= 1
    repaired = check(packed.out, packed.source if origin == "source" else packed.copy)
    assert repaired["ok"], repaired["problems"]
    assert check(packed.out)["problem_count"] == 0
    assert digest_of(packed.out) == packed.digest


def test_sizes_and_indexes_are_checked_without_reading(packed: Set) -> None:
    flip(packed.shards[0], 700)
    assert check(packed.out, full=False)["ok"]
    os.truncate(packed.shards[0], 100)
    assert not check(packed.out, full=False)["ok"]


def test_a_source_that_has_changed_repairs_nothing(packed: Set) -> None:
    flip(packed.shards[0], 700)
    before = digest_of(packed.out)
    name = check(packed.out)["problems"][0]["sample"]
    (packed.source / name).write_bytes(b"something else")
    result = check(packed.out, packed.source)
    assert (result["ok"], result["repaired"]) == (False, 0)
    assert digest_of(packed.out) == before


def test_a_folder_without_packed_data(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no packed data"):
        check(tmp_path)


@settings(max_examples=30, deadline=None)
@given(place=st.integers(0, 10**6), value=st.integers(1, 255), number=st.integers(0, 100))
def test_any_changed_byte_of_any_file_is_found(
    place: int, value: int, number: int, original: Set, tmp_path_factory: pytest.TempPathFactory
) -> None:
    copy = tmp_path_factory.mktemp("copy") / "out"
    shutil.copytree(original.out, copy)
    files = sorted(copy.glob("data-*"))
    file = files[number % len(files)]
    content = bytearray(file.read_bytes())
    content[place % len(content)] ^= value
    file.write_bytes(content)
    assert not check(copy)["ok"]
    assert check(copy, original.source)["ok"]
    assert digest_of(copy) == original.digest

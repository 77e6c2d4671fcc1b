"""Headers of members: what tarfile reads in them, also for names and sizes at the limits."""

from __future__ import annotations

import tarfile

import pytest

from ownlab_guest.data import tar_members


@pytest.mark.parametrize("size", [0, 1, 511, 512, 40_000, 8**11 - 1, 8**11, 2**40])
@pytest.mark.parametrize("name", ["a", "000000001_photo.jpg", "ü/犬.png", "x" * tar_members.MOST_NAME])
def test_a_header_is_what_tarfile_expects(name: str, size: int) -> None:
    header = tar_members.header(name, size)
    assert len(header) == tar_members.BLOCK
    member = tarfile.TarInfo.frombuf(header, "utf-8", "strict")  # compares the checksum
    assert (member.name, member.size, member.mode, member.mtime, member.isreg()) == (name, size, 0o644, 0, True)
    assert header == tar_members.header(name, size)


def test_a_name_that_does_not_fit() -> None:
    with pytest.raises(ValueError, match="too long"):
        tar_members.header("ü" * 51, 1)

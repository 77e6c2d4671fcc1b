"""Archives made by real programs and by attackers: what comes out is exact, or there is a clear error and nothing outside."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import io
import lzma
import os
import shutil
import stat
import subprocess
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ownlab.errors import InputError, OwnlabError
from ownlab.instruments.data.archives.errors import CorruptArchive, UnsafeArchive
from ownlab.instruments.data.archives.journal import Journal
from ownlab.instruments.data.archives.limits import Limits
from ownlab.instruments.data.archives.pipeline import UnpackRequest, unpack
from ownlab.instruments.data.archives.records import UnpackReport
from ownlab.instruments.data.archives.volumes import stem_of

FILES = {
    "images/cat/1.jpg": b"\xff\xd8" + bytes(range(256)) * 300,
    "images/dog/2.jpg": b"\xff\xd8" + bytes(range(255, -1, -1)) * 200,
    "empty.txt": b"",
    "数据/ü — x.csv": b"a,b\n1,2\n" * 1000,
}

needs = pytest.mark.skipif  # a program that this machine may lack
without_bsdtar = needs(shutil.which("bsdtar") is None, reason="bsdtar is not installed")
without_zip = needs(shutil.which("zip") is None, reason="zip is not installed")
without_zstd = needs(shutil.which("zstd") is None, reason="zstd is not installed")


def unpacked(tmp_path: Path, archive: Path, **request: Any) -> UnpackReport:
    environ = {"OWNLAB_HOME": str(tmp_path / "home")}
    request.setdefault("folder", tmp_path / "out")
    return unpack(UnpackRequest(archive, **request), lambda progress: None, environ)


def content(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and ".ownlab-data" not in path.parts
    }


def make_tree(folder: Path) -> Path:
    for name, data in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    return folder


def tar_bytes(files: dict[str, bytes] | None = None, *members: tarfile.TarInfo) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as tar:
        for name, data in (FILES if files is None else files).items():
            info = tarfile.TarInfo(name)
            info.size, info.mtime = len(data), 1_700_000_000
            tar.addfile(info, io.BytesIO(data))
        for info in members:
            tar.addfile(info, io.BytesIO(bytes(info.size)))
    return made.getvalue()


def zip_bytes(files: dict[str, bytes] | None = None) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in (FILES if files is None else files).items():
            archive.writestr(name, data)
    return made.getvalue()


MAKERS: dict[str, Callable[[], bytes]] = {
    "zip": zip_bytes,
    "tar": tar_bytes,
    "tar.gz": lambda: gzip.compress(tar_bytes()),
    "tar.bz2": lambda: bz2.compress(tar_bytes()),
    "tar.xz": lambda: lzma.compress(tar_bytes()),
}


@pytest.mark.parametrize("kind", MAKERS)
def test_archives_are_recognised_by_content_not_by_name(tmp_path: Path, kind: str) -> None:
    archive = tmp_path / "download"  # as many servers call it
    archive.write_bytes(MAKERS[kind]())
    report = unpacked(tmp_path, archive)
    assert content(tmp_path / "out") == FILES
    assert (report.files, report.extracted, report.size) == (4, 4, sum(map(len, FILES.values())))
    assert unpacked(tmp_path, archive).extracted == 0


@without_zstd
def test_zstandard(tmp_path: Path) -> None:
    (tmp_path / "data.tar").write_bytes(tar_bytes())
    subprocess.run(["zstd", "-q", str(tmp_path / "data.tar")], check=True)
    unpacked(tmp_path, tmp_path / "data.tar.zst")
    assert content(tmp_path / "out") == FILES
    whole = (tmp_path / "data.tar.zst").read_bytes()
    (tmp_path / "cut.tar.zst").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(CorruptArchive):
        unpacked(tmp_path, tmp_path / "cut.tar.zst", folder=tmp_path / "cut")


@without_bsdtar
@pytest.mark.parametrize("kind", ["7zip", "cpio"])
def test_formats_of_libarchive(tmp_path: Path, kind: str) -> None:
    make_tree(tmp_path / "tree")
    archive = tmp_path / "data.bin"
    subprocess.run(["bsdtar", "-cf", str(archive), "--format", kind, "-C", str(tmp_path / "tree"), "."], check=True)
    unpacked(tmp_path, archive)
    assert content(tmp_path / "out") == FILES


@without_bsdtar
def test_a_cut_7z_is_reported(tmp_path: Path) -> None:
    make_tree(tmp_path / "tree")
    archive = tmp_path / "data.7z"
    subprocess.run(["bsdtar", "-cf", str(archive), "--format", "7zip", "-C", str(tmp_path / "tree"), "."], check=True)
    archive.write_bytes(archive.read_bytes()[:-50])
    with pytest.raises(CorruptArchive):
        unpacked(tmp_path, archive)


@pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
def test_a_file_compressed_alone(tmp_path: Path, pack: Callable[[bytes], bytes]) -> None:
    data = b"a,b\n1,2\n" * 100_000
    (tmp_path / "table.csv.gz").write_bytes(pack(data))
    assert unpacked(tmp_path, tmp_path / "table.csv.gz").size == len(data)
    assert content(tmp_path / "out") == {"table.csv": data}
    again = unpacked(tmp_path, tmp_path / "table.csv.gz")
    assert (again.files, again.extracted, again.size) == (1, 0, len(data))


@pytest.mark.parametrize(
    "names",
    [
        ["data.zip.001", "data.zip.002", "data.zip.003"],
        ["data.tar.part1", "data.tar.part2", "data.tar.part3"],
        ["data.tar.gz.aa", "data.tar.gz.ab", "data.tar.gz.ac"],
        ["data.tgz.partaa", "data.tgz.partab", "data.tgz.partac"],
        ["data.tar.000", "data.tar.001", "data.tar.002"],
    ],
)
def test_split_archives_are_joined(tmp_path: Path, names: list[str]) -> None:
    whole = MAKERS["zip" if "zip" in names[0] else "tar.gz" if "gz" in names[0] else "tar"]()
    third = len(whole) // 3 + 1
    for number, name in enumerate(names):
        (tmp_path / name).write_bytes(whole[number * third : (number + 1) * third])
    unpacked(tmp_path, tmp_path / names[1])
    assert content(tmp_path / "out") == FILES
    (tmp_path / names[1]).unlink()
    with pytest.raises(InputError, match=f"The volume {names[1]}"):
        unpacked(tmp_path, tmp_path / names[0], folder=tmp_path / "missing")


@without_zip
def test_a_zip_split_into_disks(tmp_path: Path) -> None:
    tree = make_tree(tmp_path / "tree")
    (tree / "noise.bin").write_bytes(os.urandom(400_000))
    subprocess.run(["zip", "-q", "-r", "-s", "64k", str(tmp_path / "data.zip"), "."], cwd=tree, check=True)
    assert len(list(tmp_path.glob("data.z*"))) > 5
    unpacked(tmp_path, tmp_path / "data.zip")
    assert content(tmp_path / "out") == content(tree)
    (tmp_path / "data.z02").unlink()
    with pytest.raises(InputError, match=r"data\.z02"):
        unpacked(tmp_path, tmp_path / "data.zip")


@pytest.mark.parametrize(
    ("name", "stem"),
    [
        ("a.tar.gz", "a"),
        ("a.b.zip", "a.b"),
        ("a.zip.001", "a"),
        ("a.tar.gz.aa", "a"),
        ("v1.2024", "v1.2024"),
        ("x.csv.xz", "x.csv"),
    ],
)
def test_names_without_endings(name: str, stem: str) -> None:
    assert stem_of(Path(name)) == stem


ESCAPES = [
    "../evil",
    "/etc/evil",
    "a/../../evil",
    "a/b/../../../evil",
    "C:\\evil",
    "a\nb",
    ".ownlab-data/unpacked/x",
]


@pytest.mark.parametrize("name", ESCAPES)
def test_members_cannot_escape(tmp_path: Path, name: str) -> None:
    info = tarfile.TarInfo(name)
    info.size = 4
    archive = tmp_path / "evil.tar"
    archive.write_bytes(tar_bytes({"first.txt": b"1"}, info))
    before = set(tmp_path.rglob("*"))
    with pytest.raises(UnsafeArchive):
        unpacked(tmp_path, archive)
    new = {path for path in set(tmp_path.rglob("*")) - before if ".ownlab-data" not in path.parts}
    assert new == {tmp_path / "out", tmp_path / "out/first.txt"}
    assert not Path("/etc/evil").exists()


@pytest.mark.parametrize("name", ["../evil", "/tmp/ownlab-evil", "a/../../evil"])
def test_members_of_zips_cannot_escape(tmp_path: Path, name: str) -> None:
    (tmp_path / "evil.zip").write_bytes(zip_bytes({name: b"evil"}))
    with pytest.raises(UnsafeArchive):
        unpacked(tmp_path, tmp_path / "evil.zip")
    assert content(tmp_path / "out") == {}


def link(name: str, target: str, kind: bytes = tarfile.SYMTYPE) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, target
    return info


@pytest.mark.parametrize("target", ["/etc/passwd", "../../x", "..", "a/../../x"])
@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE])
def test_links_cannot_lead_out(tmp_path: Path, target: str, kind: bytes) -> None:
    (tmp_path / "evil.tar").write_bytes(tar_bytes({"a.txt": b"1"}, link("l", target, kind)))
    with pytest.raises(UnsafeArchive):
        unpacked(tmp_path, tmp_path / "evil.tar")
    assert not os.path.lexists(tmp_path / "out/l")


def test_links_inside_are_made(tmp_path: Path) -> None:
    members = [link("d/soft", "../a.txt"), link("hard", "a.txt", tarfile.LNKTYPE)]
    (tmp_path / "links.tar").write_bytes(tar_bytes({"a.txt": b"1"}, *members))
    unpacked(tmp_path, tmp_path / "links.tar")
    assert os.readlink(tmp_path / "out/d/soft") == "../a.txt"
    assert (tmp_path / "out/d/soft").read_bytes() == (tmp_path / "out/hard").read_bytes() == b"1"
    unpacked(tmp_path, tmp_path / "links.tar")


def test_nothing_is_written_through_a_link_of_the_archive(tmp_path: Path) -> None:
    file = tarfile.TarInfo("d/x")
    file.size = 1
    (tmp_path / "evil.tar").write_bytes(tar_bytes({}, link("d", "sub"), file))
    with pytest.raises(InputError):
        unpacked(tmp_path, tmp_path / "evil.tar")
    assert not (tmp_path / "out/sub").exists()


def test_nothing_is_written_through_a_link_that_is_there(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "out/images").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "a.zip").write_bytes(zip_bytes())
    with pytest.raises(UnsafeArchive, match="leads out"):
        unpacked(tmp_path, tmp_path / "a.zip")
    assert list((tmp_path / "elsewhere").rglob("*.jpg")) == []


@pytest.mark.parametrize("kind", [tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE])
def test_devices_are_refused(tmp_path: Path, kind: bytes) -> None:
    (tmp_path / "evil.tar").write_bytes(tar_bytes({}, link("dev", "", kind)))
    with pytest.raises(UnsafeArchive, match="device"):
        unpacked(tmp_path, tmp_path / "evil.tar")


def test_modes_do_not_make_programs_of_another_user(tmp_path: Path) -> None:
    info = tarfile.TarInfo("tool")
    info.size, info.mode = 1, 0o6777
    (tmp_path / "a.tar").write_bytes(tar_bytes({}, info))
    unpacked(tmp_path, tmp_path / "a.tar")
    mode = (tmp_path / "out/tool").stat().st_mode
    assert mode & 0o100
    assert not mode & (stat.S_ISUID | stat.S_ISGID | 0o002)


def test_bombs_are_refused(tmp_path: Path) -> None:
    bomb = io.BytesIO()
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        for n in range(40):
            with archive.open(f"{n}.bin", "w") as file:
                file.write(bytes(2**25))
    (tmp_path / "bomb.zip").write_bytes(bomb.getvalue())
    with pytest.raises(UnsafeArchive, match="would become more than"):
        unpacked(tmp_path, tmp_path / "bomb.zip")
    assert unpacked(tmp_path, tmp_path / "bomb.zip", limits=Limits(ratio=5000)).files == 40


def test_overlapping_members_are_refused(tmp_path: Path) -> None:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a", os.urandom(5000))
        archive.writestr("b", os.urandom(5000))
        archive.infolist()[1].header_offset = 0
    (tmp_path / "evil.zip").write_bytes(made.getvalue())
    with pytest.raises(UnsafeArchive, match="overlap"):
        unpacked(tmp_path, tmp_path / "evil.zip")


def test_names_of_old_windows_programs(tmp_path: Path) -> None:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr(zipfile.ZipInfo("AAAAAAAA.txt"), b"1")
        archive.writestr(zipfile.ZipInfo("BBBBBBBB.txt"), b"2")
    raw = (
        made.getvalue().replace(b"AAAAAAAA", "训练数据".encode("gbk")).replace(b"BBBBBBBB", "Größe öä".encode("cp437"))
    )
    (tmp_path / "old.zip").write_bytes(raw)
    unpacked(tmp_path, tmp_path / "old.zip")
    assert content(tmp_path / "out") == {"训练数据.txt": b"1", "Größe öä.txt": b"2"}


def test_files_that_are_there_are_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "out/images/cat").mkdir(parents=True)
    (tmp_path / "out/images/cat/1.jpg").write_bytes(b"mine")
    (tmp_path / "a.zip").write_bytes(zip_bytes())
    with pytest.raises(InputError, match="is not what the archive has"):
        unpacked(tmp_path, tmp_path / "a.zip")
    assert (tmp_path / "out/images/cat/1.jpg").read_bytes() == b"mine"
    unpacked(tmp_path, tmp_path / "a.zip", overwrite=True)
    assert content(tmp_path / "out") == FILES


def test_what_is_missing_is_unpacked_again(tmp_path: Path) -> None:
    (tmp_path / "a.zip").write_bytes(zip_bytes())
    unpacked(tmp_path, tmp_path / "a.zip")
    (tmp_path / "out/images/cat/1.jpg").unlink()
    assert unpacked(tmp_path, tmp_path / "a.zip").extracted == 1
    assert content(tmp_path / "out") == FILES


def test_a_newer_archive_replaces_what_the_older_one_left(tmp_path: Path) -> None:
    (tmp_path / "a.zip").write_bytes(zip_bytes())
    unpacked(tmp_path, tmp_path / "a.zip")
    (tmp_path / "a.zip").write_bytes(zip_bytes({**FILES, "empty.txt": b"no longer"}))
    unpacked(tmp_path, tmp_path / "a.zip")
    assert (tmp_path / "out/empty.txt").read_bytes() == b"no longer"


def test_the_last_of_several_members_of_one_name_wins(tmp_path: Path) -> None:
    again = tarfile.TarInfo("empty.txt")
    again.size = 3
    (tmp_path / "a.tar").write_bytes(tar_bytes(FILES, again))
    for _ in range(2):
        unpacked(tmp_path, tmp_path / "a.tar")
        assert (tmp_path / "out/empty.txt").read_bytes() == bytes(3)


def test_two_at_once_do_not_mix(tmp_path: Path) -> None:
    (tmp_path / "a.zip").write_bytes(zip_bytes())
    status = (tmp_path / "a.zip").stat()
    other = Journal(tmp_path / "out", tmp_path / "a.zip", status.st_size, status.st_mtime_ns)
    with pytest.raises(InputError, match="Another process is unpacking"):
        unpacked(tmp_path, tmp_path / "a.zip")
    other.close()
    unpacked(tmp_path, tmp_path / "a.zip")


@pytest.mark.parametrize(
    ("data", "message"),
    [(b"", "is empty"), (b"<!DOCTYPE html><html>", "a web page"), (b"hello", "not an archive of a known format")],
)
def test_what_is_no_archive(tmp_path: Path, data: bytes, message: str) -> None:
    (tmp_path / "a.zip").write_bytes(data)
    with pytest.raises(InputError, match=message):
        unpacked(tmp_path, tmp_path / "a.zip")


@pytest.mark.parametrize("kind", ["zip", "tar", "tar.gz", "tar.xz"])
@pytest.mark.parametrize("part", [0.3, 0.6, 0.9])
def test_cut_archives_are_reported(tmp_path: Path, kind: str, part: float) -> None:
    whole = MAKERS[kind]()
    (tmp_path / "cut").write_bytes(whole[: int(len(whole) * part)])
    if kind == "tar" and part == 0.9:  # it lacks only zeros
        return
    with pytest.raises(InputError):
        unpacked(tmp_path, tmp_path / "cut")


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(kind=st.sampled_from(["zip", "tar", "tar.gz"]), data=st.data())
def test_damaged_archives_cause_no_traceback_and_no_escape(
    tmp_path_factory: pytest.TempPathFactory, kind: str, data: st.DataObject
) -> None:
    tmp_path = tmp_path_factory.mktemp("fuzz")
    whole = bytearray(MAKERS[kind]() if kind != "tar.gz" else gzip.compress(tar_bytes({"a": b"1" * 5000}), mtime=0))
    places = st.tuples(st.integers(0, len(whole) - 1), st.binary(min_size=1, max_size=4))
    for place, replacement in data.draw(st.lists(places, min_size=1, max_size=8)):
        whole[place : place + len(replacement)] = replacement
    (tmp_path / "fuzzed").write_bytes(bytes(whole))
    with contextlib.suppress(OwnlabError):
        unpacked(tmp_path, tmp_path / "fuzzed")
    inside = {tmp_path / "fuzzed", tmp_path / "out", tmp_path / "home"}
    assert set(tmp_path.iterdir()) <= inside
    shutil.rmtree(tmp_path)

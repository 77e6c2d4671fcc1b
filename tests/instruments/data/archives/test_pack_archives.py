"""Archives of every kind become shards directly: what is packed is what they contain, and damage is one clear error."""

from __future__ import annotations

import gzip
import io
import shutil
import subprocess
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.guest.data.samples import contents, make_folder, open_names, tar_of, write_files

from ownlab.errors import InputError, OwnlabError, UsageError
from ownlab.instruments.data.archives.limits import Limits
from ownlab.instruments.data.archives.member_stream import stream_request
from ownlab.instruments.data.inspection.pipeline import InspectRequest, inspect_data
from ownlab.instruments.data.packing.pipeline import PackRequest, pack_data, verify_data
from ownlab.instruments.data.packing.records import Packed

needs = pytest.mark.skipif  # a program that this machine may lack
without_bsdtar = needs(shutil.which("bsdtar") is None, reason="bsdtar is not installed")
without_zstd = needs(shutil.which("zstd") is None, reason="zstd is not installed")

PYTHON = shutil.which("python3") or "python3"


def packed(archive: Path, out: Path, *, encoding: str = "", ratio: float = 200.0, **options: Any) -> Packed:
    request = PackRequest(str(archive), str(out), shard_bytes=100_000, **options)
    return pack_data(request, PYTHON, lambda event: None, encoding=encoding, limits=Limits(ratio))


def split(archive: Path, endings: list[str]) -> Path:
    """Cut a file into volumes, and return the first one."""
    data = archive.read_bytes()
    size = -(-len(data) // len(endings))
    for number, ending in enumerate(endings):
        Path(f"{archive}.{ending}").write_bytes(data[number * size : (number + 1) * size])
    archive.unlink()
    return Path(f"{archive}.{endings[0]}")


def zip_of(files: dict[str, bytes], path: Path) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def split_zip(files: dict[str, bytes], folder: Path) -> Path:
    return split(zip_of(files, folder / "x.zip"), ["001", "002", "003"])


def split_tar(files: dict[str, bytes], folder: Path) -> Path:
    return split(tar_of(files, folder / "x.tar.gz", "w:gz"), ["aa", "ab"])


def zip_without_ending(files: dict[str, bytes], folder: Path) -> Path:
    return zip_of(files, folder / "archive")


def zstandard(files: dict[str, bytes], folder: Path) -> Path:
    subprocess.run(["zstd", "-q", str(tar_of(files, folder / "x.tar"))], check=True)
    return folder / "x.tar.zst"


def seven_zip(files: dict[str, bytes], folder: Path) -> Path:
    write_files(folder / "tree", files)
    subprocess.run(
        ["bsdtar", "--format", "7zip", "-cf", str(folder / "x.7z"), "-C", str(folder / "tree"), "."], check=True
    )
    return folder / "x.7z"


KINDS = [
    split_zip,
    split_tar,
    zip_without_ending,
    pytest.param(zstandard, marks=without_zstd),
    pytest.param(seven_zip, marks=without_bsdtar),
]


@pytest.mark.parametrize("make", KINDS)
def test_an_archive_becomes_shards(tmp_path: Path, make: Callable[[dict[str, bytes], Path], Path]) -> None:
    files = make_folder(tmp_path / "in", 60)
    archive = make(files, tmp_path)
    report = packed(archive, tmp_path / "out")
    assert (report.samples, report.skipped, report.classes) == (60, 0, ("class0", "class1", "class2"))
    assert contents(tmp_path / "out") == files
    assert {path.suffix for path in (tmp_path / "out").iterdir()} == {".tar", ".index", ".json"}
    assert packed(archive, tmp_path / "out").already_packed
    seen = inspect_data(InspectRequest(str(archive)), PYTHON, lambda event: None)
    assert (seen.files, seen.bytes) == (60, sum(map(len, files.values())))


def test_damaged_shards_are_repaired_from_the_archive(tmp_path: Path) -> None:
    files = make_folder(tmp_path / "in", 60)
    archive = split_tar(files, tmp_path)
    packed(archive, tmp_path / "out")
    shard = tmp_path / "out" / "data-00000.tar"
    damaged = bytearray(shard.read_bytes())
    damaged[700] ^= 1
    shard.write_bytes(damaged)
    report = verify_data(str(tmp_path / "out"), str(archive), PYTHON, lambda event: None, full=True)
    assert (report.ok, report.problem_count, report.repaired) == (True, 1, 1)
    assert contents(tmp_path / "out") == files


@pytest.mark.parametrize("kind", ["zip", "tar", "tar.gz", "split", "folder"])
def test_one_folder_of_a_source(tmp_path: Path, kind: str) -> None:
    tree = {f"set/{part}/{name}": name.encode() * 9 for part in ("train", "val") for name in ("cat/1.jpg", "dog/2.jpg")}
    source = tmp_path / "tree"
    write_files(source, tree)
    if kind == "zip":
        source = zip_of(tree, tmp_path / "x.zip")
    elif kind in ("tar", "tar.gz"):
        source = tar_of(tree, tmp_path / f"x.{kind}", "w" if kind == "tar" else "w:gz")
    elif kind == "split":
        source = split_zip(tree, tmp_path)
    with pytest.raises(OwnlabError, match="parts, not classes") as refused:
        packed(source, tmp_path / "out")
    assert refused.value.hint.endswith("--only set/train")
    report = packed(source, tmp_path / "out", only="set/train")
    assert (report.samples, report.classes) == (2, ("cat", "dog"))
    assert sorted(open_names(tmp_path / "out")) == ["cat/1.jpg", "dog/2.jpg"]
    for wrong in ("set/test", "../.."):
        with pytest.raises(OwnlabError, match="has no folder"):
            packed(source, tmp_path / "wrong", only=wrong)


def test_names_in_another_encoding(tmp_path: Path) -> None:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr("XXXX/1.jpg", b"content")
    (tmp_path / "x.zip").write_bytes(made.getvalue().replace(b"XXXX", "猫犬".encode("shift_jis")))
    assert packed(tmp_path / "x.zip", tmp_path / "out", encoding="shift_jis").classes == ("猫犬",)
    with pytest.raises(UsageError, match="no encoding"):
        packed(tmp_path / "x.zip", tmp_path / "other", encoding="klingon")


def test_what_is_damaged_is_said(tmp_path: Path) -> None:
    files = make_folder(tmp_path / "in", 60)
    whole = tar_of(files, tmp_path / "x.tar.gz", "w:gz").read_bytes()
    (tmp_path / "cut.001").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "page.zip").write_text("<!DOCTYPE html><html>sign in</html>")
    (tmp_path / "y.zip.002").write_bytes(whole)
    (tmp_path / "table.json.gz").write_bytes(gzip.compress(b"{}"))
    flipped = bytearray(zip_of(files, tmp_path / "z").read_bytes())
    flipped[3000] ^= 255
    (tmp_path / "z").write_bytes(flipped)
    for name, message in (
        ("cut.001", "damaged or incomplete"),
        ("page.zip", "web page"),
        ("y.zip.002", "volume y.zip.001"),
        ("table.json.gz", "one compressed file"),
        ("z", "damaged or incomplete"),
    ):
        with pytest.raises(InputError, match=message):
            packed(tmp_path / name, tmp_path / f"out-{name}")
    assert not list(tmp_path.rglob("dataset.json"))


def test_nothing_outside_and_no_bombs(tmp_path: Path) -> None:
    tar_of({"../../evil.jpg": b"x"}, tmp_path / "evil")
    with pytest.raises(InputError, match="not a safe path"):
        packed(tmp_path / "evil", tmp_path / "out")
    header = tarfile.TarInfo("zeros.jpg")
    header.size = 2 << 30
    (tmp_path / "bomb").write_bytes(gzip.compress(header.tobuf() + bytes(1 << 20)))
    with pytest.raises(InputError, match="would become more than"):
        packed(tmp_path / "bomb", tmp_path / "out2")


def test_links_and_devices_are_left_out(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "x", "w") as archive:
        for name, kind in (("link.jpg", tarfile.SYMTYPE), ("pipe.jpg", tarfile.FIFOTYPE)):
            member = tarfile.TarInfo(name)
            member.type, member.linkname = kind, "/etc/passwd"
            archive.addfile(member)
        member = tarfile.TarInfo("a.jpg")
        member.size = 3
        archive.addfile(member, io.BytesIO(b"abc"))
    assert packed(tmp_path / "x", tmp_path / "out").samples == 1
    assert contents(tmp_path / "out") == {"a.jpg": b"abc"}


def test_what_the_guest_reads_itself_is_left_to_it(tmp_path: Path) -> None:
    files = {"a.jpg": b"x"}
    for path in (
        zip_of(files, tmp_path / "x.ZIP"),
        tar_of(files, tmp_path / "x.tar"),
        tar_of(files, tmp_path / "x.tgz", "w:gz"),
    ):
        assert stream_request(str(path)) is None
    (tmp_path / "t.csv").write_text("path\n")
    assert stream_request(str(tmp_path / "t.csv")) is None
    assert stream_request(str(tmp_path)) is None
    assert stream_request(str(tmp_path / "nothing")) is None
    misnamed = stream_request(str(tar_of(files, tmp_path / "really-gz.tar", "w:gz")))
    assert misnamed is not None
    assert misnamed["volumes"] == [str(tmp_path / "really-gz.tar")]

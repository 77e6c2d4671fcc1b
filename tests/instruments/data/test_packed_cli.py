"""pack, verify, bench and inspect from the command line."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from tests.command_line import Ownlab
from tests.guest.data.samples import make_folder, tar_of


def exits(code: int, ran: subprocess.CompletedProcess[str]) -> subprocess.CompletedProcess[str]:
    assert ran.returncode == code, ran.stderr
    return ran


def test_pack_and_verify(ownlab: Ownlab, valid: Callable[[str, str], Any], tmp_path: Path) -> None:
    make_folder(tmp_path / "in", 60)
    out = str(tmp_path / "out")
    packed = valid(
        ownlab("data", "pack", str(tmp_path / "in"), "-o", out, "--shard-size", "64KiB", "--json").stdout, "data-pack"
    )
    assert (packed["samples"], packed["skipped"]) == (60, 0)
    assert (
        "is packed already" in ownlab("data", "pack", str(tmp_path / "in"), "-o", out, "--shard-size", "64KiB").stdout
    )
    assert valid(ownlab("data", "verify", out, "--full", "--json").stdout, "data-verify")["ok"]
    os.truncate(tmp_path / "out" / "data-00001.tar", 3000)
    damaged = exits(1, ownlab("data", "verify", out))
    assert "data-00001.tar has 3000 bytes" in damaged.stdout
    repaired = ownlab("data", "verify", out, "--repair", str(tmp_path / "in"))
    assert "is repaired" in repaired.stdout
    assert "every byte checked" in ownlab("data", "verify", out, "--full").stdout


def test_what_cannot_be_packed_is_one_message(ownlab: Ownlab, tmp_path: Path) -> None:
    for arguments, message in (
        ((str(tmp_path / "nothing"), "-o", str(tmp_path / "a")), "There is no"),
        ((str(tmp_path), "-o", str(tmp_path / "in" / "a")), "inside of"),
    ):
        ran = exits(3, ownlab("data", "pack", *arguments))
        assert message in ran.stderr
        assert "Traceback" not in ran.stderr
    assert "--shard-size" in exits(2, ownlab("data", "pack", str(tmp_path), "-o", "x", "--shard-size", "many")).stderr


def test_some_files_cannot_be_read(ownlab: Ownlab, tmp_path: Path) -> None:
    make_folder(tmp_path / "in", 5)
    (tmp_path / "in" / "class0" / "empty.jpg").touch()
    ran = exits(1, ownlab("data", "pack", str(tmp_path / "in"), "-o", str(tmp_path / "out")))
    assert "class0/empty.jpg: it is empty" in ran.stdout


def test_bench(ownlab: Ownlab, valid: Callable[[str, str], Any], tmp_path: Path) -> None:
    make_folder(tmp_path / "in", 60)
    bench = valid(ownlab("data", "bench", str(tmp_path / "in"), "--json").stdout, "data-bench")
    assert (bench["measured"]["files"], bench["measured"]["kind"]) == (60, "files")
    assert bench["measured"]["cold"]["per_second"] > 0
    assert exits(1, ownlab("data", "bench", str(tmp_path / "in"), "--need", "1e12")).stdout
    assert list((tmp_path / "in").glob(".ownlab*")) == []
    ownlab("data", "pack", str(tmp_path / "in"), "-o", str(tmp_path / "out"))
    assert "packed samples" in ownlab("data", "bench", str(tmp_path / "out")).stdout


def test_inspect(ownlab: Ownlab, valid: Callable[[str, str], Any], tmp_path: Path) -> None:
    for number in range(12):
        path = tmp_path / "in" / ("cat" if number < 9 else "dog") / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (40, 30 + number % 2), (number * 20, 0, 99)).save(path)
    whole = (tmp_path / "in" / "cat" / "0.png").read_bytes()
    (tmp_path / "in" / "dog" / "copy.png").write_bytes(whole)
    (tmp_path / "in" / "dog" / "cut.png").write_bytes(whole[: len(whole) * 2 // 3])
    (tmp_path / "in" / "dog" / "notes.txt").touch()
    sheet = tmp_path / "sheet.png"
    ran = exits(1, ownlab("data", "inspect", str(tmp_path / "in"), "--json", "--sheet", str(sheet)))
    found = valid(ran.stdout, "data-inspect")
    assert [(entry["name"], entry["samples"]) for entry in found["classes"]] == [("cat", 9), ("dog", 6)]
    assert [entry["name"] for entry in found["broken"]] == ["dog/cut.png", "dog/notes.txt"]
    assert found["duplicates"] == ["dog/copy.png"]
    assert {(size["width"], size["height"]) for size in found["image_sizes"]} == {(40, 30), (40, 31)}
    with Image.open(sheet) as picture:
        assert picture.size == (1164, 236)
    page = tmp_path / "sheet.html"
    printed = exits(1, ownlab("data", "inspect", str(tmp_path / "in"), "--sheet", str(page)))
    assert "2 files are broken" in printed.stdout
    content = page.read_text()
    assert content.count("data:image/jpeg;base64,") == 13
    assert "dog/cut.png: " in content
    nowhere = str(tmp_path / "nowhere" / "sheet.html")
    assert "Cannot write" in exits(3, ownlab("data", "inspect", str(tmp_path / "in"), "--sheet", nowhere)).stderr


def test_inspect_a_table(ownlab: Ownlab, tmp_path: Path) -> None:
    """Its rows are no files, and have no images that could be decoded."""
    path = tmp_path / "table.csv"
    path.write_text("x,y\n" + "".join(f"{n},{n * n}\n" for n in range(500)))
    printed = ownlab("data", "inspect", str(path)).stdout
    assert printed.startswith(f"{path}, 500 rows\n")
    assert "500 of 500 filled" in printed
    assert "No row is there twice." in printed
    assert "file" not in printed.replace(str(path), "")
    assert "Pillow" not in printed


@pytest.mark.parametrize("ending", ["zip", "tar"])
def test_inspect_an_archive(ownlab: Ownlab, valid: Callable[[str, str], Any], tmp_path: Path, ending: str) -> None:
    """All files are read: also those that were listed last."""
    image = io.BytesIO()
    files = {}
    for number in range(300):
        image.seek(0)
        Image.new("RGB", (8, 8), (number % 256, number // 256, 0)).save(image, "PNG")
        files[f"a/{number:03d}.png"] = image.getvalue()
    path = tar_of(files, tmp_path / "x.tar")
    if ending == "zip":
        path = tmp_path / "x.zip"
        with zipfile.ZipFile(path, "w") as archive:
            for name, content in files.items():
                archive.writestr(name, content)
    found = valid(exits(0, ownlab("data", "inspect", str(path), "--json")).stdout, "data-inspect")
    assert (found["files"], found["broken"], found["image_sizes"][0]["images"]) == (300, [], 300)


def test_inspect_a_table_and_packed_data(ownlab: Ownlab, valid: Callable[[str, str], Any], tmp_path: Path) -> None:
    make_folder(tmp_path, 6)
    rows = "".join(f"class{n % 3}/file{n:04d}.jpg,{n}\n" for n in range(6))
    (tmp_path / "t.csv").write_text("path,label\n" + rows)
    found = valid(ownlab("data", "inspect", str(tmp_path / "t.csv"), "--json").stdout, "data-inspect")
    assert [(column["name"], column["kind"], column["filled"]) for column in found["columns"]] == [
        ("path", "text", 6),
        ("label", "integer", 6),
    ]
    (tmp_path / "lines.txt").write_text("one\ntwo\nthree\n")
    ownlab("data", "pack", str(tmp_path / "lines.txt"), "-o", str(tmp_path / "out"))
    packed = exits(0, ownlab("data", "inspect", str(tmp_path / "out"), "--json"))
    assert valid(packed.stdout, "data-inspect")["kind"] == "packed"
    assert "No file is broken" in exits(0, ownlab("data", "inspect", str(tmp_path / "out"))).stdout


def test_a_killed_command_is_continued_by_the_next_at_once(tmp_path: Path, until: Callable[..., object]) -> None:
    make_folder(tmp_path / "in", 3000, size=6000)
    out = tmp_path / "out"
    command = [sys.executable, "-m", "ownlab", "data", "pack", str(tmp_path / "in"), "-o", str(out)]
    command += ["--shard-size", "64KiB"]
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    journal = out / ".pack" / "journal"
    until(lambda: (journal.exists() and journal.stat().st_size > 0) or child.poll() is not None)
    child.kill()
    child.wait()
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert ran.returncode == 0, ran.stderr
    assert "3,000 samples" in ran.stdout

"""Packing: every source, plain tars, determinism, duplicates, limits, and clear errors."""

from __future__ import annotations

import contextlib
import csv
import json
import os
import zipfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.guest.data.samples import (
    contents,
    digest_of,
    make_folder,
    open_names,
    pack_all,
    tar_contents,
    tar_of,
    write_files,
)

from ownlab_guest.data import manifest, spool
from ownlab_guest.data.dataset import open_dataset
from ownlab_guest.data.errors import DataError
from ownlab_guest.data.sources import find_source


def test_a_folder_becomes_tars_that_tarfile_reads(tmp_path: Path) -> None:
    files = make_folder(tmp_path / "in", 200)
    result = pack_all(tmp_path / "in", tmp_path / "out")
    assert (result["samples"], result["classes"]) == (200, ["class0", "class1", "class2"])
    assert result["shards"] > 2
    found = tar_contents(tmp_path / "out")
    assert sorted(content for name, content in found.items() if name.endswith(".jpg")) == sorted(files.values())
    assert contents(tmp_path / "out") == files
    assert not (tmp_path / "out" / ".pack").exists()


def test_labels_are_those_of_torchvision(tmp_path: Path) -> None:
    make_folder(tmp_path / "in", 60)
    pack_all(tmp_path / "in", tmp_path / "out")
    for sample in open_dataset(tmp_path / "out", as_dict=True, decode=False):
        assert sample["__name__"].startswith(f"class{sample['label']}/")
        assert int(sample["cls"]) == sample["label"]


def test_the_same_seed_gives_the_same_bytes_and_another_seed_another_order(tmp_path: Path) -> None:
    make_folder(tmp_path / "in", 100)
    for name, seed, workers in (("a", 1, 1), ("b", 1, 4), ("c", 2, 2)):
        pack_all(tmp_path / "in", tmp_path / name, seed=seed, workers=workers)
    assert digest_of(tmp_path / "a") == digest_of(tmp_path / "b") != digest_of(tmp_path / "c")
    assert open_names(tmp_path / "a") != sorted(open_names(tmp_path / "a"))


def test_without_shuffling_the_order_is_kept(tmp_path: Path) -> None:
    files = make_folder(tmp_path / "in", 50)
    pack_all(tmp_path / "in", tmp_path / "out", shuffle=False)
    assert open_names(tmp_path / "out") == sorted(files)


def test_packing_again_has_nothing_to_do_and_other_options_are_refused(tmp_path: Path) -> None:
    make_folder(tmp_path / "in", 10)
    pack_all(tmp_path / "in", tmp_path / "out")
    before = digest_of(tmp_path / "out")
    assert pack_all(tmp_path / "in", tmp_path / "out")["already_packed"]
    assert digest_of(tmp_path / "out") == before
    with pytest.raises(DataError, match="other options"):
        pack_all(tmp_path / "in", tmp_path / "out", seed=5)


def test_duplicates_are_left_out(tmp_path: Path) -> None:
    files = make_folder(tmp_path / "in", 40)
    write_files(tmp_path / "in", {f"class0/copy{n}.jpg": content for n, content in enumerate(list(files.values())[:7])})
    result = pack_all(tmp_path / "in", tmp_path / "out", dedupe=True)
    assert (result["samples"], result["duplicates"]) == (40, 7)
    assert sorted(contents(tmp_path / "out").values()) == sorted(files.values())


@pytest.mark.parametrize("mode", ["w", "w:gz", "w:bz2", "w:xz"])
def test_tars(tmp_path: Path, mode: str) -> None:
    files = make_folder(tmp_path / "in", 60)
    end = ".tar" + mode[1:].replace(":", ".")
    path = tar_of({f"./data/{name}": content for name, content in files.items()}, tmp_path / f"x{end}", mode)
    result = pack_all(path, tmp_path / "out")
    assert result["classes"] == ["class0", "class1", "class2"]
    assert contents(tmp_path / "out") == files


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_zips(tmp_path: Path, method: int) -> None:
    files = make_folder(tmp_path / "in", 60)
    with zipfile.ZipFile(tmp_path / "x.zip", "w", method) as archive:
        archive.writestr("data/__MACOSX/._a", b"no data")
        for name, content in files.items():
            archive.writestr(f"data/{name}", content)
    pack_all(tmp_path / "x.zip", tmp_path / "out")
    assert contents(tmp_path / "out") == files


def test_a_zip_behind_other_bytes_and_one_with_64_bit_sizes(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
        with archive.open("a/1.jpg", "w", force_zip64=True) as file:
            file.write(b"one")
        archive.writestr("b/2.jpg", b"two")
    content = (tmp_path / "x.zip").read_bytes()
    (tmp_path / "x.zip").write_bytes(b"#!/bin/sh\n" + content)
    pack_all(tmp_path / "x.zip", tmp_path / "out")
    assert contents(tmp_path / "out") == {"a/1.jpg": b"one", "b/2.jpg": b"two"}


def test_files_of_one_sample_stay_together(tmp_path: Path) -> None:
    write_files(
        tmp_path / "in",
        {
            "a.jpg": b"image",
            "a.json": b'{"x": 1}',
            "b.jpg": b"image two",
            "b.json": b"[]",
            "c.png": b"p",
            "c.jpg": b"q",
        },
    )
    pack_all(tmp_path / "in", tmp_path / "out", shuffle=False)
    samples = [
        sorted(key for key in sample if key in ("jpg", "json", "png"))
        for sample in open_dataset(tmp_path / "out", as_dict=True, decode=False)
    ]
    assert samples == [["jpg", "json"], ["jpg", "json"], ["jpg"], ["png"]]


def test_a_webdataset_keeps_its_labels(tmp_path: Path) -> None:
    path = tar_of({"0.jpg": b"x", "0.cls": b"7", "1.jpg": b"y", "1.cls": b"3"}, tmp_path / "x.tar")
    pack_all(path, tmp_path / "out", shuffle=False)
    assert [label for _, label in open_dataset(tmp_path / "out", decode=False)] == [7, 3]


def test_a_table_that_names_files(tmp_path: Path) -> None:
    files = make_folder(tmp_path, 9)
    with open(tmp_path / "t.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["filename", "label", "note"])
        writer.writerows([name, name.split("/")[0], "n"] for name in files)
    result = pack_all(tmp_path / "t.csv", tmp_path / "out")
    assert result["classes"] == ["class0", "class1", "class2"]
    sample = next(iter(open_dataset(tmp_path / "out", as_dict=True, decode=False)))
    assert sample["jpg"] == files[sample["__name__"]]
    assert json.loads(sample["json"]) == {"note": "n"}


def test_a_table_leads_nowhere_else(tmp_path: Path) -> None:
    (tmp_path / "secret.jpg").write_bytes(b"secret")
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "ok.jpg").write_bytes(b"fine")
    (tmp_path / "in" / "link.jpg").symlink_to(tmp_path / "secret.jpg")
    (tmp_path / "in" / "t.csv").write_text("path\nok.jpg\n../secret.jpg\n/etc/passwd\nlink.jpg\nmissing.jpg\n")
    result = pack_all(tmp_path / "in" / "t.csv", tmp_path / "out")
    assert (result["samples"], result["skipped"]) == (1, 4)
    assert contents(tmp_path / "out") == {"ok.jpg": b"fine"}


def test_lines_of_json_and_of_text(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text('{"text": "one", "label": 1}\n\n{"text": "zwei", "label": 0}\n')
    (tmp_path / "t.txt").write_text("first\nsecond\n")
    pack_all(tmp_path / "t.jsonl", tmp_path / "a", shuffle=False)
    pack_all(tmp_path / "t.txt", tmp_path / "b", shuffle=False)
    assert list(open_dataset(tmp_path / "a")) == [({"text": "one"}, 1), ({"text": "zwei"}, 0)]
    assert [value for value, _ in open_dataset(tmp_path / "b")] == ["first", "second"]


def test_what_cannot_be_read_is_listed(tmp_path: Path) -> None:
    make_folder(tmp_path / "in", 10)
    (tmp_path / "in" / "class0" / "empty.jpg").touch()
    os.symlink(tmp_path / "nothing", tmp_path / "in" / "class0" / "dead.jpg")
    os.mkfifo(tmp_path / "in" / "class0" / "pipe.jpg")
    result = pack_all(tmp_path / "in", tmp_path / "out")
    assert result["samples"] == 10
    assert [row["name"] for row in result["skipped_names"]] == ["class0/empty.jpg"]


def test_train_and_val_are_not_mixed(tmp_path: Path) -> None:
    write_files(tmp_path / "in", {"train/a/1.jpg": b"1", "val/a/2.jpg": b"2"})
    with pytest.raises(DataError, match="parts, not classes"):
        pack_all(tmp_path / "in", tmp_path / "out")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("x.zip", b"no zip at all", "damaged, or no zip"),
        ("x.tar", b"no tar" * 300, "damaged"),
        ("x.tar.gz", b"no gzip", "damaged"),
        ("x.csv", b"", "no rows"),
        ("x.jsonl", b"{nonsense", "cannot be read"),
        ("x.pkl", b"", "no kind that can be packed"),
    ],
)
def test_unusable_sources(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=message):
        pack_all(tmp_path / name, tmp_path / "out")


def test_a_folder_with_other_files_is_refused(tmp_path: Path) -> None:
    make_folder(tmp_path / "in", 3)
    make_folder(tmp_path / "out", 3)
    with pytest.raises(DataError, match="not empty"):
        pack_all(tmp_path / "in", tmp_path / "out")
    with pytest.raises(DataError, match="inside of"):
        pack_all(tmp_path / "in", tmp_path / "in" / "out")


def test_a_bomb_is_not_unpacked(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "x.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a/good.jpg", b"good")
        archive.writestr("a/bomb.jpg", bytes(20_000_000))
    content = (tmp_path / "x.zip").read_bytes().replace((20_000_000).to_bytes(4, "little"), (10).to_bytes(4, "little"))
    (tmp_path / "x.zip").write_bytes(content)
    result = pack_all(tmp_path / "x.zip", tmp_path / "out")
    assert (result["samples"], result["skipped"]) == (1, 1)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_damaged_zips_never_raise_anything_else(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("zip")
    with zipfile.ZipFile(folder / "x.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for number in range(5):
            archive.writestr(f"a/{number}.jpg", bytes([number]) * 100)
    content = bytearray((folder / "x.zip").read_bytes())
    for _ in range(data.draw(st.integers(1, 5))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    (folder / "x.zip").write_bytes(content[: data.draw(st.integers(0, len(content)))])
    try:
        source = find_source(str(folder / "x.zip"))
        for entry in source.entries():
            for part in entry.parts:
                with contextlib.suppress(DataError, OSError):
                    source.fetch(part.place)
        source.close()
    except DataError:
        pass


def test_a_manifest_leads_nowhere_else(tmp_path: Path) -> None:
    make_folder(tmp_path / "in", 3)
    pack_all(tmp_path / "in", tmp_path / "out")
    path = tmp_path / "out" / manifest.FILE
    fields = json.loads(path.read_text())
    fields["shards"][0]["name"] = "../in/data.tar"
    path.write_text(json.dumps(fields))
    with pytest.raises(DataError, match="damaged"):
        open_dataset(tmp_path / "out")


@given(
    st.binary(max_size=200)
    | st.recursive(
        st.none() | st.integers() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["format", "version", "shards", "samples", "classes", "extensions", "name"]),
                inner,
                max_size=5,
            )
        ),
    ).map(lambda value: json.dumps(value).encode())
)
def test_any_manifest_is_read_or_an_error_of_ours(content: bytes) -> None:
    with contextlib.suppress(DataError):
        manifest.decode(content, "dataset.json")


def test_names_in_any_encoding(tmp_path: Path) -> None:
    folder = tmp_path / "in" / "a"
    folder.mkdir(parents=True)
    for name in (b"\xff\xfe.jpg", "ü 漢.jpg".encode(), b"x\ny.jpg", b"." * 1 + b"hidden.jpg", b"long" * 60 + b".jpg"):
        with open(os.fsencode(folder) + b"/" + name, "wb") as file:
            file.write(name)
    pack_all(tmp_path / "in", tmp_path / "out")
    found = contents(tmp_path / "out")
    assert {os.fsencode(name).split(b"/")[1]: content for name, content in found.items()} == {
        content: content for content in found.values()
    }
    assert len(found) == 4
    assert all(name.isascii() and "/" not in name for name in tar_contents(tmp_path / "out"))


def test_a_large_listing_gives_the_same_bytes_as_one_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_folder(tmp_path / "in", 300)
    pack_all(tmp_path / "in", tmp_path / "memory")
    monkeypatch.setattr(spool, "_MEMORY_BYTES", 5000)
    pack_all(tmp_path / "in", tmp_path / "disk")
    assert digest_of(tmp_path / "disk") == digest_of(tmp_path / "memory")


def test_a_disk_that_takes_a_part_of_what_is_written_gets_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_folder(tmp_path / "in", 40)
    pack_all(tmp_path / "in", tmp_path / "whole")
    writev = os.writev
    monkeypatch.setattr(
        os, "writev", lambda file, parts: writev(file, [memoryview(parts[0])[: 1 + len(parts[0]) // 2]])
    )
    pack_all(tmp_path / "in", tmp_path / "bit by bit")
    assert digest_of(tmp_path / "bit by bit") == digest_of(tmp_path / "whole")


def test_a_folder_deeper_down_is_named(tmp_path: Path) -> None:
    write_files(tmp_path / "in", {"pets/train/cats/a.jpg": b"a", "pets/val/cats/b.jpg": b"b"})
    archive = tmp_path / "pets.zip"
    with zipfile.ZipFile(archive, "w") as opened:
        opened.writestr("pets/train/cats/a.jpg", b"a")
    for source in (tmp_path / "in", archive):
        with pytest.raises(DataError) as raised:
            pack_all(source, tmp_path / "out", only="train")
        assert "--only pets/train" in raised.value.hint

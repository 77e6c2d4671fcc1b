"""Downloads from a real server that behaves well or badly: what arrives is exact, or there is a clear error."""

from __future__ import annotations

import hashlib
import json
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
from tests.instruments.data.file_server import FileServer, serve_files

from ownlab.errors import InputError
from ownlab.instruments.data.download.pipeline import GetFailed, GetRequest, get
from ownlab.instruments.data.download.records import GetReport
from ownlab.instruments.data.download.transfer import TransferOptions
from ownlab.units import MIB

Get = Callable[..., GetReport]
FAST = TransferOptions(connections=4, attempts=3, backoff=0.01, silence=10.0)


@pytest.fixture
def server() -> Iterator[FileServer]:
    with serve_files() as running:
        yield running


@pytest.fixture
def fetch(tmp_path: Path) -> Get:
    """Download into tmp_path/data, as a user without tokens."""
    environ = {"OWNLAB_HOME": str(tmp_path / "home"), "HOME": str(tmp_path), "NETRC": str(tmp_path / "netrc")}

    def run(*sources: str, options: TransferOptions = FAST, **request: object) -> GetReport:
        folder = request.pop("folder", tmp_path / "data")
        return get(GetRequest(sources, folder, options=options, **request), lambda progress: None, environ)  # type: ignore[arg-type]

    return run


def content_of(size: int, seed: int = 1) -> bytes:
    return random.Random(seed).randbytes(size)


def only_files(folder: Path) -> set[str]:
    return {
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_file() and ".ownlab-data" not in path.parts
    }


def parts_left(folder: Path) -> list[Path]:
    return list((folder / ".ownlab-data").glob("parts/*"))


@pytest.mark.parametrize("size", [0, 1, 1000, MIB, MIB + 1, 9 * MIB, 40 * MIB + 17])
def test_a_file_arrives_exactly(server: FileServer, fetch: Get, tmp_path: Path, size: int) -> None:
    content = content_of(size)
    report = fetch(server.put("/a/data.bin", content))
    assert (tmp_path / "data/data.bin").read_bytes() == content
    (file,) = report.files
    assert (file.state, file.size, file.sha256) == ("downloaded", size, hashlib.sha256(content).hexdigest())
    assert server.bodies("/a/data.bin") == size
    assert parts_left(tmp_path / "data") == []


def test_again_does_nothing(server: FileServer, fetch: Get) -> None:
    address = server.put("/data.bin", content_of(3 * MIB))
    fetch(address)
    server.seen.clear()
    assert [file.state for file in fetch(address).files] == ["unchanged"]
    assert server.bodies("/data.bin") == 0


def test_again_updates_what_changed_on_the_server(server: FileServer, fetch: Get, tmp_path: Path) -> None:
    address = server.put("/data.bin", content_of(3 * MIB))
    fetch(address)
    server.put("/data.bin", content_of(2 * MIB, seed=2))
    assert [file.state for file in fetch(address).files] == ["updated"]
    assert (tmp_path / "data/data.bin").read_bytes() == content_of(2 * MIB, seed=2)


@pytest.mark.parametrize("modified", ["", "Tue, 17 Nov 2026 10:00:00 GMT"])
def test_without_etag_the_date_or_the_size_is_compared(server: FileServer, fetch: Get, modified: str) -> None:
    address = server.put("/data.bin", content_of(MIB), etag="", modified=modified)
    fetch(address)
    assert [file.state for file in fetch(address).files] == ["unchanged"]


def test_a_file_that_was_changed_here_is_not_replaced(server: FileServer, fetch: Get, tmp_path: Path) -> None:
    address = server.put("/data.bin", content_of(MIB))
    fetch(address)
    (tmp_path / "data/data.bin").write_bytes(b"mine")
    with pytest.raises(GetFailed, match="was changed after"):
        fetch(address)
    assert (tmp_path / "data/data.bin").read_bytes() == b"mine"
    fetch(address, force=True)
    assert (tmp_path / "data/data.bin").read_bytes() == content_of(MIB)


def test_a_touched_file_is_recognised_by_its_content(server: FileServer, fetch: Get, tmp_path: Path) -> None:
    address = server.put("/data.bin", content_of(MIB))
    fetch(address)
    os.utime(tmp_path / "data/data.bin", (1, 1))
    assert [file.state for file in fetch(address).files] == ["unchanged"]


def test_a_foreign_file_is_not_replaced(server: FileServer, fetch: Get, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data/data.bin").write_bytes(b"mine")
    with pytest.raises(GetFailed, match="was not downloaded from"):
        fetch(server.put("/data.bin", content_of(MIB)))
    assert (tmp_path / "data/data.bin").read_bytes() == b"mine"


def test_a_foreign_file_with_the_announced_checksum_is_adopted(server: FileServer, fetch: Get, tmp_path: Path) -> None:
    content = content_of(MIB)
    (tmp_path / "data").mkdir()
    (tmp_path / "data/data.bin").write_bytes(content)
    address = server.put("/data.bin", content)
    report = fetch(address, checksum=f"sha256={hashlib.sha256(content).hexdigest()}", name="data.bin")
    assert [(file.state, file.verified) for file in report.files] == [("unchanged", "sha256")]
    assert server.seen == []


@pytest.mark.parametrize("ranges", [True, False])
@pytest.mark.parametrize("length", [True, False])
def test_servers_without_ranges_or_length(
    server: FileServer, fetch: Get, tmp_path: Path, ranges: bool, length: bool
) -> None:
    content = content_of(5 * MIB)
    fetch(server.put("/data.bin", content, ranges=ranges, length=length))
    assert (tmp_path / "data/data.bin").read_bytes() == content


@pytest.mark.parametrize("every", [1, 1000, 70_001, MIB - 1, MIB, MIB + 1])
def test_cut_answers_are_continued_not_repeated(server: FileServer, fetch: Get, tmp_path: Path, every: int) -> None:
    size = 20 if every == 1 else 12 * every if every < MIB else 10 * MIB
    content = content_of(size)
    fetch(server.put("/data.bin", content, cut=lambda number: every))
    assert (tmp_path / "data/data.bin").read_bytes() == content
    assert server.bodies("/data.bin") == size  # no byte twice


def test_a_server_without_ranges_that_cuts_once_is_tried_again(server: FileServer, fetch: Get, tmp_path: Path) -> None:
    content = content_of(3 * MIB)
    fetch(server.put("/data.bin", content, ranges=False, cut=lambda number: 2 * MIB if number < 3 else None))
    assert (tmp_path / "data/data.bin").read_bytes() == content


def test_a_server_without_ranges_that_always_cuts_is_given_up(server: FileServer, fetch: Get, tmp_path: Path) -> None:
    with pytest.raises(GetFailed, match="closed the connection too early"):
        fetch(server.put("/data.bin", content_of(3 * MIB), ranges=False, cut=lambda number: 2 * MIB))
    assert only_files(tmp_path / "data") == set()


def test_an_interrupted_download_is_resumed_by_the_next_run(server: FileServer, fetch: Get, tmp_path: Path) -> None:
    content = content_of(20 * MIB)
    address = server.put("/data.bin", content, cut=lambda number: 2 * MIB if number < 4 else 0)
    with pytest.raises(GetFailed):
        fetch(address)
    first = server.bodies("/data.bin")
    assert first >= 2 * MIB
    assert only_files(tmp_path / "data") == set()
    server.put("/data.bin", content)
    report = fetch(address)
    assert (tmp_path / "data/data.bin").read_bytes() == content
    assert report.resumed == first
    assert first + report.transferred == len(content)


def interrupt(server: FileServer, fetch: Get, content: bytes, **behaviour: object) -> str:
    """Leave a part of a file behind."""
    address = server.put("/data.bin", content, cut=lambda number: 2 * MIB if number < 3 else 0, **behaviour)
    with pytest.raises(GetFailed):
        fetch(address, options=FAST._replace(connections=1))
    return address


@pytest.mark.parametrize("if_range", [True, False])
@pytest.mark.parametrize("size", [10 * MIB, 11 * MIB])
def test_a_file_that_changed_before_the_resume_is_fetched_anew(
    server: FileServer, fetch: Get, tmp_path: Path, if_range: bool, size: int
) -> None:
    address = interrupt(server, fetch, content_of(10 * MIB))
    server.put("/data.bin", content_of(size, seed=2), if_range=if_range)
    fetch(address)
    assert (tmp_path / "data/data.bin").read_bytes() == content_of(size, seed=2)


def test_a_changed_file_is_noticed_without_any_validator(server: FileServer, fetch: Get, tmp_path: Path) -> None:
    address = interrupt(server, fetch, content_of(10 * MIB), etag="")
    server.put("/data.bin", content_of(10 * MIB, seed=2), etag="")
    fetch(address)
    assert (tmp_path / "data/data.bin").read_bytes() == content_of(10 * MIB, seed=2)


def test_a_resume_without_any_validator_repeats_one_segment(server: FileServer, fetch: Get, tmp_path: Path) -> None:
    address = interrupt(server, fetch, content_of(10 * MIB), etag="")
    server.put("/data.bin", content_of(10 * MIB), etag="")
    report = fetch(address)
    assert (tmp_path / "data/data.bin").read_bytes() == content_of(10 * MIB)
    assert report.transferred <= 8 * MIB + MIB


def test_a_file_that_changes_during_the_download_is_fetched_anew(
    server: FileServer, fetch: Get, tmp_path: Path
) -> None:
    old, new = content_of(20 * MIB), content_of(20 * MIB, seed=2)
    address = server.put("/data.bin", old)

    def change(number: int) -> None:
        if number == 3:
            server.files["/data.bin"].content = new

    server.files["/data.bin"].cut = change
    fetch(address)
    assert (tmp_path / "data/data.bin").read_bytes() == new


def test_a_damaged_part_is_repaired(server: FileServer, fetch: Get, tmp_path: Path) -> None:
    content = content_of(10 * MIB)
    address = interrupt(server, fetch, content)
    (part,) = (tmp_path / "data/.ownlab-data/parts").glob("*.part")
    with open(part, "r+b") as file:  # as after a power cut
        file.seek(MIB + 5)
        file.write(bytes(100))
    server.put("/data.bin", content)
    fetch(address)
    assert (tmp_path / "data/data.bin").read_bytes() == content


@pytest.mark.parametrize("damage", [b"", b"{", b'{"path":1}\n', bytes(1000), b"\xff\xfe\n"])
def test_a_damaged_map_is_started_afresh(server: FileServer, fetch: Get, tmp_path: Path, damage: bytes) -> None:
    content = content_of(10 * MIB)
    address = interrupt(server, fetch, content)
    (part_map,) = (tmp_path / "data/.ownlab-data/parts").glob("*.map")
    part_map.write_bytes(damage)
    server.put("/data.bin", content)
    fetch(address)
    assert (tmp_path / "data/data.bin").read_bytes() == content


def test_half_a_record_of_the_map_is_ignored(server: FileServer, fetch: Get, tmp_path: Path) -> None:
    content = content_of(10 * MIB)
    address = interrupt(server, fetch, content)
    (part_map,) = (tmp_path / "data/.ownlab-data/parts").glob("*.map")
    os.truncate(part_map, part_map.stat().st_size - 7)
    server.put("/data.bin", content)
    report = fetch(address)
    assert (tmp_path / "data/data.bin").read_bytes() == content
    assert 0 < report.transferred < len(content)


@pytest.mark.parametrize("relabel", [True, False])
def test_a_server_that_lies_about_ranges(server: FileServer, fetch: Get, tmp_path: Path, relabel: bool) -> None:
    content = content_of(9 * MIB)
    digest = hashlib.sha256(content).hexdigest()
    address = server.put("/data.bin", content, shift=1, relabel=relabel)
    if relabel:  # the header admits it: the file is fetched without ranges
        fetch(address, checksum=f"sha256={digest}")
        assert (tmp_path / "data/data.bin").read_bytes() == content
    else:  # nothing but the checksum shows it
        with pytest.raises(GetFailed, match=r"The sha256 of .* is|closed the connection too early"):
            fetch(address, checksum=f"sha256={digest}")
        assert only_files(tmp_path / "data") == set()


@pytest.mark.parametrize("ranges", [True, False])
def test_a_server_that_announces_too_much(server: FileServer, fetch: Get, tmp_path: Path, ranges: bool) -> None:
    with pytest.raises(GetFailed):
        fetch(server.put("/data.bin", content_of(3 * MIB), total=4 * MIB, ranges=ranges))
    assert only_files(tmp_path / "data") == set()


@pytest.mark.parametrize("status", [500, 502, 503, 429, 408])
def test_passing_troubles_are_tried_again(server: FileServer, fetch: Get, tmp_path: Path, status: int) -> None:
    content = content_of(MIB)
    fetch(server.put("/data.bin", content, status=lambda number: status if number < 3 else 0))
    assert (tmp_path / "data/data.bin").read_bytes() == content


def test_retry_after_is_honoured(server: FileServer, fetch: Get, tmp_path: Path) -> None:
    import time

    address = server.put(
        "/data.bin", b"data", status=lambda number: 503 if number == 1 else 0, headers={"Retry-After": "1"}
    )
    begin = time.monotonic()
    fetch(address)
    assert time.monotonic() - begin >= 1.0
    server.put("/b.bin", b"data", status=lambda number: 503, headers={"Retry-After": "86400"})
    with pytest.raises(GetFailed) as failed:
        fetch(server.url + "/b.bin")
    assert "86400 s" in failed.value.hint


@pytest.mark.parametrize(
    ("status", "message"), [(404, "There is nothing"), (403, "may not be read"), (401, "may not be read"), (418, "418")]
)
def test_lasting_errors_are_explained(server: FileServer, fetch: Get, status: int, message: str) -> None:
    with pytest.raises(GetFailed, match=message):
        fetch(server.put("/data.bin", b"", status=lambda number: status))
    assert len(server.seen) == 1


PAGE = b"<!DOCTYPE html><html><head><title>Sign in &amp; pay</title></head><body>no data</body></html>"


@pytest.mark.parametrize("kind", ["text/html", "application/octet-stream", ""])
def test_a_page_instead_of_a_file_is_refused(server: FileServer, fetch: Get, tmp_path: Path, kind: str) -> None:
    address = server.put("/data.zip", PAGE, headers={"Content-Type": kind})
    with pytest.raises(GetFailed, match="a web page instead of a file: “Sign in & pay”"):
        fetch(address)
    assert only_files(tmp_path / "data") == set()
    assert parts_left(tmp_path / "data") == []
    fetch(address, options=FAST._replace(html=True))
    assert (tmp_path / "data/data.zip").read_bytes() == PAGE


def test_a_page_that_is_asked_for_is_no_error(server: FileServer, fetch: Get, tmp_path: Path) -> None:
    fetch(server.put("/table.html", PAGE, headers={"Content-Type": "text/html"}))
    assert (tmp_path / "data/table.html").read_bytes() == PAGE


def test_a_wrong_checksum_keeps_nothing(server: FileServer, fetch: Get, tmp_path: Path) -> None:
    address = server.put("/data.bin", content_of(MIB))
    with pytest.raises(GetFailed, match="The sha256 of"):
        fetch(address + "#sha256=" + "0" * 64)
    assert only_files(tmp_path / "data") == set()
    assert parts_left(tmp_path / "data") == []


def test_an_announced_md5_is_checked(server: FileServer, fetch: Get) -> None:
    import base64

    right = base64.b64encode(hashlib.md5(b"data").digest()).decode()
    wrong = base64.b64encode(hashlib.md5(b"other").digest()).decode()
    report = fetch(server.put("/a.bin", b"data", headers={"x-goog-hash": f"crc32c=AAAAAA==,md5={right}"}))
    assert report.files[0].verified == "md5"
    with pytest.raises(GetFailed, match="The md5 of"):
        fetch(server.put("/b.bin", b"data", headers={"x-goog-hash": f"md5={wrong}"}))


@pytest.mark.parametrize(
    ("disposition", "name"),
    [
        ('attachment; filename="plain.zip"', "plain.zip"),
        ("attachment; filename*=UTF-8''%E6%95%B0%E6%8D%AE.zip", "数据.zip"),
        ('attachment; filename="../../etc/passwd"', "passwd"),
        ('attachment; filename="..\\\\..\\\\evil.bat"', "evil.bat"),
        ('attachment; filename=".bashrc"', "_bashrc"),
        ('attachment; filename="a\x01b"', "a_b"),
        ('attachment; filename=".."', "data.bin"),
        ("attachment", "data.bin"),
        ('attachment; filename="' + "x" * 400 + '.tar"', "x" * 251 + ".tar"),
    ],
)
def test_names_of_servers_are_made_harmless(
    server: FileServer, fetch: Get, tmp_path: Path, disposition: str, name: str
) -> None:
    fetch(server.put("/data.bin", b"data", headers={"Content-Disposition": disposition}))
    assert only_files(tmp_path / "data") == {name}
    assert only_files(tmp_path) - {"home/data-sets.json", "home/data-sets.lock"} == {f"data/{name}"}


def test_a_redirect_keeps_tokens_at_home(server: FileServer, fetch: Get, tmp_path: Path) -> None:
    with serve_files() as other:
        content = content_of(9 * MIB)
        target = other.put("/blob", content)
        server.put("/data.bin", b"", redirect=target.replace("127.0.0.1", "localhost"))
        fetch(server.url.replace("http://", "http://me:pass%20word@") + "/data.bin")
        assert all("authorization" in request.headers for request in server.seen)
        assert other.seen
        assert not any("authorization" in request.headers or "cookie" in request.headers for request in other.seen)
    assert (tmp_path / "data/data.bin").read_bytes() == content
    everything = b"".join(path.read_bytes() for path in (tmp_path / "data/.ownlab-data").rglob("*") if path.is_file())
    assert b"pass" not in everything.replace(b"passwd", b"")


def test_tokens_in_addresses_are_not_written_down(server: FileServer, fetch: Get, tmp_path: Path) -> None:
    report = fetch(server.put("/data.bin?token=SECRET", content_of(MIB)))
    assert "SECRET" not in json.dumps(msgspec.to_builtins(report))
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or b"SECRET" not in path.read_bytes()


def test_many_small_files_in_one_run(server: FileServer, fetch: Get, tmp_path: Path) -> None:
    listed = tmp_path / "list.txt"
    lines = [server.put(f"/files/{n}.bin", content_of(n * 10, seed=n)) + f" out=d{n % 7}/{n}.bin" for n in range(300)]
    listed.write_text("# a comment\n\n" + "\n".join(lines))
    report = fetch(str(listed))
    assert len(report.files) == 300
    for n in range(300):
        assert (tmp_path / f"data/d{n % 7}/{n}.bin").read_bytes() == content_of(n * 10, seed=n)
    server.seen.clear()
    assert {file.state for file in fetch(str(listed)).files} == {"unchanged"}


def test_one_failure_leaves_the_others_alone(server: FileServer, fetch: Get, tmp_path: Path) -> None:
    addresses = [server.put(f"/{n}.bin", content_of(1000, seed=n)) for n in range(5)]
    with pytest.raises(GetFailed, match="One of 6 files failed") as failed:
        fetch(*addresses, server.url + "/missing.bin")
    assert only_files(tmp_path / "data") == {f"{n}.bin" for n in range(5)}
    assert sorted(file.state for file in failed.value.report.files) == ["downloaded"] * 5 + ["failed"]


def test_two_sources_with_one_name(server: FileServer, fetch: Get) -> None:
    with pytest.raises(GetFailed, match="Two sources have a file named data"):
        fetch(server.put("/a/data.bin", b"a"), server.put("/b/data.bin", b"b"))


@pytest.mark.parametrize(
    "line", ["out=x", "ftp://h/f", "http://h/f out=../x", "http://h/f sha256=12", "http://h/f what=1"]
)
def test_wrong_lists(fetch: Get, tmp_path: Path, line: str) -> None:
    listed = tmp_path / "list.txt"
    listed.write_text(f"{line}\n")
    with pytest.raises(Exception, match=r".+") as failed:
        fetch(str(listed))
    assert type(failed.value).__module__ == "ownlab.errors"


def test_a_list_as_aria2_writes_it(server: FileServer, fetch: Get, tmp_path: Path) -> None:
    listed = tmp_path / "list.txt"
    digest = hashlib.sha256(b"data").hexdigest()
    listed.write_text(f"{server.put('/x', b'data')}\n  out=sub/y.bin\n  checksum=sha-256={digest}\n")
    assert fetch(str(listed)).files[0].verified == "sha256"
    assert only_files(tmp_path / "data") == {"sub/y.bin"}


@pytest.mark.parametrize(
    "line", ["{sha256}  ./sub/data.bin", "{sha256} *data.bin", "MD5 (data.bin) = {md5}", "{md5}  data.bin"]
)
def test_published_checksums_are_compared(server: FileServer, fetch: Get, tmp_path: Path, line: str) -> None:
    digests = {"sha256": hashlib.sha256(b"right").hexdigest(), "md5": hashlib.md5(b"right").hexdigest()}
    sums = tmp_path / "SUMS"
    sums.write_text("# of a mirror\n" + line.format(**digests) + "\n" + f"{digests['md5']}  another.bin\n")
    address = server.put("/data.bin", b"right")
    listed = tmp_path / "list.txt"
    listed.write_text(f"{address} out=sub/data.bin\n" if "sub/" in line else f"{address}\n")
    assert fetch(str(listed), checksums=str(sums)).files[0].verified in ("sha256", "md5")
    server.put("/data.bin", b"wrong")
    with pytest.raises(GetFailed, match="not"):
        fetch(str(listed), checksums=str(sums), force=True)


def test_published_checksums_may_be_an_address(server: FileServer, fetch: Get) -> None:
    sums = server.put("/SHA256SUMS", f"{hashlib.sha256(b'data').hexdigest()}  data.bin\n".encode())
    assert fetch(server.put("/data.bin", b"data"), checksums=sums).files[0].verified == "sha256"


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"<html>", "not a list of checksums"), (b"", "no checksum of"), (b"\xff\xfe", "not a list")],
)
def test_a_file_that_cannot_be_checked_is_not_fetched(
    server: FileServer, fetch: Get, content: bytes, message: str
) -> None:
    address = server.put("/data.bin", b"data")
    with pytest.raises(InputError, match=message):
        fetch(address, checksums=server.put("/SHA256SUMS", content))
    assert not server.bodies("/data.bin")


def test_an_unreachable_server_is_given_up_after_some_attempts(fetch: Get) -> None:
    with pytest.raises(GetFailed, match="Connection refused"):
        fetch("http://127.0.0.1:9/data.bin")


def test_the_manifest_has_source_checksum_and_date(server: FileServer, fetch: Get, tmp_path: Path) -> None:
    address = server.put("/data.bin", b"data")
    fetch(address)
    manifest = json.loads((tmp_path / "data/.ownlab-data/manifest.json").read_text())
    (file,) = manifest["files"]
    assert (file["source"], file["size"], file["sha256"]) == (address, 4, hashlib.sha256(b"data").hexdigest())
    assert file["downloaded"].startswith("20")
    assert manifest["sources"] == [address]


@pytest.mark.parametrize("damage", [b"", b"[]", b'{"format":99,"files":[]}', b"\xff"])
def test_a_damaged_manifest_is_an_error_not_a_loss(
    server: FileServer, fetch: Get, tmp_path: Path, damage: bytes
) -> None:
    address = server.put("/data.bin", b"data")
    fetch(address)
    (tmp_path / "data/.ownlab-data/manifest.json").write_bytes(damage)
    with pytest.raises(InputError):
        fetch(address)
    assert (tmp_path / "data/data.bin").read_bytes() == b"data"


def test_too_large_a_file_is_refused_before_it_is_fetched(server: FileServer, fetch: Get, tmp_path: Path) -> None:
    with pytest.raises(GetFailed, match="has only"):
        fetch(server.put("/data.bin", b"data", total=2**60))
    assert only_files(tmp_path / "data") == set()

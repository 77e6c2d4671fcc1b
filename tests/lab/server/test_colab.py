"""The routes for google.colab: uploads, downloads, grants; and every known way out of their folders."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import httpx
import pytest

from ownlab.lab.secrets.store import list_secrets, read_secret, set_secret

if TYPE_CHECKING:
    from tests.lab.server.conftest import LabServer


@pytest.fixture(scope="module")
def notebook(lab: LabServer) -> Path:
    """A notebook whose kernel is in Colab mode."""
    path = lab.folder / "colab.ipynb"
    metadata = {"ownlab": {"colab": True}, "kernelspec": {"name": "ownlab-cpu", "display_name": "CPU"}}
    path.write_text(json.dumps({"cells": [], "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}))
    return path


@pytest.fixture(scope="module")
def runtime(lab: LabServer, notebook: Path) -> str:
    """The runtime of that notebook."""
    kernel: str = lab.session(notebook.name)["kernel"]["id"]
    return kernel


@pytest.fixture(scope="module")
def content(lab: LabServer, runtime: str) -> Path:
    """The folder that the runtime has as /content."""
    folder = lab.home / "content" / runtime
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture
def staging(content: Path) -> Path:
    """A folder for an upload, as the kernel creates it."""
    folder = content / f".ownlab-{os.urandom(4).hex()}"
    folder.mkdir(mode=0o700)
    return folder


@pytest.fixture
def browser(lab: LabServer) -> Iterator[httpx.Client]:
    """A browser that has logged in and uses its cookies."""
    with httpx.Client(trust_env=False, timeout=300) as client:
        client.get(f"{lab.url}/lab", params={"token": lab.token}).raise_for_status()
        yield client


def address(lab: LabServer, runtime: str, what: str, **query: object) -> str:
    asked = "&".join(f"{name}={quote(str(value), safe='')}" for name, value in query.items())
    return f"{lab.url}/ownlab/api/runtimes/{runtime}/{what}?{asked}"


def put(lab: LabServer, runtime: str, folder: Path, data: bytes, number: object = 1, offset: object = 0) -> Any:
    """Send a chunk of a file."""
    return lab.client.put(address(lab, runtime, "uploads", folder=folder, number=number, offset=offset), content=data)


def test_an_upload_in_chunks(lab: LabServer, runtime: str, staging: Path) -> None:
    assert put(lab, runtime, staging, b"abc").json() == {"path": f"{staging}/1", "size": 3}
    assert put(lab, runtime, staging, b"def", offset=3).json()["size"] == 6
    assert put(lab, runtime, staging, b"DEF", offset=3).json()["size"] == 6  # sent again
    assert (staging / "1").read_bytes() == b"abcDEF"
    assert (staging / "1").stat().st_mode & 0o777 == 0o600
    assert put(lab, runtime, staging, b"x", offset=9).status_code == 400
    assert put(lab, runtime, staging, b"new").json()["size"] == 3
    assert put(lab, runtime, staging, b"", number=2).json()["size"] == 0


def test_an_upload_cannot_leave_its_folder(
    lab: LabServer, runtime: str, content: Path, staging: Path, tmp_path: Path
) -> None:
    (content / "own").mkdir(exist_ok=True)
    (content / ".ownlab-link").symlink_to(tmp_path)
    (content / ".ownlab-file").write_text("no folder")
    elsewhere = [
        content / "own",
        content,
        tmp_path,
        lab.folder,
        content / ".ownlab-link",
        content / ".ownlab-file",
        staging / "..",
        content / "own" / ".." / "..",
        content / ".ownlab-x" / ".." / ".." / ".ownlab-y",
        Path("relative"),
    ]
    assert [put(lab, runtime, folder, b"x").status_code for folder in elsewhere] == [403] * len(elsewhere)
    assert put(lab, runtime, content / ".ownlab-gone", b"x").status_code == 404
    assert put(lab, "no-such-runtime", staging, b"x").status_code == 404
    for number in ("../1", "a", "-1", "", "1e3", "٣"):
        assert put(lab, runtime, staging, b"x", number=number).status_code == 400
    (staging / "7").symlink_to(tmp_path / "target")
    assert put(lab, runtime, staging, b"x", number=7).status_code == 403
    os.mkfifo(staging / "8")
    (staging / "9").mkdir()
    assert [put(lab, runtime, staging, b"x", number=each).status_code for each in (8, 9)] == [409, 409]
    assert list(tmp_path.iterdir()) == []


def test_a_download(lab: LabServer, runtime: str, content: Path, browser: httpx.Client) -> None:
    data = os.urandom(3_000_000)
    path = content / 'größe "1"; x.bin'
    path.write_bytes(data)
    listed = browser.get(address(lab, runtime, "files", path=path)).json()
    assert listed == {"name": path.name, "size": len(data), "contents": None}
    got = browser.get(address(lab, runtime, "download", path=path, _xsrf=browser.cookies["_xsrf"]))
    assert got.content == data
    assert got.headers["Content-Type"] == "application/octet-stream"
    assert got.headers["Content-Disposition"] == f"attachment; filename*=UTF-8''{quote(path.name, safe='')}"
    assert got.headers["X-Content-Type-Options"] == "nosniff"
    (content / "empty").touch()
    assert lab.client.get(address(lab, runtime, "download", path=content / "empty")).content == b""
    (lab.folder / "sub").mkdir(exist_ok=True)
    (lab.folder / "sub" / "a.txt").write_text("in the lab")
    assert (
        lab.client.get(address(lab, runtime, "files", path=lab.folder / "sub" / "a.txt")).json()["contents"]
        == "sub/a.txt"
    )
    drive = lab.home / "drive"
    drive.mkdir(parents=True)
    (drive / "kept.txt").write_text("in the drive")
    assert lab.client.get(address(lab, runtime, "download", path=drive / "kept.txt")).text == "in the drive"


def test_downloads_outside_the_allowed_folders_are_refused(
    lab: LabServer, runtime: str, content: Path, tmp_path: Path
) -> None:
    (tmp_path / "private").write_text("not for pages")
    (content / "out").symlink_to(tmp_path)
    (content / "direct").symlink_to(tmp_path / "private")
    (content / "inner.txt").write_text("inside")
    (content / "inward").symlink_to(content / "inner.txt")
    elsewhere = [
        tmp_path / "private",
        content / "out" / "private",
        content / "direct",
        content / ".." / ".." / "secrets" / "secrets.json",
        lab.home / "runtimes" / runtime / "plan.json",
        Path("/etc/passwd"),
        Path(f"{content}-other/x"),
    ]
    for what in ("files", "download"):
        statuses = [lab.client.get(address(lab, runtime, what, path=path)).status_code for path in elsewhere]
        assert statuses == [403] * len(elsewhere)
        assert lab.client.get(address(lab, runtime, what, path=content / "gone")).status_code == 404
        assert lab.client.get(address(lab, runtime, what, path="inner.txt")).status_code == 400
        assert lab.client.get(address(lab, runtime, what, path=content / "a\0b")).status_code == 404
        assert lab.client.get(address(lab, runtime, what, path=lab.folder)).status_code in (400, 403)
        assert lab.client.get(address(lab, "no-such-runtime", what, path=content / "inner.txt")).status_code == 404
    os.mkfifo(content / "pipe")  # nobody writes to it: opening it as a file would block
    assert lab.client.get(address(lab, runtime, "download", path=content / "pipe")).status_code == 400
    assert lab.client.get(address(lab, runtime, "download", path=content / "inward")).text == "inside"


def test_a_grant_applies_to_the_notebook_of_the_runtime(lab: LabServer, runtime: str, notebook: Path) -> None:
    set_secret("OF_A_ROUTE", "its value", lab.environ)
    secrets = address(lab, runtime, "secrets", key="OF_A_ROUTE")
    assert lab.client.get(secrets).json() == {"name": "OF_A_ROUTE", "there": True, "granted": False}
    granted = lab.client.post(secrets, json={"key": "OF_A_ROUTE"}).json()
    assert granted == {"name": "OF_A_ROUTE", "there": True, "granted": True}
    assert read_secret("OF_A_ROUTE", [str(notebook)], lab.environ).value == "its value"

    assert lab.client.post(secrets, json={"key": "NEW_ONE"}).status_code == 404
    assert lab.client.post(secrets, json={"key": "NEW_ONE", "value": "of a page"}).json()["granted"]
    assert read_secret("NEW_ONE", [str(notebook)], lab.environ).value == "of a page"
    assert {secret.name for secret in list_secrets(lab.environ)} >= {"NEW_ONE", "OF_A_ROUTE"}
    for body in (
        b"",
        b"[]",
        b'{"key": "A B"}',
        b'{"key": "OF_A_ROUTE", "notebook": "other.ipynb"}',
        b'{"value": "hidden"}',
    ):
        refused = lab.client.post(secrets, content=body)
        assert refused.status_code == 400
        assert "hidden" not in refused.text
    assert "of a page" not in lab.log.read_text()


def test_the_mode_of_the_kernel_is_reported(lab: LabServer, runtime: str) -> None:
    assert lab.client.get(address(lab, runtime, "colab")).json() == {"colab": True}
    plain = lab.session("plain.ipynb")["kernel"]["id"]
    assert lab.client.get(address(lab, plain, "colab")).json() == {"colab": False}
    assert lab.client.get(address(lab, "no-such-runtime", "colab")).status_code == 404


def test_the_token_and_the_same_origin_are_required(
    lab: LabServer, runtime: str, content: Path, staging: Path, browser: httpx.Client
) -> None:
    (content / "mine.txt").write_text("mine")
    reads = [
        address(lab, runtime, what, path=content / "mine.txt", key="K")
        for what in ("files", "download", "secrets", "colab")
    ]
    upload = address(lab, runtime, "uploads", folder=staging, number=1, offset=0)
    secrets = address(lab, runtime, "secrets")
    with httpx.Client(trust_env=False, timeout=300) as stranger:
        assert [stranger.get(address).status_code for address in reads] == [403] * len(reads)
        assert stranger.put(upload, content=b"x").status_code == 403
        assert stranger.post(secrets, json={"key": "K", "value": "v"}).status_code == 403
        assert stranger.get(f"{lab.url}/proxy/{lab.port}/api/status").status_code in (302, 403)
    # A page of another site, with the user's cookies.
    assert browser.put(upload, content=b"x").status_code == 403
    assert browser.post(secrets, json={"key": "K", "value": "v"}).status_code == 403
    assert browser.get(reads[1]).status_code == 403
    elsewhere = {"Origin": "http://evil.example", "X-XSRFToken": browser.cookies["_xsrf"]}
    assert browser.get(reads[0], headers=elsewhere).status_code == 404
    assert browser.put(upload, content=b"x", headers=elsewhere).status_code in (403, 404)
    assert browser.get(reads[1], headers={"Referer": "http://evil.example/"}).status_code == 403
    own = {"X-XSRFToken": browser.cookies["_xsrf"]}
    assert browser.put(upload, content=b"x", headers=own).status_code == 200

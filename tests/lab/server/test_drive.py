"""The drive in the file browser: files, notebooks with kernels, and no way out of it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from tests.lab.server.stream_page import StreamPage

from ownlab.lab.runtimes.drive import find_mount
from ownlab.lab.runtimes.launch_plan import read_plan

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.lab.server.conftest import LabServer

TOP = "/ownlab/drive/api/contents"
CONTENTS = f"{TOP}/MyDrive"
MOUNTS = r"""
22 1 254:1 / / rw,relatime - ext4 /dev/vda1 rw
301 22 0:60 / /content/drive ro,relatime - tmpfs ownlab-drive rw,size=64k
302 301 0:61 / /content/drive/MyDrive rw,nosuid,nodev - fuse.rclone gdrive{b6816}:my\040files rw,user_id=0
303 22 0:62 / /content/other rw,nosuid,nodev - fuse.rclone gdrive: rw,user_id=0
"""


@pytest.fixture(scope="module")
def drive(lab: LabServer) -> Path:
    """The default folder of the drive; it is created on the first request."""
    folder = lab.home / "drive"
    assert not folder.exists()
    assert lab.get(CONTENTS).json()["content"] == []
    assert folder.stat().st_mode & 0o777 == 0o700
    return folder


def put(lab: LabServer, path: str, text: str) -> httpx.Response:
    body = {"type": "file", "format": "text", "content": text}
    return lab.client.put(f"{lab.url}{CONTENTS}/{path}", json=body)


def test_creating_reading_and_deleting_files(lab: LabServer, drive: Path) -> None:
    lab.post(CONTENTS, {"type": "directory"})
    made = drive / "Untitled Folder"
    assert put(lab, "Untitled Folder/ä.txt", "some text").status_code == 201
    assert (made / "ä.txt").read_text() == "some text"
    assert lab.get(f"{CONTENTS}/Untitled Folder/ä.txt").json()["content"] == "some text"
    sent = lab.get("/ownlab/drive/files/MyDrive/Untitled Folder/ä.txt?download=1")
    assert sent.content == b"some text"
    assert "attachment" in sent.headers["Content-Disposition"]
    lab.client.patch(f"{lab.url}{CONTENTS}/Untitled Folder", json={"path": "MyDrive/data"}).raise_for_status()
    [listed] = lab.get(CONTENTS).json()["content"]
    assert (listed["name"], listed["path"], listed["type"]) == ("data", "MyDrive/data", "directory")
    lab.client.delete(f"{lab.url}{CONTENTS}/data/ä.txt").raise_for_status()
    assert not (drive / "data" / "ä.txt").exists()
    assert [each["name"] for each in lab.get("/api/contents").json()["content"]] == []


def test_the_top_level_is_read_only(lab: LabServer, drive: Path) -> None:
    (drive / "kept.txt").write_text("kept")
    [listed] = lab.get(TOP).json()["content"]
    assert (listed["path"], listed["type"]) == ("MyDrive", "directory")
    address = lab.url + TOP
    assert lab.client.post(address, json={"type": "directory"}).status_code == 403
    assert lab.client.put(f"{address}/a.txt", json={"type": "file", "format": "text", "content": ""}).status_code == 403
    assert lab.client.delete(f"{address}/MyDrive").status_code == 403
    assert lab.client.patch(f"{address}/MyDrive", json={"path": "MyDrive/b"}).status_code == 403
    (drive / "kept.txt").unlink()


def test_paths_and_links_out_of_the_drive_are_refused(lab: LabServer, drive: Path, tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("not yours")
    (drive / "file.txt").symlink_to(tmp_path / "secret.txt")
    (drive / "folder").symlink_to(tmp_path)
    (drive / "inside.txt").write_text("inside")
    (drive / "again.txt").symlink_to(drive / "inside.txt")
    listed = {each["name"] for each in lab.get(CONTENTS).json()["content"]}
    assert {"inside.txt", "again.txt"} <= listed
    assert not {"file.txt", "folder"} & listed
    get = lab.client.get
    for path in ("file.txt", "folder", "folder/secret.txt", "folder/secret.txt/checkpoints"):
        for address in (f"{CONTENTS}/{path}", f"/ownlab/drive/files/MyDrive/{path}"):
            answer = get(lab.url + address)
            assert answer.status_code in (403, 404), address
            assert "not yours" not in answer.text
    for path in ("..%2f..%2fescape.txt", "folder/new.txt", "file.txt"):
        assert put(lab, path, "x").status_code in (403, 404, 500), path
        assert get(f"{lab.url}/ownlab/drive/files/MyDrive/{path}").status_code in (403, 404), path
    moved = lab.client.patch(f"{lab.url}{CONTENTS}/inside.txt", json={"path": "MyDrive/folder/taken.txt"})
    assert moved.status_code == 403
    assert {each.name for each in tmp_path.iterdir()} == {"secret.txt"}
    assert (tmp_path / "secret.txt").read_text() == "not yours"


def test_authentication_is_required(lab: LabServer, drive: Path) -> None:
    (drive / "mine.txt").write_text("mine")
    with httpx.Client(trust_env=False) as stranger:
        assert stranger.get(f"{lab.url}{CONTENTS}").status_code == 403
        assert stranger.get(f"{lab.url}/ownlab/drive/files/MyDrive/mine.txt").status_code in (302, 403)
    with httpx.Client(trust_env=False) as browser:
        browser.get(f"{lab.url}/lab", params={"token": lab.token}).raise_for_status()
        address = f"{lab.url}/ownlab/drive/files/MyDrive/mine.txt"
        assert browser.get(address, headers={"Referer": "http://elsewhere.example/"}).status_code == 403
        assert browser.delete(f"{lab.url}{CONTENTS}/mine.txt").status_code == 403
    assert (drive / "mine.txt").exists()


def test_a_notebook_in_the_drive_has_a_kernel_and_a_journal(
    lab: LabServer, drive: Path, until: Callable[..., Any]
) -> None:
    cell: dict[str, Any] = {
        "cell_type": "code",
        "id": "a",
        "execution_count": None,
        "metadata": {},
        "outputs": [],
        "source": "",
    }
    text = json.dumps({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5})
    for folder in (drive, lab.folder):  # two different notebooks of the same name
        (folder / "train.ipynb").write_text(text)
    asked = {
        "path": "drive:MyDrive/train.ipynb",
        "name": "train.ipynb",
        "type": "notebook",
        "kernel": {"name": "ownlab-cpu"},
    }
    kernel = lab.post("/api/sessions", asked).json()["kernel"]["id"]
    page = StreamPage(f"ws://127.0.0.1:{lab.port}/api/kernels/{kernel}/channels", lab.token)
    page.execute("import os; print(os.getcwd())", cell="a")

    def output(path: str) -> list[Any]:
        outputs: list[Any] = lab.get(path).json()["content"]["cells"][0]["outputs"]
        return outputs

    until(lambda: output(f"{CONTENTS}/train.ipynb"), "the notebook has its output")
    assert output(f"{CONTENTS}/train.ipynb")[0]["text"].strip() == str(drive.resolve())
    assert output("/api/contents/train.ipynb") == []
    page.close()
    until(lambda: str(drive) in (drive / "train.ipynb").read_text(), "the file was written without a page")


def test_a_path_with_extra_slashes_stays_in_the_drive(lab: LabServer, drive: Path) -> None:
    for path in ("drive:MyDrive//etc/x.ipynb", "drive:MyDrive/../../x.ipynb", "drive:other//etc/x.ipynb"):
        kernel = lab.post("/api/kernels", {"name": "ownlab-cpu", "path": path}).json()["id"]
        assert read_plan(str(lab.home / "runtimes" / kernel / "plan.json")).cwd == str(drive)
        lab.client.delete(f"{lab.url}/api/kernels/{kernel}").raise_for_status()


def test_where_a_remote_is_mounted() -> None:
    assert find_mount(MOUNTS, "gdrive:my files/") == "/content/drive/MyDrive"
    assert find_mount(MOUNTS, "other:") is None
    assert find_mount("", "gdrive:") is None


def test_a_remote_that_is_not_mounted(new_lab: Callable[[str], LabServer]) -> None:
    lab = new_lab("remote")
    Path(lab.environ["OWNLAB_CONFIG"]).write_text('[drive]\nremote = "gdrive:"\n')
    lab.start()
    answer = lab.client.get(lab.url + CONTENTS)
    assert answer.status_code == 409
    assert answer.json()["message"].startswith(
        "Your drive is the remote gdrive:, which is accessible only while a notebook"
    )
    assert "drive.mount" in answer.json()["message"]


@pytest.mark.skipif(not shutil.which("rclone") or not shutil.which("fusermount3"), reason="no rclone, or no fuse3")
def test_a_remote_that_a_kernel_has_mounted(new_lab: Callable[[str], LabServer], tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.mkdir()
    (there / "a.txt").write_text("far away")
    (there / "out").symlink_to("/etc")
    lab = new_lab("remote")
    Path(lab.environ["OWNLAB_CONFIG"]).write_text(f'[drive]\nremote = "far:{there}"\n')
    lab.environ |= {"RCLONE_CONFIG_FAR_TYPE": "local", "RCLONE_CONFIG": str(tmp_path / "rclone.conf")}
    lab.environ |= {"RCLONE_CACHE_DIR": str(tmp_path / "cache"), "RCLONE_LINKS": "true"}
    lab.start()
    made = {"cells": [], "metadata": {"ownlab": {"colab": True}}, "nbformat": 4, "nbformat_minor": 5}
    (lab.folder / "mounts.ipynb").write_text(json.dumps(made))
    kernel = lab.session("mounts.ipynb")["kernel"]["id"]
    page = StreamPage(f"ws://127.0.0.1:{lab.port}/api/kernels/{kernel}/channels", lab.token)
    page.run("from google.colab import drive; drive.mount('/content/drive')")
    assert lab.get(f"{CONTENTS}/a.txt").json()["content"] == "far away"
    assert lab.get("/ownlab/drive/files/MyDrive/a.txt").content == b"far away"
    assert "out" not in [each["name"] for each in lab.get(CONTENTS).json()["content"]]
    assert lab.client.get(f"{lab.url}{CONTENTS}/out/passwd").status_code in (403, 404)
    assert put(lab, "b.txt", "sent there").status_code == 201
    page.run("drive.flush_and_unmount()")
    assert (there / "b.txt").read_text() == "sent there"
    assert lab.client.get(lab.url + CONTENTS).status_code == 409
    page.close()

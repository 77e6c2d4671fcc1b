"""A runtime's /content over Jupyter's routes for files, and the use of the disk."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from ownlab.lab.server.disk import is_nearly_full

if TYPE_CHECKING:
    from tests.lab.server.conftest import LabServer, Page

GB = 10**9


class Runtime:
    """A runtime in Colab mode, and the address of its files."""

    def __init__(self, lab: LabServer) -> None:
        notebook = {"nbformat": 4, "nbformat_minor": 5, "metadata": {"ownlab": {"colab": True}}, "cells": []}
        (lab.folder / "colab.ipynb").write_text(json.dumps(notebook))
        self.lab, self.id = lab, str(lab.session("colab.ipynb")["kernel"]["id"])
        self.address = f"{lab.url}/ownlab/content/{self.id}"
        self.cells: Page = lab.page(self.id)

    def put(self, path: str, **model: Any) -> int:
        return self.lab.client.put(f"{self.address}/api/contents/{path}", json=model).status_code

    def get(self, path: str) -> Any:
        answer = self.lab.client.get(f"{self.address}/api/contents/{path}")
        return answer.json() if answer.is_success else answer.status_code

    def names(self, path: str = "") -> list[str]:
        return sorted(each["name"] for each in self.get(path)["content"])


@pytest.fixture(scope="module")
def runtime(lab: LabServer) -> Runtime:
    return Runtime(lab)


def test_files_are_uploaded_in_chunks_seen_by_the_kernel_and_downloaded(runtime: Runtime) -> None:
    assert runtime.names() == ["sample_data"]
    parts = [os.urandom(1 << 20), os.urandom(1 << 20), b"the end"]
    for chunk, part in zip((1, 2, -1), parts, strict=True):
        content = base64.b64encode(part).decode()
        status = runtime.put("big ü.bin", type="file", format="base64", content=content, chunk=chunk)
        assert status in (200, 201)
    assert runtime.cells.run("import os; print(os.getcwd(), sorted(os.listdir()), os.path.getsize('big ü.bin'))") == (
        f"/content ['big ü.bin', 'sample_data'] {len(b''.join(parts))}\n"
    )
    downloaded = runtime.lab.client.get(f"{runtime.address}/files/big%20%C3%BC.bin?download=1")
    assert downloaded.content == b"".join(parts)
    assert "attachment" in downloaded.headers["Content-Disposition"]
    runtime.cells.run("os.makedirs('out'); open('out/log.txt', 'w').write('from the kernel')")
    assert runtime.get("out/log.txt")["content"] == "from the kernel"
    assert runtime.put("out/log.txt", type="file", format="text", content="edited") == 200
    runtime.lab.client.post(f"{runtime.address}/api/contents/out/log.txt/checkpoints").raise_for_status()
    assert runtime.cells.run("print(open('out/log.txt').read(), os.listdir('out'))") == "edited ['log.txt']\n"
    runtime.lab.client.delete(f"{runtime.address}/api/contents/out/log.txt").raise_for_status()
    assert runtime.cells.run("print(os.listdir('out'))") == "[]\n"


def test_no_path_leads_out_of_the_folder(runtime: Runtime, tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("secret")
    code = f"import os; os.symlink({str(tmp_path)!r}, 'away'); os.symlink({str(tmp_path / 'secret.txt')!r}, 'link.txt')"
    assert runtime.cells.run(code) == ""
    assert not {"away", "link.txt"} & set(runtime.names())
    client = runtime.lab.client
    for path in ("away", "away/secret.txt", "link.txt", "..", "../../config.toml", "%2e%2e/%2e%2e/config.toml"):
        assert runtime.get(path) in (403, 404), path
        assert client.get(f"{runtime.address}/files/{path}").status_code in (403, 404), path
    assert runtime.put("away/new.txt", type="file", format="text", content="x") == 403
    assert runtime.put("link.txt", type="file", format="text", content="x") == 403
    assert (os.listdir(tmp_path), (tmp_path / "secret.txt").read_text()) == (["secret.txt"], "secret")
    assert runtime.get(".config") in (403, 404)
    for address in (f"{runtime.address}/api/contents", f"{runtime.address}/files/sample_data/README.md"):
        assert httpx.get(address, trust_env=False).status_code in (302, 403)  # without the client's cookies


def test_the_mount_point_of_the_drive_is_left_out(runtime: Runtime) -> None:
    runtime.cells.run("from google.colab import drive; drive.mount('/content/drive')")
    assert runtime.cells.run("print('drive' in os.listdir('/content'))") == "True\n"
    assert "drive" not in runtime.names()


def test_runtimes_without_a_folder_say_so(lab: LabServer) -> None:
    plain = lab.session("plain.ipynb")["kernel"]["id"]
    for runtime, reason in ((plain, "is not in Colab mode"), ("none-such", "has ended")):
        answer = lab.client.get(f"{lab.url}/ownlab/content/{runtime}/api/contents")
        assert answer.status_code == 404
        assert reason in answer.json()["message"]


def test_the_use_of_the_disk(lab: LabServer) -> None:
    use = lab.get("/ownlab/api/disk").json()
    assert use["folder"] == str(lab.folder)
    assert 0 < use["free"] <= use["total"]
    assert use["drive"], "the folder that drive.mount mounts"


@pytest.mark.parametrize(
    ("total", "free", "warning_gb", "expected"),
    [
        (1000 * GB, 9 * GB, 10, True),
        (1000 * GB, 11 * GB, 10, False),
        (100 * GB, 6 * GB, 10, False),
        (100 * GB, 4 * GB, 10, True),
        (20 * GB, 1 * GB, 10, True),
        (20 * GB, 3 * GB, 10, False),
        (1000 * GB, 60 * GB, 100, False),
        (1000 * GB, 49 * GB, 100, True),
        (100 * GB, 0, 0, False),
    ],
)
def test_when_a_disk_is_nearly_full(total: int, free: int, warning_gb: float, expected: bool) -> None:
    assert is_nearly_full(total, free, warning_gb) is expected

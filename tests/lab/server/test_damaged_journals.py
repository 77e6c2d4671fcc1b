"""Damaged journals and full disks, as pages see them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from tests.lab.server.journal_maker import JournalMaker, notebook_of

if TYPE_CHECKING:
    from tests.lab.server.conftest import LabServer


def open_cells(lab: LabServer, name: str) -> dict[str, str]:
    """Open a notebook: the text of each cell's outputs."""
    cells = lab.get(f"/api/contents/{name}?type=notebook").json()["content"]["cells"]
    return {cell["id"]: "".join(output["text"] for output in cell["outputs"]) for cell in cells}


def damage(journal: JournalMaker, text: bytes) -> None:
    """Change one byte of the first record that contains this."""
    [path] = journal.folder.glob("*.log")
    data = bytearray(path.read_bytes())
    data[data.index(text)] ^= 1
    path.write_bytes(data)


@pytest.fixture
def journal(lab: LabServer, request: pytest.FixtureRequest) -> JournalMaker:
    """Two cells that ran, and one that was executed in between."""
    path = lab.folder / f"{request.node.name}.ipynb"
    path.write_text(json.dumps(notebook_of("a", "b", "c")))
    made = JournalMaker(lab.home, path)
    made.run_cell("a", "first of a\n")
    request_b = made.request("b")
    made.begin(request_b)
    made.send(request_b, "execute_input", code="run('b')", execution_count=2)
    for number in range(3):
        made.print(request_b, f"line {number} of b\n")
    made.end(request_b, 2)
    made.run_cell("c", "of c\n")
    made.end_runtime()
    return made


def test_a_page_sees_which_output_was_damaged(lab: LabServer, journal: JournalMaker, request: Any) -> None:
    damage(journal, b"line 1 of b")
    cells = open_cells(lab, f"{request.node.name}.ipynb")
    assert cells["a"] == "first of a\n"
    assert cells["b"].startswith(
        "line 0 of b\n[ownlab: Part of this output was damaged on disk and could not be read ("
    )
    assert cells["b"].endswith(" bytes).]\nline 2 of b\n")
    assert cells["c"] == "of c\n"
    attached = lab.get(f"/ownlab/api/runtimes/{journal.runtime}/attach?after=0").json()
    [shown] = [each for each in attached["executions"] if each["cell"] == "b"]
    assert any("was damaged on disk" in str(message["content"]) for message in shown["messages"])


def test_a_cell_whose_request_was_damaged_is_found_by_its_code(
    lab: LabServer, journal: JournalMaker, request: Any
) -> None:
    damage(journal, b'"code": "run(\'b\')"')
    cells = open_cells(lab, f"{request.node.name}.ipynb")
    assert "line 0 of b\nline 1 of b\nline 2 of b\n" in cells["b"]
    assert "was damaged on disk" in cells["b"]
    assert cells["c"] == "of c\n"


@pytest.fixture
def small_folder(lab: LabServer) -> Iterator[Path]:
    """A folder of the lab on a disk of 256 KiB."""
    folder = lab.folder / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("only root can make a small disk")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def save(lab: LabServer, name: str, notebook: dict[str, Any]) -> httpx.Response:
    body = {"type": "notebook", "format": "json", "content": notebook}
    return lab.client.put(f"{lab.url}/api/contents/{name}", json=body)


def test_a_save_on_a_full_disk_is_an_error_and_keeps_the_file(lab: LabServer, small_folder: Path) -> None:
    notebook = notebook_of("a")
    assert save(lab, "small/n.ipynb", notebook).status_code in (200, 201)
    before = (small_folder / "n.ipynb").read_bytes()
    notebook["cells"][0]["source"] = "x" * 400_000
    answer = save(lab, "small/n.ipynb", notebook)
    assert answer.status_code == 507
    assert "No space left" in answer.json()["message"]
    assert (small_folder / "n.ipynb").read_bytes() == before
    assert [path.name for path in small_folder.iterdir() if not path.name.startswith(".ipynb")] == ["n.ipynb"]
    notebook["cells"][0]["source"] = "1"
    assert save(lab, "small/n.ipynb", notebook).status_code == 200

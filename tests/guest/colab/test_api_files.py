"""google.colab.files in the page: uploads through a folder of their own, downloads by a path that the server knows."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.guest.colab.page import Answers, Page, open_page

FILES = "from google.colab import files\n"


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Page, Path]]:
    folder = tmp_path_factory.mktemp("kernel")
    with open_page(folder) as page:
        yield page, folder


@pytest.fixture
def page(opened: tuple[Page, Path], tmp_path: Path) -> Page:
    """In a working folder of the test's own, which is the runtime's folder as well."""
    opened[0].result(f"import os; os.chdir({str(tmp_path)!r}); os.environ['OWNLAB_CONTENT'] = {str(tmp_path)!r}")
    return opened[0]


def picks(**contents: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """A person who picks files, and a page that puts them where they belong."""

    def answer(request: dict[str, Any]) -> dict[str, Any]:
        folder = Path(request["target_dir"])
        assert os.stat(folder).st_mode & 0o077 == 0, "nobody else looks in"
        for name, content in contents.items():
            (folder / name).write_text(content)
        return {"data": {"files": [{"name": name, "path": str(folder / name)} for name in contents]}}

    return answer


def test_upload_saves_the_picked_files(page: Page, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("old")
    ran = page.run(FILES + "print(files.upload())", {"ownlab_upload": picks(**{"a.txt": "new", "b.txt": "two"})})
    assert ran.text == "Saving a.txt to a (1).txt\nSaving b.txt to b.txt\n{'a (1).txt': b'new', 'b.txt': b'two'}\n"
    assert ran.asked("ownlab_upload")[0]["multiple"] is True
    assert sorted(os.listdir(tmp_path)) == ["a (1).txt", "a.txt", "b.txt"], "nothing else is left"


def test_upload_into_a_folder_that_is_made(page: Page, tmp_path: Path) -> None:
    page.result(FILES + "files.upload('data/raw')", {"ownlab_upload": picks(**{"a.txt": "one"})})
    assert (tmp_path / "data" / "raw" / "a.txt").read_text() == "one"


def test_a_person_who_picks_nothing(page: Page, tmp_path: Path) -> None:
    assert page.result(FILES + "print(files.upload())", {"ownlab_upload": picks()}) == "{}\n"
    ran = page.run(FILES + "files.upload_file('a.txt')", {"ownlab_upload": picks()})
    assert ran.error == "ValueError: File has not been uploaded"
    assert os.listdir(tmp_path) == []


def test_upload_file_saves_one_under_its_name(page: Page, tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text("old")
    ran = page.run(FILES + "files.upload_file('train.csv')", {"ownlab_upload": picks(**{"any.csv": "new"})})
    assert (ran.error, (tmp_path / "train.csv").read_text()) == ("", "new")
    asked = ran.asked("ownlab_upload")[0]
    assert (asked["multiple"], asked["filename"]) == (False, "train.csv")
    two = page.run(FILES + "files.upload_file('x')", {"ownlab_upload": picks(a="1", b="2")})
    assert two.error == "ValueError: Multiple files received, please upload a single file"


def test_an_answer_cannot_name_files_elsewhere(page: Page, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("mine")

    def elsewhere(request: dict[str, Any]) -> dict[str, Any]:
        return {"data": {"files": [{"name": "x", "path": request["target_dir"] + "/../mine"}]}}

    assert "into another folder" in page.run(FILES + "files.upload()", {"ownlab_upload": elsewhere}).error

    def named(request: dict[str, Any]) -> dict[str, Any]:
        answer = picks(a="1")(request)
        answer["data"]["files"][0]["name"] = "../../outside"
        return answer

    assert page.result(FILES + "print(list(files.upload()))", {"ownlab_upload": named}).endswith("['outside']\n")
    assert (tmp_path / "outside").read_text() == "1"


def test_download_and_view_send_the_path_to_the_page(page: Page, tmp_path: Path) -> None:
    (tmp_path / "model.pt").write_text("weights")
    done: Answers = {"ownlab_download": lambda body: {"data": {}}, "ownlab_view": lambda body: {"data": {}}}
    ran = page.run(FILES + "files.download('model.pt'); files.view('./model.pt')", done)
    assert ran.error == ""
    assert ran.asked("ownlab_download") == ran.asked("ownlab_view") == [{"path": str(tmp_path / "model.pt")}]
    assert page.run(FILES + "files.download('none')").error == "FileNotFoundError: Cannot find file: none"


def test_a_folder_is_downloaded_as_a_zip_file(page: Page, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "log.txt").write_text("said")
    names: list[str] = []

    def look(body: dict[str, Any]) -> dict[str, Any]:
        names.extend(zipfile.ZipFile(body["path"]).namelist())
        return {"data": {}}

    assert page.run(FILES + "files.download('run')", {"ownlab_download": look}).error == ""
    assert names == ["log.txt"]


def test_a_failed_download_names_the_file(page: Page, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one")
    ran = page.run(FILES + "files.download('a.txt')", {"ownlab_download": lambda body: {"error": "too large"}})
    assert ran.error == f"MessageError: too large; the file is still at {tmp_path / 'a.txt'}"


def test_without_a_page_files_use_the_upload_and_output_folders(page: Page, tmp_path: Path) -> None:
    for name in ("in", "out"):
        (tmp_path / name).mkdir()
    (tmp_path / "in" / "a.txt").write_text("one")
    code = f"os.environ.update(OWNLAB_UPLOADS={str(tmp_path / 'in')!r}, OWNLAB_OUTPUTS={str(tmp_path / 'out')!r})\n"
    ran = page.headless(FILES + code + "files.upload(); files.download('a.txt'); files.view('a.txt')")
    assert (ran.text, ran.requests) == (f"Saving a.txt to a.txt\n{tmp_path / 'a.txt'}\n", [])
    assert (tmp_path / "out" / "a.txt").read_text() == "one"


def test_the_server_gets_paths_that_it_can_see(page: Page, tmp_path: Path) -> None:
    """A file of a mounted Drive, by the Drive's own path; one that only the kernel sees, as a copy."""
    for name in ("drive", "mount/MyDrive", "remote/MyDrive"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "drive" / "a.txt").write_text("mine")
    os.link(tmp_path / "drive" / "a.txt", tmp_path / "mount" / "MyDrive" / "a.txt")  # the same file, as in a bind mount
    (tmp_path / "remote" / "MyDrive" / "b.txt").write_text("far away")
    code = f"os.environ['OWNLAB_DRIVE'] = {str(tmp_path / 'drive')!r}\n"
    seen: list[tuple[str, str]] = []

    def look(body: dict[str, Any]) -> dict[str, Any]:
        seen.append((body["path"], Path(body["path"]).read_text()))
        return {"data": {}}

    code += "files.download('mount/MyDrive/a.txt'); files.download('remote/MyDrive/b.txt')"
    assert page.run(FILES + code, {"ownlab_download": look}).error == ""
    assert seen[0] == (str(tmp_path / "drive" / "a.txt"), "mine")
    copy = Path(seen[1][0])
    assert (copy.name, copy.parent.parent, seen[1][1]) == ("b.txt", tmp_path, "far away")

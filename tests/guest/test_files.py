"""google.colab.files without a page: the folders of uploads and outputs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

LAUNCH = Path(__file__).parents[2] / "src" / "ownlab_guest" / "kernel" / "launch.py"


class Notebook:
    """Code that runs as in a kernel whose run was given two folders."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.uploads, self.outputs = folder / "work", folder / "uploads", folder / "outputs"
        for each in (self.folder, self.uploads, self.outputs):
            each.mkdir()
        self.environ = {**os.environ, "OWNLAB_UPLOADS": str(self.uploads), "OWNLAB_OUTPUTS": str(self.outputs)}

    def run(self, code: str) -> str:
        lines = [
            f"import sys; sys.path.insert(0, {str(LAUNCH.parent)!r})",
            "import launch; launch.prepare_path()",
            "try:",
            " from google.colab import files",
            f" {code}",
            "except Exception as exc: print(type(exc).__name__, exc)",
        ]
        ran = subprocess.run(
            [sys.executable, "-c", "\n".join(lines)],
            env=self.environ,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=300,
            check=True,
        )
        return ran.stdout


@pytest.fixture
def notebook(tmp_path: Path) -> Notebook:
    return Notebook(tmp_path)


def test_upload_saves_every_file_and_gives_its_content(notebook: Notebook) -> None:
    (notebook.uploads / "b.txt").write_text("two")
    (notebook.uploads / "a.txt").write_text("one")
    (notebook.uploads / "folder").mkdir()
    answer = notebook.run("print(files.upload())")
    assert answer == "Saving a.txt to a.txt\nSaving b.txt to b.txt\n{'a.txt': b'one', 'b.txt': b'two'}\n"
    assert (notebook.folder / "b.txt").read_text() == "two"


def test_a_file_that_is_there_is_kept_and_the_same_one_is_not_doubled(notebook: Notebook) -> None:
    (notebook.uploads / "a.txt").write_text("new")
    (notebook.folder / "a.txt").write_text("old")
    for _ in range(2):
        assert notebook.run("print(files.upload())").endswith("{'a (1).txt': b'new'}\n")
    assert (notebook.folder / "a.txt").read_text() == "old"
    assert sorted(os.listdir(notebook.folder)) == ["a (1).txt", "a.txt"]


def test_upload_into_a_folder(notebook: Notebook) -> None:
    (notebook.uploads / "a.txt").write_text("one")
    (notebook.folder / "data").mkdir()
    assert notebook.run("print(list(files.upload('data')))").endswith("['data/a.txt']\n")


def test_upload_file_takes_the_file_of_the_same_name(notebook: Notebook) -> None:
    (notebook.uploads / "any name.csv").write_text("only")
    notebook.run("files.upload_file('train.csv')")
    assert (notebook.folder / "train.csv").read_text() == "only"
    (notebook.uploads / "train.csv").write_text("named")
    notebook.run("files.upload_file('train.csv')")
    assert (notebook.folder / "train.csv").read_text() == "named"
    assert "ValueError" in notebook.run("files.upload_file('other.csv')")


def test_download_copies_and_never_overwrites(notebook: Notebook) -> None:
    (notebook.folder / "model.pt").write_text("first")
    notebook.run("files.download('model.pt')")
    (notebook.folder / "model.pt").write_text("second")
    notebook.run("files.download('model.pt'); files.download('../work/model.pt')")
    saved = {name: (notebook.outputs / name).read_text() for name in os.listdir(notebook.outputs)}
    assert saved == {"model.pt": "first", "model (1).pt": "second"}
    assert notebook.run("files.download('none')") == "FileNotFoundError Cannot find file: none\n"


def test_without_folders_the_error_names_the_option(notebook: Notebook) -> None:
    notebook.environ["OWNLAB_UPLOADS"] = ""
    assert "ownlab run NOTEBOOK --uploads DIR" in notebook.run("files.upload()")
    del notebook.environ["OWNLAB_OUTPUTS"]
    assert "No module named" in notebook.run("0"), "a plain kernel is not Colab"

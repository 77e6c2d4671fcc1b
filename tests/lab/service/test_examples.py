"""The notebooks that come with ownlab: where they are created, what they contain, and that they run."""

from __future__ import annotations

import json
from pathlib import Path

import nbformat
import pytest

from ownlab.errors import LabError, UsageError
from ownlab.lab.service import examples
from ownlab.lab.service.examples import list_examples, place_example, read_example


def test_the_index_lists_every_notebook_of_the_folder_once() -> None:
    files = {path.stem for path in Path(examples.__file__).parent.glob("*.json")} - {"index"}
    names = [example.name for example in list_examples()]
    assert sorted(names) == sorted(files)
    for example in list_examples():
        assert example.title
        assert example.description.endswith(".")
        assert example.minutes >= 1


@pytest.mark.parametrize("name", [example.name for example in list_examples()])
def test_an_example_is_a_valid_notebook_without_outputs(name: str) -> None:
    notebook = json.loads(read_example(name))
    nbformat.validate(notebook)
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    assert notebook["metadata"]["kernelspec"]["name"] == "python3"
    assert len({cell["id"] for cell in notebook["cells"]}) == len(notebook["cells"])
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert [(cell["outputs"], cell["execution_count"]) for cell in code] == [([], None)] * len(code)


def test_an_example_is_copied_once_and_never_overwritten(tmp_path: Path) -> None:
    path = place_example(str(tmp_path), "welcome")
    assert path == "examples/welcome.ipynb"
    assert (tmp_path / path).read_bytes() == read_example("welcome")
    (tmp_path / path).write_text("mine")
    assert place_example(str(tmp_path), "welcome") == path
    assert (tmp_path / path).read_text() == "mine"


@pytest.mark.parametrize("name", ["../index", "index", "", "/etc/passwd"])
def test_a_name_that_is_not_listed_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="There is no example"):
        place_example(str(tmp_path), name)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_made_is_an_error_of_ours(tmp_path: Path) -> None:
    (tmp_path / "examples").write_text("a file")
    with pytest.raises(LabError, match=r"Cannot write the example examples/welcome\.ipynb"):
        place_example(str(tmp_path), "welcome")

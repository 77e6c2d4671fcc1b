"""Before a run: notebook files, the output file, the cells and the runtime type. Nothing is started."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat as untyped
import pytest
from tests.lab.runs.conftest import Write, code

from ownlab.config.paths import state_folder
from ownlab.errors import InputError, UsageError
from ownlab.lab.notebooks.files import notebook_json, read_notebook, write_over
from ownlab.lab.runs.preparation import Output, RunRequest, check_folders, choose_output, clear, load, steps_of
from ownlab.lab.runs.resume import KeptRun, resume_cells
from ownlab.lab.runs.runtime_type import choose_type
from ownlab.lab.runs.validation import prepare_run
from ownlab.lab.runtimes.cards import read_devices
from ownlab.lab.runtimes.runtime_types import refresh_specs
from ownlab.lab.store.rows import CardRequest
from ownlab.lab.store.store import Store

nbformat: Any = untyped

MARKDOWN = {"cell_type": "markdown", "metadata": {}, "source": "# Words"}


def test_notebooks_are_written_as_jupyter_writes_them(tmp_path: Path) -> None:
    outputs = [
        nbformat.v4.new_output("stream", text="one\ntwo\n"),
        nbformat.v4.new_output(
            "display_data",
            {"text/html": "<b>\nx", "application/json": {"a": "b\nc"}, "image/png": "a\n", "image/svg+xml": "<\n>"},
        ),
        nbformat.v4.new_output("error", ename="E", evalue="v", traceback=["a\nb"]),
    ]
    cells = [nbformat.v4.new_markdown_cell("# 标题\n\u2028"), nbformat.v4.new_code_cell("a = 1\nb", outputs=outputs)]
    made = nbformat.v4.new_notebook(cells=cells, metadata={"z": [1], "a": "é"})
    nbformat.write(made, tmp_path / "a.ipynb")
    text = (tmp_path / "a.ipynb").read_text()
    assert notebook_json(json.loads(json.dumps(made))) == text
    assert notebook_json(read_notebook(str(tmp_path / "a.ipynb"))) == text


def test_lone_surrogates_are_replaced(tmp_path: Path) -> None:
    path = tmp_path / "a.ipynb"
    path.write_bytes(notebook_json({"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": []}).encode())
    write_over(str(path), {"nbformat": 4, "nbformat_minor": 5, "metadata": {"half": "\ud83d"}, "cells": []})
    assert read_notebook(str(path))["metadata"]["half"] == "\ufffd"


def test_old_formats_are_upgraded(tmp_path: Path) -> None:
    cell = {
        "cell_type": "code",
        "collapsed": False,
        "input": ["print(1)"],
        "language": "python",
        "outputs": [],
        "prompt_number": 1,
    }
    old = {
        "nbformat": 3,
        "nbformat_minor": 0,
        "metadata": {"name": ""},
        "worksheets": [{"cells": [cell], "metadata": {}}],
    }
    path = tmp_path / "old.ipynb"
    path.write_text(json.dumps(old))
    notebook = load(str(path))
    (step,) = steps_of(notebook)
    assert "orig_nbformat" not in notebook["metadata"]  # JupyterLab would show a dialog
    assert (step.source, notebook["nbformat"], step.id) == ("print(1)", 4, load(str(path))["cells"][0]["id"])


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty"),
        (b"import os", "not valid JSON in line 1, column 1"),
        (b'{"cells": [', "ends in the middle"),
        (b"<!DOCTYPE html><p>", "is a web page"),
        (b'{"nbformat": 4,\n<<<<<<< ours\n', "merge conflict of git, the first in line 2"),
        (b"[1]", "JSON of another kind"),
        (b'{"nbformat": 5, "cells": []}', "format 5"),
        (b'{"nbformat": 4}', "damaged"),
        (b'{"nbformat": 4, "cells": [1]}', "damaged"),
        (b'{"nbformat": 4, "cells": [{"cell_type": "code"}]}', "damaged"),
        (b'{"nbformat": 2, "worksheets": 3}', "old notebook format"),
        (b"[" * 100_000, "nested too deeply"),
    ],
)
def test_an_invalid_notebook_is_refused(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "a.ipynb"
    path.write_bytes(content)
    with pytest.raises(InputError, match=words):
        read_notebook(str(path))


def test_an_unreadable_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="There is no notebook"):
        read_notebook(str(tmp_path / "a.ipynb"))
    with pytest.raises(InputError, match="is a folder, not a file"):
        read_notebook(str(tmp_path))


def test_which_cells_run(write: Write) -> None:
    path = write(
        "a.ipynb", MARKDOWN, "  \n", code(["#@title ## Train it {run: 'auto'}\n", "x = 1"]), code("", "raises-exception"),
        code("\n\nimport os\n", "raises-exception"), code("1/0", "skip-execution"), {**MARKDOWN, "cell_type": "raw"},
    )  # fmt: skip
    steps = steps_of(load(str(path)))
    assert [(step.cell, step.title, step.may_fail, step.skipped) for step in steps] == [
        (2, "Train it", False, False),
        (4, "import os", True, False),
        (5, "1/0", False, True),
    ]


def test_missing_or_duplicate_cell_ids_are_fixed(write: Write) -> None:
    notebook = load(str(write("a.ipynb", code("1", id="same"), code("2", id="same"), "3")))
    assert len({cell["id"] for cell in notebook["cells"]}) == 3
    assert (notebook["cells"][0]["id"], notebook["nbformat_minor"]) == ("same", 5)


def test_the_output_is_written_next_to_the_notebook_and_never_overwrites_another(write: Write) -> None:
    path = write("训练 模型.ipynb", "1")
    asked, notebook = RunRequest(str(path)), load(str(path))
    (path.parent / "训练 模型-run-2.ipynb").symlink_to("nowhere")
    made = [choose_output(asked, notebook) for _ in range(2)]
    assert [(os.path.basename(folder.path), folder.is_new) for folder in made] == [
        ("训练 模型-run.ipynb", True),
        ("训练 模型-run-3.ipynb", True),
    ]
    assert read_notebook(made[0].path) == read_notebook(made[1].path)


def test_a_given_output_file(write: Write, tmp_path: Path) -> None:
    path = write("a.ipynb", "1")
    notebook = load(str(path))

    def choose(output: Path, **more: Any) -> Output:
        return choose_output(RunRequest(str(path), output=str(output), **more), notebook)

    other = tmp_path / "b.ipynb"
    assert choose(other) == Output(str(other), is_new=True)
    with pytest.raises(UsageError, match="exists already"):
        choose(other)
    before = other.read_text()
    assert choose(other, force=True) == Output(str(other), is_new=False)
    assert other.read_text() == before
    link = tmp_path / "link.ipynb"
    link.symlink_to(path)
    for same in (path, link):
        with pytest.raises(UsageError, match="the notebook itself") as raised:
            choose(same, force=True)
        assert "--inplace" in raised.value.hint
    with pytest.raises(UsageError, match="is a folder"):
        choose(tmp_path)
    with pytest.raises(InputError, match=r"The folder .* does not exist"):
        choose(tmp_path / "not" / "there.ipynb")
    with pytest.raises(InputError, match="Cannot write"):
        choose(other / "below.ipynb")


def test_earlier_outputs_are_cleared_and_everything_else_stays(write: Write) -> None:
    cell = code("1")
    cell["metadata"] = {"execution": {"iopub.status.busy": "…"}, "mine": 1}
    path = write("a.ipynb", cell, MARKDOWN, unknown={"a": [1]})
    notebook = load(str(path))
    clear(notebook)
    assert (notebook["cells"][0]["outputs"], notebook["cells"][0]["execution_count"]) == ([], None)
    assert (notebook["cells"][0]["metadata"], notebook["metadata"]) == ({"mine": 1}, {"unknown": {"a": [1]}})


def test_folders_for_uploads_and_outputs(tmp_path: Path) -> None:
    folders = check_folders(RunRequest("a", uploads=str(tmp_path), outputs=str(tmp_path / "new" / "one")))
    assert folders == {"OWNLAB_UPLOADS": str(tmp_path), "OWNLAB_OUTPUTS": str(tmp_path / "new" / "one")}
    assert (tmp_path / "new" / "one").is_dir()
    with pytest.raises(InputError, match=r"The folder of uploads, .*nowhere, does not exist"):
        check_folders(RunRequest("a", uploads=str(tmp_path / "nowhere")))
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="Cannot create the folder"):
        check_folders(RunRequest("a", outputs=str(tmp_path / "file" / "below")))


@pytest.mark.parametrize(
    ("metadata", "given", "type_name", "notice"),
    [
        ({}, None, "ownlab-cpu", ""),
        ({"kernelspec": {"name": "python3", "language": "python"}}, None, "ownlab-cpu", ""),
        (
            {"kernelspec": {"name": "ownlab-1-nvidia-geforce-gtx-1080-ti"}},
            None,
            "ownlab-1-nvidia-geforce-gtx-1080-ti",
            "",
        ),
        ({"kernelspec": {"name": "tf2", "language": "python"}}, None, "ownlab-cpu", "names the kernel tf2"),
        (
            {"accelerator": "GPU", "colab": {"gpuType": "T4"}},
            None,
            "ownlab-1-nvidia-geforce-gtx-1080-ti",
            "made for a T4 GPU: it runs on 1 × NVIDIA GeForce GTX 1080 Ti",
        ),
        ({"accelerator": "TPU"}, None, "ownlab-cpu", "this machine has no TPU. It runs on the CPU."),
        ({"accelerator": "GPU", "ownlab": {"accelerator": False}}, None, "ownlab-cpu", ""),
        ({"accelerator": "GPU"}, "half-nvidia-geforce-gtx-1080-ti", "ownlab-half-nvidia-geforce-gtx-1080-ti", ""),
        ({"kernelspec": {"name": "ir", "language": "R"}}, "ownlab-cpu", "ownlab-cpu", ""),
        ({"kernelspec": 3, "language_info": []}, None, "ownlab-cpu", ""),
    ],
)
def test_the_choice_of_the_runtime_type(
    lab: Any, metadata: dict[str, Any], given: str | None, type_name: str, notice: str
) -> None:
    kind = choose_type("a.ipynb", {"metadata": metadata}, given, lab.environ)
    assert kind.type.name == type_name
    assert notice in kind.notice
    assert bool(notice) == bool(kind.notice)


def test_an_environment_may_be_given_instead_of_a_type(lab: Any, tmp_path: Path) -> None:
    python = tmp_path / "environment" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.symlink_to(sys.executable)
    listed = {"environments": [{"name": "colab", "python": str(python)}]}
    (state_folder(lab.environ) / "environments.json").write_text(json.dumps(listed))
    refresh_specs(lab.environ)
    assert choose_type("a.ipynb", {}, "colab", lab.environ).type.name == "ownlab-colab-cpu"
    made = {"metadata": {"accelerator": "GPU", "colab": {"gpuType": "T4"}}}
    name = choose_type("a.ipynb", made, "colab", lab.environ).type.name
    assert name == "ownlab-colab-1-nvidia-geforce-gtx-1080-ti"
    with pytest.raises(UsageError, match="Unknown runtime type kolab"):
        choose_type("a.ipynb", {}, "kolab", lab.environ)


def test_a_card_in_use_is_not_waited_for(lab: Any, row: Callable[..., Any]) -> None:
    devices = read_devices(lab.environ)
    with Store.open(lab.folder / "store") as store:
        lock = store.hold("theirs")
        try:
            want = CardRequest(devices[0].name, len(devices))
            store.enqueue(row("theirs", want=want, state="waiting", started_at=None))
            store.acquire("theirs", devices)
            made = {"metadata": {"accelerator": "GPU", "colab": {"gpuType": "A100"}}}
            kind = choose_type("a.ipynb", made, None, lab.environ)
        finally:
            os.close(lock)
    assert kind.type.name == lab.cpu
    assert "made for an A100 GPU. It would have to wait for 1 × NVIDIA GeForce GTX 1080 Ti: card 0" in kind.notice
    assert kind.notice.endswith("It runs on the CPU. To wait for a card: -t 1-nvidia-geforce-gtx-1080-ti.")


def test_notebooks_that_cannot_run_here_are_refused(lab: Any) -> None:
    for metadata in ({"kernelspec": {"name": "ir", "language": "R"}}, {"language_info": {"name": "R"}}):
        with pytest.raises(InputError, match=r"a\.ipynb is written in R.*Only Python"):
            choose_type("a.ipynb", {"metadata": metadata}, None, lab.environ)
    with pytest.raises(UsageError, match="Did you mean ownlab-1-nvidia-geforce-gtx-1080-ti") as raised:
        choose_type("a.ipynb", {}, "1-nvidia-geforce-gtx-1080", lab.environ)
    assert "ownlab-cpu" in raised.value.hint


def test_missing_kernelspecs_are_written(lab: Any, tmp_path: Path) -> None:
    environ = {**lab.environ, "OWNLAB_KERNELS": str(tmp_path / "none" / "kernels")}
    assert choose_type("a.ipynb", {}, None, environ).type.name == "ownlab-cpu"


def test_a_refused_run_leaves_nothing_behind(lab: Any, write: Write) -> None:
    path = write("a.ipynb", 'steps = 3 #@param {type:"integer"}')
    before = path.read_bytes()
    for asked in (
        RunRequest(str(path), parameters={"steps": "many"}),
        RunRequest(str(path), parameters={"step": "3"}),
        RunRequest(str(path), type="nope"),
        RunRequest(str(path), uploads="/not/there"),
        RunRequest(str(path), inplace=True, output="b.ipynb"),
        RunRequest(str(path), from_failed=True, output="b.ipynb"),
    ):
        with pytest.raises((UsageError, InputError)):
            prepare_run(asked)
    assert os.listdir(path.parent) == ["a.ipynb"]
    assert path.read_bytes() == before
    assert lab.left() == {}


Cells = list[dict[str, Any]]


@pytest.fixture
def stopped() -> Callable[[], tuple[KeptRun, dict[str, Any], dict[str, Any]]]:
    """A run of a, b, c and d that failed in c: its record, the notebook, and the output."""

    def make() -> tuple[KeptRun, dict[str, Any], dict[str, Any]]:
        cells: Cells = [
            {**code(f'{name} = 1 #@param {{type:"integer"}}'), "id": name, "outputs": []} for name in "abcd"
        ]
        output = [{**cell, "outputs": ["shown"], "source": "as it was run"} for cell in cells[:2]] + cells[2:]
        return KeptRun("r", "i", "o", {"a": "5", "d": "6"}, ("a", "b"), "c"), {"cells": cells}, {"cells": output}

    return make


def test_resuming_runs_the_remaining_cells(stopped: Any) -> None:
    kept, source, output = stopped()
    source["cells"].insert(2, {**code("new"), "id": "new"})
    source["cells"][3]["source"] = "c = 3 #@param"
    assert resume_cells(kept, source, output, {"c": "4"}) == 2
    assert [(cell["id"], cell["source"].partition(" #")[0], cell["outputs"]) for cell in output["cells"]] == [
        ("a", "as it was run", ["shown"]),
        ("b", "as it was run", ["shown"]),
        ("new", "new", []),
        ("c", "c = 4", []),
        ("d", "d = 6", []),
    ]


def test_parameters_of_finished_cells_cannot_be_changed(stopped: Any) -> None:
    kept, source, output = stopped()
    with pytest.raises(UsageError, match="a is set in a cell that has already run"):
        resume_cells(kept, source, output, {"a": "2"})
    with pytest.raises(UsageError, match="no parameter e"):
        resume_cells(kept, source, output, {"e": "2"})


def test_resuming_works_if_the_failed_cell_was_deleted(stopped: Any) -> None:
    kept, source, output = stopped()
    del source["cells"][2]
    assert resume_cells(kept, source, output, {}) == 2
    assert [cell["id"] for cell in output["cells"]] == ["a", "b", "d"]

"""The syntax of Colab's cells, in a real kernel in Colab mode."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.guest.colab.cells import Cells, kernel


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cells]:
    changes = {"CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": ""}
    with kernel(tmp_path_factory.mktemp("notebook"), changes) as running:
        yield running


def test_every_way_to_detect_colab_works(cells: Cells) -> None:
    code = """
import os, sys
'google.colab' in sys.modules, 'google.colab' in str(get_ipython()), sorted(
    name + '=' + value for name, value in os.environ.items() if name.startswith('COLAB_'))
"""
    expected = [
        "COLAB_BACKEND_VERSION=next",
        "COLAB_GPU=0",
        "COLAB_JUPYTER_TRANSPORT=ipc",
        "COLAB_RELEASE_TAG=ownlab",
    ]
    assert "".join(cells.run(code).result.split()) == "".join(str((True, True, expected)).split())


def test_comments_and_blank_lines_may_precede_a_cell_magic(cells: Cells) -> None:
    assert cells.run("#@title Install\n\n  # more\n%%bash\necho $((1 + 1))").text == "2\n"
    assert cells.run("# quiet\n%%capture kept\nprint('kept')").text == ""
    assert cells.run("kept.stdout").result == "'kept\\n'"
    assert cells.run("%%capture kept\n#@title in it\n%%bash\necho inner").error == ""
    assert cells.run("kept.stdout").result == "'inner\\n'"


def test_text_that_only_looks_like_a_cell_magic_is_unchanged(cells: Cells) -> None:
    assert cells.run("# a comment\nx = '''\n%%bash\n'''\nx").result == "'\\n%%bash\\n'"
    assert "UsageError" in cells.run("%%bash").text


def test_a_cell_magic_with_arguments_needs_no_body(cells: Cells) -> None:
    assert cells.run("%%bash -c 'echo alone'").text == "alone\n"
    assert cells.run("#@title t\n%%bash -c 'echo alone'\n").text == "alone\n"


def test_files_folders_and_variables_are_those_of_commands_too(cells: Cells, tmp_path: Path) -> None:
    assert cells.run(f"%cd -q {tmp_path}\n%env WHO=them\n!echo $WHO; pwd").text.endswith(f"them\n{tmp_path}\n")
    cells.run("#@title a file\n%%writefile made.txt\n  as it is\n{this} $too\n")
    assert (tmp_path / "made.txt").read_text() == "  as it is\n{this} $too\n"
    assert cells.run("lines = !cat made.txt\nlines.n").result == "'  as it is\\n{this} $too'"
    assert cells.run("%%bash\ncat made.txt").text == "  as it is\n{this} $too\n"


def test_names_of_python_are_filled_into_commands(cells: Cells) -> None:
    """Also those that our own functions use, and those of a function."""
    assert cells.run("cmd = command = shell = 'mine'\n!echo {cmd} $command {shell}").text == "mine mine mine\n"
    assert cells.run("def say(cmd):\n    !echo {cmd}\n    x = !echo {cmd}\n    return x\nsay(5)").result == "['5']"


def test_magics_of_shell_raise_for_a_command_that_fails(cells: Cells) -> None:
    assert cells.run("%shell echo {1 + 1}").text == "2\n"
    assert cells.run("%shell false").error == "CalledProcessError: Command 'false' returned non-zero exit status 1."
    ran = cells.run("# comment\n%%shell\necho {not} $(echo filled)\nexit 3")
    assert ran.text == "{not} filled\n"
    assert ran.error.endswith("returned non-zero exit status 3.")
    ran = cells.run("%%shell --ignore-errors\nexit 4")
    assert (ran.text, ran.result, ran.error) == ("", "", "")
    assert cells.run("result = %shell echo kept\nresult.output, result.returncode").result == "('kept\\n', 0)"
    assert "--ignore-errors, not --what" in cells.run("%%shell --what\ntrue").text


def test_magics_with_missing_packages_explain_what_to_install(cells: Cells) -> None:
    assert "%pip install bigquery-magics" in cells.run("%%bigquery df\nSELECT 1").text
    assert "%pip install bigframes" in cells.run("%%bqsql\nSELECT 1").text
    assert "%pip install spanner-graph-notebook" in cells.run("%%spanner_graph\nGRAPH x").text
    assert "no effect" in cells.run("%tensorflow_version 2.x").text
    assert "TensorFlow 1 needs" in cells.run("%tensorflow_version 1.x").text


def test_an_installed_magic_replaces_the_explanation(cells: Cells, tmp_path: Path) -> None:
    (tmp_path / "bigquery_magics.py").write_text(
        "def load_ipython_extension(shell):\n"
        "    shell.register_magic_function(lambda line, cell: line + cell, 'cell', 'bigquery')\n"
    )
    cells.run(f"import sys; sys.path.insert(0, {str(tmp_path)!r})")
    assert cells.run("%%bigquery df\nSELECT 1\n").result == "'dfSELECT 1\\n'"


def test_scripts_find_google_colab_and_can_extend_the_path(cells: Cells) -> None:
    code = "import os\nos.environ['PYTHONPATH'] += ':/models'\n!python -c 'import google.colab as c; print(c.__name__)'"
    assert cells.run(code).text == "google.colab\n"
    assert (
        cells.run("!python -c 'import sys; print(sys.prefix)'").text.strip()
        == cells.run("import sys; print(sys.prefix)").text.strip()
    )


def test_the_reason_for_a_missing_content_folder_is_shown_once(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with kernel(tmp_path, {"OWNLAB_CONTENT": str(tmp_path / "file" / "content")}) as cells:
        assert cells.run("print(1)").text.startswith("/content is not available: ")
        assert cells.run("print(2)").text == "2\n"


def test_scripts_find_colab_next_to_an_existing_python_path(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("name = 'mine'")
    with kernel(tmp_path, {"PYTHONPATH": str(tmp_path)}) as cells:
        code = "!cd / && python -c 'import mine, google.colab as c; print(mine.name, c.__name__)'"
        assert cells.run(code).text == "mine google.colab\n"

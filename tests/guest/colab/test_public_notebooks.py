"""What public notebooks for Colab do, and a plain Jupyter kernel refuses."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.guest.colab.cells import Cells, kernel
from tests.guest.colab.users import BEGIN, User, make_user


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cells]:
    """A kernel whose notebook is in another folder than the one in which it works."""
    folder = tmp_path_factory.mktemp("lab")
    (folder / "helper.py").write_text("found = 'the script beside the notebook'\n")
    (folder / "os.py").write_text("raise ImportError('must never be imported')\n")
    notebook = str(folder / "training.ipynb")
    with kernel(tmp_path_factory.mktemp("content"), {"JPY_SESSION_NAME": notebook}) as started:
        yield started


def test_scripts_and_modules_beside_the_notebook(cells: Cells) -> None:
    assert cells.run("%run helper.py\nprint(found)").text == "the script beside the notebook\n"
    assert cells.run("%run helper\nprint(found)").text == "the script beside the notebook\n"
    assert cells.run("import helper; print(helper.found)").text == "the script beside the notebook\n"
    assert cells.run("%time 1\n%run helper.py\nprint(found)").text.endswith("the script beside the notebook\n")
    # One in the working folder comes first, and a missing one is an error as ever.
    cells.run("open('helper.py', 'w').write(\"found = 'the one here'\")")
    assert cells.run("%run helper.py\nprint(found)").text == "the one here\n"
    assert "not found" in (missing := cells.run("%run nowhere.py")).error + missing.text


def test_a_file_beside_the_notebook_is_named(cells: Cells) -> None:
    folder = cells.run("import sys; print(next(each for each in sys.path if '/lab' in each))").text.strip()
    (Path(folder) / "some data.csv").write_text("1\n")
    ran = cells.run("open('some data.csv')")
    assert "FileNotFoundError" in ran.error
    assert "some data.csv is in the notebook's folder. In Colab mode a notebook works in /content" in ran.text
    assert f"Use the path {folder}/some data.csv" in ran.text
    copy = ran.text.partition("copy it: ")[2].strip()
    assert cells.run(f"{copy}\nprint(open('some data.csv').read())").text == "1\n\n"
    # A file that is nowhere, or above the working folder, is an error as ever.
    assert cells.run("open('nowhere.csv')").text == ""
    assert cells.run("open('../training.ipynb')").text == ""


def test_callbacks_without_an_argument(cells: Cells) -> None:
    ran = cells.run(
        "calls = []\n"
        "def before(): calls.append('before')\n"
        "def after(result): calls.append(result.success)\n"
        "events = get_ipython().events\n"
        "events.register('pre_run_cell', before); events.register('pre_run_cell', before)\n"
        "events.register('post_run_cell', after)\n"
    )
    assert ran.error == ""
    ran = cells.run("events.unregister('pre_run_cell', before); events.unregister('post_run_cell', after)")
    assert (ran.text, ran.error) == ("", "")
    assert cells.run("print(calls)").text == "[True, 'before']\n"


def test_colabs_internal_ipython_module(cells: Cells) -> None:
    code = "from google.colab import _ipython as i; print(i.get_kernel() is get_ipython().kernel, i.get_kernelapp().kernel_class)"
    assert cells.run(code).text.startswith("True <class 'google.colab._kernel.ColabKernel'>")


def test_pip_install_user_installs_into_the_environment(cells: Cells, tmp_path: Path) -> None:
    if cells.run("import sys; print(sys.prefix != sys.base_prefix)").text != "True\n":
        pytest.skip("not a virtual environment")
    # A requirements file that contains nothing: pip refuses --user before it reads it.
    empty = tmp_path / "requirements.txt"
    empty.write_text("# nothing\n")
    for command in ("!pip", "!python -m pip", "%pip", "out = !pip"):
        ran = cells.run(f"{command} install --user -q --disable-pip-version-check -r {empty}\nprint(_exit_code)")
        assert "--user" not in ran.text, ran
        assert ran.text.strip().endswith("0"), ran
    assert cells.run("!echo install --user").text == "install --user\n"


def test_a_missing_program_is_explained(cells: Cells) -> None:
    assert (
        "uv is not installed here. Install it: %pip install uv"
        in cells.run("import os; path = os.environ['PATH']; os.environ['PATH'] = '/nowhere'\n!uv pip list").text
    )
    ran = cells.run("import subprocess; subprocess.run(['ffmpeg', '-version'])")
    assert "FileNotFoundError" in ran.error
    assert "ffmpeg is not installed here." in ran.text
    assert "%pip install" not in cells.run("!nonsense-program").text
    assert cells.run("os.environ['PATH'] = path\n!echo ok").text == "ok\n"


def test_plotly_sends_figures_and_not_its_library(cells: Cells) -> None:
    assert cells.run("import os; print(os.environ['PLOTLY_RENDERER'])").text == "plotly_mimetype+colab\n"


def test_apt_does_not_ask(cells: Cells, tmp_path: Path) -> None:
    question = "!apt-config dump APT::Get::Assume-Yes"
    if not os.path.exists("/usr/bin/apt-config"):
        pytest.skip("not Debian")
    assert '"true"' in cells.run(question).text
    with kernel(tmp_path, {"OWNLAB_COLAB": "0"}) as plain:
        assert '"true"' in plain.run(question).text  # nobody can answer
        assert '"true"' not in plain.run(question, answers=[]).text  # somebody can


@pytest.fixture(params=["root", "root with an overlay", "user"])
def owner(request: pytest.FixtureRequest) -> Iterator[tuple[User, dict[str, str]]]:
    name, _, overlay = request.param.partition(" ")
    with make_user(name) as user:
        programs = user.home / "programs"
        programs.mkdir()
        (programs / "nvidia-smi").write_text("#!/bin/sh\necho the card\n")
        (programs / "nvidia-smi").chmod(0o755)
        variables = {"PATH": f"{programs}:{os.environ['PATH']}"}
        yield user, variables | ({"OWNLAB_OVERLAY": str(user.home / "overlay")} if overlay else {})


def test_nvidia_smi_has_colabs_path(owner: tuple[User, dict[str, str]]) -> None:
    user, variables = owner
    before = sorted(os.listdir("/opt"))
    answer = user.run(
        BEGIN
        + "assert content.enter() == '', content.enter()\n"
        + "print(subprocess.check_output('/opt/bin/nvidia-smi', text=True).strip(), *sorted(os.listdir('/opt')), sep='|')",
        **variables,
    )
    assert answer.strip().split("|") == ["the card", *sorted({*before, "bin"})]
    assert sorted(os.listdir("/opt")) == before

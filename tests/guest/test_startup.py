"""Start-up scripts in real kernels: when they run, and how failures are reported."""

from __future__ import annotations

from pathlib import Path

from tests.guest.colab.cells import kernel

PLAIN = {"OWNLAB_COLAB": "0"}


def test_the_labs_shell_script_runs_before_the_kernel_and_others_before_the_first_cell(tmp_path: Path) -> None:
    script = tmp_path / "lab.sh"
    script.write_text('echo "lab in $PWD with $MINE" >> order\n')
    (tmp_path / "a.startup.sh").write_text("echo beside >> order\n")
    (tmp_path / "a.startup.py").write_text("print('to the log')\nopen('order', 'a').write('python\\n')\nx = 41\n")
    changes = {"OWNLAB_STARTUP_SCRIPT": str(script), "JPY_SESSION_NAME": str(tmp_path / "a.ipynb"), "MINE": "7"}
    with kernel(tmp_path, {**PLAIN, **changes}) as cells:
        first = f"lab in {tmp_path} with 7\n"
        assert (tmp_path / "order").read_text() == first
        ran = cells.run("x + 1")
        assert (ran.result, ran.text) == ("42", "")
        assert cells.run("x").result == "41"
    assert (tmp_path / "order").read_text() == first + "beside\npython\n"


def test_log_handlers_of_a_script_work_in_cells(tmp_path: Path) -> None:
    script = "import logging, sys\nlogging.basicConfig(format='%(message)s')\nlogging.warning('at the start')\nkept = sys.stdout\n"
    (tmp_path / "a.startup.py").write_text(script)
    with kernel(tmp_path, {**PLAIN, "JPY_SESSION_NAME": str(tmp_path / "a.ipynb")}) as cells:
        assert cells.run("logging.warning('in a cell')").text == "in a cell\n"
        assert cells.run("print('kept', file=kept)").text == "kept\n"
        ran = cells.run("sys.stdout, now = kept, sys.stdout\nprint('put back'); sys.stdout = now; print('after')")
        assert (ran.error, ran.text.endswith("after\n")) == ("", True)


def test_a_failure_is_reported_in_the_first_cell_and_ends_nothing(tmp_path: Path) -> None:
    (tmp_path / "lab.py").write_text("y = 1\nimport sys\nsys.exit('no way')\n")
    (tmp_path / "a.startup.sh").write_text("echo all is lost >&2\nexit 3\n")
    (tmp_path / "a.startup.py").write_text("z = 2\n1 / 0\n")
    changes = {
        "OWNLAB_STARTUP_SCRIPT": str(tmp_path / "lab.py"),
        "OWNLAB_NOTEBOOK": str(tmp_path / "a.ipynb"),  # of a run, whose output has another name
        "JPY_SESSION_NAME": str(tmp_path / "a-run.ipynb"),
    }
    with kernel(tmp_path, {**PLAIN, **changes}) as cells:
        ran = cells.run("print(y + z)")
        heads = [line.split(" The runtime's log")[0] for line in ran.text.splitlines()]
        assert heads[0].startswith("The start-up script a.startup.sh failed: exit code 3")
        assert heads[1:] == [
            "The start-up script lab.py failed: line 3: SystemExit: no way.",
            "The start-up script a.startup.py failed: line 2: ZeroDivisionError: division by zero.",
            "3",
        ]
        assert cells.run("print(y)").text == "1\n"


def test_a_missing_script(tmp_path: Path) -> None:
    for name in ("gone.sh", "gone.py"):
        with kernel(tmp_path, {**PLAIN, "OWNLAB_STARTUP_SCRIPT": str(tmp_path / name)}) as cells:
            assert f"The start-up script {name} failed: " in cells.run("pass").text

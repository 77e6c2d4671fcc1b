"""`ownlab run`: packages are recorded in the output and restored before a run, and failing start-up scripts are reported."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from tests.guest.wheels import make_wheel, pip_variables
from tests.lab.cli.test_run import runtimes, write
from tests.lab.runs.conftest import printed

if TYPE_CHECKING:
    from tests.command_line import World

USE = "import a_thing\nprint(a_thing.VERSION)"


def test_recorded_packages_are_restored_in_another_run(world: World, tmp_path: Path) -> None:
    wheels = tmp_path / "wheels"
    for version in ("1.0", "2.0"):
        make_wheel(wheels, version, "a_thing")
    path = write(world.folder, "a.ipynb", "%pip -q install a-thing==1.0", USE)
    ran = world.run("run", str(path), env=pip_variables(tmp_path / "first", wheels))
    assert ran.returncode == 0, ran.stderr
    output = world.folder / "a-run.ipynb"
    remembered = json.loads(output.read_text())["metadata"]["ownlab"]
    assert remembered == {"packages": {"pip": ["a-thing==1.0"]}}

    path = write(world.folder, "b.ipynb", USE)
    path.write_text(json.dumps({**json.loads(path.read_text()), "metadata": {"ownlab": remembered}}))
    variables = pip_variables(tmp_path / "second", wheels)
    assert world.run("run", str(path), env=variables).returncode == 1
    ran = world.run("run", str(path), "--restore-packages", env=variables)
    assert (ran.returncode, printed(world.folder / "b-run-2.ipynb")) == (0, ["1.0\n"]), ran.stderr
    lines = ran.stderr.splitlines()
    assert lines[0] == "Installing the recorded packages that are missing: a-thing==1.0"
    assert "Installed: a-thing==1.0" in lines
    ran = world.run("run", str(path), "--restore-packages", env=variables)
    assert ran.stderr.startswith("All packages that the notebook recorded are installed.\n")

    (wheels / "a_thing-1.0-py3-none-any.whl").unlink()
    ran = world.run("run", str(path), "--restore-packages", env=pip_variables(tmp_path / "third", wheels))
    assert (ran.returncode, runtimes(world)) == (3, [])
    assert "b.ipynb recorded: No matching distribution found for a-thing==1.0" in ran.stderr
    assert "Traceback" not in ran.stderr
    assert not (world.folder / "b-run-4.ipynb").exists()


def test_start_up_scripts_of_the_lab_and_of_the_notebook(world: World) -> None:
    (world.root / "lab.sh").write_text("echo not today >&2\nexit 4\n")
    (world.root / "config.toml").write_text(f'[startup]\nscript = "{world.root / "lab.sh"}"\n')
    (world.folder / "a.startup.py").write_text("x = 41\n")
    path = write(world.folder, "a.ipynb", "print(x + 1)")
    ran = world.run("run", str(path))
    assert ran.returncode == 0, ran.stderr
    assert "The start-up script lab.sh failed: exit code 4: not today" in ran.stderr.splitlines()
    (shown,) = printed(world.folder / "a-run.ipynb")
    assert "The start-up script lab.sh failed: exit code 4: not today." in shown
    assert shown.endswith("42\n")
    assert str(world.root / "lab.sh") in world.run("config").stdout

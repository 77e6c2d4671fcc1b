"""`ownlab down`: which lab it stops, and what remains."""

from __future__ import annotations

import json
import os
import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.command_line import World


def test_down_without_a_lab(world: World) -> None:
    ran = world.run("down")
    assert ran.returncode == 3
    assert "No lab is running." in ran.stderr
    ran = world.run("down", "work")
    assert f"The lab of {world.folder} is not running" in ran.stderr
    ran = world.run("down", "--all")
    assert (ran.returncode, ran.stdout) == (0, "No runtime is running.\n")


def test_of_several_labs_one_must_be_named(world: World) -> None:
    other = world.root / "other"
    other.mkdir()
    for folder in ("work", "other"):
        assert world.run("up", folder, "--detach").returncode == 0
    ran = world.run("down")
    assert ran.returncode == 2
    assert str(world.folder) in ran.stderr
    assert str(other) in ran.stderr
    assert world.run("down", "other").stdout == f"The lab of {other} has stopped.\n"
    lab = world.lab()
    assert lab["folder"] == str(world.folder)

    os.kill(lab["watchdog"], signal.SIGKILL)  # a server without its watchdog is stopped, too
    assert world.until(lambda: world.lab()["watchdog"] is None)
    assert world.run("up", "work").returncode == 0  # and joined
    assert json.loads(world.run("down", "--json").stdout)["folders"] == [str(world.folder)]
    assert world.until(lambda: world.processes() == [])

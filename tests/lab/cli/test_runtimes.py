"""`ownlab runtimes`: list, stop, extend, usage, against real runtimes on four recorded cards."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsonschema
import pytest

if TYPE_CHECKING:
    from tests.command_line import World

SCHEMAS = Path(__file__).resolve().parents[3] / "docs" / "schemas"
HALF = "ownlab-half-nvidia-geforce-gtx-1080-ti"


def start(world: World, notebook: str, kind: str) -> str:
    """Start a session as a page does. Return the id of its runtime."""
    body = {"path": notebook, "type": "notebook", "name": notebook, "kernel": {"name": kind}}
    runtime = world.ask("POST", "api/sessions", world.lab(), body)["kernel"]["id"]
    assert isinstance(runtime, str)
    return runtime


def listed(world: World) -> dict[str, Any]:
    document = json.loads(world.run("runtimes", "--json").stdout)
    jsonschema.validate(document, json.loads((SCHEMAS / "runtimes.json").read_text()))
    return {runtime["id"]: runtime for runtime in document["runtimes"]}


def test_without_runtimes_advice_is_shown(world: World) -> None:
    shown = world.run("runtimes").stdout
    assert shown.startswith("No runtime is running. Start a lab and open a notebook: ownlab up\n")
    assert "card 3  NVIDIA GeForce GTX 1080 Ti" in shown
    assert world.run("runtimes", "usage").stdout == "Nothing ran here in the last 4 weeks.\n"
    assert json.loads(world.run("runtimes", "--json", "usage", "--weeks", "2").stdout) == {"weeks": 2, "lines": []}


def test_runtimes_are_listed_and_stopped(running_lab: World) -> None:
    train, notes = start(running_lab, "deep/train.ipynb", HALF), start(running_lab, "notes.ipynb", "ownlab-cpu")
    rows = running_lab.until(lambda: (both := listed(running_lab)).keys() >= {train, notes} and both)
    assert (rows[train]["notebook"], rows[train]["cards"][0]["parts"]) == (f"{running_lab.folder}/deep/train.ipynb", 6)
    assert rows[notes]["cards"] == []
    assert rows[notes]["lab"] == str(running_lab.folder)
    shown = running_lab.run("runtimes").stdout
    assert f"  {train[:8]} · {rows[train]['person']} · Python 3 (½ × NVIDIA GeForce GTX 1080 Ti) · ½ of card" in shown
    assert f"½ used by {rows[train]['person']} (deep/train.ipynb)" in shown

    ran = running_lab.run("runtimes", "stop", "train")
    assert ran.stdout == f"deep/train.ipynb ({train[:8]}) has stopped.\n"
    document = json.loads(running_lab.run("runtimes", "stop", notes[:8], "--now", "--json").stdout)
    assert document == {
        "runtime": notes,
        "notebook": f"{running_lab.folder}/notes.ipynb",
        "told": "stop",
        "ends_at": None,
    }
    jsonschema.validate(document, json.loads((SCHEMAS / "runtimes-told.json").read_text()))
    assert listed(running_lab) == {}
    assert running_lab.until(lambda: running_lab.ask("GET", "api/kernels", running_lab.lab()) == [])
    usage = json.loads(running_lab.run("runtimes", "usage", "--json").stdout)
    jsonschema.validate(usage, json.loads((SCHEMAS / "runtimes-usage.json").read_text()))


@pytest.mark.parametrize("verb", ["stop", "extend"])
def test_an_unknown_runtime_is_refused(world: World, verb: str) -> None:
    ran = world.run("runtimes", verb, "none.ipynb")
    assert ran.returncode == 3
    assert "There is no runtime none.ipynb" in ran.stderr


def test_a_runtime_near_its_limit_shows_a_warning_and_is_extended(world: World) -> None:
    (world.root / "config.toml").write_text("[limits]\nsession_hours = 0.1\nwarn_minutes = 10\nextend_minutes = 60\n")
    assert world.run("up", "work", "--detach").returncode == 0
    runtime = start(world, "work.ipynb", "ownlab-cpu")
    shown = world.until(lambda: "ends in" in (text := world.run("runtimes").stdout) and text)
    assert f"ownlab runtimes extend {runtime[:8]}" in shown
    ran = world.run("runtimes", "extend", "work.ipynb")
    assert ran.returncode == 0, ran.stderr
    assert f"work.ipynb ({runtime[:8]}) has 1 h " in ran.stdout
    assert world.until(lambda: "ends in" not in world.run("runtimes").stdout)
    assert world.run("down", "--all").returncode == 0
    assert world.until(lambda: world.processes() == [])

"""`ownlab status`: the running labs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import jsonschema

if TYPE_CHECKING:
    from tests.command_line import World

SCHEMAS = Path(__file__).resolve().parents[3] / "docs" / "schemas"


def test_a_running_lab_is_shown_with_its_address(running_lab: World) -> None:
    document = json.loads(running_lab.run("status", "--json").stdout)
    jsonschema.validate(document, json.loads((SCHEMAS / "status.json").read_text()))
    (lab,) = document["labs"]
    assert lab["folder"] == str(running_lab.folder)
    assert lab["url"] == f"http://127.0.0.1:{lab['port']}/"
    assert lab["address"] == f"{lab['url']}lab?token={lab['token']}"
    assert Path(f"/proc/{lab['pid']}").exists()
    assert Path(f"/proc/{lab['watchdog']}").exists()
    shown = running_lab.run("status").stdout
    assert lab["address"] in shown
    assert shown.startswith(f"{running_lab.folder}\n")


def test_a_lab_can_be_selected_by_its_folder(running_lab: World) -> None:
    assert json.loads(running_lab.run("status", "work", "--json").stdout)["labs"][0]["folder"] == str(
        running_lab.folder
    )
    ran = running_lab.run("status", str(running_lab.root))
    assert ran.returncode == 3
    assert f"The lab of {running_lab.root} is not running" in ran.stderr


def test_without_labs_advice_is_shown(world: World) -> None:
    ran = world.run("status")
    assert (ran.returncode, ran.stdout) == (0, "No lab is running. Start one: ownlab up\n")
    assert json.loads(world.run("status", "--json").stdout) == {"labs": [], "notices": []}

"""`ownlab status`: the running labs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import jsonschema

if TYPE_CHECKING:
    from tests.command_line import World

SCHEMAS = Path(__file__).resolve().parents[3] / "docs" / "schemas"


def test_a_running_lab_is_shown_with_its_address(standing: World) -> None:
    document = json.loads(standing.run("status", "--json").stdout)
    jsonschema.validate(document, json.loads((SCHEMAS / "status.json").read_text()))
    (lab,) = document["labs"]
    assert lab["folder"] == str(standing.folder)
    assert lab["url"] == f"http://127.0.0.1:{lab['port']}/"
    assert lab["address"] == f"{lab['url']}lab?token={lab['token']}"
    assert Path(f"/proc/{lab['pid']}").exists()
    assert Path(f"/proc/{lab['watchdog']}").exists()
    shown = standing.run("status").stdout
    assert lab["address"] in shown
    assert shown.startswith(f"{standing.folder}\n")


def test_a_lab_can_be_selected_by_its_folder(standing: World) -> None:
    assert json.loads(standing.run("status", "work", "--json").stdout)["labs"][0]["folder"] == str(standing.folder)
    ran = standing.run("status", str(standing.root))
    assert ran.returncode == 3
    assert f"The lab of {standing.root} is not running" in ran.stderr


def test_without_labs_advice_is_shown(world: World) -> None:
    ran = world.run("status")
    assert (ran.returncode, ran.stdout) == (0, "No lab is running. Start one: ownlab up\n")
    assert json.loads(world.run("status", "--json").stdout) == {"labs": []}

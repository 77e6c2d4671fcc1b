"""`ownlab config` as a process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

Valid = Callable[[str, str], Any]


def test_every_setting_is_shown_with_its_origin(world: Any) -> None:
    (world.root / "config.toml").write_text('[limits]\npreset = "colab"\n[units]\n"NVIDIA H200" = 4\n')
    ran = world.run("config", env={"OWNLAB_LAB_PORT": "8888"})
    assert ran.returncode == 0, ran.stderr
    lines = [line.split(None, 2) for line in ran.stdout.splitlines() if line]
    assert ["lab.port", "8888", "OWNLAB_LAB_PORT"] in lines
    assert ["limits.idle_minutes", "90", 'preset "colab"'] in lines
    assert ["limits.preset", "colab", str(world.root / "config.toml")] in lines
    assert ["lab.browser", "true", "default"] in lines
    assert ["used", str(world.root / "config.toml")] in lines


def test_json_output(world: Any, valid: Valid) -> None:
    document = valid(world.run("config", "--json").stdout, "config")
    assert {setting["name"] for setting in document["settings"]} >= {"lab.port", "units.default"}
    assert document["files"] == [{"path": str(world.root / "config.toml"), "state": "not there"}]


def test_init_writes_a_file_once(world: Any) -> None:
    ran = world.run("config", "--init")
    assert (ran.returncode, ran.stdout.startswith("Wrote ")) == (0, True)
    written = Path(world.root / "config.toml").read_text()
    again = world.run("config", "--init")
    assert again.returncode == 3
    assert "exists already" in again.stderr
    assert (world.root / "config.toml").read_text() == written
    assert world.run("config").returncode == 0


def test_a_misspelt_key_suggests_the_nearest_name(world: Any) -> None:
    (world.root / "config.toml").write_text("[limits]\nidle_minuts = 5\n")
    for command in ("config", "types"):
        ran = world.run(command)
        assert ran.returncode == 3
        assert "unknown setting limits.idle_minuts. Did you mean limits.idle_minutes?" in ran.stderr
        assert "Traceback" not in ran.stderr


def test_a_truncated_file_is_reported_as_json(world: Any, valid: Valid) -> None:
    (world.root / "config.toml").write_text("[limits\n")
    ran = world.run("config", "--json")
    assert ran.returncode == 3
    assert "at line 1" in valid(ran.stdout, "error")["error"]["message"]

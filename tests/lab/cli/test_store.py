"""`ownlab store` as a process."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Valid = Callable[[str, str], Any]


def test_location_and_origin_are_shown(world: Any) -> None:
    ran = world.run("store")
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.startswith(f"{world.root / 'store'}  private\n")
    assert "named by OWNLAB_STORE" in ran.stdout
    assert "not created yet" in ran.stdout
    assert not (world.root / "store").exists(), "looking changes nothing"


def test_a_shared_store_with_limits(world: Any, valid: Valid) -> None:
    folder = world.root / "shared"
    made = valid(
        world.run("store", "init", "--shared", "--folder", str(folder), "--limits", "kaggle", "--json").stdout, "store"
    )
    assert made["limits"] == {"session": 43200, "card_seconds_per_week": 108000}
    ran = world.run("store", env={"OWNLAB_STORE": str(folder)})
    assert "shared" in ran.stdout.splitlines()[0]
    assert "maximum session time: 12 h" in ran.stdout
    assert "the stricter limits apply" in world.run("config", env={"OWNLAB_STORE": str(folder)}).stdout


def test_a_shared_store_without_limits(world: Any, valid: Valid) -> None:
    ran = world.run("store", "init", "--shared", "--folder", "shared", "--json")
    document = valid(ran.stdout, "store")
    assert (document["limits"], document["shared"]) == (None, True)
    assert document["folder"] == str(Path(world.root) / "shared")


def test_a_private_store_needs_no_init(world: Any) -> None:
    ran = world.run("store", "init")
    assert ran.returncode == 2
    assert "--shared" in ran.stderr


def test_an_unknown_group_is_refused(world: Any) -> None:
    ran = world.run("store", "init", "--shared", "--folder", "shared", "--group", "no-such-group")
    assert ran.returncode == 2
    assert "no-such-group" in ran.stderr


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another real user")
def test_without_root_the_full_sudo_command_is_shown(world: Any) -> None:
    (world.root / "administrators own").mkdir()
    folder = str(world.root / "administrators own" / "store")
    ran = world.run_without_rights("store", "init", "--shared", "--folder", folder, "--limits", "colab")
    assert ran.returncode == 3
    assert "administrator" in ran.stderr
    program = os.path.join(os.path.dirname(sys.executable), "ownlab")
    assert f"sudo {program} store init --shared --folder '{folder}' --limits colab\n" in ran.stderr
    assert not os.path.exists(folder)

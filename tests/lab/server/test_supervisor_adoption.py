"""Which runtimes a server takes for its own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ownlab.atomic_files import replace_file
from ownlab.lab.runtimes.launch_plan import Plan
from ownlab.lab.server.adoption import find_adoptable, remove_dead
from ownlab.lab.store.store import Store

LAB = "0123456789ab"


def leave(home: Path, runtime: str, host: str) -> Path:
    """What a runtime that nobody hears leaves in a home: dead, or alive on another host."""
    folder = home / "runtimes" / runtime
    folder.mkdir(parents=True, mode=0o700)
    plan = Plan(runtime, str(folder), str(folder), str(home / "store"), "ownlab-cpu", "CPU", [], "/", {}, lab=LAB)
    replace_file(str(folder / "plan.json"), plan._replace(host=host).to_json())
    return folder


def test_what_runs_on_another_host_is_neither_adopted_nor_buried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OWNLAB_HOME", str(tmp_path))
    here, there = leave(tmp_path, "here", os.uname().nodename), leave(tmp_path, "there", "elsewhere")
    Store.open(tmp_path / "store").close()
    living, dead = find_adoptable(LAB, str(tmp_path))
    assert (living, [plan.runtime for plan in dead]) == ([], ["here"])
    remove_dead(dead)
    assert not here.exists()
    assert there.exists()

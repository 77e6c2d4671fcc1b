"""A lab whose store is damaged: its owner keeps the address, CPU notebooks work, and everything can be ended."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tests.command_line import World


def garbage(store: Path) -> None:
    for path in (store / "db").iterdir():
        path.write_bytes(os.urandom(9000))


def pipe_as_database(store: Path) -> None:
    shutil.rmtree(store / "db")
    (store / "db").mkdir()
    os.mkfifo(store / "db" / "ownlab.db")


def pipe_as_store(store: Path) -> None:
    shutil.rmtree(store)
    os.mkfifo(store)


DAMAGES: dict[str, Callable[[Path], object]] = {
    "garbage": garbage,
    "a pipe": pipe_as_database,
    "a pipe as the store": pipe_as_store,
    "removed": shutil.rmtree,
}


def start_kernel(world: World, lab: dict[str, Any], notebook: str) -> str:
    wanted = {"path": notebook, "name": notebook, "type": "notebook", "kernel": {"name": "python3"}}
    made = world.ask("POST", "api/sessions", lab, wanted)
    assert isinstance(made, dict), made
    return str(made["kernel"]["id"])


@pytest.mark.timeout(600)
@pytest.mark.parametrize("damage", sorted(DAMAGES))
def test_a_lab_is_usable_without_its_store(world: World, damage: str) -> None:
    assert world.run("up", "work", "--detach").returncode == 0
    lab = world.lab()
    first = start_kernel(world, lab, "first.ipynb")
    DAMAGES[damage](world.root / "store")

    ran = world.run("status")
    assert ran.returncode == 0, ran.stderr
    assert lab["address"] in ran.stdout
    assert "Traceback" not in ran.stderr
    state = json.loads(world.run("status", "--json").stdout)
    assert state["labs"][0]["runtimes"] == 1
    if damage != "removed":
        assert "store" in state["notices"][0]
        assert str(world.root / "store") in ran.stdout.replace("\n", "").replace(" ", "")
    joined = world.run("up", "work")
    assert joined.returncode == 0, joined.stderr
    assert lab["address"] in joined.stdout

    second = start_kernel(world, lab, "second.ipynb")
    assert second != first

    def shown() -> bool:  # a snapshot may be a second old
        snapshot = world.ask("GET", "ownlab/api/snapshot", lab)
        return {runtime["id"] for runtime in snapshot["runtimes"]} == {first, second}

    assert world.until(shown)
    listed = world.run("runtimes", "--json")
    assert listed.returncode == 0, listed.stderr
    assert {runtime["id"] for runtime in json.loads(listed.stdout)["runtimes"]} == {first, second}
    stopped = world.run("runtimes", "stop", "--now", second)
    assert stopped.returncode == 0, stopped.stderr

    down = world.run("down", "work")
    assert down.returncode == 0, down.stderr
    again = world.run("up", "work", "--detach")
    assert again.returncode == 0, again.stderr
    assert world.lab()["address"] == lab["address"]
    ended = world.run("down", "--all")
    assert ended.returncode == 0, ended.stderr
    assert world.until(lambda: world.processes() == [])


@pytest.mark.timeout(600)
def test_a_repaired_store_has_the_running_runtimes_again(world: World) -> None:
    assert world.run("up", "work", "--detach").returncode == 0
    lab = world.lab()
    runtime = start_kernel(world, lab, "first.ipynb")
    shutil.copy("/etc/passwd", world.root / "store" / "db" / "ownlab.db")
    shown = world.run("store")
    assert shown.returncode == 0, shown.stderr
    assert "ownlab store repair" in shown.stdout.replace("\n", " ")
    repaired = world.run("store", "repair")
    assert repaired.returncode == 0, repaired.stderr
    assert "has a new database" in repaired.stdout
    assert "is in order" in world.run("store", "repair").stdout
    assert json.loads(world.run("store", "repair", "--json").stdout)["old"] is None

    def in_new_database() -> bool:
        from ownlab.lab.store.store import Store

        with Store.open(world.root / "store") as store:
            return bool(store.has(runtime))

    world.until(in_new_database)
    assert json.loads(world.run("status", "--json").stdout)["notices"] == []


@pytest.mark.timeout(600)
@pytest.mark.parametrize("damage", [None, "garbage"])
def test_down_all_ends_what_a_run_has_kept(world: World, damage: str | None) -> None:
    notebook = {
        "cells": [{"cell_type": "code", "id": "a", "source": "1/0", "metadata": {}, "outputs": [], "execution_count": None}],
        "metadata": {}, "nbformat": 4, "nbformat_minor": 5,
    }  # fmt: skip
    (world.folder / "fails.ipynb").write_text(json.dumps(notebook))
    assert world.run("run", "--keep", "-t", "cpu", "work/fails.ipynb").returncode == 1
    assert world.processes() != []
    if damage:
        DAMAGES[damage](world.root / "store")
    ran = world.run("down", "--all", "--json")
    assert ran.returncode == 0, ran.stderr
    assert len(json.loads(ran.stdout)["ended"]) == 1
    assert world.until(lambda: world.processes() == [])


@pytest.mark.timeout(600)
def test_down_all_of_a_folder_ends_only_what_is_in_it(world: World) -> None:
    cell: dict[str, Any] = {
        "cell_type": "code",
        "id": "a",
        "source": "1/0",
        "metadata": {},
        "outputs": [],
        "execution_count": None,
    }
    (world.root / "other").mkdir()
    for folder in ("work", "other"):
        notebook = {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
        (world.root / folder / "fails.ipynb").write_text(json.dumps(notebook))
        assert world.run("run", "--keep", "-t", "cpu", f"{folder}/fails.ipynb").returncode == 1
    ended = json.loads(world.run("down", "--all", "work", "--json").stdout)["ended"]
    assert [os.path.dirname(runtime["notebook"]) for runtime in ended] == [str(world.folder)]
    assert world.processes() != []


@pytest.mark.timeout(600)
def test_a_server_that_was_killed_or_hangs_is_shown_as_such(world: World) -> None:
    assert world.run("up", "work", "--detach").returncode == 0
    lab = world.lab()
    assert lab["state"] == "ready"
    os.kill(lab["pid"], signal.SIGSTOP)
    hanging = world.lab()
    assert (hanging["state"], hanging["pid"]) == ("not answering", lab["pid"])
    assert "does not answer" in world.run("status").stdout
    os.kill(lab["watchdog"], signal.SIGSTOP)  # so that the moment before the restart lasts
    os.kill(lab["pid"], signal.SIGKILL)
    dead = world.until(lambda: (found := world.lab())["state"] == "restarting" and found)
    assert dead["pid"] is None
    assert dead["address"] == lab["address"]
    shown = world.run("status", "work").stdout
    assert "is being restarted" in shown
    assert str(lab["pid"]) not in shown.split("log")[0]
    os.kill(lab["watchdog"], signal.SIGCONT)
    restarted = world.until(lambda: (found := world.lab())["state"] == "ready" and found)
    assert restarted["pid"] not in (None, lab["pid"])

"""`ownlab up` with real labs and real signals."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import stat
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import jsonschema
import pytest

from ownlab.lab.service.browser import JOIN_SECONDS

if TYPE_CHECKING:
    from tests.command_line import World

SCHEMAS = Path(__file__).resolve().parents[3] / "docs" / "schemas"


# --- a lab that stands ------------------------------------------------------------------------------------------------


def test_a_lab_requires_its_token(running_lab: World) -> None:
    lab = running_lab.lab()
    assert running_lab.ask("GET", "api/status", lab)["kernels"] == 0
    assert running_lab.ask("GET", "api/status", lab, token=False) in (401, 403)
    assert running_lab.ask("GET", "api/kernels", {**lab, "token": "x" * 48}) in (401, 403)
    names = running_lab.ask("GET", "api/kernelspecs", lab)["kernelspecs"]
    assert {"python3", "ownlab-1-nvidia-geforce-gtx-1080-ti"} <= set(names)


def test_the_token_is_only_in_private_files(running_lab: World) -> None:
    lab = running_lab.lab()
    for pid in (lab["pid"], lab["watchdog"]):
        assert lab["token"] not in Path(f"/proc/{pid}/cmdline").read_text()
    assert lab["token"] not in Path(lab["log"]).read_text()
    files = [path for path in (running_lab.root / "home").rglob("*") if path.is_file()]
    holding = [path for path in files if lab["token"].encode() in path.read_bytes()]
    assert [path.name for path in holding] == [Path(lab["log"]).with_suffix(".json").name]
    assert {stat.S_IMODE(path.stat().st_mode) for path in files if path.parent.name == "labs"} == {0o600}


def test_a_second_up_joins_the_running_lab(running_lab: World) -> None:
    lab = running_lab.lab()
    ran = running_lab.run("up", str(running_lab.folder), "--port", str(lab["port"] ^ 1))
    assert ran.returncode == 0
    assert f"Your lab is running: {lab['address']}\n" in ran.stdout
    assert "served already" in ran.stderr
    assert f"stays on port {lab['port']}" in ran.stderr
    document = json.loads(running_lab.run("up", "work", "--json").stdout)
    assert document == {**lab, "runtimes": document["runtimes"]}
    jsonschema.validate(document, json.loads((SCHEMAS / "up.json").read_text()))


def test_types_store_and_configuration_are_shown(running_lab: World) -> None:
    shown = running_lab.run("up", "work").stdout
    assert "Python 3 (CPU), Python 3 (1 × NVIDIA GeForce GTX 1080 Ti)" in shown
    assert f"{running_lab.root / 'store'} (private)" in shown
    assert f"OWNLAB_CONFIG names {running_lab.root / 'config.toml'}, which does not exist" in shown
    assert "limits" not in shown
    assert "export" not in shown
    output = running_lab.run("up", "work", env={"JUPYTER_PATH": ""}).stdout
    assert (
        f"papermill and VS Code, run first:\n            export JUPYTER_PATH={running_lab.root}/share/jupyter\n"
        in output
    )
    assert "ssh" not in shown


def test_limits_are_shown(running_lab: World) -> None:
    shown = running_lab.run("up", "work", "--limits", "colab").stdout
    assert "\n  limits    colab: 1 h 30 min idle, 12 h per session\n" in shown
    shown = running_lab.run("up", "work", env={"OWNLAB_LIMITS_SESSION_HOURS": "2"}).stdout
    assert "\n  limits    2 h per session\n" in shown


def test_a_browser_that_never_connects_does_not_block(running_lab: World) -> None:
    ran = running_lab.run("up", "work", env={"BROWSER": "/bin/true"})
    assert (ran.returncode, "Your lab is running" in ran.stdout) == (0, True)
    assert JOIN_SECONDS <= 5


def test_over_ssh_it_prints_the_tunnel(running_lab: World) -> None:
    port = running_lab.lab()["port"]
    ssh = {"USER": "ann", "LOGNAME": "ann"}
    shown = running_lab.run("up", "work", env={**ssh, "SSH_CONNECTION": "10.0.0.9 50022 10.0.0.5 22"}).stdout
    assert f"    ssh -N -L {port}:127.0.0.1:{port} ann@10.0.0.5\n" in shown
    shown = running_lab.run("up", "work", env={**ssh, "SSH_CONNECTION": "10.0.0.9 50022 10.0.0.5 2200"}).stdout
    assert f"    ssh -N -L {port}:127.0.0.1:{port} -p 2200 ann@10.0.0.5\n" in shown


def test_the_browser_opens_the_lab_without_the_token_on_its_command_line(running_lab: World) -> None:
    lab, seen = running_lab.lab(), running_lab.root / "seen"
    browser = running_lab.root / "browser"
    fetch = "import sys, urllib.request as u; print(u.urlopen(sys.argv[1]).geturl(), sys.argv)"
    browser.write_text(f'#!/bin/sh\n{sys.executable} -c "{fetch}" "$1" > {seen}.new && mv {seen}.new {seen}\n')
    browser.chmod(0o755)
    assert running_lab.run("up", "work", env={"BROWSER": str(browser)}).returncode == 0
    came_to, arguments = running_lab.until(lambda: seen.exists() and seen.read_text()).split(" ", 1)
    assert came_to.startswith(lab["url"])
    assert lab["token"] not in arguments
    seen.unlink()
    for way in ("--no-browser", "--json"):
        running_lab.run("up", "work", way, env={"BROWSER": str(browser)})
        assert not seen.exists()


def test_a_killed_server_is_restarted_on_the_same_address(running_lab: World) -> None:
    before = running_lab.lab()
    os.kill(before["pid"], signal.SIGKILL)

    def after() -> dict[str, object] | None:
        labs = json.loads(running_lab.run("status", "--json").stdout)["labs"]
        return labs[0] if labs and labs[0]["state"] == "ready" and labs[0]["pid"] != before["pid"] else None

    lab = running_lab.until(after)
    assert (lab["address"], lab["watchdog"]) == (before["address"], before["watchdog"])
    assert running_lab.ask("GET", "api/status", lab)["kernels"] == 0
    assert "was killed (SIGKILL). It is restarted" in Path(lab["log"]).read_text()


# --- the life of a lab ------------------------------------------------------------------------------------------------


def address_of(up: subprocess.Popen[str]) -> str:
    assert up.stdout is not None
    match = re.match(r"Your lab is running: (\S+)", up.stdout.readline())
    assert match is not None
    return match[1]


def test_ctrl_c_leaves_runtimes_and_the_next_up_adopts_them(world: World) -> None:
    first = world.start("up", "work", "--no-browser")
    address = address_of(first)
    assert "/lab?token=" in address
    assert list(world.folder.iterdir()) == [], "the start page has the examples: none is put into the folder"
    lab = world.lab()
    kernel = world.ask("POST", "api/kernels", lab, {"name": "ownlab-cpu"})["id"]
    first.send_signal(signal.SIGINT)
    output, errors = first.communicate(timeout=300)
    assert (first.returncode, errors) == (0, "")
    assert "Still running:\n" in output
    assert f"  {kernel[:8]}: Python 3 (CPU), " in output
    assert f"Come back: ownlab up {world.folder}" in output
    assert "ownlab down --all" in output
    assert json.loads(world.run("status", "--json").stdout)["labs"] == []

    both = [world.start("up", "work", "--detach", "--no-browser") for _ in range(2)]  # one starts it, one joins
    output = "".join(process.communicate(timeout=300)[0] for process in both)
    assert [process.returncode for process in both] == [0, 0]
    assert output.count("1 runtime is still running") == 2
    after = world.lab()
    assert (after["url"], after["token"], after["runtimes"]) == (lab["url"], lab["token"], 1)
    assert [row["id"] for row in world.ask("GET", "api/kernels", after)] == [kernel]

    down = world.run("down")
    assert f"The lab of {world.folder} has stopped.\nStill running" in down.stdout
    assert kernel[:8] in down.stdout
    ended = json.loads(world.run("down", "--all", "--json").stdout)
    assert [row["id"] for row in ended["ended"]] == [kernel]
    assert (ended["folders"], ended["running"]) == ([], [])
    jsonschema.validate(ended, json.loads((SCHEMAS / "down.json").read_text()))
    assert world.until(lambda: world.processes() == [])


def test_down_stops_a_lab_in_the_foreground(world: World) -> None:
    world.folder.rename(world.root / "my work")
    up = world.start("up", "my work", "--no-browser", "--port", "0")
    address_of(up)
    assert f"Stop it: ownlab down '{world.root}/my work'\n" in world.run("up", "my work").stdout
    assert world.run("down", "my work").returncode == 0
    assert "Start it: ownlab up 'my work'" in world.run("status", "my work").stderr
    output, _ = up.communicate(timeout=300)
    assert up.returncode == 0
    assert "Nothing is left running." in output
    assert world.run("down", "my work").returncode == 3
    assert world.until(lambda: world.processes() == [])


# --- what cannot work -------------------------------------------------------------------------------------------------


def test_a_port_in_use_is_reported_with_its_user(world: World) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        ran = world.run("up", "work", "--port", str(port))
    assert ran.returncode == 3
    assert f"Port {port} is in use by " in ran.stderr
    assert f"(pid {os.getpid()})" in ran.stderr
    assert world.processes() == []


@pytest.mark.parametrize(("folder", "words"), [("none", "does not exist"), ("file", "is not a folder")])
def test_a_path_that_is_not_a_folder_is_refused(world: World, folder: str, words: str) -> None:
    (world.root / "file").write_text("")
    ran = world.run("up", folder)
    assert ran.returncode == 3
    assert f"{world.root / folder} {words}" in ran.stderr


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_read_only_folder_is_refused(world: World) -> None:
    world.folder.chmod(0o500)
    ran = world.run("up", "work")
    assert ran.returncode == 3
    assert "You cannot write to" in ran.stderr


def test_a_bad_configuration_is_refused_before_anything_starts(world: World) -> None:
    (world.root / "config.toml").write_text("[limits]\npreste = 'colab'\n")
    ran = world.run("up", "work")
    assert ran.returncode == 3
    assert "limits.preset" in ran.stderr
    assert list(world.folder.iterdir()) == []
    assert not (world.root / "home").exists()
    (world.root / "config.toml").unlink()
    ran = world.run("up", "work", "--limits", "colba")
    assert ran.returncode == 2
    assert "--limits must be one of" in ran.stderr


@pytest.mark.parametrize("way", [(), ("--detach",)])
def test_a_server_that_does_not_start_is_explained(world: World, way: tuple[str, ...]) -> None:
    broken = world.root / "broken" / "jupyterlab"
    broken.mkdir(parents=True)
    (broken / "__init__.py").write_text("raise ImportError(\"No module named 'tornado'\")\n")
    ran = world.run("up", "work", *way, env={"PYTHONPATH": str(broken.parent)})
    assert ran.returncode == 3
    assert "The installation is incomplete" in ran.stderr
    assert "No module named 'tornado'" in ran.stderr.partition("The last lines of")[2]
    assert world.processes() == []

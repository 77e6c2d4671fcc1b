"""`ownlab env create` from a local package index with small stand-ins, and the default environment of `ownlab up`."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.package_index import PackageIndex, make_packages, make_torch, make_torchvision, serve_packages

Valid = Callable[[str, str], Any]
Until = Callable[..., Any]


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_packages(tmp_path_factory.mktemp("index") / "wheels")


@pytest.fixture
def index(world: Any, wheels: Path, tmp_path: Path) -> Iterator[PackageIndex]:
    """An index that the world uses, and PyTorch's, which has nothing until a test puts something there."""
    with serve_packages(wheels, tmp_path / "whl") as served:
        world.env |= served.environment(tmp_path / "cache")
        world.env["OWNLAB_MACHINE"] = str(Path(__file__).resolve().parents[2] / "machines" / "cpu.json")
        yield served


def types_of(world: Any) -> list[str]:
    return sorted(os.listdir(world.env["OWNLAB_KERNELS"]))


def states_of(world: Any) -> dict[str, Any]:
    document = json.loads(world.run("env", "list", "--json").stdout)
    return {state["name"]: state for state in document["states"]}


def test_torch_is_created_proven_exported_updated_and_removed(world: Any, index: PackageIndex, valid: Valid) -> None:
    ran = world.run("env", "create", "dl", "--with", "torch", "--json")
    assert ran.returncode == 0, ran.stderr
    assert re.search(r"dl: Downloading 14 packages, 1\.\d MiB at most\.", ran.stderr), "the size is stated before"
    assert "dl: Ready in " in ran.stderr
    document = valid(ran.stdout, "env")
    (state,) = document["states"]
    assert (state["status"], state["proof"], state["proven"]) == ("ready", "torch 2.13.0, proven on the CPU", True)
    python = document["environments"][0]["python"]
    assert python.startswith(world.env["OWNLAB_HOME"] + "/environments/dl/"), "not in ownlab's own environment"
    assert "ownlab-dl-cpu" in types_of(world)
    imports = "import torch, torchvision, stand_in_of_pip, stand_in_of_transformers; print(torch.__version__)"
    assert subprocess.run([python, "-c", imports], capture_output=True, text=True, check=True).stdout == "2.13.0\n"

    assert "ready already" in world.run("env", "create", "dl", "--with", "torch").stderr
    other = world.run("env", "create", "dl", "--with", "polars")
    assert other.returncode == 2
    assert "with other packages" in other.stderr

    exported = valid(world.run("env", "export", "dl", "--json").stdout, "env-export")
    assert "torch==2.13.0" in exported["packages"]
    assert world.run("env", "export", "dl", "-o", "requirements.txt").returncode == 0
    assert "torch==2.13.0\n" in (world.root / "requirements.txt").read_text()

    newer = make_torch(index.wheels, "2.13.1")
    vision = make_torchvision(index.wheels, "0.28.1", "2.13.1")
    try:
        updated = world.run("env", "update", "dl")
    finally:
        newer.unlink()
        vision.unlink()
    assert updated.returncode == 0, updated.stderr
    assert states_of(world)["dl"]["proof"] == "torch 2.13.1, proven on the CPU"

    removed = world.run("env", "remove", "dl").stdout
    assert "Removed dl and its files." in removed
    assert re.search(r"/uv cache clean$", removed.strip()), "the space of the downloads is not free yet"
    assert not os.path.exists(python)
    assert "ownlab-dl-cpu" not in types_of(world)
    assert states_of(world) == {}


def test_torch_comes_from_its_own_index_and_is_proven_on_every_card(
    world: Any, index: PackageIndex, tmp_path: Path
) -> None:
    """A recorded machine with four Pascal cards, for which the catalogue names a build."""
    world.env |= {
        "OWNLAB_MACHINE": str(Path(__file__).resolve().parents[2] / "machines" / "gtx1080ti-x4.json"),
        "STAND_IN_CARDS": "2",
    }
    make_torch(tmp_path / "whl" / "cu126", "2.14.1+cu126")
    make_torchvision(tmp_path / "whl" / "cu126", "0.29.1+cu126", "2.14.1")
    ran = world.run("env", "create", "dl", "--with", "torch")
    assert ran.returncode == 0, ran.stderr
    assert "torch comes from PyTorch's own index, built for CUDA 12.6" in ran.stderr
    assert "torch 2.14.1+cu126, proven on cards 0 and 1." in ran.stderr
    assert any("dl (½ × NVIDIA GeForce GTX 1080 Ti)" in line for line in world.run("types").stdout.splitlines())


def test_an_interrupted_creation_is_continued_by_the_same_command(world: Any, index: PackageIndex) -> None:
    index.hold("torch")
    building = world.start("env", "create", "dl", "--with", "torch")
    try:
        assert index.arrived.wait(60)
        state = states_of(world)["dl"]
        assert (state["status"], state["progress"]["phase"]) == ("building", "downloading")
        building.send_signal(signal.SIGKILL)  # as a power cut
        building.communicate(timeout=300)
        state = states_of(world)["dl"]
        assert state["status"] == "interrupted"
        assert "dl" not in world.run("types").stdout, "a half-built environment is no runtime type"
    finally:
        building.kill()
    done = len(index.requested)
    index.release()
    again = world.run("env", "create", "dl")
    assert again.returncode == 0, again.stderr
    assert "proven on the CPU" in again.stderr
    assert any("/torch-" in request for request in index.requested[done:])
    assert not any(
        "GET /files/transformers" in request and request.endswith(".whl") for request in index.requested[done:]
    )
    assert states_of(world)["dl"]["status"] == "ready"


def test_ctrl_c_stops_uv_and_says_how_to_continue(world: Any, index: PackageIndex) -> None:
    index.hold("torch")
    building = world.start("env", "create", "dl", "--with", "torch")
    assert index.arrived.wait(60)
    building.send_signal(signal.SIGINT)
    _, said = building.communicate(timeout=300)
    assert building.returncode == 3
    assert "Continue: ownlab env create dl --with torch" in said
    assert states_of(world)["dl"]["status"] == "cancelled"
    assert "Traceback" not in said


def test_without_a_network_the_exact_commands_are_shown_and_work(world: Any, index: PackageIndex, wheels: Path) -> None:
    offline = {"UV_DEFAULT_INDEX": "http://127.0.0.1:9/simple"}  # nobody listens on the port "discard"
    ran = world.run("env", "create", "dl", "--with", "torch", env=offline)
    assert ran.returncode == 3
    assert "cannot be reached" in ran.stderr
    assert "pip download -d wheels" in ran.stderr
    assert "Traceback" not in ran.stderr
    assert states_of(world)["dl"]["status"] == "failed"
    (command,) = re.findall(r"^ *UV_OFFLINE=1 UV_FIND_LINKS=/path/to/wheels (.+)$", ran.stderr, re.MULTILINE)
    assert command == "ownlab env create dl --with torch"
    variables = {**offline, "UV_OFFLINE": "1", "UV_FIND_LINKS": str(wheels)}
    again = world.run(*command.split()[1:], env=variables)
    assert again.returncode == 0, again.stderr
    assert "proven on the CPU" in again.stderr


def test_what_cannot_be_resolved_is_shown_in_uvs_words(world: Any, index: PackageIndex) -> None:
    ran = world.run("env", "create", "odd", "--with", "numpy>=2")
    assert ran.returncode == 3
    assert "No versions satisfy these requirements. uv reports:" in ran.stderr
    assert "numpy" in ran.stderr
    assert "Removed odd and its files." in world.run("env", "remove", "odd").stdout
    assert world.run("env", "create", "Odd").returncode == 2
    assert world.run("env", "create", "odd", "--with", "--index-url=x").returncode == 2


def test_up_builds_the_default_environment_once(world: Any, index: PackageIndex, until: Until) -> None:
    world.env["OWNLAB_ENVIRONMENTS_DEFAULT"] = "yes"
    up = world.start("up", "work", "--no-browser")
    try:
        until(lambda: states_of(world).get("default", {}).get("status") == "ready", 90.0)
        (python,) = {each["type"]["python"] for each in json.loads(world.run("types", "--json").stdout)["types"]}
        assert python.endswith("/environments/default/bin/python"), "types of the default environment start in it"
    finally:
        up.send_signal(signal.SIGINT)
        out, said = up.communicate(timeout=300)
    assert "The default environment (numpy, pandas, matplotlib, …) is being built." in out
    assert "default: Ready in " in said
    requests = len(index.requested)
    assert world.run("up", "work", "--detach").returncode == 0
    assert "Removed default and its files." in world.run("env", "remove", "default").stdout
    assert world.run("down", "work").returncode == 0
    again = world.run("up", "work", "--detach")
    assert "is being built" not in again.stdout, "a person removed it"
    assert len(index.requested) == requests
    assert world.run("down", "work").returncode == 0


def test_a_default_environment_that_cannot_be_built_leaves_a_working_lab(world: Any, until: Until) -> None:
    world.env |= {"OWNLAB_ENVIRONMENTS_DEFAULT": "yes", "UV_DEFAULT_INDEX": "http://127.0.0.1:9/simple"}
    world.env |= {"UV_HTTP_RETRIES": "0", "UV_CACHE_DIR": str(world.root / "cache")}
    assert world.run("up", "work", "--detach").returncode == 0
    try:
        until(lambda: states_of(world).get("default", {}).get("status") == "failed", 60.0)
        assert world.lab()["state"] == "ready"
        shown = world.run("env", "list").stdout
        assert "cannot be reached" in shown
        assert "ownlab env create default" in shown
        types = json.loads(world.run("types", "--json").stdout)["types"]
        assert os.path.dirname(types[0]["type"]["python"]) == os.path.dirname(sys.executable)
    finally:
        assert world.run("down", "work").returncode == 0


def test_an_active_environment_is_offered_until_a_person_removes_it(world: Any) -> None:
    project = world.root / "My Project"
    folder = project / ".venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    active = {"VIRTUAL_ENV": str(folder)}
    first = world.run("up", "work", "--detach", env=active)
    assert "is not offered as a runtime type" in first.stdout
    assert f"'{folder}/bin/python' -m pip install ipykernel" in first.stdout
    assert world.run("down", "work").returncode == 0
    (packages,) = (folder / "lib").glob("python*/site-packages")
    (own,) = [path for path in sys.path if path.endswith("site-packages")][:1]
    (packages / "own.pth").write_text(f"{own}\n")
    for expected in (True, False):
        shown = world.run("up", "work", "--detach", env=active)
        assert ("is offered as the runtime type my-project" in shown.stdout) is expected
        assert ("ownlab-my-project-cpu" in types_of(world)) is True
        assert world.run("down", "work").returncode == 0
    assert world.run("env", "remove", "my-project").returncode == 0
    assert "my-project" not in world.run("up", "work", "--detach", env=active).stdout
    assert world.run("down", "work").returncode == 0

"""`ownlab gpus` on the command line."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from tests.command_line import Ownlab

from ownlab.catalog.cards import choose_cards, load_cards
from ownlab.catalog.gpu_ladder import rank
from ownlab.catalog.gpus_terminal import show_cards, show_ladder


@pytest.fixture
def env(tmp_path: Path, machines: Path) -> dict[str, str]:
    """An own state folder, and an H200."""
    return {"OWNLAB_HOME": str(tmp_path / "home"), "OWNLAB_MACHINE": str(machines / "h200.json"), "COLUMNS": "80"}


def test_the_table(ownlab: Ownlab, env: dict[str, str], valid: Callable[[str, str], Any]) -> None:
    ran = ownlab("gpus", env=env)
    assert ran.returncode == 0, ran.stderr
    assert "RTX 4090" in ran.stdout
    assert "are unknown (?)" in ran.stdout
    assert max(map(len, ran.stdout.splitlines()[:-3])) <= 80
    document = valid(ownlab("gpus", "--json", env=env).stdout, "gpus")
    assert len(document["cards"]) >= 95
    h200 = next(card for card in document["cards"] if card["name"] == "H200 SXM")
    assert h200["bf16_tflops"]["value"] == 989
    assert h200["bf16_tflops"]["source"] in document["sources"]


@pytest.mark.parametrize("width", [40, 60, 80])
def test_tables_are_as_narrow_as_the_terminal(width: int) -> None:
    sheet = io.StringIO()
    out = Console(file=sheet, width=width, no_color=True)
    show_cards(load_cards(), out)
    show_ladder(rank(choose_cards("a100,h20,b300,l4"), "vision", "speed"), out)
    assert max(map(len, sheet.getvalue().splitlines())) <= width


def test_one_card_in_full(ownlab: Ownlab, env: dict[str, str]) -> None:
    ran = ownlab("gpus", "v100-sxm2-16gb", "Ascend 310", env=env)
    assert ran.returncode == 0, ran.stderr
    assert "no units for it" in ran.stdout  # bf16
    assert "[1] 2026-" in ran.stdout
    assert "https://github.com/Lightning-AI" in ran.stdout
    assert "could be checked" in ran.stdout


def test_an_unknown_card(ownlab: Ownlab, env: dict[str, str]) -> None:
    ran = ownlab("gpus", "rtx4091", env=env)
    assert ran.returncode == 2
    assert "RTX 4090" in ran.stderr
    size = ownlab("gpus", "24GiB", env=env)
    assert size.returncode == 2
    assert "--model-memory 24GiB" in size.stderr


def test_the_ladder(ownlab: Ownlab, env: dict[str, str], valid: Callable[[str, str], Any], tmp_path: Path) -> None:
    ran = ownlab("gpus", "ladder", "--plot", str(tmp_path / "ladder.svg"), env=env)
    assert ran.returncode == 0, ran.stderr
    own = [line for line in ran.stdout.splitlines() if line.startswith("▶")]
    assert len(own) == 1
    assert "H200 SXM" in own[0]
    assert "●" in own[0]
    drawn = (tmp_path / "ladder.svg").read_text()
    assert "H200 SXM" in drawn
    assert "in this machine" in drawn
    text = ownlab("gpus", "ladder", "--workload", "decoding", "--by", "watt", "--cards", "a100,4090", "--json", env=env)
    ladder = valid(text.stdout, "gpus-ladder")
    assert {rung["card"] for rung in ladder["rungs"]} >= {"RTX 4090", "A100 80GB SXM4"}
    assert ladder["own"] == ["H200 SXM"]


def test_an_own_card_that_cannot_be_ranked(ownlab: Ownlab, env: dict[str, str]) -> None:
    ran = ownlab("gpus", "ladder", "--by", "price", env=env)
    assert "This machine's H200 SXM is not ranked" in ran.stdout


def test_an_own_card_that_is_not_in_the_catalog(ownlab: Ownlab, env: dict[str, str], machines: Path) -> None:
    laptop = {"OWNLAB_MACHINE": str(machines / "windows-rtx4080.json")}
    ran = ownlab("gpus", "ladder", "--cards", "t4", env=env | laptop)
    assert "RTX 4080 Laptop GPU is not ranked: it is not in the catalog" in " ".join(ran.stdout.split())


def test_an_empty_ladder_and_an_impossible_plot(ownlab: Ownlab, env: dict[str, str]) -> None:
    ran = ownlab("gpus", "ladder", "--cards", "tpu v4", env=env)
    assert ran.returncode == 2
    assert "TPU" in ran.stderr
    assert ownlab("gpus", "ladder", "--plot", "ladder.gif", env=env).returncode == 2
    assert ownlab("gpus", "ladder", "--plot", "/nowhere/ladder.svg", env=env).returncode == 3


def test_an_update_and_its_reset(ownlab: Ownlab, env: dict[str, str], tmp_path: Path) -> None:
    shipped = Path(__file__).resolve().parents[2] / "src/ownlab/catalog/data/cards.toml"
    newer = tmp_path / "cards.toml"
    newer.write_text(shipped.read_text().replace('name = "T4"', 'name = "T5"'))
    taken = ownlab("gpus", "update", str(newer), "--json", env=env)
    assert taken.returncode == 0, taken.stderr
    assert json.loads(taken.stdout)["new"] == ["T5"]
    assert ownlab("gpus", "t5", env=env).returncode == 0
    newer.write_text(newer.read_text()[:-200])
    assert ownlab("gpus", "update", str(newer), env=env).returncode == 3
    assert ownlab("gpus", "t5", env=env).returncode == 0  # what was there before stays
    assert "came with ownlab" in ownlab("gpus", "update", "--reset", env=env).stdout
    assert ownlab("gpus", "t5", env=env).returncode == 2


@pytest.mark.parametrize(
    ("source", "code"),
    [
        ("http://127.0.0.1/cards.toml", 2),
        ("file:///etc/hosts", 2),
        ("nowhere.toml", 3),
        ("/dev", 3),
        ("/dev/zero", 3),
        ("", 3),
    ],
)
def test_update_sources_that_are_refused(ownlab: Ownlab, env: dict[str, str], source: str, code: int) -> None:
    ran = ownlab("gpus", "update", source, env=env)
    assert ran.returncode == code, ran.stderr
    assert "Traceback" not in ran.stderr


def test_a_state_folder_that_cannot_be_used(ownlab: Ownlab, env: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    shipped = Path(__file__).resolve().parents[2] / "src/ownlab/catalog/data/cards.toml"
    there = env | {"OWNLAB_HOME": str(tmp_path / "file")}
    ran = ownlab("gpus", "update", str(shipped), env=there)
    assert ran.returncode == 3
    assert "Cannot create" in ran.stderr
    assert "Not a directory" in ran.stderr
    assert ownlab("gpus", "t4", env=there).returncode == 0
    (tmp_path / "home" / "catalog" / "cards.toml").mkdir(parents=True)
    ran = ownlab("gpus", "update", "--reset", env=env)
    assert ran.returncode == 3
    assert "Cannot remove" in ran.stderr

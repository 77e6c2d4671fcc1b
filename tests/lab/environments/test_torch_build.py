"""Which torch a machine gets: recorded machines, with and without PyTorch's own index."""

from __future__ import annotations

from pathlib import Path

import pytest

from ownlab.errors import LabError
from ownlab.lab.environments.torch_build import choose_torch, index_answers
from ownlab.machine.machine_file import load_machine
from ownlab.machine.records import Machine

MACHINES = Path(__file__).resolve().parents[2] / "machines"
BASE = "https://torch.example/whl"


def machine(name: str) -> Machine:
    return load_machine(str(MACHINES / f"{name}.json"))


def test_the_own_index_is_used_by_the_tag_for_driver_and_card() -> None:
    asked: list[str] = []
    build = choose_torch(machine("h200"), "3.12.1", "torch", BASE, lambda address: not asked.append(address))  # type: ignore[func-returns-value]
    assert asked == [build.index_url]
    assert build.index_url is not None
    assert build.index_url.startswith(f"{BASE}/cu")
    assert build.requirement == "torch"
    assert "H200" in build.notes[0]


def test_a_pascal_card_gets_the_last_release_with_code_for_it() -> None:
    own = choose_torch(machine("gtx1080ti-x4"), "3.11.7", "torch", BASE, lambda address: True)
    assert own.index_url == f"{BASE}/cu126"
    assert own.requirement == "torch==2.14.*", "2.15 has no build with code for it"


def test_where_only_pypi_is_reachable_the_newest_build_there_that_serves_it_is_taken_and_said() -> None:
    build = choose_torch(machine("gtx1080ti-x4"), "3.11.7", "torch", BASE, lambda address: False)
    assert build.index_url is None
    assert build.requirement == "torch==2.7.*", "later ones on PyPI have no code for Pascal"
    assert "cannot be reached" in build.notes[0]
    assert "torch 2.7" in build.notes[0]
    assert "torch 2.14" in build.notes[1], "what the own index would have"


def test_no_torch_for_a_python_is_an_error_with_a_remedy() -> None:
    with pytest.raises(LabError, match="No torch on PyPI is known to run on") as raised:
        choose_torch(machine("gtx1080ti-x4"), "3.14.0", "torch", BASE, lambda address: False)
    assert "OWNLAB_ENVIRONMENTS_TORCH_INDEX" in raised.value.hint


def test_a_pinned_release_keeps_its_pin_and_gets_the_build_of_that_release() -> None:
    build = choose_torch(machine("h200"), "3.12.1", "torch==2.6.0", BASE, lambda address: True)
    assert (build.requirement, build.index_url) == ("torch==2.6.0", f"{BASE}/cu126")
    build = choose_torch(machine("h200"), "3.12.1", "torch==2.6.0", BASE, lambda address: False)
    assert (build.requirement, build.index_url) == ("torch==2.6.0", None)


def test_without_a_gpu_it_is_built_for_the_cpu() -> None:
    build = choose_torch(machine("cpu"), "3.12.1", "torch", BASE, lambda address: True)
    assert build.index_url == f"{BASE}/cpu"
    build = choose_torch(machine("cpu"), "3.12.1", "torch", BASE, lambda address: False)
    assert build.index_url is None
    assert "no GPU" in build.notes[0]


def test_amd_cards_need_the_own_index() -> None:
    build = choose_torch(machine("mi300a"), "3.12.1", "torch", BASE, lambda address: True)
    assert build.index_url is not None
    assert "/rocm" in build.index_url
    build = choose_torch(machine("mi300a"), "3.12.1", "torch", BASE, lambda address: False)
    assert "uses the CPU" in build.notes[0]


def test_a_folder_can_be_an_index(tmp_path: Path) -> None:
    assert not index_answers(f"file://{tmp_path}/cpu")
    (tmp_path / "cpu" / "torch").mkdir(parents=True)
    assert index_answers(f"file://{tmp_path}/cpu")

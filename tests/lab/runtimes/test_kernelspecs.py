"""Kernelspecs on disk, as Jupyter itself reads them; other kernelspecs are not touched."""

from __future__ import annotations

import json
import os
from pathlib import Path
from xml.etree import ElementTree

import pytest
from jupyter_client.kernelspec import KernelSpecManager

from ownlab.config.settings import LabOptions
from ownlab.errors import LabError
from ownlab.lab.runtimes.kernelspecs import read_specs, remove_specs, write_specs
from ownlab.lab.runtimes.records import RuntimeType
from ownlab.lab.runtimes.runtime_types import runtime_types
from ownlab.lab.store.rows import Device

CARDS = [Device(f"GPU-{n}", "nvidia", n, "NVIDIA H200") for n in range(2)]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "share" / "kernels"


def types(cards: int = 2) -> tuple[RuntimeType, ...]:
    return runtime_types(CARDS[:cards], (), LabOptions())


def times(folder: Path) -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in sorted(folder.rglob("*"))}


def test_jupyter_finds_them_with_our_provisioner(folder: Path) -> None:
    assert write_specs(types(), folder)
    manager = KernelSpecManager(kernel_dirs=[str(folder)], ensure_native_kernel=False)
    assert set(manager.find_kernel_specs()) == {kind.name for kind in types()}
    spec = manager.get_kernel_spec("ownlab-half-nvidia-h200")
    assert (spec.display_name, spec.language, spec.interrupt_mode) == ("Python 3 (½ × NVIDIA H200)", "python", "signal")
    assert spec.argv[1:] == [
        *("-m", "ownlab.lab.runtimes.direct_launch"),
        *("--type", "ownlab-half-nvidia-h200", "-f", "{connection_file}"),
    ]
    assert spec.metadata["kernel_provisioner"] == {"provisioner_name": "ownlab-provisioner", "config": {}}
    assert "free" not in spec.metadata["ownlab"]
    logo = manager.get_all_specs()["ownlab-cpu"]["resource_dir"] + "/logo-svg.svg"
    assert Path(logo).read_text().startswith("<svg")


def test_kernelspecs_are_read_back_in_order(folder: Path) -> None:
    assert read_specs(folder) == ()
    write_specs(types(), folder)
    assert read_specs(folder) == types()


def test_unchanged_kernelspecs_are_not_rewritten(folder: Path) -> None:
    write_specs(types(), folder)
    before = times(folder)
    assert not write_specs(types(), folder)
    assert times(folder) == before


def test_the_list_follows_the_hardware(folder: Path) -> None:
    write_specs(types(2), folder)
    assert write_specs(types(1), folder)
    assert read_specs(folder) == types(1)
    assert write_specs((), folder)
    assert os.listdir(folder) == []


def test_a_changed_price_is_written(folder: Path) -> None:
    write_specs(types(), folder)
    changed = runtime_types(CARDS, (), LabOptions(units={"cpu": 0.0, "default": 3.0}))
    assert write_specs(changed, folder)
    assert read_specs(folder) == changed


def test_a_damaged_logo_is_replaced(folder: Path) -> None:
    write_specs(types(), folder)
    (folder / "ownlab-cpu" / "logo-svg.svg").unlink()
    assert write_specs(types(), folder)
    assert (folder / "ownlab-cpu" / "logo-svg.svg").exists()


def test_a_kernelspec_of_another_version_is_ignored_and_then_replaced(folder: Path) -> None:
    write_specs(types(), folder)
    path = folder / "ownlab-cpu" / "kernel.json"
    spec = json.loads(path.read_text())
    spec["metadata"]["ownlab"] = {"name": "ownlab-cpu"}
    path.write_text(json.dumps(spec))
    assert len(read_specs(folder)) == len(types()) - 1
    assert write_specs(types(), folder)
    assert read_specs(folder) == types()


def plant(folder: Path, name: str, text: str) -> Path:
    path = folder / name / "kernel.json"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    return path


@pytest.mark.parametrize("text", ['{"argv": [], "metadata": {"ownlab": 5}}', "{}", "[]", "cut {", '{"metadata": []}'])
def test_other_kernelspecs_are_not_touched(folder: Path, text: str) -> None:
    theirs = [plant(folder, name, text) for name in ("ownlab-theirs", "python3")]
    (folder / "ownlab-file").touch()
    write_specs(types(), folder)
    assert remove_specs(folder) == len(types())
    assert [path.read_text() for path in theirs] == [text, text]
    assert sorted(os.listdir(folder)) == ["ownlab-file", "ownlab-theirs", "python3"]


def test_a_foreign_kernelspec_with_our_name_is_refused(folder: Path) -> None:
    theirs = plant(folder, "ownlab-cpu", '{"argv": ["theirs"]}')
    with pytest.raises(LabError, match="a kernelspec that ownlab did not write"):
        write_specs(types(), folder)
    assert theirs.read_text() == '{"argv": ["theirs"]}'


def test_an_unwritable_folder_is_reported_with_a_hint(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(LabError, match="cannot be written") as raised:
        write_specs(types(), tmp_path / "file" / "kernels")
    assert "OWNLAB_KERNELS" in raised.value.hint
    assert "JUPYTER_PATH" in raised.value.hint


def test_removing_nothing_is_fine(folder: Path) -> None:
    assert remove_specs(folder) == 0


def test_cpu_and_cards_have_different_logos(folder: Path) -> None:
    write_specs(types(), folder)
    names = ("ownlab-cpu", "ownlab-1-nvidia-h200")
    drawn = [ElementTree.parse(folder / name / "logo-svg.svg").getroot() for name in names]
    shapes = [[part.tag.rpartition("}")[2] for part in logo] for logo in drawn]
    assert shapes[0] == ["path", "rect", "rect"], "pins, the chip, its core"
    colours = [{part.get("fill") for part in logo} for logo in drawn]
    assert not (colours[0] & colours[1]) - {None}

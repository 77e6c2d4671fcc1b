"""torch's DataLoader over packed data, in the interpreter that has torch: workers, ranks, exact continuation."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.guest.data.samples import contents, make_folder, open_names, pack_all

SRC = Path(__file__).parents[3] / "src"

PROGRAM = """
import json, sys, warnings
sys.path[:0] = [{src!r}, {facade!r}]
warnings.simplefilter("ignore")
import ownlab_guest.data.epoch_order as epoch_order
epoch_order.BLOCK_BYTES = 10_000
import ownlab.data
import torch.utils.data

def dataset(**more):
    return ownlab.data.open({out!r}, shuffle=True, seed=7, as_dict=True, decode=False, **more)

def names(batches):
    return [name for batch in batches for name in batch["__name__"]]

{code}
"""


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("packed")
    make_folder(folder / "in", 200)
    pack_all(folder / "in", folder / "out")
    return folder / "out"


def run(python: str, packed: Path, code: str) -> Any:
    facade = SRC / "ownlab_guest" / "facade"
    program = PROGRAM.format(src=str(SRC), facade=str(facade), out=str(packed), code=code)
    ran = subprocess.run([python, "-c", program], capture_output=True, text=True, timeout=600)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def test_the_order_does_not_depend_on_workers(torch_python: str, packed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = run(
        torch_python,
        packed,
        "print(json.dumps([names(dataset().loader(16, workers)) for workers in (0, 1, 3)]))",
    )
    monkeypatch.setattr("ownlab_guest.data.epoch_order.BLOCK_BYTES", 10_000)
    assert found[0] == found[1] == found[2] == open_names(packed, shuffle=True, seed=7)


def test_continuing_with_other_workers_and_another_world(torch_python: str, packed: Path) -> None:
    code = """
read, state = [], None
for world, workers, batches in ((1, 2, 3), (3, 0, 2), (2, 1, 1), (1, 3, None)):
    after = None
    for rank in range(world):
        loader = dataset(rank=rank, world=world).loader(8, workers)
        if state:
            loader.load_state_dict(json.loads(json.dumps(state)))
        for number, batch in enumerate(loader):
            if number == batches:
                break
            read += batch["__name__"]
            now = loader.state_dict()
        after = after or now
    state = after
print(json.dumps(read))
"""
    read = run(torch_python, packed, code)
    assert sorted(read) == sorted(contents(packed))


def test_a_plain_data_loader_takes_it_as_a_list_and_as_a_stream(torch_python: str, packed: Path) -> None:
    code = """
loader = torch.utils.data.DataLoader
found = [names(loader(dataset(), batch_size=16, shuffle=True, num_workers=2)), names(loader(dataset().iterable(), batch_size=16, num_workers=2))]
print(json.dumps(found))
"""
    for names in run(torch_python, packed, code):
        assert sorted(names) == sorted(contents(packed))


def test_workers_that_are_spawned(torch_python: str, packed: Path, tmp_path: Path) -> None:
    """They find the guest package through the facade, as in a kernel whose environment has no ownlab."""
    program = tmp_path / "train.py"
    program.write_text(
        f"import sys, json\nsys.path.append({str(SRC / 'ownlab_guest' / 'facade')!r})\n"
        "if __name__ == '__main__':\n"
        "    import ownlab\n"
        f"    dataset = ownlab.data.open({str(packed)!r}, as_dict=True, decode=False)\n"
        "    loader = dataset.loader(16, 2, multiprocessing_context='spawn')\n"
        "    print(json.dumps([name for batch in loader for name in batch['__name__']]))\n"
    )
    ran = subprocess.run([torch_python, str(program)], capture_output=True, text=True, timeout=600, cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout) == open_names(packed)


def test_two_lines_of_a_script(torch_python: str, tmp_path: Path) -> None:
    """ImageFolder's place is taken: the same transform, the same labels."""
    code = f"""
from PIL import Image
import os
import numpy
for name in ("cat", "dog"):
    os.makedirs(os.path.join({str(tmp_path)!r}, "in", name))
    for number in range(6):
        Image.new("RGB", (60, 40), (number, 0, 200)).save(os.path.join({str(tmp_path)!r}, "in", name, str(number) + ".png"))
from ownlab_guest.data.packing import Request, pack
*_, result = pack(Request({str(tmp_path / "in")!r}, {str(tmp_path / "out")!r}, side=20))
packed = ownlab.data.open({str(tmp_path / "out")!r}, shuffle=True, transform=lambda image: torch.from_numpy(numpy.array(image)))
found = []
for images, labels in packed.loader(4, 0):
    found.append([list(images.shape), labels.tolist()])
print(json.dumps([packed.class_to_idx, found]))
"""
    classes, batches = run(torch_python, tmp_path, code)
    assert classes == {"cat": 0, "dog": 1}
    assert [shape for shape, _ in batches] == [[4, 20, 30, 3]] * 3
    assert sorted(label for _, labels in batches for label in labels) == [0] * 6 + [1] * 6

"""`%%why` and `ownlab.why` in a process with IPython and torch, with ownlab in its environment and without."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.prepared_python import BESIDE, IPYTHON, run

from ownlab.instruments.why.collection import load_evidence

CELLS = r"""
import json, os, sys
from IPython.core.interactiveshell import InteractiveShell

shell, sys.stderr = InteractiveShell.instance(), sys.stdout
shell.run_line_magic("colors", "NoColor")


def cell(source):
    print("\n>>>")
    print("DONE" if shell.run_cell(source, store_history=True).success else "FAILED")


cell('''%load_ext ownlab
import os, time, ownlab, torch
class Samples(torch.utils.data.Dataset):
    def __len__(self):
        return 80
    def __getitem__(self, index):
        time.sleep(0.01)
        return torch.randn(8), index % 2
torch.set_num_threads(1)
model = torch.nn.Linear(8, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loader = torch.utils.data.DataLoader(Samples(), batch_size=8)
def train(loader):
    for x, y in loader:
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    return "trained"
''')
cell('''%%why
train(loader)''')
cell('''%%why --save EVIDENCE
fresh = torch.utils.data.DataLoader(Samples(), batch_size=8)
train(fresh)
1 / 0''')
cell("%%why --bogus\n3")
cell("%%why --steps 1\n3")
cell("%%why\nprint('seven')\n3 + 4")
cell('''%%why --save /proc/no/such/file
train(loader)''')
cell('''%%why
%%why
3''')
cell('''explained = ownlab.why(train, loader, steps=5)
print(repr(explained), explained.result, explained.record.step.count)''')
cell('''try:
    ownlab.why(3)
except ownlab.OwnlabError as exc:
    print(type(exc).__module__, type(exc).__name__, exc, exc.hint)''')
cell('''try:
    ownlab.why(train, None)
except TypeError as exc:
    print("its own error:", exc)''')
cell("print(torch.utils.data.DataLoader.__iter__.__name__); train(loader)")
"""


@pytest.fixture(scope="module", params=["without ownlab", "with ownlab"])
def outputs(request: pytest.FixtureRequest, torch_python: str, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """What each cell has printed, and the evidence of the one that saved it."""
    version = run(torch_python, "print('%d.%d' % sys.version_info[:2])").strip()
    if version != f"{sys.version_info[0]}.{sys.version_info[1]}":
        pytest.skip("its Python cannot load our IPython")
    folder = tmp_path_factory.mktemp("cells")
    evidence = folder / "evidence.json"
    installed = request.param == "with ownlab"
    environment = {"IPYTHONDIR": str(folder / "ipython"), "OWNLAB_HOME": str(folder / "home")}
    if not installed:
        environment["OWNLAB_HOST"] = sys.executable
    code = CELLS.replace("EVIDENCE", str(evidence))
    printed = run(torch_python, (BESIDE if installed else IPYTHON) + code, **environment)
    return printed.split("\n>>>\n")[1:], evidence


def test_a_cell_is_explained(outputs: Any) -> None:
    cells, _ = outputs
    assert cells[0].strip() == "DONE"
    assert "A step takes" in cells[1]
    assert "[no-workers]" in cells[1]
    assert "Samples.__getitem__ (In[1]:6)" in cells[1]  # the line of its sleep, where it is seen
    assert cells[1].count("A typical step") == 1
    assert cells[1].strip().endswith("DONE")


def test_a_cell_that_fails_shows_its_error_once_and_is_explained_as_far_as_it_came(outputs: Any) -> None:
    cells, evidence = outputs
    assert cells[2].count("Traceback") == 1
    assert "CellFailed: the cell that was measured failed" in cells[2]
    assert cells[2].strip().endswith("FAILED")
    assert "+fresh = torch.utils.data.DataLoader(Samples(), batch_size=8, num_workers=" in cells[2]
    assert "In[3]:2" in cells[2]  # as the notebook counts, with the line of the magic
    assert f"Evidence saved to {evidence}." in cells[2].replace("\n", " ")
    saved = load_evidence(str(evidence))
    assert saved.command == ("%%why",)
    assert any("fresh = " in snippet.text for snippet in saved.snippets)


def test_mistakes_are_one_line(outputs: Any) -> None:
    cells, _ = outputs
    assert "unrecognized arguments: --bogus" in cells[3]
    assert "steps must be an integer of at least 5, not 1" in cells[4]
    assert "cannot be within each other" in cells[7]
    for cell in (*cells[3:5], cells[6]):
        assert "Traceback" not in cell
        assert cell.strip().endswith("FAILED")
    assert "/proc/no/such/file" in cells[6].replace("\n", "")


def test_a_cell_that_does_not_train_prints_what_it_prints(outputs: Any) -> None:
    cells, _ = outputs
    assert cells[5].startswith("seven\nOut[6]: 7\n")
    assert "Nothing was measured" in cells[5]


def test_a_function_is_explained(outputs: Any) -> None:
    cells, _ = outputs
    assert "A step takes" in cells[8]
    assert "trained" in cells[8]
    assert cells[8].strip().endswith("DONE"), cells[8]
    assert (
        "ownlab.errors UsageError ownlab.why needs a function, not int For example: ownlab.why(train, model, loader)"
        in cells[9]
    )
    assert "its own error: 'NoneType' object is not iterable" in cells[10]


def test_the_kernel_goes_on_as_before(outputs: Any) -> None:
    cells, _ = outputs
    assert "A step takes" not in cells[11]
    assert cells[11].strip().endswith("DONE")


def test_without_ownlab_anywhere_the_error_says_so(torch_python: str) -> None:
    code = "import os, ownlab\nos.environ.pop('OWNLAB_HOST', None)\ntry: ownlab.why(print)\nexcept ownlab.OwnlabError as exc: print(exc)"
    assert "No module named" in run(torch_python, code)


def test_the_evidence_of_a_cell_is_explained_again(outputs: Any, ownlab: Any) -> None:
    _, evidence = outputs
    shown = json.loads(ownlab("why", "--json", str(evidence)).stdout)
    assert shown["command"] == ["%%why"]
    assert "In[3]" in {finding["change"]["file"] for finding in shown["findings"] if finding["change"]}
    assert Path(evidence).stat().st_size > 1000

"""What the variable inspector shows, and that it calls no code of the notebook's own classes."""

from __future__ import annotations

import collections
import json
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ownlab_guest.kernel import variables
from ownlab_guest.kernel.variables import list_variables

ROOT = Path(__file__).resolve().parents[2]


def shown(**namespace: Any) -> dict[str, dict[str, Any]]:
    """Return what is shown for each variable, as JSON has it."""
    found = json.loads(json.dumps(list_variables(namespace)._repr_json_()))
    return {each.pop("name"): each for each in found["variables"]}


def without_bytes(found: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {name: {key: value for key, value in each.items() if key != "bytes"} for name, each in found.items()}


def test_builtin_values() -> None:
    found = shown(
        count=3, rate=0.25, flag=True, nothing=None, huge=1 << 100_000, word="hi", long="x" * 5_000, raw=b"ab",
        row=[1, 2.5, "three"], many=list(range(1_000)), pair=(1, [2, [3, [4]]]), names={"b": 1, "a": object()},
        lines=collections.deque("ab"), steps=range(10), some={1},
    )  # fmt: skip
    assert without_bytes(found) == {
        "count": {"type": "int", "value": "3"},
        "rate": {"type": "float", "value": "0.25"},
        "flag": {"type": "bool", "value": "True"},
        "nothing": {"type": "NoneType", "value": "None"},
        "huge": {"type": "int", "value": "<100001 bits>"},
        "word": {"type": "str", "length": 2, "value": "'hi'"},
        "long": {"type": "str", "length": 5_000, "value": repr("x" * 100) + "…"},
        "raw": {"type": "bytes", "length": 2, "value": "b'ab'"},
        "row": {"type": "list", "length": 3, "value": "[1, 2.5, 'three']"},
        "many": {"type": "list", "length": 1_000, "value": "[0, 1, 2, 3, 4, 5, …]"},
        "pair": {"type": "tuple", "length": 2, "value": "(1, [2, <list>])"},
        "names": {"type": "dict", "length": 2, "value": "{'b': 1, 'a': <object>}"},
        "lines": {"type": "deque", "length": 2, "value": "['a', 'b']"},
        "steps": {"type": "range", "length": 10, "value": "range(0, 10)"},
        "some": {"type": "set", "length": 1, "value": "{1}"},
    }
    assert found["many"]["bytes"] == sys.getsizeof(list(range(1_000)))


def test_names_are_sorted_and_what_is_no_variable_is_left_out() -> None:
    namespace = {
        "b": 1,
        "B": 2,
        "a": 3,
        "_1": 4,
        "__name__": "x",
        "Out": {},
        "sys": sys,
        "shown": shown,
        "Path": Path,
        "len": len,
    }
    found = list_variables(namespace, hidden={"Out"})
    assert [each["name"] for each in found.variables] == ["a", "B", "b"]
    many = list_variables({f"v{number}": number for number in range(2_000)})
    assert (len(many.variables), many.total) == (variables.MAX_VARIABLES, 2_000)
    assert repr(many) == "<2000 variables>"


class Hostile:
    """Everything that an inspector might call raises, and is counted."""

    calls = 0

    def _called(self, *_: object) -> Any:
        Hostile.calls += 1
        raise AssertionError("an inspector must not call this")

    __repr__ = __str__ = __len__ = __iter__ = __bool__ = __eq__ = __getattr__ = __format__ = __sizeof__ = _called
    __hash__ = object.__hash__
    shape = __class__ = property(_called)


class HostileList(list[Any]):
    __repr__ = __len__ = __iter__ = Hostile._called


def test_no_code_of_the_notebook_is_called() -> None:
    odd, listed = Hostile(), HostileList([1])
    before = Hostile.calls
    found = shown(odd=odd, listed=listed, held=[odd], keyed={"k": odd})
    assert Hostile.calls == before
    assert found["odd"] == {"type": "Hostile"}
    assert found["listed"] == {"type": "HostileList"}
    assert found["held"]["value"] == "[<Hostile>]"
    assert found["keyed"]["value"] == "{'k': <Hostile>}"


def test_it_ends_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(value: object, exact: bool) -> dict[str, Any]:
        time.sleep(0.05)
        return {"value": "seen"}

    monkeypatch.setitem(variables._LIBRARIES, ("types", "SimpleNamespace"), slow)
    start = time.monotonic()
    found = shown(**{f"v{number:03}": SimpleNamespace() for number in range(200)})
    assert time.monotonic() - start < 5
    assert found["v000"] == {"type": "SimpleNamespace", "value": "seen"}
    assert found["v199"] == {"type": "SimpleNamespace"}


def test_a_class_that_imitates_a_tensor() -> None:
    fake = type("Tensor", (), {"__module__": "torch.fake"})()
    assert shown(fake=fake) == {"fake": {"type": "Tensor"}}


def test_arrays_and_tables() -> None:
    np = pytest.importorskip("numpy")
    found = shown(
        small=np.array([0.5, 1 / 3]), large=np.zeros((300, 4), dtype="float32"), words=np.array(["a", object()], dtype=object),
        one=np.float64(0.5), none=np.array(2),
    )  # fmt: skip
    assert found == {
        "small": {"type": "ndarray", "shape": [2], "dtype": "float64", "bytes": 16, "value": "[0.5, 0.3333]"},
        "large": {"type": "ndarray", "shape": [300, 4], "dtype": "float32", "bytes": 4_800},
        "words": {"type": "ndarray", "shape": [2], "dtype": "object", "bytes": 16},
        "one": {"type": "float64", "value": "0.5", "dtype": "float64"},
        "none": {"type": "ndarray", "shape": [], "dtype": "int64", "bytes": 8, "value": "2"},
    }


IN_TORCH = """
import json, sys
sys.path.insert(0, {root!r})
import torch
from ownlab_guest.kernel.variables import list_variables
namespace = dict(
    small=torch.tensor([1.0, 2.5]), large=torch.zeros(8, 3, 224, dtype=torch.bfloat16), meta=torch.empty(5, device="meta"),
    net=torch.nn.Linear(3, 2), weight=torch.nn.Parameter(torch.ones(2)), sparse=torch.eye(3).to_sparse(),
)
print(json.dumps(list_variables(namespace)._repr_json_()))
"""


@pytest.mark.skipif(not (ROOT / ".venv-torch").exists(), reason="there is no environment with torch")
def test_tensors_and_models() -> None:
    code = IN_TORCH.format(root=str(ROOT / "src"))
    ran = subprocess.run(
        [str(ROOT / ".venv-torch" / "bin" / "python"), "-c", code],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    assert {each.pop("name"): each for each in json.loads(ran.stdout)["variables"]} == {
        "small": {"type": "Tensor", "shape": [2], "dtype": "float32", "device": "cpu", "bytes": 8, "value": "[1, 2.5]"},
        "large": {"type": "Tensor", "shape": [8, 3, 224], "dtype": "bfloat16", "device": "cpu", "bytes": 10_752},
        "meta": {"type": "Tensor", "shape": [5], "dtype": "float32", "device": "meta", "bytes": 20},
        "net": {"type": "Linear", "parameters": 8, "bytes": 32, "device": "cpu"},
        "weight": {
            "type": "Parameter",
            "shape": [2],
            "dtype": "float32",
            "device": "cpu",
            "bytes": 8,
            "value": "[1, 1]",
        },
        "sparse": {"type": "Tensor", "shape": [3, 3], "dtype": "float32", "device": "cpu"},
    }

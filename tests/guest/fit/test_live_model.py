"""A model that lives in a process is traced as one of a file, and is not changed."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest
from tests.guest.fit.paths import HERE, LAUNCH


@pytest.fixture(scope="module")
def seen(torch_python: str) -> dict[str, Any]:
    ran = subprocess.run(
        [torch_python, str(HERE / "live_models.py"), str(LAUNCH)],
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert "SEEN" in ran.stdout, ran.stderr[-3000:]
    answers: dict[str, Any] = json.loads(ran.stdout.rpartition("SEEN")[2])
    return answers


def test_a_live_model_is_traced_as_one_of_a_file(seen: dict[str, Any]) -> None:
    # "lstm" has a forward of a notebook's kind: a function that knows the model by its name.
    assert seen["files"] == dict.fromkeys(("mlp", "lstm", "convolutions", "attention", "tied"), True)


def test_the_model_is_unchanged(seen: dict[str, Any]) -> None:
    assert seen["untouched"] == {
        "error": None,
        "guesses": ["1 hook of this notebook ignored: memory that hooks keep is not counted"],
        "tensors": True,
        "hooked": 0,
        "hooks": 1,
        "training": False,
        "random": True,
        "grad": True,
    }


def test_tensors_shapes_and_other_batches(seen: dict[str, Any]) -> None:
    # A random number is taken to be one half, and one that the program wrote down is known.
    assert seen["sizes"].pop("skipping") == [2 * 8 * 32 * 32 + 2 * 8 * 12 * 4, []]
    assert seen["sizes"] == {"same": True, "batch": 8, "known": True, "half": "bf16", "tokens": ["Embedding", 2, 7]}


def test_a_trace_does_not_allocate_the_model(seen: dict[str, Any]) -> None:
    assert seen["large"]["most"] == 16 * 1024**3
    assert seen["large"]["grown_mib"] < 128


def test_errors_have_a_kind(seen: dict[str, Any]) -> None:
    assert seen["refused"] == {
        "number": "bad-model",
        "no inputs": "no-inputs",
        "wrong inputs": "bad-inputs",
        "empty": "bad-inputs",
        "lazy": "bad-model",
        "locked": "cannot-be-copied",
        "wrong shape": "step-raised",
        "script": "bad-model",
        "frozen": "nothing-to-train",
        "no length": "no-size",
        "precision": "bad-request",
    }

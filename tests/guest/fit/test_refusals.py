"""Builds that cannot be traced: each has an answer with the line of the user's own code."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.guest.fit.asking import HERE, Asking

from ownlab.guests import guest

MODELS = HERE / "models.py"


def line_of(text: str) -> int:
    lines = MODELS.read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


def test_each_has_a_kind_and_a_line(traced: Asking, tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("def build(:\n")
    (tmp_path / "text.json").write_text("{")
    cases: list[tuple[dict[str, Any], str, str, int | None]] = [
        ({"target": "raises"}, "build-raised", "FileNotFoundError: data/train.csv", line_of("raise FileNotFoundError")),
        ({"target": "on_cuda"}, "needs-cuda", ".cuda()", line_of(".cuda()")),
        ({"target": "bare"}, "bad-return", "(model, inputs)", None),
        ({"target": "many_sizes"}, "data-dependent-shape", "boolean index", line_of("out[out > 0]")),
        ({"target": "wrong_shape"}, "step-raised", "[2, 5] X [4, 4]", None),
        ({"target": "frozen"}, "nothing-to-train", "gradient", None),
        ({"target": "absent"}, "no-function", "mlp", None),
        ({"target": "lstm", "batch": 4}, "no-size", "no argument batch", None),
        ({"target": "mlp", "optimizer": "lion"}, "no-optimizer", "adamw", None),
        ({"target": "mlp", "checkpointing": True}, "no-checkpointing", "gradient_checkpointing_enable", None),
        ({"target": "mlp", "precision": "fp7"}, "bad-request", "amp-bf16", None),
        ({"target": f"{tmp_path}/none.py:build"}, "no-file", "none.py", None),
        ({"target": f"{tmp_path}/broken.py:build"}, "import-raised", "SyntaxError", 1),
        ({"target": "no_such_module:build"}, "no-module", "no_such_module", None),
        ({"target": "hf:" + str(tmp_path / "none.json")}, "no-file", "none.json", None),
        ({"target": "hf:" + str(tmp_path / "text.json")}, "bad-configuration", "JSON", None),
    ]
    answers = traced(*(request for request, *_ in cases))
    for answer, (request, kind, words, line) in zip(answers, cases, strict=True):
        error = answer.get("error", {})
        assert error.get("kind") == kind, (request, error)
        assert words in error["message"], (request, error)
        if line is not None:
            assert error["line"] == line, (request, error)


def test_an_interpreter_without_torch_says_so(tmp_path: Path) -> None:
    path = tmp_path / "request.json"
    path.write_text(json.dumps({"target": f"{MODELS}:mlp"}))
    answer = guest.ask(sys.executable, "fit.trace", [str(path)], answer=dict[str, Any], deadline=30)
    assert answer["error"]["kind"] == "no-torch"


def test_a_configuration_of_transformers(traced: Asking, tmp_path: Path) -> None:
    config = {"model_type": "gpt2", "n_layer": 2, "n_embd": 128, "n_head": 2, "vocab_size": 1000, "n_positions": 256}
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))
    request = {"target": f"hf:{path}", "batch": 2, "seq": 64, "precision": "amp-bf16"}
    trained, used = traced(request, {**request, "train": False})
    if trained.get("error", {}).get("kind") == "no-transformers":
        pytest.skip("no transformers in .venv-torch")
    assert trained["parameters"]["tied"] == 1000 * 128
    assert (trained["batch"], trained["seq"]) == (2, 64)
    # Neither transformers nor torch makes a mask: attention is causal by itself.
    assert not any(tag["op"] == "aten.where" for tag in trained["tags"])
    assert used["flops"]["forward"] == trained["flops"]["forward"]

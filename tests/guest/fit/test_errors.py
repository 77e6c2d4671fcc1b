"""Builds that cannot be traced: each error names the line of the user's own code."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.guest.fit.paths import HERE, Asking, Trace

from ownlab import guest_client

MODELS = HERE / "models.py"


def line_of(text: str) -> int:
    lines = MODELS.read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if text in line)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("refusals")
    (path / "broken.py").write_text("def build(:\n")
    (path / "text.json").write_text("{")
    config = {"model_type": "gpt2", "n_layer": 2, "n_embd": 128, "n_head": 2, "vocab_size": 1000, "n_positions": 256}
    (path / "config.json").write_text(json.dumps(config))
    return path


def cases(folder: Path) -> list[tuple[dict[str, Any], str, str, int | None]]:
    return [
        ({"target": "raises"}, "build-raised", "FileNotFoundError: data/train.csv", line_of("raise FileNotFoundError")),
        ({"target": "on_cuda"}, "needs-cuda", ".cuda()", line_of(".cuda()")),
        ({"target": "bare"}, "bad-return", "(model, inputs)", None),
        ({"target": "too_many_sizes"}, "data-dependent-shape", "also failed", line_of("sizes[sizes > 0]")),
        ({"target": "wrong_shape"}, "step-raised", "2x5 and 4x4", None),
        ({"target": "frozen"}, "nothing-to-train", "gradient", None),
        ({"target": "leaves"}, "build-raised", "SystemExit: 3", line_of("raise SystemExit")),
        ({"target": "hangs", "seconds": 2}, "deadline", "did not finish in time", line_of("time.sleep")),
        ({"target": "to_numpy"}, "cannot-be-traced", ".numpy()", line_of("out.detach().numpy()")),
        ({"target": "lazy"}, "lazy-layer", "no sizes yet", line_of("LazyLinear(4)")),
        ({"target": "custom"}, "cannot-be-traced", "ownlab_tests::double", line_of("double(out)")),
        ({"target": "absent"}, "no-function", "mlp", None),
        ({"target": "lstm", "batch": 4}, "no-size", "no argument batch", None),
        ({"target": "mlp", "optimizer": "lion"}, "no-optimizer", "adamw", None),
        (
            {"target": "mlp", "optimizer": "sgd:momentum"},
            "no-optimizer",
            "'momentum' of the optimizer is not NAME=",
            None,
        ),
        ({"target": "mlp", "optimizer": "sgd:momentum=high"}, "no-optimizer", "NAME=true or NAME=false", None),
        ({"target": "mlp", "optimizer": "sgd:speed=1"}, "no-optimizer", "sgd does not support speed", None),
        ({"target": "mlp", "optimizer": "sgd:momentum=-1"}, "no-optimizer", "Invalid momentum", None),
        ({"target": "decoder", "weights": "q4"}, "no-format", "nf4", None),
        ({"target": "decoder", "weights": "gptq:bits=5"}, "no-format", "bits=2|3|4|8", None),
        ({"target": "convolutions", "weights": "nf4", "train": False}, "no-format", "no linear layer", None),
        ({"target": "decoder", "weights": "nf4"}, "nothing-to-train", "--lora", None),
        ({"target": "decoder", "lora": "r=none"}, "no-adapters", "targets=q_proj,v_proj", None),
        ({"target": "decoder", "lora": "targets=query"}, "no-adapters", "it has down_proj, gate_proj", None),
        ({"target": "mlp", "checkpointing": True}, "no-checkpointing", "gradient_checkpointing_enable", None),
        ({"target": "mlp", "precision": "fp7"}, "bad-request", "amp-bf16", None),
        ({"target": f"{folder}/none.py:build"}, "no-file", "none.py", None),
        ({"target": f"{folder}/broken.py:build"}, "import-raised", "SyntaxError", 1),
        ({"target": "no_such_module:build"}, "no-module", "no_such_module", None),
        ({"target": "hf:" + str(folder / "none.json")}, "no-file", "none.json", None),
        ({"target": "hf:" + str(folder / "text.json")}, "bad-configuration", "JSON", None),
    ]


@pytest.fixture(scope="module")
def answers(traced: Asking, folder: Path) -> list[Trace]:
    """All in one child: those that are refused, those with sizes of data, and a configuration of transformers."""
    request = {"target": f"hf:{folder / 'config.json'}", "batch": 2, "seq": 64, "precision": "amp-bf16"}
    others = [{"target": "many_sizes"}, {"target": "few_sizes"}, request, {**request, "train": False}]
    return traced(*(request for request, *_ in cases(folder)), *others)


def test_each_error_has_a_kind_and_a_line(answers: list[Trace], folder: Path) -> None:
    for answer, (request, kind, words, line) in zip(answers, cases(folder), strict=False):
        error = answer.get("error", {})
        assert error.get("kind") == kind, (request, error)
        assert words in error["message"], (request, error)
        if line is not None:
            assert error["line"] == line, (request, error)


def test_sizes_that_depend_on_data_are_computed(answers: list[Trace]) -> None:
    """The fallback computes with data and reports it; what the data does not decide stays unchanged."""
    computed, followed = answers[-4:-2]
    assert (
        f"boolean index, nonzero, unique …), which is unknown before the model runs (line {line_of('out[out')})"
        in (computed["guesses"][0])
    )
    assert followed["guesses"] == []
    for what in ("parameters", "flops"):
        assert computed[what] == followed[what]
    kept = [
        [
            size
            for size, tag in zip(trace["events"]["bytes"], trace["events"]["tag"], strict=True)
            if is_kept(trace, tag, size)
        ]
        for trace in (computed, followed)
    ]
    assert kept[0] == kept[1], "weights, gradients and the optimizer's state"


def is_kept(trace: Trace, tag: int, size: int) -> bool:
    return size >= 0 and trace["tags"][tag]["kind"] in ("weights", "gradients", "optimizer")


def test_an_interpreter_without_torch_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "request.json"
    path.write_text(json.dumps({"target": f"{MODELS}:mlp"}))
    answer = guest_client.ask(sys.executable, "fit.trace", [str(path)], answer=dict[str, Any], deadline=30)
    assert answer["error"]["kind"] == "no-torch"


def test_a_configuration_of_transformers(answers: list[Trace]) -> None:
    trained, used = answers[-2:]
    if trained.get("error", {}).get("kind") == "no-transformers":
        pytest.skip(trained["error"]["message"])
    assert trained["parameters"]["tied"] == 1000 * 128
    assert (trained["batch"], trained["seq"]) == (2, 64)
    # Neither transformers nor torch makes a mask: attention is causal by itself.
    assert not any(tag["op"] == "aten.where" for tag in trained["tags"])
    assert used["flops"]["forward"] == trained["flops"]["forward"]

"""LoRA and weights in 4 or 8 bits, against arithmetic by hand and against what peft itself makes of a model."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest
from tests.guest.fit.paths import Asking, Trace
from tests.guest.fit.test_trace import peak, pieces

USED: dict[str, Any] = {"target": "decoder", "train": False, "precision": "bf16", "steps": 1}
LORA: dict[str, Any] = {"target": "decoder", "lora": "r=4,targets=q_proj,v_proj,dropout=0.1", "steps": 2}
REQUESTS: dict[str, dict[str, Any]] = {
    "plain": USED,
    "nf4": {**USED, "weights": "nf4"},
    "double": {**USED, "weights": "nf4:double=true"},
    "fp4": {**USED, "weights": "fp4:block=128"},
    "int8": {**USED, "weights": "int8"},
    "fp8": {**USED, "weights": "fp8"},
    "gptq": {**USED, "weights": "gptq:group=64"},
    "awq": {**USED, "weights": "awq"},
    "trained": {"target": "decoder", "steps": 2},
    "lora fp32": LORA,
    "lora amp-bf16": {**LORA, "precision": "amp-bf16"},
    "lora bf16": {**LORA, "precision": "bf16"},
    "all linear": {**LORA, "lora": "r=4"},
    "qlora": {**LORA, "precision": "amp-bf16", "weights": "nf4:double=true"},
    "qlora 8 bits": {**LORA, "precision": "amp-bf16", "weights": "int8"},
    "frozen": {"target": "frozen_decoder", "train": False, "precision": "bf16", "weights": "nf4", "steps": 1},
}

# By hand. Each block has 4 × 256 × 256 + 3 × 256 × 512 = 655,360 weights in 7 layers; there are 2 blocks. Embedding and output
# layer have 1000 × 256 each, and keep their 16 bits.
LINEAR = 2 * (4 * 256 * 256 + 3 * 256 * 512)
OUTER = 2 * 1000 * 256 * 2


@pytest.fixture(scope="module")
def traces(traced: Asking) -> dict[str, Trace]:
    return dict(zip(REQUESTS, traced(*REQUESTS.values()), strict=True))


@pytest.mark.parametrize(
    ("form", "linear_bytes"),
    [
        ("plain", 2_621_440),  # 2 bytes each
        # Half a byte each; a float32 per 64 values; a code of 16 float32 per layer.
        ("nf4", 655_360 + 20_480 * 4 + 14 * 64),
        # A byte per 64 values, a float32 per 256 of these; codes of 16 and 256 float32 and an offset per layer.
        ("double", 655_360 + 20_480 + 80 * 4 + 14 * (64 + 1024 + 4)),
        ("fp4", 655_360 + 10_240 * 4 + 14 * 64),
        # A byte each, and a float32 per output: 4 × 256 + 2 × 512 + 256 in each block.
        ("int8", 1_310_720 + 2 * 2_304 * 4),
        # A byte each, and a float32 per 128 × 128: 4 of a square layer, 8 of the others.
        ("fp8", 1_310_720 + 2 * (4 * 4 + 3 * 8) * 4),
        # Half a byte each; for 64 inputs a float16 and 4 bits per output; an int32 per input: 4 × 256 + 2 × 256 + 512 a block.
        ("gptq", 655_360 + 20_480 * 2 + 20_480 // 2 + 2 * 2_048 * 4),
        ("awq", 655_360 + 10_240 * 2 + 10_240 // 2),
    ],
)
def test_what_a_format_stores(traces: dict[str, Trace], form: str, linear_bytes: int) -> None:
    assert sum(pieces(traces[form], kind="weights")) == linear_bytes + OUTER
    assert traces[form]["parameters"]["total"] == LINEAR + 2 * 1000 * 256
    assert traces[form]["flops"] == traces["plain"]["flops"]


def test_a_format_is_said_to_be_computed(traces: dict[str, Trace]) -> None:
    assert any("nf4" in guess and "computed" in guess for guess in traces["nf4"]["guesses"])
    assert not traces["plain"]["guesses"]


def test_products_copy_a_weight_for_a_moment(traces: dict[str, Trace]) -> None:
    copies = [size for size in pieces(traces["nf4"], kind="activations") if size == 512 * 256 * 2]
    assert len(copies) >= 2 * 3  # gate_proj, up_proj and down_proj of two blocks, in bf16
    assert peak(traces["nf4"]) < peak(traces["plain"])


def test_adapters_alone_have_gradients_and_state(traces: dict[str, Trace]) -> None:
    """q_proj and v_proj of two blocks get 4 × 256 + 256 × 4 values each."""
    trace, adapters = traces["lora amp-bf16"], 4 * 2 * 4 * 256
    assert trace["parameters"]["trainable"] == adapters
    assert sum(pieces(trace, kind="gradients")) == 2 * adapters * 4  # two steps
    assert sum(pieces(trace, kind="optimizer")) == 2 * adapters * 4
    forward, backward = traces["trained"]["flops"]["forward"], traces["trained"]["flops"]["backward"]
    assert trace["flops"]["forward"] == forward + 2 * 2 * 128 * adapters
    assert trace["flops"]["backward"] < 0.62 * backward  # frozen weights have no gradients


def test_all_linear_layers_but_the_output_layer(traces: dict[str, Trace]) -> None:
    assert traces["all linear"]["parameters"]["trainable"] == 2 * 4 * (4 * 512 + 3 * 768)


def test_adapters_beside_quantized_weights(traces: dict[str, Trace]) -> None:
    outer, adapters = 2 * 1000 * 256 * 4, 4 * 2 * 4 * 256 * 4  # both in float32
    quantized = 655_360 + 20_480 + 80 * 4 + 14 * (64 + 1024 + 4)
    assert sum(pieces(traces["qlora"], kind="weights")) == quantized + outer + adapters
    assert peak(traces["qlora"]) < peak(traces["lora amp-bf16"])
    assert traces["qlora"]["flops"] == traces["qlora 8 bits"]["flops"] == traces["lora amp-bf16"]["flops"]


def test_a_frozen_model_is_quantized_as_a_trained_one(traces: dict[str, Trace]) -> None:
    assert pieces(traces["frozen"], kind="weights") == pieces(traces["nf4"], kind="weights")


# The bytes at the peak and of the weights that `adapted_by_peft` (models.py) gave with peft 0.21.2 in torch 2.13, 2026-11-18.
PEFT = {"fp32": (84_022_272, 7_323_648), "amp-bf16": (83_620_864, 7_323_648), "bf16": (77_755_392, 3_678_208)}


@pytest.mark.parametrize("precision", list(PEFT))
def test_adapters_take_what_those_of_peft_take(traces: dict[str, Trace], precision: str) -> None:
    trace = traces[f"lora {precision}"]
    if tuple(map(int, trace["torch"].split(".")[:2])) != (2, 13):
        pytest.skip("recorded with torch 2.13")
    assert (peak(trace), sum(pieces(trace, kind="weights"))) == PEFT[precision]


def test_a_model_of_peft_is_traced(traced: Asking, torch_python: str, traces: dict[str, Trace]) -> None:
    if subprocess.run([torch_python, "-c", "import peft"], capture_output=True, check=False).returncode:
        pytest.skip("that Python has no peft")
    requests = [{"target": "adapted_by_peft", "precision": precision, "steps": 2} for precision in PEFT]
    for precision, trace in zip(PEFT, traced(*requests), strict=True):
        own = traces[f"lora {precision}"]
        assert (peak(trace), trace["parameters"], trace["flops"]) == (peak(own), own["parameters"], own["flops"])

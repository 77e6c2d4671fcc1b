"""Predictions against recorded steps of an H200 (tests_gpu/fit), for models that need torch only."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

import pytest

from ownlab.instruments.fit.guest_client import ask_trace
from ownlab.instruments.fit.prediction import predict
from ownlab.instruments.fit.records import Request

FOLDER = Path(__file__).resolve().parents[3] / "tests_gpu" / "fit"
MEASURED: dict[str, dict[str, int]] = json.loads((FOLDER / "measured-h200.json").read_text())["configurations"]
NAMES = (
    "mlp_fp32_b64_sgdm",
    "unet_amp_b8_adamw",
    "gru_bi_fp32_b32_s128_adam",
    "lstm_bi_fp32_b16_s200_adam",
    "gan_fp32_b64_adam",
    "bags_fp32_b4096_sgd",
)


sys.path.insert(0, str(FOLDER))
REQUESTS = {name: importlib.import_module("configurations").BY_NAME[name].request for name in NAMES}
sys.path.remove(str(FOLDER))


@pytest.mark.parametrize("name", NAMES)
def test_a_step_takes_what_was_predicted(torch_python: str, name: str) -> None:
    request = Request(target=f"{FOLDER / 'models.py'}:{name}", **REQUESTS[name])
    fit, taken = predict(ask_trace(request, torch_python, deadline=110), request), MEASURED[name]
    assert fit.peak.allocated_bytes == pytest.approx(taken["allocated"], rel=0.01)
    assert fit.peak.reserved_bytes == pytest.approx(taken["reserved"], rel=0.03)
    assert fit.peak.device_bytes == pytest.approx(taken["device"], rel=0.03)
    assert fit.band.reserved_low_bytes <= taken["reserved"] <= fit.band.reserved_high_bytes
    assert fit.band.reserved_high_bytes <= 1.15 * fit.band.reserved_low_bytes

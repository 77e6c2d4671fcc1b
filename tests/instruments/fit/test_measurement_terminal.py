"""The output of `ownlab fit --measure`."""

from __future__ import annotations

from msgspec.structs import replace
from tests.instruments.fit.traces import a_trace
from tests.render.test_golden import compare, paper

from ownlab.instruments.fit.calibration import Calibration, Check, Context
from ownlab.instruments.fit.card_fit import with_cards
from ownlab.instruments.fit.card_specs import choose_cards
from ownlab.instruments.fit.measurement_terminal import show_alone, show_calibration, show_measured
from ownlab.instruments.fit.prediction import predict
from ownlab.instruments.fit.records import (
    BiggestBatch,
    Decoding,
    Device,
    Fit,
    Measured,
    MeasuredAlone,
    MeasuredDecoding,
    MeasuredMemory,
    OutOfMemoryReport,
    Request,
    Spread,
    Trial,
)
from ownlab.units import GIB, MIB

CARD = Device(kind="cuda", name="NVIDIA H200", multiprocessors=132, memory_bytes=140 * GIB, capability=9.0)
SPREAD = Spread(86, 0.0571, 0.0581, 0.06, 0.0612, 0.0655)


def a_fit() -> Fit:
    request = Request(target="/home/me/net.py:build", batch=8, precision="amp-bf16")
    return with_cards(predict(a_trace(), request), a_trace(), choose_cards("h200"))


def measured(fit: Fit) -> Measured:
    parts = {name: getattr(fit.parts, name) for name in ("weights", "optimizer", "inputs", "gradients", "activations")}
    memory = MeasuredMemory(
        allocated_bytes=fit.peak.allocated_bytes + 12 * MIB,
        reserved_bytes=fit.peak.reserved_bytes,
        device_bytes=fit.peak.device_bytes + 10 * MIB,
        device_source="NVML",
        context_bytes=fit.parts.context + 10 * MIB,
        phases={"forward": 1200 * MIB, "backward": 1700 * MIB, "optimizer": 900 * MIB},
        steps=(1000, 2000, 2000),
        retries=2,
        segments=40,
        later_bytes=fit.peak.reserved_bytes + 20 * MIB,
        parts={**parts, "temporary": 330 * MIB},
    )
    return Measured(CARD, "2.11.0+cu130", "13.0", 8, memory, SPREAD, SPREAD, 137.7, 0.0279)


def test_measured_beside_predicted() -> None:
    fit = a_fit()
    trials = (Trial(96, True, 130 * GIB), Trial(97, False, None, "out of memory in the backward phase of step 2"))
    out, sheet = paper()
    show_measured(replace(fit, measured=measured(fit), biggest=BiggestBatch(96, 95, 97, trials)), out)
    compare("fit-measured.txt", sheet.getvalue())


def test_decoding() -> None:
    fit = replace(a_fit(), decoding=Decoding(4, 512, 1000, 100 * MIB, 300 * MIB, 2 * GIB))
    token = MeasuredDecoding(0.02, SPREAD, 412.3, 300 * MIB)
    where = Device(kind="cpu", name="AMD EPYC", multiprocessors=2)
    out, sheet = paper()
    show_measured(replace(fit, measured=Measured(where, "2.13.0", None, 4, None, SPREAD, None, 68.8, None, token)), out)
    compare("fit-decoding.txt", sheet.getvalue())


def test_out_of_memory_and_missing_figures() -> None:
    fit = a_fit()
    ran_out = OutOfMemoryReport("CUDA out of memory. Tried to allocate 2 GiB.\nGPU 0 has …", "backward", 2)
    out, sheet = paper()
    show_measured(replace(fit, measured=Measured(CARD, "2.11.0", "13.0", 8, None, out_of_memory=ran_out)), out)
    answer = " ".join(sheet.getvalue().split())
    assert "out of memory in the backward phase of step 2: CUDA out of memory. Tried to allocate 2 GiB." in answer
    assert "not measured" not in sheet.getvalue()
    whole = measured(fit)
    assert whole.memory is not None
    memory = replace(
        whole.memory, device_bytes=None, device_source="NVML cannot be loaded", parts=None, parts_reason="x"
    )
    show_measured(replace(fit, measured=replace(whole, memory=memory)), out)
    assert "not measured: NVML cannot be loaded" in sheet.getvalue()


def test_a_measurement_without_prediction() -> None:
    fit = a_fit()
    out, sheet = paper()
    show_alone(MeasuredAlone(fit.request, measured(fit), "net.py, line 7: its size depends on the data"), out)
    compare("fit-alone.txt", sheet.getvalue())


def test_a_prediction_alone_adds_nothing() -> None:
    out, sheet = paper()
    show_measured(a_fit(), out)
    assert sheet.getvalue() == ""


def test_a_calibration() -> None:
    checks = (Check("convolutions", "fp32", 1010 * MIB, 1000 * MIB), Check("attention", "bf16", 900 * MIB, 900 * MIB))
    context = Context(632 * MIB, 54 * MIB, 56 * MIB, 18 * MIB)
    out, sheet = paper()
    show_calibration(Calibration(CARD, "2.11.0", "13.0", 91900, "2026-11-15", context, 64 * MIB, checks), out)
    compare("fit-calibration.txt", sheet.getvalue())

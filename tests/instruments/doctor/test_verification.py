"""Matrix products on devices. numpy stands in for two cards of a fake CuPy (tests/fakes/cards)."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ownlab.instruments.doctor.records import ProductCheck
from ownlab.instruments.doctor.verification import verify
from ownlab.machine.facts import Known, Unknown
from ownlab.machine.records import Framework, FrameworkDevice, Interpreter

ROOT = Path(__file__).parents[3]
V100 = "Tesla V100-SXM2-16GB"


@pytest.fixture(scope="session")
def python() -> str:
    """An interpreter with torch and numpy."""
    path = ROOT / ".venv-torch" / "bin" / "python"
    if not path.exists():
        pytest.skip("no .venv-torch: `scripts/setup test` makes it")
    return str(path)


def with_framework(python: str, name: str, *devices: FrameworkDevice) -> Interpreter:
    framework = Framework(name=name, devices=Known(devices, source="test"))
    return Interpreter(path=Known(python, source="test"), frameworks=Known((framework,), source="test"))


def verify_cupy(python: str, fault: str, deadline: float = 60.0) -> tuple[ProductCheck, ...]:
    cards = [FrameworkDevice(V100, compute_capability="7.0")] * 2
    env = {"PYTHONPATH": str(ROOT / "tests" / "fakes" / "cards"), "FAKE_CUPY": fault}
    return verify(with_framework(python, "cupy", *cards), deadline=deadline, env=env)


def test_correct_products_pass_on_each_device_for_each_dtype(python: str) -> None:
    checks = verify_cupy(python, "")
    assert [(check.device, check.dtype, check.passed, check.ran_on, check.name) for check in checks] == [
        ("cuda:0", "float32", True, "cuda:0", V100),
        ("cuda:0", "float16", True, "cuda:0", V100),
        ("cuda:1", "float32", True, "cuda:1", V100),
        ("cuda:1", "float16", True, "cuda:1", V100),
    ]
    for check in checks:
        assert check.error is None
        assert check.largest_error is not None
        assert check.tolerance is not None
        assert 0 < check.largest_error < check.tolerance


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        ("rounds", "the product differs from the CPU's by 0.00"),
        ("elsewhere", "the product was requested on cuda:1, but computed on cuda:0"),
        ("nan", "the product contains values that are not numbers"),
        ("raises", "cudaErrorNoKernelImageForDevice: no kernel image is available for execution on the device"),
    ],
)
def test_a_failure_on_one_device_is_reported_for_that_device_only(python: str, fault: str, error: str) -> None:
    first, first_half, second, second_half = verify_cupy(python, fault)
    assert first.passed
    assert first_half.passed
    for check in (second, second_half):
        assert not check.passed
        assert check.error is not None
        assert check.error.startswith(error)
        assert check.wrong == (fault in ("rounds", "nan"))


def test_a_crash_fails_every_device_of_the_framework(python: str) -> None:
    checks = verify_cupy(python, "segv")
    assert [(check.device, check.passed) for check in checks] == [("cuda:0", False), ("cuda:1", False)]
    assert all("died of SIGSEGV" in (check.error or "") for check in checks)


def test_a_framework_that_does_not_answer_fails_its_devices(python: str) -> None:
    env = {"PYTHONPATH": str(ROOT / "tests" / "fakes" / "hang")}
    interpreter = with_framework(python, "torch", FrameworkDevice("AMD Instinct MI300X", kind="rocm"))
    (check,) = verify(interpreter, deadline=1.0, env=env)
    assert not check.passed
    assert check.device == "cuda:0"
    assert "did not answer in 1 s" in (check.error or "")


def test_nothing_is_started_if_no_framework_sees_a_device() -> None:
    assert verify(with_framework("/no/such/python", "torch")) == ()
    assert verify(Interpreter(path=Unknown("not read"))) == ()


def test_a_card_that_disappeared_fails(python: str) -> None:
    """The real torch, without a card."""
    (check,) = verify(with_framework(python, "torch", FrameworkDevice("NVIDIA H200")))
    assert (check.device, check.name, check.passed) == ("cuda:0", "NVIDIA H200", False)
    assert check.error == "torch found this device earlier, but finds none now"


def test_torch_products_stay_within_the_tolerance_and_tf32_does_not(python: str) -> None:
    """The real torch, its CPU as the device; TF32 as its definition has it: the inputs rounded to 11 bits."""
    code = """
import torch
from ownlab_guest.probe.verify_devices import tolerance, torch_product

for dtype in ("float32", "float16"):
    error, ran_on = torch_product(torch, "cpu", dtype)
    assert 0 < error < tolerance(dtype) / 5 and ran_on == "cpu", (dtype, error)

def tf32(values):
    return ((values.view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32)
random = torch.Generator().manual_seed(0)
left, right = torch.randn(1024, 768, generator=random), torch.randn(768, 512, generator=random)
expected = left.double() @ right.double()
error = ((tf32(left) @ tf32(right)).double() - expected).abs().max() / expected.abs().max()
assert error > tolerance("float32") * 5, error
"""
    subprocess.run([python, "-c", code], check=True, timeout=300, env={"PYTHONPATH": str(ROOT / "src")})

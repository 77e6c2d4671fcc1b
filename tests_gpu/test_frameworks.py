"""On a real NVIDIA card: every framework of this interpreter sees it, and computes right on it.

Needs only the standard library: the guest code is started as the host starts it.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from typing import Any

SOURCE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "src")
LAUNCH = os.path.join(SOURCE, "ownlab_guest", "launch.py")
FRAMEWORKS = [name for name in ("torch", "tensorflow", "jax", "cupy", "numba") if importlib.util.find_spec(name)]
# What the host sets (ownlab.machine.interpreter.GUEST_ENVIRONMENT), so that a look at a card does not take its memory.
ENVIRONMENT = {**os.environ, "XLA_PYTHON_CLIENT_PREALLOCATE": "false", "TF_FORCE_GPU_ALLOW_GROWTH": "true"}


def ask(module: str, *arguments: str) -> Any:
    """Return the answer of a guest module in this interpreter."""
    command = [sys.executable, LAUNCH, module, *arguments]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=300, env=ENVIRONMENT, check=False)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def probe(name: str) -> Any:
    """Return the answer of a framework's probe, with a transcript, as the host requests it."""
    with tempfile.TemporaryDirectory() as folder:
        return ask("probe.frameworks", name, os.path.join(folder, "transcript"), "300")


def visible_cards() -> list[str]:
    listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=60, check=True)
    return [line.split(": ", 1)[1].split(" (UUID")[0] for line in listed.stdout.splitlines() if line.startswith("GPU ")]


def test_packages_names_the_frameworks_that_are_here() -> None:
    answer = ask("probe.packages")
    assert answer["frameworks"] == FRAMEWORKS
    versions = {package["name"]: package["version"] for package in answer["packages"]}
    assert versions["torch"].startswith("2.")


def test_every_framework_sees_each_card_by_name() -> None:
    cards = visible_cards()
    for name in FRAMEWORKS:
        answer = probe(name)
        assert answer.get("failure") is None, answer
        assert answer["error"] is None, answer
        assert answer["build"]["value"] == "cuda", answer
        assert [device["name"] for device in answer["devices"]["value"]] == cards, answer
        assert all(device["compute_capability"] for device in answer["devices"]["value"]), answer


def test_torch_reports_its_libraries_and_architectures() -> None:
    answer = probe("torch")
    for fact in ("version", "cuda", "cudnn", "nccl"):
        assert answer[fact]["value"][0].isdigit(), answer[fact]
    assert any(arch.startswith("sm_") for arch in answer["arch_list"]["value"]), answer["arch_list"]


def test_torch_with_its_cards_hidden_says_so_in_its_own_words() -> None:
    ENVIRONMENT["CUDA_VISIBLE_DEVICES"] = ""
    try:
        answer = probe("torch")
    finally:
        del ENVIRONMENT["CUDA_VISIBLE_DEVICES"]
    assert answer["devices"]["value"] == []
    assert answer["error"] == "No CUDA GPUs are available"
    assert answer["arch_list"]["value"], answer


def test_the_probe_of_torch_makes_no_context_on_the_card() -> None:
    """In a process of its own: the probe, then the driver's word on whether a primary context is active."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from ownlab_guest.probe import frameworks\n"
        "assert frameworks.answer(['torch'])['devices']['value']\n"
        "import ctypes\n"
        "driver = ctypes.CDLL('libcuda.so.1'); flags, active = ctypes.c_uint(), ctypes.c_int(-1)\n"
        "assert driver.cuInit(0) == 0\n"
        "assert driver.cuDevicePrimaryCtxGetState(0, ctypes.byref(flags), ctypes.byref(active)) == 0\n"
        "print(active.value)\n"
    )
    ran = subprocess.run([sys.executable, "-c", code, SOURCE], capture_output=True, text=True, timeout=300, check=False)
    assert ran.stdout.strip() == "0", ran.stdout + ran.stderr


def test_products_are_right_on_every_card_in_every_framework() -> None:
    cards = visible_cards()
    for name in FRAMEWORKS:
        checks = ask("probe.verify_devices", name)
        assert len({check["device"] for check in checks}) == len(cards), checks
        broken = why_numba_fails() if name == "numba" else None
        for check in checks:
            assert check["name"] in cards, check
            assert check["passed"] == (broken is None), check
            assert check.get("error") == broken, check
            assert check.get("ran_on") == (None if broken else check["device"]), check


def why_numba_fails() -> str | None:
    """Return the error of numba for the smallest kernel; None if it runs.

    numba-cuda 0.30.4 beside numpy 2.5.2 (the H200 of 2026-11-15) sees the card and compiles nothing: then the
    product must fail with exactly this message.
    """
    code = (
        "import numpy\n"
        "from numba import cuda\n"
        "def one(array): array[0] = 1.0\n"
        "try: cuda.jit(one)[1, 1](cuda.to_device(numpy.zeros(1)))\n"
        "except Exception as exc: print(exc)\n"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=True)
    return ran.stdout.strip() or None


def test_products_notice_tf32() -> None:
    """The tolerance of float32 is tight enough to tell TF32 from it."""
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "import torch\n"
        "from ownlab_guest.probe import verify_devices\n"
        "torch.set_float32_matmul_precision('high')\n"
        "check = verify_devices.check('torch', 'cuda:0', 'card', 'float32', verify_devices.torch_product, torch, 'cuda:0', 'float32')\n"
        "print(check['passed'], torch.cuda.get_device_capability()[0] >= 8)\n"
    )
    ran = subprocess.run([sys.executable, "-c", code, SOURCE], capture_output=True, text=True, timeout=300, check=False)
    passed, has_tf32 = ran.stdout.split()
    assert (passed == "False") == (has_tf32 == "True"), ran.stdout + ran.stderr


def test_asking_torch_takes_little_longer_than_importing_it() -> None:
    begun = time.perf_counter()
    subprocess.run([sys.executable, "-c", "import torch"], timeout=300, check=True)
    imported = time.perf_counter() - begun
    begun = time.perf_counter()
    ask("probe.packages")
    probe("torch")
    asked = time.perf_counter() - begun
    assert asked <= 1.2 * imported + 0.5, (asked, imported)

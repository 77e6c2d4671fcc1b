"""Runs every test in a small size, in the interpreter that has torch: `measure_everything.py LAUNCH.py FOLDER`; prints JSON.

Importing torch takes seconds, so one process does everything that needs it.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

SECONDS = 0.02
Measured = dict[str, dict[str, Any]]


def small(device: Any, module: Callable[[str], Any]) -> Measured:
    """Run one test of each kind, on the CPU or on the fake card."""
    operations, steps = module("torch_operations"), module("model_steps")
    kinds = ("fp64", "fp32", "tf32", "fp16", "bf16")
    tried: dict[str, Callable[[], Any]] = {
        **{f"matmul {kind}": partial(operations.product, device, SECONDS, kind, 64) for kind in kinds},
        "batch": lambda: operations.batch_product(device, SECONDS, 32),
        "copy": lambda: operations.copy_within(device, SECONDS, 1),
        "triad": lambda: operations.triad(device, SECONDS, 1),
        "to card": lambda: operations.between(device, SECONDS, 1, False, True),
        "from card": lambda: operations.between(device, SECONDS, 1, False, False),
        "back to back": lambda: operations.back_to_back(device, SECONDS),
        "and wait": lambda: operations.and_wait(device, SECONDS),
        "without waiting": lambda: operations.without_waiting(device, SECONDS, 32),
        "convolution": lambda: steps.convolution(device, SECONDS, "fp32", 1, 8, 14, False),
        "convolution backward": lambda: steps.convolution(device, SECONDS, "fp32", 1, 8, 14, True),
        "attention": lambda: steps.attention(device, SECONDS, "fp32", 1, 2, 16, False),
        "attention backward": lambda: steps.attention(device, SECONDS, "fp32", 1, 2, 16, True),
    }
    return {name: run()._asdict() for name, run in tried.items()}


def models(device: Any, module: Callable[[str], Any]) -> Measured:
    """Run a step of each model, with small images and few layers, in fp32 and in autocast."""
    steps, sizes = module("model_steps"), module("models")
    steps.SIDE, sizes.LAYERS, sizes.VOCABULARY, sizes.ROWS = 64, 1, 500, 512
    return {
        "train gpt2": steps.train_gpt2(device, 0.0, "bf16", 1, 8)._asdict(),
        "train gpt2 fp16": steps.train_gpt2(device, 0.0, "fp16", 1, 8)._asdict(),
        "infer gpt2": steps.infer_gpt2(device, 0.0, "fp32", 1, 8)._asdict(),
    }


def count_operations(torch: Any, module: Callable[[str], Any]) -> dict[str, list[float]]:
    """Return the parameters, then the operations forward and in training: as torch counts them, and ours."""
    from torch.utils.flop_counter import FlopCounterMode  # noqa: TID251  # this interpreter has it

    models = module("models")
    found = {}
    with torch.device("meta"):
        cases = {
            "resnet50": (models.resnet50(), torch.empty(2, 3, 224, 224), 2 * models.RESNET_FORWARD_FLOPS),
            "gpt2": (models.GPT2(), torch.empty(2, 128, dtype=torch.long), models.gpt2_forward_flops(2, 128)),
        }
        expected = {"resnet50": models.resnet50_training_flops(2), "gpt2": 3 * models.gpt2_forward_flops(2, 128)}
        for name, (model, given, forward) in cases.items():
            with FlopCounterMode(display=False) as once:
                model(given)
            with FlopCounterMode(display=False) as both:
                model(given).sum().backward()
            size = sum(parameter.numel() for parameter in model.parameters())
            found[name] = [size, once.get_total_flops(), forward, both.get_total_flops(), expected[name]]
    return found


def on_card(torch: Any, fake_cuda: Any, module: Callable[[str], Any]) -> dict[str, Any]:
    """Run what only cards have: events, cache, unsupported types, shared memory, a lost card."""
    devices, plan = module("device"), module("plan")
    request = module("request").Request(profile="full", memory_bytes=4 << 30)
    device = devices.Device(fake_cuda.Torch(torch, (8, 0)), None, "cpu", request)
    devices.take_card(device, request)
    answer = {
        "device": device.name,
        "fraction": device.torch.cuda.fraction,
        "half": device.fast_dtype,
        "sets": device.buffer_sets(1 << 19),
    }
    answer["small"] = {**small(device, module), **models(device, module)}
    answer["names"] = {
        profile: [test.name for test in plan.plan_tests(_with_request(device, request._replace(profile=profile)))]
        for profile in plan.PROFILES
    }
    old = devices.Device(fake_cuda.Torch(torch, (6, 1)), None, "cpu", request)
    devices.take_card(old, request)
    answer["old half"] = old.fast_dtype
    answer["old"] = {dtype: refusal(old, dtype, module) for dtype in ("bf16", "fp8", "tf32")}
    device.torch.cuda.lost = True
    answer["failure"] = device.explain_failure(RuntimeError("CUDA error: unspecified launch failure")).reason
    answer["lost"] = device.lost
    absent = devices.Device(fake_cuda.Torch(torch, (8, 0)), None, "cpu", request)
    devices.take_card(absent, request._replace(device="cuda:3"))
    answer["absent"] = [absent.name, absent.no_card_reason]
    return answer


def refusal(device: Any, dtype: str, module: Callable[[str], Any]) -> list[str]:
    """Return why there is no product of this type."""
    try:
        module("torch_operations").product(device, SECONDS, dtype, 64)
    except module("timing").Skipped as exc:
        return [exc.reason, str(exc)]
    return []


def _with_request(device: Any, request: Any) -> Any:
    device.request = request
    return device


def main(launch: str, here: str) -> None:
    """Run everything, and print the results."""
    launcher = _load("launch", launch)
    launcher.register_package()

    def module(name: str) -> Any:
        return importlib.import_module(f"ownlab_guest.bench.{name}")

    import torch  # noqa: TID251  # this interpreter has it

    device = module("device").find_device(module("request").Request(device="cpu"))
    answer = {
        "counted": count_operations(torch, module),  # before models are made smaller
        "cpu": {
            **small(device, module),
            **models(device, module),
            "train resnet50": module("model_steps").train_resnet50(device, 0.0, "fp32", 1)._asdict(),
        },
        "numpy": {
            "matmul fp64": module("numpy_operations").product(device, SECONDS, "fp64", 64)._asdict(),
            "batch": module("numpy_operations").batch_product(device, SECONDS, 32)._asdict(),
            "copy": module("numpy_operations").copy_within(device, SECONDS, 1)._asdict(),
        },
        "card": on_card(torch, _load("fake_cuda", str(Path(here) / "fake_cuda.py")), module),
    }
    sys.stdout.write("ANSWER" + json.dumps(answer))


def _load(name: str, path: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Measures everything in small sizes, in the interpreter that has torch: `measure_everything.py LAUNCH.py FOLDER`; prints one JSON object.

An import of torch takes seconds: so one process does all that needs it.
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


def small(place: Any, module: Callable[[str], Any]) -> Measured:
    """One of each kind, on the CPU or on what is taken for a card."""
    operations, steps = module("torch_operations"), module("model_steps")
    kinds = ("fp64", "fp32", "tf32", "fp16", "bf16")
    tried: dict[str, Callable[[], Any]] = {
        **{f"matmul {kind}": partial(operations.product, place, SECONDS, kind, 64) for kind in kinds},
        "batch": lambda: operations.batch_product(place, SECONDS, 32),
        "copy": lambda: operations.copy_within(place, SECONDS, 1),
        "triad": lambda: operations.triad(place, SECONDS, 1),
        "to card": lambda: operations.between(place, SECONDS, 1, False, True),
        "from card": lambda: operations.between(place, SECONDS, 1, False, False),
        "back to back": lambda: operations.back_to_back(place, SECONDS),
        "and wait": lambda: operations.and_wait(place, SECONDS),
        "without waiting": lambda: operations.without_waiting(place, SECONDS, 32),
        "convolution": lambda: steps.convolution(place, SECONDS, "fp32", 1, 8, 14, False),
        "convolution backward": lambda: steps.convolution(place, SECONDS, "fp32", 1, 8, 14, True),
        "attention": lambda: steps.attention(place, SECONDS, "fp32", 1, 2, 16, False),
        "attention backward": lambda: steps.attention(place, SECONDS, "fp32", 1, 2, 16, True),
    }
    return {name: run()._asdict() for name, run in tried.items()}


def models(place: Any, module: Callable[[str], Any]) -> Measured:
    """A step of each, of small images and few layers; in fp32 and in autocast."""
    steps, sizes = module("model_steps"), module("models")
    steps.SIDE, sizes.LAYERS, sizes.VOCABULARY, sizes.ROWS = 64, 1, 500, 512
    return {
        "train gpt2": steps.train_gpt2(place, 0.0, "bf16", 1, 8)._asdict(),
        "train gpt2 fp16": steps.train_gpt2(place, 0.0, "fp16", 1, 8)._asdict(),
        "infer gpt2": steps.infer_gpt2(place, 0.0, "fp32", 1, 8)._asdict(),
    }


def counted(torch: Any, module: Callable[[str], Any]) -> dict[str, list[float]]:
    """Parameters, then operations forward and in training: as torch counts them, and as we say."""
    from torch.utils.flop_counter import FlopCounterMode  # noqa: TID251  # this interpreter has it

    models = module("models")
    found = {}
    with torch.device("meta"):
        cases = {
            "resnet50": (models.resnet50(), torch.empty(2, 3, 224, 224), 2 * models.RESNET_FORWARD_FLOPS),
            "gpt2": (models.GPT2(), torch.empty(2, 128, dtype=torch.long), models.gpt2_forward_flops(2, 128)),
        }
        said = {"resnet50": models.resnet50_training_flops(2), "gpt2": 3 * models.gpt2_forward_flops(2, 128)}
        for name, (model, given, forward) in cases.items():
            with FlopCounterMode(display=False) as once:
                model(given)
            with FlopCounterMode(display=False) as both:
                model(given).sum().backward()
            size = sum(one.numel() for one in model.parameters())
            found[name] = [size, once.get_total_flops(), forward, both.get_total_flops(), said[name]]
    return found


def on_card(torch: Any, fake_cuda: Any, module: Callable[[str], Any]) -> dict[str, Any]:
    """The card's own ways: events, cache, what it cannot do, memory shared with others, a card that is lost."""
    places, plan = module("device"), module("plan")
    request = module("request").Request(profile="full", memory_bytes=4 << 30)
    place = places.Place(fake_cuda.Torch(torch, (8, 0)), None, "cpu", request)
    places._take_card(place, request)
    answer = {
        "device": place.device,
        "fraction": place.torch.cuda.fraction,
        "half": place.half,
        "sets": place.sets_of(1 << 19),
    }
    answer["small"] = {**small(place, module), **models(place, module)}
    answer["names"] = {
        profile: [one.name for one in plan.tests_of(_in(place, request._replace(profile=profile)))]
        for profile in plan.PROFILES
    }
    old = places.Place(fake_cuda.Torch(torch, (6, 1)), None, "cpu", request)
    places._take_card(old, request)
    answer["old half"] = old.half
    answer["old"] = {dtype: refused(old, dtype, module) for dtype in ("bf16", "fp8", "tf32")}
    place.torch.cuda.lost = True
    answer["failure"] = place.failure(RuntimeError("CUDA error: unspecified launch failure")).reason
    answer["lost"] = place.lost
    absent = places.Place(fake_cuda.Torch(torch, (8, 0)), None, "cpu", request)
    places._take_card(absent, request._replace(device="cuda:3"))
    answer["absent"] = [absent.device, absent.why]
    return answer


def refused(place: Any, dtype: str, module: Callable[[str], Any]) -> list[str]:
    """The reason for which there is no product of this type."""
    try:
        module("torch_operations").product(place, SECONDS, dtype, 64)
    except module("timing").Skipped as exc:
        return [exc.reason, str(exc)]
    return []


def _in(place: Any, request: Any) -> Any:
    place.request = request
    return place


def main(launch: str, here: str) -> None:
    """Print all of it."""
    launcher = _loaded("launch", launch)
    launcher.register_package()

    def module(name: str) -> Any:
        return importlib.import_module(f"ownlab_guest.bench.{name}")

    import torch  # noqa: TID251  # this interpreter has it

    place = module("device").find(module("request").Request(device="cpu"))
    answer = {
        "counted": counted(torch, module),  # before models are made smaller
        "cpu": {
            **small(place, module),
            **models(place, module),
            "train resnet50": module("model_steps").train_resnet50(place, 0.0, "fp32", 1)._asdict(),
        },
        "numpy": {
            "matmul fp64": module("numpy_operations").product(place, SECONDS, "fp64", 64)._asdict(),
            "batch": module("numpy_operations").batch_product(place, SECONDS, 32)._asdict(),
            "copy": module("numpy_operations").copy_within(place, SECONDS, 1)._asdict(),
        },
        "card": on_card(torch, _loaded("fake_cuda", str(Path(here) / "fake_cuda.py")), module),
    }
    sys.stdout.write("ANSWER" + json.dumps(answer))


def _loaded(name: str, path: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    main(*sys.argv[1:])

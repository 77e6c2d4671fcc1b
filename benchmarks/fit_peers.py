"""Parameters, FLOPs and memory of a model according to other tools. `fit.py` runs this in an interpreter that has them and torch.

`fit_peers.py counts` needs torchinfo, fvcore, ptflops, calflops and thop; `fit_peers.py memory FOLDER NAME …` needs torchinfo and
accelerate, and configurations.py and models.py in FOLDER. Prints JSON. If a tool fails, its result is its error message.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import logging
import sys
import warnings
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch  # noqa: TID251  # the interpreter that runs this has it

Results = dict[str, Any]


def library(name: str) -> Any:
    """A module that is there only where this runs."""
    return importlib.import_module(name)


fit_models = library("fit_models")


def by_torchinfo(model: Any, inputs: Any) -> Results:
    summary = library("torchinfo").summary(model, input_data=list(inputs), verbose=0)
    return {"parameters": summary.total_params, "flops": 2 * summary.total_mult_adds}


def by_fvcore(model: Any, inputs: Any) -> Results:
    nn = library("fvcore.nn")
    counted = nn.FlopCountAnalysis(model, inputs).unsupported_ops_warnings(False).uncalled_modules_warnings(False)
    return {"parameters": nn.parameter_count(model)[""], "flops": 2 * int(counted.total())}


def by_ptflops(model: Any, inputs: Any) -> Results:
    name = next(iter(type(model).forward.__code__.co_varnames[1:]))
    products, parameters = library("ptflops").get_model_complexity_info(
        model,
        (1,),
        input_constructor=lambda _: {name: inputs[0]},
        as_strings=False,
        print_per_layer_stat=False,
        verbose=False,
        backend="aten",
    )
    return {"parameters": parameters, "flops": 2 * products}


def by_calflops(model: Any, inputs: Any) -> Results:
    _, products, parameters = library("calflops").calculate_flops(
        model, args=list(inputs), output_as_string=False, print_results=False, print_detailed=False
    )
    return {"parameters": parameters, "flops": 2 * products}


def by_thop(model: Any, inputs: Any) -> Results:
    products, parameters = library("thop").profile(model, inputs=tuple(inputs), verbose=False)
    return {"parameters": int(parameters), "flops": 2 * int(products)}


TOOLS: dict[str, Callable[[Any, Any], Results]] = {
    "torchinfo": by_torchinfo,
    "fvcore": by_fvcore,
    "ptflops": by_ptflops,
    "calflops": by_calflops,
    "thop": by_thop,
}


def counts() -> Results:
    """Every tool on every model; a new model for each, since some leave things in it."""
    results: Results = {
        "versions": {tool: version(tool) for tool in TOOLS} | {"torch": torch.__version__},
        "models": {},
    }
    for name in fit_models.MODELS:
        answer = results["models"][name] = {}
        for tool, count in TOOLS.items():
            model, inputs = getattr(fit_models, name)()
            model.eval()
            with torch.no_grad():
                answer[tool] = _tried(count, model, inputs)
    return results


def memory(folder: str, names: list[str]) -> Results:
    """Bytes of a step, by accelerate's rule and by the plain formula."""
    result: Results = {
        "versions": {tool: version(tool) for tool in ("accelerate", "torchinfo")} | {"torch": torch.__version__},
        "configurations": {},
    }
    sys.path.insert(0, str(Path(folder).resolve()))
    for name in names:
        configuration = library("configurations").BY_NAME[name]
        result["configurations"][name] = {
            "accelerate": _tried(_by_accelerate, configuration),
            "formula": _tried(_by_formula, configuration),
        }
    return result


def _built(configuration: Any) -> Any:
    return getattr(library("models"), configuration.name)()


def _by_accelerate(configuration: Any) -> Results:
    """`accelerate estimate-memory`: what it shows for this type of numbers, as training with Adam or for inference."""
    with torch.device("meta"):
        model = _built(configuration)[0]
    size = library("accelerate.utils").calculate_maximum_sizes(model)[0]
    if not configuration.train:
        return {"bytes": size // 2 if configuration.precision in ("bf16", "fp16") else size}
    precision = {"bf16": "bfloat16", "amp-bf16": "bfloat16", "fp16": "float16", "amp-fp16": "float16"}
    estimate = library("accelerate.commands.estimate").estimate_training_usage
    return {"bytes": max(estimate(size, precision.get(configuration.precision, "float32")).values())}


def _by_formula(configuration: Any) -> Results:
    """Weights, gradients (4 bytes each) and Adam's two numbers (8), or one of SGD's (4), for each parameter; outputs of all
    layers, twice: torchinfo's "Forward/backward pass size", halved where numbers have 2 bytes."""
    torchinfo = library("torchinfo")
    torch.nn.init.trunc_normal_ = lambda tensor, *_, **__: tensor  # it reads numbers, and here there are none
    with library("torch._subclasses.fake_tensor").FakeTensorMode(allow_non_fake_inputs=True):
        built = _built(configuration)
        model, inputs = built[0], built[1]
        if configuration.checkpointing:
            model.gradient_checkpointing_enable()
        model.train(configuration.train)
        if hasattr(model, "step"):  # a generator and a discriminator, which have no forward together
            outputs = sum(
                torchinfo.summary(part, input_data=[batch], verbose=0).total_output_bytes
                for part, batch in ((model.generator, inputs[1]), (model.discriminator, inputs[0]))
            )
        else:
            given = inputs if isinstance(inputs, dict) else list(inputs)
            outputs = torchinfo.summary(model, input_data=given, verbose=0).total_output_bytes
    parameters = sum(parameter.numel() for parameter in model.parameters())
    each = 2 if configuration.precision in ("bf16", "fp16") else 4
    half = configuration.precision not in ("fp32", "tf32")
    activations = outputs // 2 if half else outputs
    if not configuration.train:
        return {"bytes": each * parameters + activations // 2}
    states = 1 if configuration.optimizer in ("sgd:momentum=0.9", "rmsprop") else 2
    return {"bytes": each * parameters * (2 + states) + activations}


def _tried(call: Callable[..., Results], *args: Any) -> Results:
    try:
        with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return call(*args)
    except Exception as exc:  # noqa: BLE001  # whatever a peer fails with is its result
        return {"error": f"{type(exc).__name__}: {exc}".splitlines()[0][:160]}


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    answer = counts() if sys.argv[1] == "counts" else memory(sys.argv[2], sys.argv[3:])
    print(json.dumps(answer))

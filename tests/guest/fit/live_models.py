"""Models that live in a process, as in a notebook: `live_models.py LAUNCH.py` prints what was seen, by name, as JSON.

Read by the interpreter that has torch.
"""

from __future__ import annotations

import importlib
import json
import random
import resource
import sys
import threading
from typing import Any

import torch  # noqa: TID251  # the interpreter that reads this has it
from torch import nn  # noqa: TID251


class Noted(nn.Module):  # type: ignore[misc]  # torch is not there where types are checked
    """Holds what a copy must not touch, and asks for a card by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.norm = nn.Linear(32, 64), nn.BatchNorm1d(64)
        self.head = nn.Linear(64, 4)
        self.calls: list[int] = []

    def forward(self, inputs: Any) -> Any:
        self.calls.append(len(inputs))
        mask = torch.ones(64, device="cuda").cuda()
        return self.head(self.norm(self.body(inputs.to("cuda:0"))) * mask * torch.rand(64) * random.random())


class Skipping(nn.Module):  # type: ignore[misc]
    """Leaves its layer out now and then, and takes as much of it as a number in a tensor says."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.head = nn.Linear(32, 32), nn.Linear(12, 4)

    def forward(self, inputs: Any) -> Any:
        if torch.rand([]) >= 0.1:
            inputs = self.layer(inputs)
        return self.head(inputs[:, : int(torch.tensor(12))])


def figures(answer: dict[str, Any]) -> dict[str, Any]:
    """Return the figures that must be the same for every way to give the model."""
    return {key: answer.get(key) for key in ("error", "parameters", "flops", "events", "tags", "marks", "batch")}


def as_files(live: Any, trace: Any, models: Any) -> dict[str, bool]:
    """Whether a model that is there is traced as one that a file builds."""
    same = {}
    for name in ("mlp", "lstm", "convolutions", "attention", "tied"):
        built = trace.trace_step(live.Request(f"{models.__file__}:{name}", steps=2))
        given = live.answer(live.LiveModel(*getattr(models, name)()), {"target": "", "steps": 2})
        same[name] = figures(built) == figures(given)
    return same


def untouched(live: Any) -> dict[str, Any]:
    """A model with gradients and hooks, and random numbers that are fix_random_scalar: all is as it was."""
    torch.manual_seed(3)
    model, kept = Noted().eval(), []
    model.body(torch.ones(1, 32)).sum().backward()
    model.body.register_forward_hook(lambda *output: kept.append(output))
    tensors = [*model.parameters(), *model.buffers(), model.body.weight.grad]
    before = [(id(tensor), tensor._version, tensor.clone()) for tensor in tensors]
    plain, numbers = random.getstate(), torch.get_rng_state()
    answer = live.answer(live.LiveModel(model, (8, 32), nn.CrossEntropyLoss(), (8, torch.long)), {"target": ""})
    after = [*model.parameters(), *model.buffers(), model.body.weight.grad]
    return {
        "error": answer.get("error"),
        "guesses": answer.get("guesses"),
        "tensors": all(
            id(tensor) == number and tensor._version == version and torch.equal(tensor, value)
            for tensor, (number, version, value) in zip(after, before, strict=True)
        ),
        "hooked": len(kept) + len(model.calls),
        "hooks": len(model.body._forward_hooks),
        "training": model.training,
        "random": plain == random.getstate() and torch.equal(numbers, torch.get_rng_state()),
        "grad": torch.is_grad_enabled(),
    }


def sizes(live: Any) -> dict[str, Any]:
    """Tensors, shapes, and other batches of both come to the same."""
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
    loss, targets = nn.CrossEntropyLoss(), torch.zeros(8, dtype=torch.long)
    tensors = live.answer(live.LiveModel(model, torch.zeros(8, 16), loss, targets), {"target": ""})
    shapes = live.answer(live.LiveModel(model, (8, 16), loss, (8, torch.long)), {"target": ""})
    resized = live.answer(live.LiveModel(model, (2, 16), loss, (2, torch.long)), {"target": "", "batch": 8})
    two = torch.zeros(2, dtype=torch.long)
    known = live.answer(live.LiveModel(model, (2, 16), lambda out: loss(out, two)), {"target": "", "batch": 8})
    half = live.complete_request(live.LiveModel(nn.Linear(4, 4).bfloat16(), (2, 4)), {"target": ""})
    tokens = live.complete_request(live.LiveModel(nn.Embedding(10, 4), (2, 7, torch.long)), {"target": ""})
    skipping = live.answer(live.LiveModel(Skipping(), (8, 32)), {"target": "", "train": False})
    return {
        "skipping": [skipping.get("flops", {}).get("forward"), skipping.get("guesses")],
        "same": figures(tensors) == figures(shapes) == figures(resized),
        "batch": shapes["batch"],
        "known": known.get("error") is None and known["flops"] == shapes["flops"],
        "half": half["precision"],
        "tokens": [tokens["target"], tokens["batch"], tokens["seq"]],
    }


def large(live: Any) -> dict[str, Any]:
    """16 GiB of weights that are nowhere; and 256 MiB that are here, and are not copied."""
    with torch.device("meta"):
        nowhere = nn.Linear(65536, 65536, bias=False)
    answer = live.answer(live.LiveModel(nowhere, (4, 65536)), {"target": "", "steps": 2})
    here = nn.Linear(8192, 8192, bias=False)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    live.answer(live.LiveModel(here, (4, 8192)), {"target": ""})
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    return {"most": max(answer["events"]["bytes"]), "grown_mib": grown // 1024}


def refused(live: Any) -> dict[str, str]:
    """Return the refused requests by the kind of the error."""
    locked = nn.Linear(4, 4)
    locked.lock = threading.Lock()
    cases = {
        "number": live.LiveModel(3, (2, 4)),
        "no inputs": live.LiveModel(nn.Linear(4, 4)),
        "wrong inputs": live.LiveModel(nn.Linear(4, 4), 7),
        "empty": live.LiveModel(nn.Linear(4, 4), (0, 4)),
        "lazy": live.LiveModel(nn.LazyLinear(4), (2, 4)),
        "locked": live.LiveModel(locked, (2, 4)),
        "wrong shape": live.LiveModel(nn.Linear(4, 4), (2, 5)),
        "script": live.LiveModel(torch.jit.script(nn.Linear(4, 4)), (2, 4)),
        "frozen": live.LiveModel(nn.ReLU(), (2, 4)),
    }
    output = {name: live.answer(model, {"target": ""}) for name, model in cases.items()}
    output["no length"] = live.answer(live.LiveModel(nn.Linear(4, 4), (2, 4)), {"target": "", "seq": 8})
    output["precision"] = live.answer(live.LiveModel(nn.Linear(4, 4), (2, 4)), {"target": "", "precision": "fp7"})
    return {name: answer.get("error", {}).get("kind", "") for name, answer in output.items()}


def main(launch: str) -> None:
    """Print all of it."""
    importlib.import_module("guest_import").register_guest(launch)
    live = importlib.import_module("ownlab_guest.fit.live_model")
    trace = importlib.import_module("ownlab_guest.fit.trace")
    models = importlib.import_module("models")
    seen = {
        "files": as_files(live, trace, models),
        "untouched": untouched(live),
        "sizes": sizes(live),
        "large": large(live),
        "refused": refused(live),
    }
    sys.stdout.write("SEEN" + json.dumps(seen))


if __name__ == "__main__":
    main(*sys.argv[1:])

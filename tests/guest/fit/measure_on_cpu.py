"""Measures on the processor, in the interpreter that has torch: `measure_on_cpu.py LAUNCH.py FOLDER`; prints all answers at once.

What a card's counters and history would say comes from fakes that are written here: they follow the real tensors of the step.
"""

from __future__ import annotations

import importlib
import json
import sys
import weakref
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch  # noqa: TID251  # the interpreter that reads this has it
import torch.utils.checkpoint  # noqa: TID251
from torch import nn  # noqa: TID251
from torch.utils._python_dispatch import TorchDispatchMode  # noqa: TID251
from torch.utils._pytree import tree_leaves  # noqa: TID251

HERE = Path(__file__).parent


class TooBig(nn.Module):  # type: ignore[misc]  # torch is not there where types are checked
    """As on a card that is full."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if len(x) > 37:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB.")
        return self.layer(x)


def too_big(batch: int = 8) -> tuple[Any, ...]:
    return TooBig(), (torch.randn(batch, 8),)


class Speaker(nn.Module):  # type: ignore[misc]  # as above
    """One layer of attention with 2 heads' worth of keys: 2 × 16 numbers for each token."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.keys, self.head = nn.Embedding(100, 32), nn.Linear(32, 32), nn.Linear(16, 100)

    def forward(self, input_ids: torch.Tensor, past_key_values: Any = None, use_cache: bool = False) -> Any:
        key, value = self.keys(self.embedding(input_ids)).chunk(2, -1)
        if past_key_values is not None:
            key, value = (torch.cat(pair, 1) for pair in zip(past_key_values[0], (key, value), strict=True))
        key, value = key.contiguous(), value.contiguous()
        seen = torch.softmax(key[:, -input_ids.shape[1] :] @ key.transpose(1, 2), -1) @ value
        return SimpleNamespace(logits=self.head(seen), past_key_values=[(key, value)] if use_cache else None)


def speaker(batch: int = 2, seq: int = 10) -> tuple[Any, ...]:
    return Speaker(), {"input_ids": torch.zeros(batch, seq, dtype=torch.long)}


class Recorder(TorchDispatchMode):  # type: ignore[misc]  # as above
    """The history that a card's allocator would have written."""

    def __init__(self, base: dict[int, int]) -> None:
        super().__init__()
        self.written: list[dict[str, Any]] = []
        self._base = base
        self._living: dict[int, Any] = {}

    def start(self) -> None:
        self.__enter__()

    def stop(self) -> None:
        self.__exit__(None, None, None)

    def base(self) -> dict[int, int]:
        return self._base

    def entries(self) -> list[dict[str, Any]]:
        return list(self.written)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(out):
            if isinstance(tensor, torch.Tensor) and tensor.dim() > 0:
                self._see(tensor.untyped_storage())
        return out

    def _see(self, storage: Any) -> None:
        address, size = storage.data_ptr(), storage.nbytes()
        if address in self._living or address in self._base:
            return
        self.written.append({"action": "alloc", "addr": address, "size": size})
        self._living[address] = weakref.ref(storage, lambda _: self._gone(address, size))

    def _gone(self, address: int, size: int) -> None:
        del self._living[address]
        self.written.append({"action": "free_completed", "addr": address, "size": size})


def followed(guest: Any) -> dict[str, Any]:
    """Phases by counters that count calls, and parts by the recorder above."""
    peaks = guest("peak_memory")
    model = nn.Sequential(*(layer for _ in range(4) for layer in (nn.Linear(256, 256), nn.ReLU())))
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
    inputs = torch.randn(64, 256)

    def step() -> None:
        model(inputs).mean().backward()
        optimizer.step()
        optimizer.zero_grad()

    counted = iter(range(1, 1000))
    phases = peaks.Phases(lambda: (next(counted), 7))
    turns: list[str] = []
    with phases.track():
        step()
        phases.on_change = turns.append
        step()
    again: list[str] = []
    phases.on_change = again.append
    with phases.track():
        # The old way of checkpointing calls torch.autograd.backward() inside of itself.
        torch.utils.checkpoint.checkpoint(model, inputs.clone().requires_grad_(), use_reentrant=True).mean().backward()
    phases.on_change = lambda _: None
    optimizer.zero_grad()
    backward = torch.autograd.backward.__module__
    library = torch.zeros(1024)
    states = [value for state in optimizer.state.values() for value in state.values() if value.dim() > 0]
    held = [*model.parameters(), inputs, library, *states]
    base = {tensor.untyped_storage().data_ptr(): -(-tensor.untyped_storage().nbytes() // 512) * 512 for tensor in held}
    with phases.track():
        parts = peaks.History(Recorder(base)).parts(
            step, phases, {"weights": list(model.parameters()), "inputs": [inputs]}
        )
    return {
        "turns": turns,
        "enable_checkpointing": again,
        "allocated": phases.allocated,
        "parts": parts,
        "left": backward,
    }


def main(launch: str, folder: str) -> None:
    """Print a dictionary of answers."""
    importlib.import_module("guest_import").register_guest(launch)

    def guest(name: str) -> Any:
        return importlib.import_module(f"ownlab_guest.fit.{name}")

    def asked(module: str, settings: Any, **request: Any) -> Any:
        paths = [Path(folder, "request.json"), Path(folder, "settings.json")]
        request["target"] = f"{__file__ if request['target'] in OWN else HERE / 'models.py'}:{request['target']}"
        for path, output in zip(paths, (request, settings), strict=True):
            path.write_text(json.dumps(output))
        return guest(module).answer([str(paths[0]), str(paths[1]) if isinstance(settings, dict) else settings])

    quick = {"seconds": 0.01, "device": "cpu"}
    cache = {"target": "speaker", "train": False, "precision": "bf16"}
    answers = {
        "trained": asked("measure", quick, target="mlp", batch=4, optimizer="sgd:momentum=0.9"),
        "mixed": asked("measure", quick, target="mlp", batch=4, precision="amp-bf16", accumulate=2),
        "used": asked("measure", quick, target="mlp", batch=4, train=False, precision="bf16"),
        "two optimizers": asked("measure", quick, target="pair"),
        "too big": asked("measure", quick, target="too_big", batch=50),
        "raises": asked("measure", quick, target="wrong_shape"),
        "no card": asked("measure", {"device": "cuda:0"}, target="mlp"),
        "looked": asked("measure", {**quick, "look": True}, target="mlp"),
        "decoded": asked("measure", {**quick, "decode": 6}, **cache),
        "cache": asked("kv_cache", "6", **cache),
        "no cache": asked("kv_cache", "6", target="mlp", train=False),
        "followed": followed(guest),
        "own": [
            guest("device").find_own_bytes(seen, 5)
            for seen in ([(1, 2), (5, 7), (5, 8)], [(1, 2)], [(1, 2), (3, 4)], [])
        ],
        "stages": {part: guest("calibrate").measure_stages(part, "cpu", lambda: 1, lambda: 2) for part in PARTS},
    }
    sys.stdout.write("ANSWERS" + json.dumps(answers))


OWN = ("too_big", "speaker")
PARTS = ("convolutions", "products")

if __name__ == "__main__":
    main(*sys.argv[1:])

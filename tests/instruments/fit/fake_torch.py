"""Stands in for a Python that has torch and a card of 16 GiB: speaks as the guest does, and computes what it would answer.

`fake_torch.py LAUNCH.py MODULE ARGUMENTS…`. A step takes 400 MiB, and 50 MiB for each sample; its batch of 100 crashes.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

MIB = 1024**2
CARD = 16 * 1024 * MIB
CONTEXT = 500 * MIB
DEVICE: dict[str, Any] = {
    "kind": "cuda",
    "name": "Tesla T4",
    "memory_bytes": CARD,
    "free_bytes": CARD - 256 * MIB,
    "capability": 7.5,
    "multiprocessors": 40,
    "threads": 1024,
}
ABOUT = {"torch": "2.11.0+cu130", "cuda": "13.0", "cudnn": 91900, "device": DEVICE}


def trace(request: dict[str, Any]) -> dict[str, Any]:
    """Weights, and an activation for each sample."""
    if request["target"].endswith(":routes"):
        return {"error": {"kind": "data-dependent-shape", "message": "the size of its result depends on the data"}}
    batch = request.get("batch") or 8
    kinds = [("weights", "setup"), ("activations", "forward"), ("temporary", "backward")]
    sizes = [400 * MIB, 49 * MIB * batch, 1 * MIB * batch]
    return {
        "parameters": {"total": 100 * MIB, "trainable": 100 * MIB},
        "flops": {"forward": 10**12, "backward": 2 * 10**12},
        "events": {"name": [0, 1, 2, 2, 1], "bytes": [*sizes, -1, -1], "tag": [0, 1, 2, 2, 1]},
        "tags": [{"kind": kind, "phase": phase, "module": "body", "op": "aten.addmm"} for kind, phase in kinds],
        "marks": [5],
        "torch": "2.11.0+cu130",
        "batch": batch,
    }


def measure(request: dict[str, Any], settings: dict[str, Any]) -> dict[str, Any]:
    """Out of memory where the card, or the cap, is too small."""
    if settings["look"]:
        return ABOUT
    batch = request["batch"] or 8
    if batch == 100:
        os.kill(os.getpid(), signal.SIGKILL)
    reserved = (400 + 50 * batch) * MIB
    most = settings["cap_bytes"] or DEVICE["free_bytes"] - CONTEXT
    if reserved > most:
        output = f"CUDA out of memory. Tried to allocate {50 * batch} MiB."
        return {
            **ABOUT,
            "memory": None,
            "batch": batch,
            "out_of_memory": {"message": output, "phase": "backward", "step": 1},
        }
    memory = {
        "allocated_bytes": reserved - 10 * MIB,
        "reserved_bytes": reserved,
        "device_bytes": reserved + CONTEXT,
        "device_source": "NVML",
        "context_bytes": CONTEXT,
        "phases": {"forward": reserved // 2, "backward": reserved - 10 * MIB, "optimizer": 400 * MIB},
        "steps": [reserved - 10 * MIB] * 3,
        "retries": 0,
        "segments": 12,
        "later_bytes": reserved,
        "parts": {"weights": 400 * MIB, "activations": (49 * batch - 10) * MIB, "temporary": batch * MIB},
    }
    times = {"alone": [0.11] * 20, "steady": [0.1] * 19 + [0.15]} if settings["seconds"] else None
    tokens = {"prompt_seconds": 0.02, "token_seconds": [0.01] * settings["decode"], "cache_bytes": 3 * MIB}
    return {
        **ABOUT,
        "memory": memory,
        "batch": batch,
        "times": times,
        "decoding": tokens if settings["decode"] else None,
    }


def stages(part: str) -> dict[str, Any]:
    """Context and libraries."""
    held = {
        "convolutions": [("start", 400)],
        "products": [("matmul", 440), ("matmul_backward", 470), ("more_kernels", 480)],
    }
    rows = [{"name": name, "context_bytes": size * MIB, "kept_bytes": 17 * MIB} for name, size in held[part]]
    return {**ABOUT, "stages": rows}


def answer(module: str, arguments: list[str]) -> dict[str, Any]:
    if module == "fit.calibrate":
        return stages(arguments[0])
    request = json.loads(Path(arguments[0]).read_text())
    if module == "fit.trace":
        return trace(request)
    if module == "fit.kv_cache":
        count = int(arguments[1])
        sizes = {
            "prompt_tokens": 100,
            "new_tokens": count,
            "prompt_bytes": 100 * 1024,
            "cache_bytes": (100 + count) * 1024,
        }
        return {"trace": trace(request), "batch": 1, **sizes}
    return measure(request, json.loads(Path(arguments[1]).read_text()))


if __name__ == "__main__":
    sys.stdout.write(json.dumps(answer(sys.argv[2], sys.argv[3:])))

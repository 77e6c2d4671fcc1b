"""`ownlab top` compared with gpustat and nvitop, the cost of sampling, and its effect on a training step.

The peers are taken from the folder OWNLAB_PEERS if they are not installed.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import psutil  # type: ignore[import-untyped]
from benchmarks.rows import row

from ownlab.instruments.top.sampler import Sampler

PEERS = {"gpustat": (["--json"], "1.0"), "nvitop": (["-1"], "0.7")}
SAMPLES = 30  # one per second
EVERY = 0.2  # seconds between samples while a step is watched


def monitor_rows(rounds: int) -> list[dict[str, Any]]:
    """Return all comparisons; without a card, only those that need none."""
    rows = [_cold(peer, *once, rounds) for peer, once in PEERS.items()]
    sampler = Sampler()
    sampler.take()
    has_cards = bool(sampler.take().cards)
    cards, rest = _costs(sampler)
    sampler.close()
    if has_cards:
        rows.append(
            row("sampling once a second, the cards / `nvidia-smi dmon`", [(cards, _dmon())], "1 % of a core", "%")
        )
        rows.append(_watched_step(rounds))
    rows.append(row("sampling once a second, host and processes / one pass of psutil", [(rest, _psutil())], "", "%"))
    return rows


def _cold(peer: str, arguments: list[str], limit: str, rounds: int) -> dict[str, Any]:
    path = [os.environ[name] for name in ("OWNLAB_PEERS", "PYTHONPATH") if name in os.environ]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(path), "TERM": "xterm-256color"}
    ours = [sys.executable, "-m", "ownlab", "top", "--once", "--json"]
    theirs = [sys.executable, "-m", peer, *arguments]
    pairs = [(_seconds(ours, dict(os.environ)), _seconds(theirs, env)) for _ in range(2 * rounds + 1)]
    return row(f"`ownlab top --once --json` / `{peer} {' '.join(arguments)}`", pairs[1:], limit)


def _seconds(command: list[str], env: dict[str, str]) -> float:
    began = time.perf_counter()
    ran = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    took = time.perf_counter() - began
    if ran.returncode not in (0, 1):  # 1: the peers without a card
        raise SystemExit(f"{command} ended with {ran.returncode}:\n{ran.stderr}")
    return took


def _costs(sampler: Sampler) -> tuple[float, float]:
    """Return the percentage of a core for the NVML child process, and for the rest."""
    children = psutil.Process().children()

    def seconds() -> tuple[float, float]:
        return sum(sum(child.cpu_times()[:2]) for child in children), time.process_time()

    before, began = seconds(), time.perf_counter()
    _once_a_second(sampler.take)
    after, took = seconds(), time.perf_counter() - began
    return 100 * (after[0] - before[0]) / took, 100 * (after[1] - before[1]) / took


def _once_a_second(call: Callable[[], object]) -> None:
    began = time.perf_counter()
    for number in range(1, SAMPLES + 1):
        time.sleep(max(0.0, began + number - time.perf_counter()))
        call()


def _dmon() -> float:
    """Return the cost of nvidia-smi for the same values, in percent of a core."""
    command = ["nvidia-smi", "dmon", "--gpm-metrics", "1,2,3,5,10,11,12,13", "-d", "1", "-c", str(SAMPLES)]
    before, began = os.times(), time.perf_counter()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    after, took = os.times(), time.perf_counter() - began
    used = after.children_user + after.children_system - before.children_user - before.children_system
    return 100 * used / took


def _psutil() -> float:
    """Return the cost of listing all processes with psutil once per second, in percent of a core."""
    shown = ["pid", "name", "username", "cpu_percent", "memory_info", "io_counters"]
    before, began = time.process_time(), time.perf_counter()
    _once_a_second(lambda: [*psutil.process_iter(shown), psutil.cpu_percent(), psutil.net_io_counters()])
    return 100 * (time.process_time() - before) / (time.perf_counter() - began)


def _watched_step(rounds: int) -> dict[str, Any]:
    """Time a training step alternately with and without sampling the card five times per second."""
    step = _training_step()
    watching = [sys.executable, "-m", "ownlab", "top", "--json", "--watch", str(EVERY), "--interval", str(EVERY)]
    pairs = []
    for _ in range(2 * rounds + 1):
        with subprocess.Popen(watching, stdout=subprocess.PIPE) as watcher:
            assert watcher.stdout is not None
            watcher.stdout.readline()  # it is sampling now
            watched = step()
            watcher.terminate()
            watcher.stdout.read()
        pairs.append((watched, step()))
    return row("a training step, watched five times a second / unwatched", pairs[1:], "1.005", "ms")


def _training_step() -> Callable[[], float]:
    """Return a function that trains for a while and returns the median time of a step in milliseconds."""
    import torch  # noqa: TID251  # the work under test; with a card, torch is installed

    layer = torch.nn.TransformerEncoderLayer(2048, 16, 8192, batch_first=True, device="cuda", dtype=torch.bfloat16)
    optimizer = torch.optim.AdamW(layer.parameters(), fused=True)
    batch = torch.randn(16, 1024, 2048, device="cuda", dtype=torch.bfloat16)

    def train() -> float:
        marks = [torch.cuda.Event(enable_timing=True) for _ in range(101)]
        for mark in marks:
            mark.record()
            optimizer.zero_grad()
            layer(batch).float().mean().backward()
            optimizer.step()
        torch.cuda.synchronize()
        times = sorted(start.elapsed_time(end) for start, end in itertools.pairwise(marks))
        return float(times[len(times) // 2])

    train()
    return train

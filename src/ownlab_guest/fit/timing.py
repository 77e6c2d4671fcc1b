"""Times of repetitions, taken so that they mean what they say: after a warm-up, and with the device waited for."""

import time
from typing import Any, Callable, Dict, List

import torch

WARM = 2


def timed(step: Callable[[], None], device: str, seconds: float, least: int, most: int) -> Dict[str, Any]:
    """Two lists of seconds.

    `alone`: each repetition for itself, from the call until the device has finished: the latency that one user waits.
    `steady`: one after the other without waiting, as in training; on a card by its own events.
    """
    for _ in range(WARM):
        step()
    alone: List[float] = []
    while len(alone) < least or (len(alone) < most and sum(alone) < seconds / 2):
        alone.append(_alone(step, device))
    return {"alone": alone, "steady": _on_card(step, device, len(alone)) if device != "cpu" else []}


def _alone(step: Callable[[], None], device: str) -> float:
    if device != "cpu":
        torch.cuda.synchronize(device)
    begin = time.perf_counter()
    step()
    if device != "cpu":
        torch.cuda.synchronize(device)
    return time.perf_counter() - begin


def _on_card(step: Callable[[], None], device: str, count: int) -> List[float]:
    """From the end of one to the end of the next: what the card waits for its orders is in it."""
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(count + 1)]
    torch.cuda.synchronize(device)
    step()  # so that the first that counts has one before it
    marks[0].record()
    for mark in marks[1:]:
        step()
        mark.record()
    torch.cuda.synchronize(device)
    return [first.elapsed_time(second) / 1e3 for first, second in zip(marks, marks[1:])]

"""Training loops with one planted cause each: `python planted_loops.py CAUSE…`. Run in the interpreter that has torch.

Of several causes each runs in a fork, one after the other: importing torch takes longer than any of them. "PID CAUSE" is printed for each.

Waiting is a sleep and computing is CPU time of the thread, so that the load of the machine changes neither. It does change how
long computing takes: where a sleep is to dominate, there is little to compute.
"""

from __future__ import annotations

import gc
import io
import itertools
import os
import sys
import time
from collections.abc import Iterator
from typing import Any

import torch  # noqa: TID251  # it runs in the interpreter that has torch
from torch.utils.data import DataLoader, Dataset, IterableDataset  # noqa: TID251

STEPS = 30
BATCH = 8


def compute(milliseconds: float) -> None:
    end = time.thread_time() + milliseconds / 1e3
    while time.thread_time() < end:
        pass


class Samples(Dataset):  # type: ignore[misc]  # mypy does not see torch
    def __init__(self, *, read_ms: float = 0.0, prepare_ms: float = 0.0, count: int = STEPS * BATCH) -> None:
        self.read_ms, self.prepare_ms, self.count = read_ms, prepare_ms, count

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Any:
        if self.read_ms:
            time.sleep(self.read_ms / 1e3)
        compute(self.prepare_ms)
        return torch.randn(16), index % 4


class Stream(IterableDataset):  # type: ignore[misc]
    def __iter__(self) -> Iterator[Any]:
        for index in range(STEPS * BATCH):
            compute(1.5)
            yield torch.randn(16), index % 4


def model_and_optimizer() -> tuple[torch.nn.Module, torch.optim.Optimizer]:
    torch.set_num_threads(1)
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))
    return model, torch.optim.AdamW(model.parameters())


class Slow(torch.nn.Module):  # type: ignore[misc]
    """A model whose forward pass takes a known time."""

    def __init__(self, milliseconds: float) -> None:
        super().__init__()
        self.inner, self.milliseconds = torch.nn.Linear(16, 4), milliseconds

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        compute(self.milliseconds)
        return self.inner(x)


def train(
    loader: Any, *, epochs: int = 1, model_ms: float = 5.0, after_step: Any = lambda step, model, output: None
) -> None:
    torch.set_num_threads(1)
    model = Slow(model_ms)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    step = 0
    for _ in range(epochs):
        for x, y in loader:
            output = model(x)
            loss = torch.nn.functional.cross_entropy(output, y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            after_step(step, model, output)


def no_workers() -> None:
    train(DataLoader(Samples(prepare_ms=2.0), batch_size=BATCH))


def no_workers_stream() -> None:
    train(DataLoader(Stream(), batch_size=BATCH), model_ms=10)


def few_workers() -> None:
    train(DataLoader(Samples(read_ms=10), batch_size=BATCH, num_workers=1), model_ms=1)


def few_workers_spawned() -> None:
    loader = DataLoader(Samples(read_ms=10), batch_size=BATCH, num_workers=1, multiprocessing_context="spawn")
    train(loader, model_ms=1)


def slow_preparing() -> None:
    train(DataLoader(Samples(prepare_ms=3), batch_size=BATCH, num_workers=os.cpu_count() or 1), model_ms=1)


def workers_restarted() -> None:
    train(DataLoader(Samples(count=4 * BATCH), batch_size=BATCH, num_workers=1), epochs=10, model_ms=1)


def frequent_checkpoints() -> None:
    def save(step: int, model: torch.nn.Module, output: torch.Tensor) -> None:
        if step % 2 == 0:
            torch.save({"model": model.state_dict(), "data": torch.zeros(3_000_000)}, SlowFile())

    train(DataLoader(Samples(), batch_size=BATCH), after_step=save)


class SlowFile(io.BytesIO):
    """A file on a slow disk."""

    def write(self, data: Any) -> int:
        time.sleep(0.004)
        return super().write(data)


def slow_logging() -> None:
    def log(step: int, model: torch.nn.Module, output: torch.Tensor) -> None:
        print("step", step, file=SlowText())

    train(DataLoader(Samples(), batch_size=BATCH), model_ms=1, after_step=log)


class SlowText(io.StringIO):
    def write(self, data: str) -> int:
        time.sleep(0.004)
        return super().write(data)


def much_validation() -> None:
    validation = DataLoader(Samples(count=4 * BATCH), batch_size=BATCH)

    def validate(step: int, model: torch.nn.Module, output: torch.Tensor) -> None:
        if step % 5 == 0:
            model.eval()
            with torch.no_grad():
                for x, y in validation:
                    (model(x).argmax(1) == y).sum()
            model.train()

    train(DataLoader(Samples(), batch_size=BATCH), after_step=validate)


def python_metrics() -> None:
    def accuracy(step: int, model: torch.nn.Module, output: torch.Tensor) -> None:
        compute(15)

    train(DataLoader(Samples(), batch_size=BATCH), after_step=accuracy)


def make_batch() -> tuple[torch.Tensor, torch.Tensor]:
    compute(15)
    return torch.randn(BATCH, 16), torch.zeros(BATCH, dtype=torch.long)


def work_between_steps() -> None:
    train(make_batch() for _ in range(STEPS))


def garbage_collection() -> None:
    kept = [[number] for number in range(60_000)]

    def collect(step: int, model: torch.nn.Module, output: torch.Tensor) -> None:
        gc.collect()

    train(DataLoader(Samples(), batch_size=BATCH), after_step=collect)
    assert kept


def collate_in_main() -> None:
    def collate(samples: list[Any]) -> Any:
        compute(15)
        return torch.utils.data.default_collate(samples)

    train(DataLoader(Samples(), batch_size=BATCH, collate_fn=collate))


def well_used() -> None:
    train(DataLoader(Samples(), batch_size=BATCH), model_ms=20)


def endless() -> None:
    train(itertools.repeat(make_batch()))


def frozen_batch_norm() -> None:
    """A part of the model is set to evaluation in each step, which is no validation."""
    torch.set_num_threads(1)
    model = torch.nn.Sequential(Slow(10), torch.nn.BatchNorm1d(4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for x, y in DataLoader(Samples(), batch_size=BATCH):
        model.train()
        model[1].eval()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()


def run_forked(causes: list[str]) -> None:
    for cause in causes:
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            globals()[cause]()
            return  # and so to the end of the program, as if it ran alone
        _, status = os.waitpid(pid, 0)
        if status:
            sys.exit(f"{cause} ended with {os.waitstatus_to_exitcode(status)}")
        sys.stdout.write(f"{pid} {cause}\n")


if __name__ == "__main__":
    if len(sys.argv) > 2:
        run_forked(sys.argv[1:])
    else:
        globals()[sys.argv[1]]()

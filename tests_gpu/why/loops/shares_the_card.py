"""Another process multiplies matrices on the same card."""

import multiprocessing
import os
import signal

import torch
from harness import FIXED, timed
from models import Language, tokens

CAUSES = ("shared-card",)


def other_work() -> None:
    side = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    while os.getppid() == parent:
        for _ in range(10):
            side @ side
        torch.cuda.synchronize()


parent = os.getpid()
other = multiprocessing.get_context("fork").Process(target=other_work, daemon=True)
if not FIXED:
    other.start()
torch.set_float32_matmul_precision("high")
model = Language(layers=8, words=16384).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
for batch in timed(tokens(32, 512, 16384), 32):
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = model.loss(batch)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
if not FIXED:
    os.kill(other.pid or 0, signal.SIGKILL)

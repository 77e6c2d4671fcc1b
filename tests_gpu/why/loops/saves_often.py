"""A checkpoint every 10 steps."""

import tempfile
from pathlib import Path

import torch
from harness import FIXED, timed
from models import Language, tokens

CAUSES = ("frequent-checkpoints",)

torch.set_float32_matmul_precision("high")
model = Language(layers=6, words=8192).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
every = 1000 if FIXED else 10
with tempfile.TemporaryDirectory() as folder:
    for step, batch in enumerate(timed(tokens(16, 512, 8192), 16)):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model.loss(batch)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if step % every == every - 1:
            torch.save({"model": model.state_dict(), "step": step}, Path(folder) / "last.pt")

"""Validation on 20 batches after each 5 steps."""

import torch
from harness import FIXED, timed
from models import Language, tokens

CAUSES = ("much-validation",)

torch.set_float32_matmul_precision("high")
model = Language(layers=6, words=8192).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
held_out = tokens(16, 512, 8192)
every = 100 if FIXED else 5


def validate() -> None:
    model.eval()
    with torch.no_grad(), torch.autocast("cuda", dtype=torch.bfloat16):
        total = sum(model.loss(held_out[number % 4]) for number in range(20))
    model.train()
    losses.append(total)


losses: list[torch.Tensor] = []
for step, batch in enumerate(timed(tokens(16, 512, 8192), 16)):
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = model.loss(batch)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    if step % every == every - 1:
        validate()

"""A batch of 2 on a card that could compute 128."""

import torch
from harness import FIXED, timed
from models import Language, tokens

CAUSES = ("small-batch", "launch-bound")

BATCH = 128 if FIXED else 2
torch.set_float32_matmul_precision("high")
model = Language(width=512, layers=8, heads=8, words=4096).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
for batch in timed(tokens(BATCH, 128, 4096), BATCH):
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = model.loss(batch)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)

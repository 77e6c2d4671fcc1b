"""The cache of the allocator is emptied in each step."""

import torch
from harness import FIXED, timed
from models import Language, tokens

CAUSES = ("cache-emptied",)

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
        torch.cuda.empty_cache()

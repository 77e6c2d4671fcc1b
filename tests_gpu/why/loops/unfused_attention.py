"""Attention is written out: the scores of all pairs are stored, masked, normalised and read again."""

import torch
from harness import FIXED, timed
from models import Language, tokens

CAUSES = ("unfused-attention",)

torch.set_float32_matmul_precision("high")
model = Language(layers=6, words=8192, fused=FIXED).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
for batch in timed(tokens(8, 2048, 8192), 8):
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = model.loss(batch)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)

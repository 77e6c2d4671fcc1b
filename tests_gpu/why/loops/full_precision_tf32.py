"""A language model in float32; the fix is one line that allows TF32."""

import torch
from harness import FIXED, timed
from models import Language, tokens

CAUSES = ("full-precision",)

if FIXED:
    torch.set_float32_matmul_precision("high")
model = Language(layers=8, words=16384).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
for batch in timed(tokens(16, 512, 16384), 16):
    loss = model.loss(batch)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)

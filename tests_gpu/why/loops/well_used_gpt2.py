"""GPT-2 small as it should be trained."""

import torch
from harness import timed
from models import Language, tokens

CAUSES: tuple[str, ...] = ()

torch.set_float32_matmul_precision("high")
model = Language().cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
for batch in timed(tokens(16, 1024), 16):
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = model.loss(batch)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)

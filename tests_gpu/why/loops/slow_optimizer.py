"""AdamW in a loop over 400 tensors."""

import torch
from harness import FIXED, timed
from models import Language, tokens

CAUSES = ("unfused-optimizer",)

torch.set_float32_matmul_precision("high")
model = Language(width=512, layers=32, heads=8, words=8192).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=FIXED, foreach=False)
for batch in timed(tokens(32, 512, 8192), 32):
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = model.loss(batch)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)

"""Large batches are copied from pageable memory, and the host waits."""

import torch
from harness import FIXED, timed
from torch import nn

CAUSES = ("blocking-copies",)

BATCH = 4096
batches = [torch.randn(BATCH, 8192, pin_memory=FIXED) for _ in range(4)]
model = nn.Sequential(nn.Linear(8192, 4096), nn.GELU(), nn.Linear(4096, 4096), nn.GELU(), nn.Linear(4096, 1000)).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
torch.set_float32_matmul_precision("high")
for batch in timed(batches, BATCH):
    batch = batch.to("cuda", non_blocking=FIXED)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = model(batch).float().square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)

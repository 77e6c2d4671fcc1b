"""torch.compile with CUDA graphs."""

import torch
from torch import nn

model = nn.Sequential(*(layer for _ in range(6) for layer in (nn.Linear(256, 256), nn.GELU()))).cuda()
run = torch.compile(model, mode="reduce-overhead")
optimizer = torch.optim.AdamW(model.parameters(), fused=True)
for _ in range(120):
    torch.compiler.cudagraph_mark_step_begin()
    loss = run(torch.randn(64, 256, device="cuda")).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)

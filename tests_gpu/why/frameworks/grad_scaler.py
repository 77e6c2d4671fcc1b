"""float16 with a GradScaler, and gradients accumulated over two batches."""

import torch
from torch import nn

model = nn.Sequential(*(nn.Linear(1024, 1024) for _ in range(8))).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
scaler = torch.amp.GradScaler("cuda")
for number in range(160):
    with torch.autocast("cuda", dtype=torch.float16):
        loss = model(torch.randn(64, 1024, device="cuda")).float().square().mean()
    scaler.scale(loss).backward()
    if number % 2:
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()

"""A loop with accelerate."""

import torch
from accelerate import Accelerator
from torch import nn

accelerator = Accelerator(mixed_precision="bf16")
model = nn.Sequential(nn.Linear(512, 2048), nn.GELU(), nn.Linear(2048, 10))
optimizer = torch.optim.AdamW(model.parameters())
data = torch.utils.data.TensorDataset(torch.randn(8000, 512), torch.randint(10, (8000,)))
model, optimizer, loader = accelerator.prepare(model, optimizer, torch.utils.data.DataLoader(data, 64))
for images, labels in loader:
    loss = nn.functional.cross_entropy(model(images), labels)
    accelerator.backward(loss)
    optimizer.step()
    optimizer.zero_grad()

"""Forward, backward and optimizer captured in one CUDA graph, which is replayed."""

import torch
from torch import nn

model = nn.Sequential(*(layer for _ in range(6) for layer in (nn.Linear(1024, 1024), nn.GELU()))).cuda()
optimizer = torch.optim.AdamW(model.parameters(), capturable=True)
batch = torch.randn(512, 1024, device="cuda")
side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    for _ in range(3):
        optimizer.zero_grad(set_to_none=True)
        model(batch).square().mean().backward()
        optimizer.step()
torch.cuda.current_stream().wait_stream(side)
graph = torch.cuda.CUDAGraph()
optimizer.zero_grad(set_to_none=True)
with torch.cuda.graph(graph):
    loss = model(batch).square().mean()
    loss.backward()
    optimizer.step()
for _ in range(120):
    batch.copy_(torch.randn(512, 1024))
    graph.replay()
torch.cuda.synchronize()
assert torch.isfinite(loss)

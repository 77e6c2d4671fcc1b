"""The next batch is copied in a stream of its own."""

import torch
from torch import nn

model = nn.Sequential(*(nn.Linear(2048, 2048) for _ in range(6))).cuda()
optimizer = torch.optim.AdamW(model.parameters(), fused=True)
copies = torch.cuda.Stream()
batches = [torch.randn(1024, 2048, pin_memory=True) for _ in range(4)]


def fetch(number: int) -> torch.Tensor:
    with torch.cuda.stream(copies):
        return batches[number % 4].to("cuda", non_blocking=True)


following = fetch(0)
for number in range(120):
    torch.cuda.current_stream().wait_stream(copies)
    batch = following
    batch.record_stream(torch.cuda.current_stream())
    following = fetch(number + 1)
    model(batch).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)

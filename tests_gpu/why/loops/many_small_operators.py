"""A model of many small operators, which torch.compile makes one."""

import torch
from harness import FIXED, same, timed
from torch import nn

CAUSES = ("launch-bound", "small-batch")


class Recurrent(nn.Module):
    """Gates written out, over 24 steps of time."""

    def __init__(self) -> None:
        super().__init__()
        self.into, self.back = nn.Linear(256, 768), nn.Linear(256, 768)

    def forward(self, x):
        state = torch.zeros_like(x)
        mixed = self.into(x)
        for _ in range(24):
            a, b, c = (mixed + self.back(state)).chunk(3, dim=1)
            a, b = torch.sigmoid(a), torch.sigmoid(b)
            new = torch.tanh(c * a + a * 0.1 - b * 0.2)
            state = state * b + new * (1 - b)
            state = state - state.mean(dim=1, keepdim=True)
        return state


model = Recurrent().cuda()
run = torch.compile(model, mode="reduce-overhead") if FIXED else model
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
for batch, _ in timed(same(512, 256), 512):
    loss = run(batch).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)

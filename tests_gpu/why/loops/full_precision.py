"""Large matrix products in float32, without TF32 or autocast."""

import torch
from harness import FIXED, same, timed
from models import perceptron
from torch.nn.functional import cross_entropy

CAUSES = ("full-precision",)

model = perceptron().cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
for batch, labels in timed(same(4096, 4096, classes=1000), 4096):
    with torch.autocast("cuda", dtype=torch.bfloat16, enabled=FIXED):
        loss = cross_entropy(model(batch), labels)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)

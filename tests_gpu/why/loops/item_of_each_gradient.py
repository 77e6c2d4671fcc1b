"""The norm of each gradient is taken to the host."""

import torch
from harness import FIXED, timed
from models import Language, tokens

CAUSES = ("synchronisation",)

torch.set_float32_matmul_precision("high")
model = Language(width=512, layers=16, heads=8, words=8192).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
norms = []


def gradient_norm() -> float:
    total = 0.0
    for parameter in model.parameters():
        if parameter.grad is not None:
            total += parameter.grad.norm().item() ** 2
    return total**0.5


for batch in timed(tokens(64, 256, 8192), 64):
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = model.loss(batch)
    loss.backward()
    if FIXED:
        norms.append(torch.nn.utils.get_total_norm([each.grad for each in model.parameters() if each.grad is not None]))
    else:
        norms.append(gradient_norm())
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)

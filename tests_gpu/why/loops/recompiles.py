"""torch.compile compiles again for each length of the batch."""

import torch
from harness import FIXED, STEPS, timed
from torch import nn

CAUSES = ("recompilation",)

torch.set_float32_matmul_precision("high")
torch._dynamo.config.recompile_limit = 64
model = nn.Sequential(
    *(layer for _ in range(6) for layer in (nn.Linear(1024, 1024), nn.GELU(), nn.LayerNorm(1024)))
).cuda()
run = torch.compile(model, dynamic=False, backend="aot_eager")
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
lengths = [256 - 8 * (number // max(1, STEPS // 10)) for number in range(STEPS)]
whole = torch.randn(64, 256, 1024, device="cuda")
for length in timed(lengths, 64):
    batch = whole[:, :length]
    if FIXED:
        batch = nn.functional.pad(batch, (0, 0, 0, 256 - length))
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = run(batch)[:, :length].float().square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)

"""A confusion matrix is counted in Python after each step."""

import torch
from harness import FIXED, same, timed
from models import perceptron
from torch.nn.functional import cross_entropy

CAUSES = ("python-metrics",)

torch.set_float32_matmul_precision("high")
model = perceptron(2048, 6, 20).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
table = [[0] * 20 for _ in range(20)]
on_card = torch.zeros(400, dtype=torch.long, device="cuda")


def confusion_matrix(scores, labels) -> None:
    for guess, label in zip(scores.argmax(1).cpu().numpy(), labels.cpu().numpy(), strict=True):
        table[int(label)][int(guess)] += 1


for batch, labels in timed(same(32768, 2048, classes=20), 32768):
    with torch.autocast("cuda", dtype=torch.bfloat16):
        scores = model(batch)
        loss = cross_entropy(scores, labels)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    if FIXED:
        on_card += torch.bincount(labels * 20 + scores.argmax(1), minlength=400)
    else:
        confusion_matrix(scores, labels)

"""ResNet-50 under autocast in NCHW."""

import torch
from harness import FIXED, same, timed
from torchvision.models import resnet50

CAUSES = ("layout",)

model = resnet50().cuda()
batches = same(128, 3, 224, 224, classes=1000)
if FIXED:
    model = model.to(memory_format=torch.channels_last)
    batches = [(images.to(memory_format=torch.channels_last), labels) for images, labels in batches]
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, fused=True)
criterion = torch.nn.CrossEntropyLoss()
for images, labels in timed(batches, 128):
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = criterion(model(images), labels)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)

"""ResNet-50 as it should be trained: pinned memory, workers, channels last, bfloat16, a fused optimizer."""

import torch
from harness import timed
from torch.utils.data import DataLoader, Dataset
from torchvision.models import resnet50

CAUSES: tuple[str, ...] = ()

BATCH = 192


class Images(Dataset):
    """Images that are decoded already."""

    def __init__(self) -> None:
        self.images = torch.randint(256, (64, 3, 224, 224), dtype=torch.uint8)

    def __len__(self) -> int:
        return 100_000

    def __getitem__(self, index: int):
        return self.images[index % 64], index % 1000


if __name__ == "__main__":
    torch.set_float32_matmul_precision("high")
    torch.backends.cudnn.benchmark = True
    loader = DataLoader(Images(), BATCH, num_workers=8, pin_memory=True, persistent_workers=True)
    model = resnet50().cuda().to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, fused=True)
    criterion = torch.nn.CrossEntropyLoss()
    for images, labels in timed(loader, BATCH):
        images = images.to("cuda", non_blocking=True).to(memory_format=torch.channels_last)
        labels = labels.to("cuda", non_blocking=True)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = criterion(model(images.float().div_(255)), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

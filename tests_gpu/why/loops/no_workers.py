"""Images are augmented in the training process."""

import torch
from harness import FIXED, timed
from torch.utils.data import DataLoader, Dataset
from torchvision.models import resnet18
from torchvision.transforms import functional as transforms

CAUSES = ("no-workers",)

BATCH = 48


class Images(Dataset):
    """Images that are resized and flipped."""

    def __init__(self) -> None:
        self.images = torch.randint(256, (32, 3, 256, 256), dtype=torch.uint8)

    def __len__(self) -> int:
        return 1_000_000

    def __getitem__(self, index: int):
        image = self.images[index % 32]
        image = transforms.resize(image, [224, 224], antialias=True)
        return transforms.hflip(image).float() / 255, index % 1000


if __name__ == "__main__":
    if FIXED:
        loader = DataLoader(Images(), BATCH, num_workers=12, pin_memory=True, persistent_workers=True)
    else:
        loader = DataLoader(Images(), BATCH, pin_memory=True)
    model = resnet18().cuda().to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, fused=True)
    criterion = torch.nn.CrossEntropyLoss()
    for images, labels in timed(loader, BATCH):
        images = images.to("cuda", non_blocking=True, memory_format=torch.channels_last)
        labels = labels.to("cuda", non_blocking=True)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = criterion(model(images), labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

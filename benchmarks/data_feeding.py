"""Images per second that reach a training ResNet-50: from memory of the GPU, from files by ImageFolder, and packed by ownlab.

    python benchmarks/data_feeding.py FOLDER IMAGES

All with the same workers, batch, transforms and decoder (Pillow). Prints one JSON object for each.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
BATCH, WORKERS, CLASSES = 128, min(14, os.cpu_count() or 1), 10
SECONDS = 12.0


def draw(folder: str, first: int, count: int) -> None:
    """Draw JPEGs of 500 x 375 with the detail of photos."""
    from PIL import Image

    for number in range(first, first + count):
        choice = random.Random(number)
        coarse = Image.frombytes("RGB", (50, 38), choice.randbytes(50 * 38 * 3)).resize(
            (500, 375), Image.Resampling.BICUBIC
        )
        fine = Image.frombytes("RGB", (250, 188), choice.randbytes(250 * 188 * 3)).resize((500, 375))
        path = Path(folder) / f"class{number % CLASSES}" / f"{number:06d}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.blend(coarse, fine, 0.25).save(path, quality=85)


def rate(batches: Iterable[Any], step: Any) -> dict[str, float]:
    """Images per second behind the first batches, for some seconds."""
    import torch  # noqa: TID251  # it is what is fed

    count, begin = 0, 0.0
    for number, (images, labels) in enumerate(batches):
        step(images.cuda(non_blocking=True), labels.cuda(non_blocking=True))
        if number == 5:
            torch.cuda.synchronize()
            begin = time.perf_counter()
        elif number > 5:
            count += len(images)
            if time.perf_counter() - begin > SECONDS:
                break
    torch.cuda.synchronize()
    return {"images": count, "per_second": count / (time.perf_counter() - begin)}


def epochs(loader: Any) -> Iterable[Any]:
    """One pass after the other."""
    while True:
        yield from loader


def main() -> None:
    """Measure each in turn, twice."""
    import torch  # noqa: TID251  # it is what is fed
    import torchvision
    from torchvision import transforms

    import ownlab.data

    folder, images = Path(sys.argv[1]), int(sys.argv[2])
    with ProcessPoolExecutor() as pool:
        list(pool.map(draw, [str(folder)] * 32, range(0, images, images // 32), [images // 32] * 32))
    for name, more in (("packed", []), ("packed256", ["--resize", "256"])):
        command = [sys.executable, "-m", "ownlab", "data", "pack", str(folder), "-o", f"{folder}-{name}", *more]
        begin = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        print(json.dumps({"packing": name, "seconds": time.perf_counter() - begin}), flush=True)
    model = torchvision.models.resnet50().cuda().to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loss = torch.nn.CrossEntropyLoss()

    def step(batch: Any, labels: Any) -> None:
        batch = batch.to(memory_format=torch.channels_last)
        with torch.autocast("cuda", torch.bfloat16):
            value = loss(model(batch), labels)
        optimizer.zero_grad()
        value.backward()
        optimizer.step()

    transform = transforms.Compose([transforms.RandomResizedCrop(224), transforms.ToTensor()])
    options: dict[str, Any] = {"pin_memory": True, "drop_last": True}
    still = (torch.rand(BATCH, 3, 224, 224), torch.randint(CLASSES, (BATCH,)))
    there = tuple(tensor.cuda() for tensor in still)
    files = torchvision.datasets.ImageFolder(str(folder), transform)
    loaders: dict[str, Any] = {
        "on the GPU already": [there] * 100_000,
        "files, ImageFolder": torch.utils.data.DataLoader(
            files, BATCH, shuffle=True, num_workers=WORKERS, persistent_workers=True, **options
        ),
    }
    for name in ("packed", "packed256"):
        packed = ownlab.data.open(f"{folder}-{name}", shuffle=True, transform=transform)
        loaders[name] = packed.loader(batch=BATCH, workers=WORKERS, **options)
    for _ in range(2):
        for name, loader in loaders.items():
            batches = loader if isinstance(loader, list) else epochs(loader)
            print(json.dumps({"from": name, "workers": WORKERS, **rate(batches, step)}), flush=True)


if __name__ == "__main__":
    main()

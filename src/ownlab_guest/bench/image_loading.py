"""How many photographs a second processors decode, crop and scale for training: each worker is a process of its own.

`launch.py bench.image_loading BEGIN END` is one worker: between these two moments (of the monotonic clock, which all processes
of a machine share) it decodes, and answers when each image was done.
"""

import io
import json
import os
import random
import subprocess
import sys
import time
from typing import Any, List

from ownlab_guest.bench.device import Place
from ownlab_guest.bench.timing import Outcome, Skipped, sliced

LAUNCH = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "launch.py")
# Most of ImageNet's photographs have 500×375 pixels; its 1.28 million for training take 138 GB, so 108 KB each.
WIDE, HIGH, SIDE = 500, 375, 224
IMAGES = 8
START_SECONDS = 1.5  # until the last worker has loaded Pillow and made its images


def decode(place: Place, seconds: float, workers: int) -> Outcome:
    """All workers at once; the rate in each slice of the time."""
    begin = time.monotonic() + START_SECONDS + 0.03 * workers
    end = begin + seconds
    command = [sys.executable, LAUNCH, "bench.image_loading", repr(begin), repr(end)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(workers)]
    moments: List[float] = []
    for child, (out, said) in [(child, child.communicate()) for child in running]:
        if child.returncode != 0 or not out:
            words = said.decode(errors="replace").strip().splitlines() or [f"exit status {child.returncode}"]
            raise Skipped("failed", words[-1][:300])
        moments += _moments(out)
    if not (within := [one for one in moments if begin <= one < end]):
        raise Skipped("failed", "no worker had decoded an image when time was up")
    taken = sliced(within, begin)
    note = f"JPEG {WIDE}×{HIGH} to {SIDE}×{SIDE} by Pillow, {workers} process{'es' if workers > 1 else ''}"
    return Outcome(taken, 1.0, note=note, shape={"workers": workers, "width": WIDE, "height": HIGH})


def _moments(out: bytes) -> List[float]:
    answer: Any = json.loads(out)
    if "missing" in answer:
        raise Skipped("no-pillow", answer["missing"])
    return [float(one) for one in answer["moments"]]


def answer(arguments: List[str]) -> Any:
    """One worker."""
    try:
        from PIL import Image
    except ImportError as exc:
        return {"missing": f"this Python has no Pillow, which decodes images: {exc}"}
    begin, end = float(arguments[0]), float(arguments[1])
    photographs = [photograph(Image, seed) for seed in range(IMAGES)]
    moments: List[float] = []
    time.sleep(max(0.0, begin - time.monotonic()))
    while not moments or moments[-1] < end:
        with Image.open(io.BytesIO(photographs[len(moments) % IMAGES])) as image:
            _scaled(Image, image.convert("RGB")).tobytes()
        moments.append(time.monotonic())
    return {"moments": moments}


def _scaled(images: Any, image: Any) -> Any:
    """A part of it, as training draws one at random, to the size that networks take."""
    return image.resize((SIDE, SIDE), images.BILINEAR, box=(62, 0, 62 + HIGH, HIGH))


def photograph(images: Any, seed: int) -> bytes:
    """Coarse shapes and fine grain, so that it takes as many bytes as a photograph, and so as much work."""
    generator = random.Random(seed)  # noqa: S311  # no secret
    coarse = images.frombytes("RGB", (25, 19), generator.getrandbits(8 * 25 * 19 * 3).to_bytes(25 * 19 * 3, "little"))
    count = WIDE * HIGH * 3
    grain = images.frombytes("RGB", (WIDE, HIGH), generator.getrandbits(8 * count).to_bytes(count, "little"))
    image = images.blend(coarse.resize((WIDE, HIGH), images.BICUBIC), grain, 0.29)
    file = io.BytesIO()
    image.save(file, "JPEG", quality=90)
    return file.getvalue()

"""How many photos per second the processors decode, crop and scale for training. Each worker is a process.

`launch.py bench.image_loading BEGIN END` is one worker: it decodes between these times of the monotonic clock, which all
processes of a machine share, and returns when each image was finished.
"""

import io
import json
import os
import random
import subprocess
import sys
import time
from typing import Any, List

from ownlab_guest.bench.device import Device
from ownlab_guest.bench.timing import Outcome, Skipped, slice_times
from ownlab_guest.text import plural, received, text

LAUNCH = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "launch.py")
# Most photos of ImageNet have 500×375 pixels; its 1.28 million for training take 138 GB, so 108 KB each.
WIDE, HIGH, SIDE = 500, 375, 224
IMAGES = 8
START_SECONDS = 1.5  # until all workers have loaded Pillow and created their images


def decode(device: Device, seconds: float, workers: int) -> Outcome:
    """Decode with all workers at once."""
    begin = time.monotonic() + START_SECONDS + 0.03 * workers
    end = begin + seconds
    command = [sys.executable, LAUNCH, "bench.image_loading", repr(begin), repr(end)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(workers)]
    moments: List[float] = []
    for child, (out, errors) in [(child, child.communicate()) for child in running]:
        if child.returncode != 0 or not out:
            lines = errors.decode(errors="replace").strip().splitlines() or []
            error = lines[-1][:300] if lines else text("exit status {code}", code=child.returncode)
            raise Skipped("failed", error)
        moments += _parse_moments(out)
    if not (within := [moment for moment in moments if begin <= moment < end]):
        raise Skipped("failed", text("no worker decoded an image in time"))
    taken = slice_times(within, begin)
    note = plural(
        workers,
        "Pillow scaled JPEG files of {width}×{height} to {side}×{side} in 1 process.",
        "Pillow scaled JPEG files of {width}×{height} to {side}×{side} in {n} processes.",
        width=WIDE,
        height=HIGH,
        side=SIDE,
    )
    return Outcome(taken, 1.0, notes=(note,), shape={"workers": workers, "width": WIDE, "height": HIGH})


def _parse_moments(out: bytes) -> List[float]:
    answer: Any = json.loads(out)
    if "missing" in answer:
        raise Skipped("no-pillow", received(answer["missing"], answer))
    return [float(moment) for moment in answer["moments"]]


def answer(arguments: List[str]) -> Any:
    """Run one worker. launch.py calls this in its own process."""
    try:
        from PIL import Image
    except ImportError as exc:
        return {"missing": text("this Python has no Pillow, which decodes images: {reason}", reason=exc)}
    begin, end = float(arguments[0]), float(arguments[1])
    photos = [create_photo(Image, seed) for seed in range(IMAGES)]
    moments: List[float] = []
    time.sleep(max(0.0, begin - time.monotonic()))
    while not moments or moments[-1] < end:
        with Image.open(io.BytesIO(photos[len(moments) % IMAGES])) as image:
            _crop_and_scale(Image, image.convert("RGB")).tobytes()
        moments.append(time.monotonic())
    return {"moments": moments}


def _crop_and_scale(images: Any, image: Any) -> Any:
    """Crop and scale, as training does, to the input size of networks."""
    return image.resize((SIDE, SIDE), images.BILINEAR, box=(62, 0, 62 + HIGH, HIGH))


def create_photo(images: Any, seed: int) -> bytes:
    """Create an image with coarse shapes and fine grain, which takes as many bytes, and as much work, as a photo."""
    generator = random.Random(seed)  # noqa: S311  # not for secrets
    coarse = images.frombytes("RGB", (25, 19), generator.getrandbits(8 * 25 * 19 * 3).to_bytes(25 * 19 * 3, "little"))
    count = WIDE * HIGH * 3
    grain = images.frombytes("RGB", (WIDE, HIGH), generator.getrandbits(8 * count).to_bytes(count, "little"))
    image = images.blend(coarse.resize((WIDE, HIGH), images.BICUBIC), grain, 0.29)
    file = io.BytesIO()
    image.save(file, "JPEG", quality=90)
    return file.getvalue()

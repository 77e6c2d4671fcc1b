"""cv2.imshow opens a window, and a kernel has none: this shows the image in the cell's output."""

import importlib
from typing import Any

from .._display import display

__all__ = ["cv2_imshow", "cv_imshow"]


def cv2_imshow(a: Any) -> None:
    """Show an image as OpenCV keeps it: grey, BGR or BGRA; values outside of 0 … 255 are cut off."""
    pillow = importlib.import_module("PIL.Image")
    image = a.clip(0, 255).astype("uint8")
    if image.ndim == 3:
        channels = image.shape[2]
        order = {1: 0, 3: [2, 1, 0], 4: [2, 1, 0, 3]}  # BGR -> RGB, by hand: no need of cv2
        if channels not in order:
            raise ValueError(f"an image has 1, 3 or 4 channels, and this one {channels}")
        image = image[:, :, order[channels]]
    display(pillow.fromarray(image))


cv_imshow = cv2_imshow

"""google.colab.patches: show an OpenCV image in the cell's output instead of a window."""

import importlib
from typing import Any

from .._display import display

__all__ = ["cv2_imshow", "cv_imshow"]


def cv2_imshow(a: Any) -> None:
    """Show an image in OpenCV's format: grey, BGR or BGRA; values are clipped to 0 … 255."""
    pillow = importlib.import_module("PIL.Image")
    image = a.clip(0, 255).astype("uint8")
    if image.ndim == 3:
        channels = image.shape[2]
        order = {1: 0, 3: [2, 1, 0], 4: [2, 1, 0, 3]}  # BGR -> RGB, without cv2
        if channels not in order:
            raise ValueError(f"an image has 1, 3 or 4 channels, not {channels}")
        image = image[:, :, order[channels]]
    display(pillow.fromarray(image))


cv_imshow = cv2_imshow

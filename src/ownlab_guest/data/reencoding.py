"""Makes images smaller while they are packed, with Pillow."""

import io
from typing import Any, NamedTuple, Optional

from ownlab_guest.data.errors import DataError
from ownlab_guest.data.image_extensions import IMAGES
from ownlab_guest.text import text

FORMATS = {"jpeg": ("JPEG", "jpg"), "png": ("PNG", "png"), "webp": ("WEBP", "webp")}
_FORMAT_OF = {"jpg": "jpeg", "jpeg": "jpeg", "png": "png", "webp": "webp"}
DEFAULT_QUALITY = 90


class Reencoding(NamedTuple):
    """What is done to each image."""

    side: Optional[int] = None  # of the shorter side; larger images are made smaller, never the reverse
    quality: Optional[int] = None
    format: Optional[str] = None  # of FORMATS; None: as it is, JPEG for formats without compression

    @property
    def wanted(self) -> bool:
        """Whether anything is done."""
        return any(value is not None for value in self)


def load_pillow() -> Any:
    """Import Pillow's Image. Raises DataError where it is missing."""
    try:
        from PIL import Image
    except ImportError as exc:
        raise DataError(
            text("Images are decoded with Pillow, which this Python lacks."),
            hint=text("pip install pillow, or choose another environment with --python."),
        ) from exc
    return Image


def image_problem(exc: Exception) -> str:
    """Say what is wrong with an image that Pillow cannot decode."""
    if type(exc).__name__ == "UnidentifiedImageError":  # its own message shows an object in memory
        return text("it is no image that Pillow knows")
    return str(exc) or type(exc).__name__


def reencode(content: bytes, extension: str, wanted: Reencoding) -> "tuple[str, bytes]":
    """Return the new extension and content. An image that is small enough and has the format stays as it is."""
    if extension.rsplit(".", 1)[-1] not in IMAGES:
        return extension, content
    images = load_pillow()
    with images.open(io.BytesIO(content)) as image:
        kind = wanted.format or _FORMAT_OF.get((image.format or "").lower(), "jpeg")
        same_kind = FORMATS[kind][0] == image.format
        small = wanted.side is None or min(image.size) <= wanted.side
        if small and same_kind and wanted.quality is None:
            image.load()  # a broken image must not be packed as if it were good
            return extension, content
        size = image.size
        if not small:
            assert wanted.side is not None
            scale = wanted.side / min(size)
            size = (max(1, round(size[0] * scale)), max(1, round(size[1] * scale)))
            image.draft("RGB", size)  # lets the JPEG decoder skip what is not needed
        made = _converted(image, kind)
        if made.size != size:
            made = made.resize(size, images.Resampling.LANCZOS)
        file = io.BytesIO()
        options = {} if kind == "png" else {"quality": wanted.quality or DEFAULT_QUALITY}
        made.save(file, FORMATS[kind][0], **options)
    prefix = extension.rpartition(".")[0]
    return (prefix + "." if prefix else "") + FORMATS[kind][1], file.getvalue()


def _converted(image: Any, kind: str) -> Any:
    if kind == "jpeg":
        return image if image.mode in ("RGB", "L") else image.convert("RGB")
    return image if image.mode in ("RGB", "RGBA", "L") else image.convert("RGBA" if "A" in image.mode else "RGB")

"""The extensions of files that are images, where a sample may have other files too."""

IMAGES = frozenset(("jpg", "jpeg", "png", "webp", "bmp", "gif", "tif", "tiff", "ppm", "pgm"))

"""What kind of file some bytes are, by how they begin."""

_BEGINNINGS = (
    (b"\xff\xd8\xff", "jpg"),
    (b"\x89PNG\r\n\x1a\n", "png"),
    (b"GIF8", "gif"),
    (b"BM", "bmp"),
    (b"II*\0", "tif"),
    (b"MM\0*", "tif"),
    (b"\x93NUMPY", "npy"),
)


def extension_of(content: bytes) -> str:
    """Return the usual extension; "bin" for what is not known."""
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return "webp"
    return next((extension for begin, extension in _BEGINNINGS if content.startswith(begin)), "bin")

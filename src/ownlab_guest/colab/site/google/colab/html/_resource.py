"""Resources for an output. On Colab the kernel serves them; here they are data: addresses, which stay valid."""

import base64
import mimetypes
from typing import Any, Dict, Optional, Union


class Resource:
    """Bytes with an address."""

    def __init__(self, content: bytes, media_type: str) -> None:
        self.content = content
        self._media_type = media_type

    @property
    def url(self) -> str:
        """An address that any page can load."""
        return f"data:{self._media_type};base64," + base64.b64encode(self.content).decode("ascii")


def create(
    content: Union[str, bytes, None] = None,
    filepath: Optional[str] = None,
    handler: Any = None,
    headers: Optional[Dict[str, str]] = None,
    extension: Optional[str] = None,
    route: Optional[str] = None,
) -> Resource:
    """Create a resource of this content, or of the current content of a file."""
    if sum(each is not None for each in (content, filepath, handler)) != 1:
        raise ValueError("Must provide exactly one of content, filepath, or handler.")
    if handler is not None:
        raise NotImplementedError("handlers need Colab's own server; use content or filepath")
    if filepath is not None:
        with open(filepath, "rb") as file:
            content = file.read()
    data = content.encode() if isinstance(content, str) else bytes(content or b"")
    return Resource(data, _media_type(headers or {}, f"x.{extension}" if extension else route or filepath or ""))


def _media_type(headers: Dict[str, str], name: str) -> str:
    for key, value in headers.items():
        if key.lower() == "content-type":
            return value
    return mimetypes.guess_type(name)[0] or "text/plain;charset=utf-8"

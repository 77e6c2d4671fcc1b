"""Cells that the kernel adds to the page."""

from . import _message


def create_scratch_cell(content: str, bottom_pane: bool = False) -> None:
    """Open a scratch cell with this content, if the user agrees."""
    request = {"content": content, "openInBottomPane": bottom_pane}
    _message.blocking_request("add_scratch_cell", request, timeout_sec=None)

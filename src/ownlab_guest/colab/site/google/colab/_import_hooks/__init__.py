"""Changes to other modules when they are imported."""

from . import _cv2


def register() -> None:
    """Install the hooks; calling it again does nothing."""
    _cv2.register()

"""What changes in other modules when they are imported."""

from . import _cv2


def register() -> None:
    """Watch for these modules; calling it again does nothing."""
    _cv2.register()

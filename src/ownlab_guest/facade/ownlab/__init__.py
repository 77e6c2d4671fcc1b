"""What notebooks may call of ownlab where ownlab itself is not installed in their environment."""

from ownlab_guest.kernel.ends import on_end
from ownlab_guest.kernel.watch import watch

__all__ = ["on_end", "watch"]

"""`ownlab.on_end`: functions that run before the runtime ends. The kernel's launcher calls them."""

from __future__ import annotations

from ownlab_guest.kernel.ends import on_end

__all__ = ["on_end"]

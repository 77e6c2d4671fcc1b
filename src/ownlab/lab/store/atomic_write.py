"""Files that are replaced at once and that only their owner may read. Standard library only."""

from __future__ import annotations

import os
import threading

__all__ = ["write_private"]


def write_private(path: str, text: str) -> None:
    """Replace a file at once, so that no reader ever sees a part of it; only its owner may read it."""
    # The thread too: a server writes from several, and one must not rename what another is still writing.
    temporary = f"{path}.{os.getpid()}.{threading.get_ident():x}.new"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    try:
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise

"""A full disk when something is saved: an error that says so, in place of an internal one."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from tornado.web import HTTPError

from ownlab.lab.server.page_errors import PageError
from ownlab.text import text

__all__ = ["reported_full_disk"]

_FULL = (errno.ENOSPC, errno.EDQUOT)
_INSUFFICIENT_STORAGE = 507


@contextmanager
def reported_full_disk(path: str) -> Iterator[None]:
    """Turn an error of writing into one that a page shows. The file is unchanged: it is replaced only by a whole one."""
    try:
        yield
    except (HTTPError, OSError) as exc:
        cause = exc.__cause__ if isinstance(exc, HTTPError) else exc
        if not isinstance(cause, OSError) or cause.errno not in _FULL:
            raise
        message = text(
            "{path} was not saved: {reason}. The file is unchanged. Free some space and save again.",
            path=path,
            reason=cause.strerror,
        )
        raise PageError(_INSUFFICIENT_STORAGE, message) from exc

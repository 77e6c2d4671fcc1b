"""The reply to one request of a jupyter_client."""

from __future__ import annotations

import time
from typing import Any

SECONDS = 180.0


def reply_to(client: Any, request: str) -> dict[str, Any]:
    """Wait for the next reply on shell, which must be that of `request`.

    `wait_for_ready` requests kernel_info once a second: on a busy machine, some of its replies arrive later, and are skipped.
    """
    end = time.monotonic() + SECONDS
    while True:
        reply: dict[str, Any] = client.get_shell_msg(timeout=max(0.0, end - time.monotonic()))
        if reply["msg_type"] != "kernel_info_reply":
            assert reply["parent_header"]["msg_id"] == request, reply
            return reply

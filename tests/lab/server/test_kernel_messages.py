"""The framing of kernel messages, compared with Jupyter's own."""

from __future__ import annotations

import pytest
from jupyter_server.services.kernels.connection.base import deserialize_msg_from_ws_v1, serialize_msg_to_ws_v1

from ownlab.lab.server.kernel_messages import frame, unframe

PARTS = [b'{"msg_id": "1"}', b"{}", b"{}", '{"code": "é"}'.encode(), b"\0\1\2", b""]


@pytest.mark.parametrize("buffers", [0, 1, 2])
def test_a_frame_is_the_number_and_the_framing_of_jupyter(buffers: int) -> None:
    parts = PARTS[: 4 + buffers]
    framed = frame(2**40 + 3, "iopub", parts)
    assert int.from_bytes(framed[:8], "little") == 2**40 + 3
    assert framed[8:] == serialize_msg_to_ws_v1(parts, "iopub")  # type: ignore[no-untyped-call]
    assert deserialize_msg_from_ws_v1(framed[8:]) == ("iopub", parts)  # type: ignore[no-untyped-call]
    assert unframe(framed[8:]) == ("iopub", parts)


def test_a_truncated_frame_is_refused() -> None:
    whole = frame(0, "shell", PARTS[:4])[8:]
    for end in range(len(whole)):
        with pytest.raises(ValueError):
            unframe(whole[:end])


@pytest.mark.parametrize("data", [b"\xff" * 64, b"\0" * 64, b"\7" + b"\0" * 7 + b"\x40" + b"\xff" * 60])
def test_a_malformed_frame_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError):
        unframe(data)

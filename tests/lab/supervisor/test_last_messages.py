"""The last messages of a kernel that has died are received to the end, however slowly they come."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pytest
import zmq

from ownlab.lab.journal.reader import records_after
from ownlab.lab.journal.records import json_object
from ownlab.lab.runtimes.start import new_connection
from ownlab.lab.supervisor.channels import Channels
from ownlab.lab.supervisor.journal_recorder import JournalRecorder
from ownlab.lab.supervisor.message_inspector import DELIMITER
from ownlab.lab.transport.endpoints import JUPYTER_CHANNELS, unix_endpoint

SILENCE = 0.2  # seconds, much longer than a supervisor waits for a kernel whose connections are closed
MESSAGES = 4
PATIENCE = 90.0


class DyingKernel(threading.Thread):
    """The kernel's ends of the sockets: it sends outputs with pauses, and its connections close after the last one."""

    def __init__(self, address: str) -> None:
        super().__init__()
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self.sockets = {}
        for number, channel in enumerate(JUPYTER_CHANNELS, start=1):
            socket = self._context.socket(zmq.XPUB if channel == "iopub" else zmq.ROUTER)
            socket.bind(f"ipc://{address}-{number}")
            self.sockets[channel] = socket

    def is_heard(self) -> bool:
        """Wait until the supervisor has subscribed."""
        return self.sockets["iopub"].recv() == b"\x01"

    def run(self) -> None:
        for number in range(MESSAGES):
            threading.Event().wait(SILENCE)
            header = {"msg_id": f"output-{number}", "msg_type": "stream", "session": "kernel"}
            content = {"name": "stdout", "text": f"{number}\n"}
            parts = [json.dumps(each).encode() for each in (header, {}, {}, content)]
            self.sockets["iopub"].send_multipart([b"stream", DELIMITER, b"signature", *parts])
        self._context.destroy(linger=30_000)


@pytest.fixture
def recorder(bench: Any, tmp_path: Path) -> JournalRecorder:
    return JournalRecorder(bench.plan(lab="lab", journal=str(tmp_path / "journal")))


def open_channels(folder: Path, recorder: JournalRecorder) -> Channels:
    line = unix_endpoint(str(folder), "line")
    return Channels(new_connection(), zmq.Poller(), recorder, str(folder), line, 1 << 20)


def test_pauses_between_the_last_messages_do_not_matter(tmp_path: Path, recorder: JournalRecorder) -> None:
    kernel = DyingKernel(str(tmp_path / "kernel"))
    channels = open_channels(tmp_path, recorder)
    channels.connect(str(tmp_path / "kernel"))
    assert kernel.is_heard()
    kernel.start()
    channels.drain(PATIENCE)
    channels.disconnect("the kernel died")
    recorder.write()
    kernel.join()
    records = [record for record in records_after(Path(recorder.folder), 0) if record.channel == "iopub"]
    assert [json_object(record.parts[3])["text"] for record in records] == [f"{n}\n" for n in range(MESSAGES)]
    channels.close("over")


def test_a_kernel_that_was_never_reached_is_not_waited_for(tmp_path: Path, recorder: JournalRecorder) -> None:
    channels = open_channels(tmp_path, recorder)
    channels.connect(str(tmp_path / "nothing"))
    channels.drain()
    channels.close("over")
    assert not [record for record in records_after(Path(recorder.folder), 0) if record.channel == "iopub"]

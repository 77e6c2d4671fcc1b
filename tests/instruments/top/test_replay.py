"""A recording as a source."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.instruments.top.samples import STREAMS, stream

from ownlab.errors import InputError
from ownlab.instruments.top.replay import Replay
from ownlab.instruments.top.source import StreamEnded, open_source


def test_each_sample_once_and_then_the_end() -> None:
    source = open_source(replay=STREAMS / "h200-copy.ndjson")
    assert [source.take() for _ in range(16)] == stream("copy")
    with pytest.raises(StreamEnded):
        source.take()
    source.close()


def test_after_it_was_closed_nothing_comes() -> None:
    source = Replay(STREAMS / "h200-copy.ndjson")
    source.take()
    source.close()
    with pytest.raises(StreamEnded):
        source.take()


def test_a_file_that_is_no_recording_is_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("notes\n")
    with pytest.raises(InputError, match="is no recording"):
        Replay(tmp_path / "notes.txt")

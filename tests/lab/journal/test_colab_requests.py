"""Requests of google.colab to a page stay pending until they are answered, or nobody waits for them."""

from __future__ import annotations

from tests.lab.journal.scene import Scene, fold_of

from ownlab.lab.journal.records import event
from ownlab.lab.journal.replay import compacted_records
from ownlab.lab.journal.state import JournalState


def waiting(*names: str) -> tuple[Scene, str]:
    """A cell that asks for something under each of these names."""
    scene = Scene()
    request = scene.execute("a")
    scene.begin(request)
    for name in names:
        asked = {"colab_request_type": "ownlab_upload", "colab_msg_id": name}
        scene.add_message("colab_request", request, {"request": {"multiple": True}}, **asked)
    return scene, request


def reply(scene: Scene, name: str, ack: bool) -> None:
    """As a supervisor writes it down."""
    value = {"type": "colab_reply", "colab_msg_id": name, "ack": ack}
    scene.answer("a", "", value)  # type: ignore[arg-type]


def test_a_request_is_pending_until_it_is_answered() -> None:
    scene, request = waiting("one", "two")
    scene.add_message(
        "colab_request", request, {"request": {}}, colab_request_type="cell_javascript_eval"
    )  # wants no answer
    fold = fold_of(scene.records)
    assert list(fold.asked) == ["one", "two"]
    assert fold.asked["one"]["metadata"]["colab_request_type"] == "ownlab_upload"
    assert fold.asked["one"]["parent_header"]["msg_id"] == request
    assert fold.asked["one"]["content"] == {"request": {"multiple": True}}
    reply(scene, "one", ack=True)
    assert list(fold_of(scene.records).asked) == ["one", "two"]
    reply(scene, "one", ack=False)
    assert list(fold_of(scene.records).asked) == ["two"]


def test_nothing_is_pending_after_the_end() -> None:
    scene, request = waiting("one")
    other = scene.call("comm", {})
    scene.idle(other)
    assert list(fold_of(scene.records).asked) == ["one"]
    scene.idle(request)
    assert not fold_of(scene.records).asked
    scene, _ = waiting("one")
    scene.restart()
    assert not fold_of(scene.records).asked


def test_a_compacted_journal_has_the_same_pending_requests() -> None:
    scene, _ = waiting("one")
    fold = fold_of(scene.records)
    again = fold_of(list(compacted_records(fold)))
    assert again.asked == fold.asked
    reply(scene, "one", ack=False)
    again.add(scene.records[-1])
    assert not again.asked


def test_a_journal_compacted_by_an_earlier_version_has_no_pending_requests() -> None:
    *executions, last = compacted_records(fold_of(waiting()[0].records))
    state, buffers = JournalState().dump()
    del state["asked"]
    assert not fold_of([*executions, event(last.number, last.at, "fold", **state)]).asked
    assert not buffers

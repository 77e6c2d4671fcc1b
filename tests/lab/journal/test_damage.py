"""Random damage at random places of a journal: nothing crashes, nothing is wrong without a note, and everything else is read."""

from __future__ import annotations

import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.lab.journal.scene import Scene, fold_of, random_scene

from ownlab.lab.journal.compaction import compact
from ownlab.lab.journal.reader import Tail, records_after
from ownlab.lab.journal.records import EVENT, Damaged, Record, decode, encode, json_object
from ownlab.lab.journal.state import JournalState
from ownlab.lab.journal.storage import list_journal_files, segment_name
from ownlab.lab.journal.writer import JournalWriter

# OWNLAB_DAMAGE_SEEDS=1000-2000 tries others.
FIRST, _, LAST = os.environ.get("OWNLAB_DAMAGE_SEEDS", "0-60").partition("-")
SEEDS = range(int(FIRST), int(LAST))
NOTE = "[ownlab: "


def flip(data: bytearray, dice: random.Random) -> None:
    data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)


def overwrite(data: bytearray, dice: random.Random) -> None:
    at, size = dice.randrange(len(data)), dice.choice([1, 8, 100, 4096])
    data[at : at + size] = dice.randbytes(len(data[at : at + size]))


def zero(data: bytearray, dice: random.Random) -> None:
    at, size = dice.randrange(len(data)), dice.choice([8, 512, 4096])
    data[at : at + size] = bytes(len(data[at : at + size]))


def cut_out(data: bytearray, dice: random.Random) -> None:
    at = dice.randrange(len(data))
    del data[at : at + dice.choice([1, 30, 500, 5000])]


def insert(data: bytearray, dice: random.Random) -> None:
    at = dice.randrange(len(data) + 1)
    data[at:at] = dice.choice([dice.randbytes(700), bytes(700), bytes(data[:700])])


def truncate(data: bytearray, dice: random.Random) -> None:
    del data[dice.randrange(len(data)) :]


DAMAGE: list[Callable[[bytearray, random.Random], None]] = [flip, overwrite, zero, cut_out, insert, truncate]


def write(folder: Path, records: list[Record], segment_bytes: int) -> None:
    writer = JournalWriter(str(folder), segment_bytes=segment_bytes)
    for record in records:
        writer.write([record])
    writer.close()


def do_damage(folder: Path, dice: random.Random) -> None:
    files = [path for path in folder.iterdir() if path.suffix in (".log", ".folded") and path.stat().st_size]
    for _ in range(dice.choice([1, 1, 1, 2, 5])):
        path = dice.choice(files)
        data = bytearray(path.read_bytes())
        if data:
            dice.choice(DAMAGE)(data, dice)
            path.write_bytes(data)


def whole_records(folder: Path) -> dict[int, Record]:
    """Every whole record of the segments in order, found in the slowest way."""
    found: dict[int, Record] = {}
    for path in sorted(folder.glob("*.log")):
        data, place = path.read_bytes(), 0
        while place < len(data):
            record, place = decode_or_skip(data, place)
            if record is not None and record.number > max(found, default=0):  # otherwise a copy, out of order
                found[record.number] = record
    return found


def decode_or_skip(data: bytes, place: int) -> tuple[Record | None, int]:
    try:
        return decode(data, place)
    except Damaged:
        return None, place + 1


@pytest.mark.parametrize("seed", SEEDS)
def test_every_whole_record_is_read_and_every_missing_one_is_reported(tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    records = random_scene(seed, 60).records
    write(tmp_path, records, dice.choice([1500, 5000, 1 << 20]))
    do_damage(tmp_path, dice)
    whole = whole_records(tmp_path)
    for final in (False, True):
        read = list(records_after(tmp_path, 0, final=final))
        damaged = [
            json_object(each.parts[0]) for each in read if each.channel == EVENT and b'"damaged"' in each.parts[0]
        ]
        reported = {number for each in damaged for number in range(each["from_number"], each["to_number"] + 1)}
        messages = [each for each in read if not (each.channel == EVENT and b'"damaged"' in each.parts[0])]
        assert [each.number for each in messages] == sorted({each.number for each in messages}), "each once, in order"
        assert all(each == records[each.number - 1] for each in messages), "nothing wrong"
        newest = max((each.number for each in messages), default=0)
        assert reported | {each.number for each in messages} == set(range(1, newest + 1))
        assert not reported & {each.number for each in messages}
        if final:
            assert {each.number for each in messages} == set(whole), "nothing that is whole is left out"
    for after in (0, dice.randrange(len(records)), len(records) - 1):
        again = list(records_after(tmp_path, after, final=True))
        assert [each for each in again if b'"damaged"' not in each.parts[0]] == [
            whole[number] for number in sorted(whole) if number > after
        ]


def fold(folder: Path) -> tuple[JournalState, int]:
    state, tail = JournalState(), Tail(folder)
    for record in tail.read(final=True):
        state.add(record)
    unread = tail.unread_bytes
    tail.close()
    return state, unread


def notes(state: JournalState) -> int:
    """How many notes there are: in outputs, kept for a cell that has not begun, or without any cell."""
    outputs = sum(str(each.outputs.as_json()).count(NOTE) for each in state.executions.values())
    return outputs + sum(bool(each.gap_note) for each in state.running) + len(state.gaps.unplaced_notes)


@pytest.mark.parametrize("seed", SEEDS)
def test_no_cell_is_wrong_without_a_note(tmp_path: Path, seed: int) -> None:
    """A cell may show less, or something else, only if the damage was noted. (Later a cell may be cleared or run again.)"""
    dice = random.Random(seed)
    scene = random_scene(seed, 80)
    write(tmp_path, scene.records, dice.choice([1500, 5000, 1 << 20]))
    if dice.random() < 0.4 and len(list_journal_files(tmp_path).logs) > 1:
        compact(tmp_path, 1 << 28)
    expected = fold(tmp_path)[0]
    do_damage(tmp_path, dice)
    state, tail = JournalState(), Tail(tmp_path)
    for record in tail.read(final=True):
        before = notes(state)
        state.add(record)
        assert b'"damaged"' not in record.parts[0] or record.channel != EVENT or notes(state) > before
    last = scene.records[-1].number
    if tail.unread_bytes or state.position < last:  # as `Journal` does, which knows the last number
        before = notes(state)
        state.gaps.add_at_end(max(1, last - state.position), tail.unread_bytes)
        assert notes(state) > before
    tail.close()
    shown = {cell: each.outputs.as_json() for cell, each in state.by_cell.items()}
    if shown != {cell: each.outputs.as_json() for cell, each in expected.by_cell.items()}:
        assert state.gaps.any


def test_journals_without_damage_have_no_notes(tmp_path: Path) -> None:
    for seed in range(5):
        folder = tmp_path / str(seed)
        scene = random_scene(seed, 80)
        write(folder, scene.records, 1500)
        state, unread = fold(folder)
        assert not unread
        assert not state.gaps.any
        shown = {cell: each.outputs.as_json() for cell, each in state.by_cell.items()}
        assert shown == {cell: each.outputs.as_json() for cell, each in fold_of(scene.records).by_cell.items()}


def scene_of_three() -> Scene:
    scene = Scene()
    for cell in ("a", "b", "c"):
        request = scene.execute(cell)
        scene.begin(request)
        for line in range(5):
            scene.stream(request, f"{cell}{line}\n")
        scene.finish(request)
    return scene


def damaged_at(folder: Path, scene: Scene, numbers: range) -> JournalState:
    """The state after these records were overwritten with zeros."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    pieces = [b"".join(encode([each])) for each in scene.records]
    data = b"".join(
        bytes(len(piece)) if each.number in numbers else piece
        for each, piece in zip(scene.records, pieces, strict=True)
    )
    (folder / segment_name(1)).write_bytes(data)
    return fold(folder)[0]


def streams(state: JournalState, cell: str) -> list[str]:
    return [output["text"] for output in state.by_cell[cell].outputs.as_json()]


def number_of(scene: Scene, what: str, cell: int) -> int:
    """The number of the nth message of a kind."""
    found = [
        each.number
        for each in scene.records
        if each.channel != EVENT and json_object(each.parts[0]).get("msg_type") == what
    ]
    return found[cell]


def test_the_cell_whose_output_was_damaged_says_so(tmp_path: Path) -> None:
    scene = scene_of_three()
    first = number_of(scene, "stream", 6)
    size = sum(len(b"".join(encode([scene.records[number - 1]]))) for number in (first, first + 1))
    state = damaged_at(tmp_path / "journal", scene, range(first, first + 2))
    note = f"[ownlab: Part of this output was damaged on disk and could not be read ({size} bytes).]\n"
    assert streams(state, "b") == ["b0\n", note, "b3\nb4\n"]
    assert streams(state, "a") == ["a0\na1\na2\na3\na4\n"]
    assert streams(state, "c") == ["c0\nc1\nc2\nc3\nc4\n"]
    assert state.by_cell["b"].state == "done"


def test_an_execution_whose_request_was_damaged_is_recovered(tmp_path: Path) -> None:
    scene = scene_of_three()
    request = number_of(scene, "execute_request", 1)
    state = damaged_at(tmp_path / "journal", scene, range(request, request + 1))
    assert list(state.by_cell) == ["a", "c"]
    [lost] = [each for each in state.executions.values() if each.cell is None]
    assert lost.recovered
    assert lost.state == "done"
    assert lost.outputs.as_json()[-1]["text"].endswith("b4\n")
    state.gaps.assign_cells({"a": "other", "b": "x", "c": "another"})
    assert "b0\nb1\nb2\nb3\nb4\n" in streams(state, "b")
    state.gaps.assign_cells({"a": "other", "b": "x", "c": "another"})
    assert list(state.by_cell) == ["a", "c", "b"]


@pytest.mark.parametrize(
    "missing", ["execute_request status execute_input", "status execute_input", "execute_reply status"]
)
def test_any_part_of_an_execution_may_be_missing(tmp_path: Path, missing: str) -> None:
    """Records of the second cell: its outputs that are whole stay, and it is over when the third begins."""
    scene = scene_of_three()
    begin = number_of(scene, "execute_request", 1)
    end = number_of(scene, "execute_request", 2)
    kinds = missing.split()
    wanted = [
        each.number
        for each in scene.records
        if begin <= each.number < end and json_object(each.parts[0]).get("msg_type") in kinds
    ]
    first = [wanted[0]]
    for number in wanted[1:]:
        if number == first[-1] + 1:
            first.append(number)
    state = damaged_at(tmp_path / "journal", scene, range(first[0], first[-1] + 1))
    text = "".join(str(each.outputs.as_json()) for each in state.executions.values())
    assert "b4" in text
    assert NOTE in text
    assert not state.running


def test_cells_that_ran_entirely_in_a_gap_say_so(tmp_path: Path) -> None:
    """They were queued before it, so that they are known."""
    scene = Scene()
    requests = [scene.execute(cell) for cell in ("a", "b", "c")]
    for cell, request in zip("abc", requests, strict=True):
        scene.begin(request)
        scene.stream(request, f"{cell}\n")
        scene.finish(request)
    first, last = number_of(scene, "execute_reply", 0), number_of(scene, "execute_reply", 1) + 1
    state = damaged_at(tmp_path / "journal", scene, range(first, last + 1))
    assert streams(state, "a")[0] == "a\n"
    assert NOTE in streams(state, "a")[1]
    assert NOTE in streams(state, "b")[0]
    assert streams(state, "c") == ["c\n"]
    assert not state.running


def test_a_gap_while_nothing_ran_is_noted_in_the_last_cell(tmp_path: Path) -> None:
    scene = scene_of_three()
    state = damaged_at(
        tmp_path / "journal",
        scene,
        range(number_of(scene, "execute_request", 1), number_of(scene, "execute_request", 2)),
    )
    assert "What followed this cell's output was damaged on disk" in streams(state, "a")[-1]
    assert list(state.by_cell) == ["a", "c"]
    state = damaged_at(tmp_path / "journal", scene, range(1, number_of(scene, "execute_request", 1)))
    assert "What preceded this cell's output was damaged on disk" in streams(state, "b")[0]


def test_damage_to_a_compacted_journal_is_noted_in_the_cells_concerned(tmp_path: Path) -> None:
    scene = scene_of_three()
    write(tmp_path, scene.records, 500)
    compact(tmp_path, 1 << 28)
    [path] = tmp_path.glob("*.folded")
    whole = path.read_bytes()
    at = whole.index(b"b3")
    path.write_bytes(whole[:at] + b"??" + whole[at + 2 :])
    state = fold(tmp_path)[0]
    assert "could not be read" in streams(state, "b")[0]
    assert streams(state, "a") == ["a0\na1\na2\na3\na4\n"]
    at = whole.index(b'"cells"')
    path.write_bytes(whole[:at] + b"?" + whole[at + 1 :])
    state = fold(tmp_path)[0]
    assert streams(state, "a") == ["a0\na1\na2\na3\na4\n"]
    assert any("could not be read" in text for cell in state.by_cell for text in streams(state, cell))


def test_notes_survive_a_compaction(tmp_path: Path) -> None:
    scene = scene_of_three()
    damaged_at(tmp_path / "journal", scene, range(number_of(scene, "stream", 6), number_of(scene, "stream", 7) + 1))
    last = scene.records[-1].number
    writer = JournalWriter(str(tmp_path / "journal"))
    assert writer.last == last
    more: Any = scene.records[-1]._replace(number=last + 1)
    writer.write([more])
    writer.close()
    before = fold(tmp_path / "journal")[0]
    compact(tmp_path / "journal", 1 << 28)
    assert list((tmp_path / "journal").glob("*.folded"))
    after = fold(tmp_path / "journal")[0]
    assert streams(after, "b") == streams(before, "b")
    assert "could not be read" in streams(after, "b")[1]
    assert after.gaps.any

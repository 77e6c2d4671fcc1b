"""Two OS users share one store: they see and exclude each other, and cannot touch each other's runtimes."""

from __future__ import annotations

import grp
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ownlab.lab.store.rows import CardRequest
from ownlab.lab.store.setup import init_shared
from ownlab.processes.procfs import process_started

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="only root can become two users")

ANN, BOB, EVE = 54321, 54322, 54323  # nobody's numbers: no entry in /etc/passwd is needed
GROUP = next(entry for entry in grp.getgrall() if entry.gr_gid != 0)
ONE = CardRequest("NVIDIA H200", 1)
BOTH = CardRequest("NVIDIA H200", 2)


@pytest.fixture(params=["group", "everyone"])
def people(request: pytest.FixtureRequest, open_folder: Path, someone: Callable[..., Any]) -> tuple[Any, Any, Path]:
    place = open_folder / "store"
    init_shared(place, group=GROUP.gr_name if request.param == "group" else None)
    groups = (GROUP.gr_gid,) if request.param == "group" else ()
    ann = someone("ann", uid=ANN, groups=groups, at=place)
    return ann, someone("bob", uid=BOB, groups=groups, at=place), place


def gone(pid: int) -> bool:
    try:
        return process_started(pid) is None or ") Z" in Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):  # between the two looks
        return True


def test_two_users_see_and_exclude_each_other(people: tuple[Any, Any, Path]) -> None:
    ann, bob, _ = people
    ann.ask("come", runtime="a", want=ONE)
    bob.ask("come", runtime="b", want=ONE)
    bob.ask("come", runtime="c", want=ONE)
    assert ann.ask("acquire", runtime="a")["devices"] == ["GPU-0"]
    assert bob.ask("acquire", runtime="b")["devices"] == ["GPU-1"]
    waiting = bob.ask("acquire", runtime="c")
    assert waiting["place"] == 1
    assert "card 0 (NVIDIA H200): ann, a.ipynb, since " in waiting["why"]
    everyone = [["a", "ann", ANN, True], ["b", "bob", BOB, True], ["c", "bob", BOB, True]]
    assert ann.ask("runtimes") == bob.ask("runtimes") == everyone
    ann.ask("release", runtime="a")
    assert bob.ask("acquire", runtime="c")["devices"] == ["GPU-0"]


def test_neither_can_kill_or_unlock_the_others_runtime(
    people: tuple[Any, Any, Path], refused: Any, open_folder: Path
) -> None:
    ann, bob, place = people
    ann.ask("come", runtime="a", want=ONE)
    private = open_folder / "anns"
    private.mkdir(mode=0o700)
    (private / "plan.json").write_text("{}")
    for path in (private, private / "plan.json"):
        os.chown(path, ANN, ANN)
    assert ann.ask("read", path=str(private / "plan.json")) == "{}"
    for order in (
        {"do": "signal", "pid": ann.pid, "number": signal.SIGTERM},
        {"do": "read", "path": str(private / "plan.json")},
        {"do": "read", "path": f"/proc/{ann.pid}/environ"},
        {"do": "remove", "path": str(place / "locks" / "a.lock")},
        {"do": "remove", "path": str(place / "policy.json")},
    ):
        with pytest.raises(refused) as raised:
            bob.ask(**order)
        assert raised.value.kind == "PermissionError"
    assert bob.ask("reap") == []
    assert ann.ask("runtimes") == [["a", "ann", ANN, True]]


def test_a_dead_runtime_without_processes_is_freed_by_anybody(people: tuple[Any, Any, Path]) -> None:
    ann, bob, place = people
    ann.ask("come", runtime="a", want=BOTH)
    ann.ask("acquire", runtime="a")
    bob.ask("come", runtime="b", want=BOTH)
    assert bob.ask("acquire", runtime="b")["place"] == 1
    ann.die()
    assert bob.ask("acquire", runtime="b")["devices"] == ["GPU-0", "GPU-1"]
    assert bob.ask("runtimes") == [["b", "bob", BOB, True]]
    assert {path.name for path in (place / "locks").iterdir()} == {"a.lock", "b.lock"}  # a's file is ann's to remove


def test_cards_of_a_dead_runtime_with_processes_are_not_freed(people: tuple[Any, Any, Path], someone: Any) -> None:
    ann, bob, place = people
    ann.ask("lead")
    ann.ask("come", runtime="a", want=BOTH)
    ann.ask("acquire", runtime="a")
    bob.ask("come", runtime="b", want=ONE)
    left = ann.ask("leave", runtime="a", marked=True, session=False)
    ann.die()
    waiting = bob.ask("acquire", runtime="b")
    assert f"ann, a.ipynb, has ended, but its process {left} (sleep) is still running" in waiting["why"]
    assert bob.ask("reap") == []
    assert not gone(left)
    again = someone("ann", uid=ANN, groups=tuple(grp_of(place)), at=place)
    assert again.ask("reap") == ["a"]  # ann may end what is hers, and does
    assert gone(left)
    assert bob.ask("acquire", runtime="b")["devices"] == ["GPU-0"]
    assert not (place / "locks" / "a.lock").exists()


def test_root_kills_anybodys_orphans(
    people: tuple[Any, Any, Path], someone: Any, wait_until: Callable[[Callable[[], object]], None]
) -> None:
    ann, bob, place = people
    ann.ask("come", runtime="a", want=BOTH)
    ann.ask("acquire", runtime="a")
    left = ann.ask("leave", runtime="a", marked=True, session=True)
    bystander = bob.ask("leave", runtime="a", marked=True, session=True)  # bob's process says that it were ann's
    ann.die()
    root = someone("root", at=place)
    assert root.ask("reap") == []
    assert gone(left)
    assert not gone(bystander)
    os.kill(bystander, signal.SIGKILL)
    wait_until(lambda: gone(bystander))
    assert root.ask("reap") == ["a"]


def test_a_user_outside_the_group_has_no_access(open_folder: Path, someone: Any, refused: Any) -> None:
    place = open_folder / "store"
    init_shared(place, group=GROUP.gr_name)
    with pytest.raises(refused, match="Permission denied") as raised:
        someone("eve", uid=EVE, at=place)
    assert raised.value.kind == "StoreError"


def test_another_users_private_store_is_refused(open_folder: Path, someone: Any, refused: Any) -> None:
    place = open_folder / "store"
    (place / "db").mkdir(parents=True)
    (place / "db" / "ownlab.db").write_bytes(b"")
    for path in (place, place / "db", place / "db" / "ownlab.db"):
        path.chmod(0o777)
    with pytest.raises(refused, match="belongs to another user"):
        someone("eve", uid=EVE, at=place)


def grp_of(place: Path) -> list[int]:
    return [place.stat().st_gid] if place.stat().st_gid else []


def test_a_forged_row_does_not_make_root_kill_a_process(people: tuple[Any, Any, Path], someone: Any) -> None:
    ann, _, place = people
    bystander = someone("root", at=place).ask("leave", runtime="", marked=False, session=True)
    ann.ask("come", runtime="a", want=ONE)
    # What ann may do: name any process in a row, and put a file of root's in her lock's place.
    ann.ask("blame", runtime="a", pid=bystander)
    ann.ask("remove", path=str(place / "locks" / "a.lock"))
    ann.ask("link", old=str(place / "db" / "ownlab.db"), new=str(place / "locks" / "a.lock"))
    assert someone("root", at=place).ask("reap") == []
    assert not gone(bystander)

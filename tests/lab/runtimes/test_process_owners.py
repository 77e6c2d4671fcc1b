"""Owners of processes, according to a real store."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from ownlab.instruments.top.records import Owner
from ownlab.lab.runtimes.process_owners import StoreOwners, owners_of
from ownlab.lab.store.rows import Process, RuntimeRow
from ownlab.lab.store.store import Store
from ownlab.processes.procfs import read_stat


def me() -> Process:
    stat = read_stat(os.getpid())
    assert stat is not None
    return Process(os.getpid(), stat.started)


def test_a_reused_pid_has_no_owner(row: Callable[..., RuntimeRow]) -> None:
    ended = me()._replace(started=1)
    rows = [row("old", keeper=ended, supervisor=ended), row("new", keeper=ended, supervisor=me())]
    assert owners_of(rows) == {os.getpid(): Owner("new", "train.ipynb", "ann")}


def test_the_store_is_read_each_time(tmp_path: Path, row: Callable[..., RuntimeRow]) -> None:
    environ = {"OWNLAB_STORE": str(tmp_path / "store"), "HOME": str(tmp_path), "OWNLAB_CONFIG": str(tmp_path / "none")}
    with closing(StoreOwners(environ)) as owners:
        assert owners() == {}
        assert not (tmp_path / "store").exists()  # who only looks makes nothing
        with Store.open(tmp_path / "store") as store:
            lock = store.hold("r1")
            store.enqueue(row("r1", keeper=me(), supervisor=me()))
            assert owners() == {os.getpid(): Owner("r1", "train.ipynb", "ann")}
            store.release("r1")
            os.close(lock)
        assert owners() == {}

"""Real runtimes that are started, killed at every point, restarted and ended: nothing is left or duplicated."""

from __future__ import annotations

import os
import signal
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ownlab.config.limits import Limits
from ownlab.errors import LabError
from ownlab.lab.runtimes.start import tcp_connection
from ownlab.lab.runtimes.state import read_state
from ownlab.lab.store.rows import CardRequest
from ownlab.text import Text

# A process that nothing connects with its kernel any more but what it inherited: two forks, a session of its own.
ESCAPE = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        open({path!r}, 'w').write(str(os.getpid()))
        time.sleep(600)
    os._exit(0)
os.wait();
"""


def run(client: Any, code: str, timeout: float = 30) -> None:
    reply = client.execute_interactive(code, timeout=timeout, output_hook=lambda _: None)
    assert reply["content"]["status"] == "ok", reply["content"]


def escape(runtime: Any, path: Path, waiting: Callable[..., Any]) -> int:
    run(runtime.ready(), ESCAPE.format(path=str(path)))
    return int(waiting(lambda: path.exists() and path.read_text(), "the process is away"))


def unlocked(bench: Any, runtime: Any) -> bool:
    with bench.store as store:
        return not store.is_alive(runtime.plan.runtime)


def test_a_runtime_ends_and_leaves_nothing(bench: Any) -> None:
    runtime = bench.start()
    runtime.ready()
    with bench.store as store:
        row = store.runtimes()[0]
    assert (row.id, row.state, row.kernel.pid) == (runtime.plan.runtime, "running", runtime.pid("kernel"))

    runtime.ask("end", why="enough")

    assert runtime.ended() == 0
    assert not runtime.home.exists()
    with bench.store as store:
        assert (store.runtimes(), os.listdir(bench.folder / "store" / "locks")) == ([], [])
        assert store.usage("2000-01-01")[0].seconds > 0


def test_its_files_are_private_and_hold_no_environment(bench: Any) -> None:
    runtime = bench.start(env={"SECRET_OF_MINE": "5up3r-s3cr3t"})
    runtime.ready()
    runtime.ask("relaunch", env={"OTHER": "an0th3r-s3cr3t"}, cwd=None)
    run(runtime.ready(), "import os; assert os.environ['SECRET_OF_MINE'] and os.environ['OTHER']")

    assert (runtime.home / "control").stat().st_mode & 0o777 == 0o700
    for path in filter(Path.is_file, runtime.home.iterdir()):
        assert path.stat().st_mode & 0o777 == 0o600, path
        assert b"s3cr3t" not in path.read_bytes(), path


def test_the_kernel_has_its_own_environment_and_none_of_ours(bench: Any, tmp_path: Path) -> None:
    runtime = bench.start(want=CardRequest("NVIDIA GeForce GTX 1080 Ti", 1, 6), devices=bench.cards)
    code = f"""
import os, signal
assert os.environ["OWNLAB_RUNTIME"] == {runtime.plan.runtime!r}
assert os.environ["CUDA_VISIBLE_DEVICES"] == "GPU-0", os.environ["CUDA_VISIBLE_DEVICES"]
assert os.environ["TF_FORCE_GPU_ALLOW_GROWTH"] == "true"
assert os.getcwd() == {str(tmp_path)!r}
assert os.umask(0o022) == 0o022
assert os.getsid(0) == os.getpid()
assert not signal.pthread_sigmask(signal.SIG_BLOCK, [])
assert signal.getsignal(signal.SIGHUP) == signal.SIG_DFL
names = [os.readlink(each.path) for each in os.scandir("/proc/self/fd") if os.path.lexists(each.path)]
assert sum(name.endswith(".lock") for name in names) == 1
assert not [name for name in names if name.endswith((".db", "-wal", "control"))], names
"""
    run(runtime.ready(), code)
    assert runtime.state()["devices"] == ["GPU-0"]


def test_a_relaunch_keeps_ports_cards_and_clients(bench: Any) -> None:
    runtime = bench.start(want=CardRequest("NVIDIA GeForce GTX 1080 Ti", 2), devices=bench.cards)
    client = runtime.ready()
    before = runtime.state()

    runtime.ask("relaunch")
    runtime.wait("running")
    client.wait_for_ready(timeout=300)

    after = runtime.state()
    assert after["connection"] == before["connection"]
    assert after["devices"] == before["devices"] == ["GPU-0", "GPU-1"]
    assert after["launches"] == 2
    assert after["kernel"] != before["kernel"]


def test_a_killed_kernel_is_dead_until_it_is_restarted(bench: Any, waiting: Callable[..., Any], gone: Any) -> None:
    runtime = bench.start()
    away = escape(runtime, bench.folder / "away", waiting)

    os.kill(runtime.pid("kernel"), signal.SIGKILL)

    state = runtime.wait("dead")
    assert (state["exit_code"], state["kernel"]) == (-9, None)
    assert state["reason"] == "the kernel died (signal 9)"
    for reason in ((read_state(runtime.plan.home) or {})["reason"], runtime.ask("status")["reason"]):
        assert isinstance(reason, Text)
        assert (reason.template, reason.values) == ("the kernel died ({exit})", {"exit": "signal 9"})
    assert gone(away)
    with pytest.raises(LabError, match="no kernel"):
        runtime.ask("signal", signum=2)
    assert runtime.ask("status")["execution_state"] == "dead"
    assert runtime.ask("relaunch")["launches"] == 2
    run(runtime.ready(), "1")


def test_the_death_of_the_supervisor_ends_everything_below_it(
    bench: Any, waiting: Callable[..., Any], gone: Any
) -> None:
    runtime = bench.start()
    away = escape(runtime, bench.folder / "away", waiting)

    os.kill(runtime.pid("supervisor"), signal.SIGKILL)

    assert runtime.ended() == 247  # -9, as exit codes go
    assert gone(away)
    assert unlocked(bench, runtime)
    assert runtime.state()["state"] == "ended"
    assert runtime.state()["reason"] == "its supervisor died (signal 9)"
    with bench.store as store:
        assert store.runtimes() == []


def test_the_death_of_the_keeper_ends_everything(bench: Any, waiting: Callable[..., Any], gone: Any) -> None:
    runtime = bench.start()
    away = escape(runtime, bench.folder / "away", waiting)

    os.kill(runtime.pid("keeper"), signal.SIGKILL)

    runtime.ended()
    assert gone(away)
    assert unlocked(bench, runtime)
    with bench.store as store:
        assert store.runtimes() == []


def test_the_death_of_both_ends_the_kernel_and_the_next_runtime_cleans_up(
    bench: Any, waiting: Callable[..., Any], gone: Any
) -> None:
    runtime = bench.start(want=CardRequest("NVIDIA GeForce GTX 1080 Ti", 4), devices=bench.cards)
    away = escape(runtime, bench.folder / "away", waiting)
    keeper, supervisor = runtime.pid("keeper"), runtime.pid("supervisor")

    os.kill(supervisor, signal.SIGSTOP)
    os.kill(keeper, signal.SIGKILL)
    os.kill(supervisor, signal.SIGKILL)
    second = bench.start(want=CardRequest("NVIDIA GeForce GTX 1080 Ti", 4), devices=bench.cards, wait=True)

    second.ready()
    assert gone(away)


def test_a_kernel_that_ignores_sigterm_is_killed_in_time(bench: Any) -> None:
    runtime = bench.start(limits=Limits(on_end=0.5))
    run(runtime.ready(), "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)")

    os.kill(runtime.pid("keeper"), signal.SIGTERM)  # passed on

    assert runtime.ended() == 0


def test_on_end_runs_in_the_middle_of_a_cell_and_once(bench: Any, waiting: Callable[..., Any]) -> None:
    runtime = bench.start()
    client = runtime.ready()
    saved = bench.folder / "saved"
    client.execute(
        "import os, time\nfrom ownlab.notebook import on_end\n"
        f"on_end(lambda: open({str(saved)!r}, 'a').write('saved'))\n@on_end\ndef wrong(): raise ValueError('wrong')\n"
        f"open({str(saved)!r}, 'w').close()\nwhile True: time.sleep(0.01)"
    )
    waiting(saved.exists, "the cell runs")

    os.kill(runtime.pid("supervisor"), signal.SIGTERM)

    assert runtime.ended() == 0
    assert saved.read_text() == "saved"
    printed = ""
    while "ValueError: wrong" not in printed:
        message = client.get_iopub_msg(timeout=300)
        printed += message["content"].get("text", "")


def test_a_shutdown_request_ends_the_supervisor_with_the_kernel(bench: Any) -> None:
    runtime = bench.start()
    saved = bench.folder / "saved"
    client = runtime.ready()
    run(client, f"from ownlab.notebook import on_end; on_end(lambda: open({str(saved)!r}, 'a').write('saved'))")

    client.shutdown(restart=False)

    assert runtime.ended() == 0
    assert saved.read_text() == "saved"


def test_a_shutdown_for_a_restart_does_not(bench: Any) -> None:
    runtime = bench.start()
    client = runtime.ready()

    runtime.ask("expect", restart=True)
    client.shutdown(restart=True)

    assert runtime.wait("dead")["reason"] == ""
    runtime.ask("relaunch")
    runtime.ready()
    runtime.ask("kill", restart=False)
    assert runtime.ended() == 0


def test_a_runtime_that_is_not_detached_ends_with_its_starter(bench: Any) -> None:
    runtime = bench.start(detached=False)
    run(runtime.ready(), "1")

    runtime.process.stdin.close()

    assert runtime.ended() == 0
    assert not runtime.home.exists()


def test_an_environment_without_ipykernel_is_explained(bench: Any) -> None:
    python = Path(__file__).parents[3] / ".venv-torch" / "bin" / "python"
    if not python.exists():
        pytest.skip("no .venv-torch: `scripts/setup test` makes it")
    plan = bench.plan()
    runtime = bench.start(argv=[str(python), *plan.argv[1:]])

    assert runtime.ended() != 0

    state = runtime.state()
    assert state["state"] == "ended"
    assert state["reason"].endswith(f"{python} has no ipykernel: {python} -m pip install ipykernel")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"argv": ["/nowhere/python"]}, "the kernel cannot be started: No such file or directory: /nowhere/python"),
        ({"cwd": "/nowhere"}, "the kernel cannot be started: No such file or directory: /nowhere"),
        (
            {"store": "/proc/nowhere", "want": CardRequest("X", 1)},
            "The store /proc/nowhere cannot be used",
        ),
        ({"sockets": "/nowhere"}, "its sockets cannot be opened"),
    ],
)
def test_a_failed_start_has_a_reason(bench: Any, changes: dict[str, Any], reason: str) -> None:
    runtime = bench.start(**changes)

    assert runtime.ended() != 0
    assert runtime.state()["state"] == "ended"
    assert reason in runtime.state()["reason"]


def test_a_port_in_use_is_reported(bench: Any) -> None:
    first = bench.start(connection=tcp_connection())
    port = first.wait("running")["connection"]["shell_port"]
    second = bench.start(connection={**first.plan.connection, "shell_port": port})

    assert second.ended() != 0
    assert second.state()["reason"].startswith("its sockets cannot be opened: Address already in use")


def trouble_after_a_cell(runtime: Any, client: Any) -> str:
    """A cell so short that nobody saw it busy changes nothing that would be written: it may take several."""
    run(client, "1")
    return str(runtime.ask("status")["trouble"])


def test_a_store_that_fails_ends_no_kernel(bench: Any, waiting: Callable[..., Any]) -> None:
    runtime = bench.start()
    client = runtime.ready()
    store, elsewhere = bench.folder / "store", bench.folder / "elsewhere"

    store.rename(elsewhere)
    waiting(lambda: trouble_after_a_cell(runtime, client), "it is noticed")
    run(client, "2")
    elsewhere.rename(store)
    waiting(lambda: not runtime.ask("status")["trouble"], "it is written again")

    runtime.ask("rename", notebook="other.ipynb")
    with bench.store as opened:
        assert opened.runtimes()[0].notebook == "other.ipynb"


def test_a_locked_store_delays_no_message(bench: Any, waiting: Callable[..., Any]) -> None:
    runtime = bench.start()
    client = runtime.ready()
    with closing(sqlite3.connect(bench.folder / "store" / "db" / "ownlab.db", isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")

        def noticed() -> bool:
            run(client, "1", timeout=300)
            return "has locked it" in runtime.ask("status", timeout=300)["trouble"]

        waiting(noticed, "it is noticed, and cells go on")
        other.execute("ROLLBACK")
    waiting(lambda: not runtime.ask("status")["trouble"], "it is written again")


@pytest.mark.parametrize(
    "asked",
    [
        {"do": "rename"},
        {"do": "signal", "signum": 999},
        {"do": "signal", "signum": 10**30},
        {"do": "relaunch", "env": ["A=1"]},
    ],
    ids=str,
)
def test_an_invalid_request_ends_no_kernel(shared_runtime: Any, asked: dict[str, Any]) -> None:
    shared_runtime.ready()
    with pytest.raises(LabError, match=f"The runtime refused: {asked['do']}: "):
        shared_runtime.ask(**asked)
    run(shared_runtime.ready(), "1")


def test_a_notebook_with_a_name_that_is_not_utf8(bench: Any) -> None:
    runtime = bench.start(notebook="caf\udce9.ipynb")
    client = runtime.ready()
    runtime.ask("rename", notebook="th\udce9.ipynb")
    run(client, "1")
    with bench.store as store:
        assert store.runtimes()[0].notebook == "th?.ipynb"


def test_a_log_that_cannot_be_written_ends_no_kernel(bench: Any, waiting: Callable[..., Any]) -> None:
    plan = bench.plan()
    Path(plan.home, "log").symlink_to("/dev/full")  # a disk without room
    runtime = bench.start(**plan._asdict())
    client = runtime.ready()
    (bench.folder / "store").rename(bench.folder / "elsewhere")
    waiting(lambda: trouble_after_a_cell(runtime, client), "there is something to log")
    run(client, "2")
    (bench.folder / "elsewhere").rename(bench.folder / "store")

"""What every engine must do. The tests of an engine inherit this class and give it `engine_env` and `new_engine`."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ownlab.errors import CardsTaken, DeviceUnusable, UsageError
from ownlab.lab.engines.interface import Engine, Job, JobRequest, JobStatus, Task
from ownlab.lab.scripts.folder import write_start
from ownlab.lab.scripts.records import StartedScript

# Everything that a shell, a batch script or a format string could take for something else.
ODD_ARGUMENTS = (
    "two words",
    "it's",
    'a "quote"',
    "$HOME `id` $(id)",
    "back\\slash",
    "%j %%",
    "line\nbreak",
    "ünï",
    "",
    "--help",
)

REPORTS = """
import json, os, sys
print(json.dumps([sys.argv[1:], os.getcwd(), os.environ.get("CUDA_VISIBLE_DEVICES")]))
"""
EXITS = "import sys; sys.exit(int(sys.argv[1]))"
WAITS = """
import os, signal, subprocess, sys, time
def save(*_):
    open("saved", "w").close()
    sys.exit(0)
if "save" in sys.argv: signal.signal(signal.SIGTERM, save)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(3600)", os.getcwd()], start_new_session=True)
print("at work", os.environ.get("CUDA_VISIBLE_DEVICES"), flush=True)
while not os.path.exists("finish"): time.sleep(0.02)
child.kill()
"""


class EngineConformance:
    """The tests. An engine under test has at least four cards of one kind on a node, and nobody else uses it."""

    cards_of_a_node = 4

    @pytest.fixture
    def new_engine(self) -> Callable[[], Engine]:
        """Makes an engine, as a new process would."""
        raise NotImplementedError

    @pytest.fixture
    def engine(self, new_engine: Callable[[], Engine]) -> Engine:
        return new_engine()

    @pytest.fixture
    def work(self, tmp_path: Path) -> Path:
        """The current folder of the scripts."""
        folder = tmp_path / "work %j $(x) 'q' ü"
        folder.mkdir()
        return folder

    @pytest.fixture
    def submit(self, engine: Engine, work: Path) -> Any:
        """Submit a script; what still runs is ended after the test."""
        jobs: list[Job] = []

        def start(source: str, *arguments: str, wait: bool = True, detached: bool = False, **request: Any) -> Job:
            offer = engine.offers(JobRequest(python=sys.executable, **request))[0]
            folder = work / f"run {len(jobs)}"
            folder.mkdir()
            script = work / f"script {len(jobs)}.py"
            script.write_text(source)
            started = StartedScript(
                runtime=str(uuid.uuid4()),
                script=(str(script), *arguments),
                cwd=str(work),
                ranks=1,
                type=offer.type.name,
                label=offer.type.label,
                started_at=time.time(),
                engine=engine.name,
            )
            write_start(str(folder), started)
            task = Task(
                started.runtime, str(script), started.script, 1, offer, str(folder), str(work), dict(os.environ), detached, wait
            )  # fmt: skip
            jobs.append(engine.submit(task))
            return jobs[-1]

        yield start
        for job in jobs:
            engine.cancel(job, "now", "the test is over")

    @pytest.fixture
    def reaches(self, engine: Engine, until: Callable[..., Any]) -> Callable[..., JobStatus]:
        """Waits until a job is in one of these states; fails if it has ended otherwise."""

        def wait(job: Job, *states: str) -> JobStatus:
            def status() -> JobStatus | None:
                now = engine.status([job])[0]
                assert now.state in states or not now.has_ended, (now, printed(job))
                return now if now.state in states else None

            result = until(status)
            assert isinstance(result, JobStatus)
            return result

        return wait

    def test_offers_name_the_engine_and_what_a_node_has(self, engine: Engine) -> None:
        offers = engine.offers()
        assert offers
        assert {offer.engine for offer in offers} == {engine.name}
        assert len({(offer.type.name, offer.partition) for offer in offers}) == len(offers)
        assert any(offer.type.kind is None or offer.type.cards == 0 for offer in offers)
        assert max(offer.type.cards for offer in offers) == self.cards_of_a_node

    def test_a_script_gets_its_arguments_and_folder_and_no_card(self, submit: Any, reaches: Any, work: Path) -> None:
        job = submit(REPORTS, *ODD_ARGUMENTS)
        assert reaches(job, "done").exit_code == 0
        assert json.loads(printed(job)) == [list(ODD_ARGUMENTS), str(work), ""]

    def test_its_exit_code_is_passed_on(self, submit: Any, reaches: Any) -> None:
        assert reaches(submit(EXITS, "7"), "failed").exit_code == 7

    def test_it_gets_the_cards_that_were_asked_for(self, submit: Any, reaches: Any) -> None:
        job = submit(WAITS, gpus=2)
        status = reaches(job, "running")
        assert len(status.cards) == 2
        until_printed(job, "at work")
        assert len(printed(job).split()[-1].split(",")) == 2

    def test_one_waits_while_all_cards_are_taken(
        self, submit: Any, reaches: Any, engine: Engine, work: Path, until: Callable[..., Any]
    ) -> None:
        first = submit(WAITS, gpus=self.cards_of_a_node, **self.one_node)
        until_printed(first, "at work")
        second = submit(REPORTS, gpus=self.cards_of_a_node, **self.one_node)
        until(lambda: engine.status([second])[0].reason)
        assert [status.state for status in engine.status([first, second])] == ["running", "waiting"]
        (work / "finish").touch()
        assert reaches(second, "done").exit_code == 0
        assert reaches(first, "done").exit_code == 0

    def test_one_that_does_not_want_to_wait_is_refused(self, submit: Any, reaches: Any) -> None:
        until_printed(submit(WAITS, gpus=self.cards_of_a_node, **self.one_node), "at work")
        try:
            refused = submit(REPORTS, gpus=self.cards_of_a_node, wait=False, **self.one_node)
        except CardsTaken as exc:
            assert exc.message  # noqa: PT017  # either is right: at once, or a moment later
        else:
            assert reaches(refused, "refused").reason

    def test_a_waiting_one_can_be_cancelled(
        self, submit: Any, engine: Engine, reaches: Any, until: Callable[..., Any]
    ) -> None:
        first = submit(WAITS, gpus=self.cards_of_a_node, **self.one_node)
        until_printed(first, "at work")
        second = submit(REPORTS, gpus=self.cards_of_a_node, **self.one_node)
        until(lambda: engine.status([second])[0].reason)
        engine.cancel(second, "now", "nobody needs it")
        reaches(second, "stopped", "unstarted")
        assert printed(second) == ""
        assert engine.status([first])[0].state == "running"

    def test_interrupting_is_control_c(self, submit: Any, engine: Engine, reaches: Any) -> None:
        job = submit(WAITS)
        until_printed(job, "at work")
        engine.cancel(job, "interrupt", "it was interrupted")
        reaches(job, "interrupted")
        assert "KeyboardInterrupt" in printed(job)

    def test_ending_gives_time_to_save_and_says_why(
        self, submit: Any, engine: Engine, reaches: Any, work: Path
    ) -> None:
        job = submit(WAITS, "save")
        until_printed(job, "at work")
        engine.cancel(job, "end", "it was stopped by hand")
        assert "it was stopped by hand" in reaches(job, "stopped").reason
        assert (work / "saved").exists()

    def test_nothing_is_left_when_one_is_ended_now(self, submit: Any, engine: Engine, reaches: Any, work: Path) -> None:
        job = submit(WAITS)
        until_printed(job, "at work")
        engine.cancel(job, "now", "enough")
        reaches(job, "stopped")
        assert processes_with(str(work)) == []

    def test_cancelling_one_that_has_ended_changes_nothing(self, submit: Any, engine: Engine, reaches: Any) -> None:
        job = submit(EXITS, "0")
        before = reaches(job, "done")
        for how in ("interrupt", "end", "now"):
            engine.cancel(job, how, "too late")
        assert engine.status([job])[0] == before

    def test_another_process_finds_it_and_cancels_it(
        self, submit: Any, new_engine: Callable[[], Engine], until: Callable[..., Any]
    ) -> None:
        job = submit(WAITS, detached=True)
        until_printed(job, "at work")
        other = new_engine()
        assert other.status([job])[0].state == "running"
        other.cancel(job, "end", "by another process")
        ended = until(lambda: status if (status := new_engine().status([job])[0]).has_ended else None)
        assert (ended.state, ended.reason) == ("stopped", "by another process")

    @pytest.mark.parametrize("request_", [JobRequest(gpus=1000), JobRequest(nodes=1000)])
    def test_what_can_never_be_met_is_refused_at_once(self, engine: Engine, request_: JobRequest) -> None:
        with pytest.raises((DeviceUnusable, UsageError)) as caught:
            engine.offers(request_)
        assert caught.value.hint

    @property
    def one_node(self) -> dict[str, Any]:
        """What more a request needs so that two of it cannot run at the same time."""
        return {}


def printed(job: Job) -> str:
    """What rank 0 has printed."""
    path = Path(job.folder, "rank-0.log")
    return path.read_text() if path.exists() else ""


def until_printed(job: Job, words: str, seconds: float = 180.0) -> None:
    """Wait until rank 0 has printed this."""
    deadline = time.monotonic() + seconds
    while words not in printed(job):
        assert time.monotonic() < deadline, (printed(job), sorted(os.listdir(job.folder)))
        time.sleep(0.02)


def processes_with(argument: str) -> list[int]:
    """Processes that have this argument, and are no zombies."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it has ended
            if argument.encode() in path.read_bytes().split(b"\0"):
                found.append(int(path.parent.name))
    return found

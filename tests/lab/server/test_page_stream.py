"""Pages that stream a runtime: no message is lost or duplicated, whatever happens to their websocket."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest
import websocket
from tests.lab.server.stream_page import Open, follow, is_status, kernel, pages

if TYPE_CHECKING:
    from tests.lab.server.conftest import LabServer

__all__ = ["follow", "kernel", "pages"]  # fixtures

ALL = "ownlab-4-nvidia-geforce-gtx-1080-ti"
COUNT = "import time\nfor i in range({}):\n    print('line', i, flush=True)\n    time.sleep({})"


def lines(count: int) -> str:
    return "".join(f"line {i}\n" for i in range(count))


def test_a_page_receives_hello_first_then_everything_in_order(lab: LabServer, kernel: str, follow: Open) -> None:
    page = follow(lab, kernel)
    assert page.next().content["type"] == "hello"
    request = page.execute("print('one'); 6 * 7")
    page.until_idle(request)
    assert page.unacknowledged == {}, "it was told that its request was taken"
    # The reply arrives on its own socket: before or after the kernel's outputs.
    mine = [
        message.kind
        for message in page.received
        if message.parent.get("msg_id") == request and message.channel == "iopub"
    ]
    assert mine == ["status", "execute_input", "stream", "execute_result", "status"]
    assert page.numbers() == sorted(set(page.numbers()))


def test_messages_from_a_disconnection_arrive_after_reconnecting(lab: LabServer, kernel: str, follow: Open) -> None:
    page = follow(lab, kernel)
    request = page.execute(COUNT.format(200, 0.005))
    for _ in range(4):
        page.until(lambda message: message.kind == "stream", "some output")
        page.drop()
        page.open()
    page.until_idle(request)
    if "execute_reply" not in page.kinds():
        page.until_kind("execute_reply")
    assert page.printed(request) == lines(200)
    assert page.numbers() == sorted(set(page.numbers())), "nothing comes twice"
    assert [message.content["status"] for message in page.received if message.kind == "execute_reply"] == ["ok"]


def test_a_cell_ends_while_no_page_is_connected(
    lab: LabServer, kernel: str, follow: Open, until: Callable[..., Any]
) -> None:
    page = follow(lab, kernel)
    page.run("1")
    request = page.execute(COUNT.format(20, 0.01))
    page.until_kind("taken")
    page.drop()
    until(lambda: lab.kernel(kernel)["connections"] == 0, "the server sees that it is gone")
    until(lambda: lab.kernel(kernel)["execution_state"] == "idle", "the cell is done")
    page.open()
    page.until_idle(request)
    assert page.printed(request) == lines(20)


def test_a_message_sent_twice_runs_once(lab: LabServer, kernel: str, follow: Open) -> None:
    page = follow(lab, kernel)
    page.run("runs = 0")
    request = page.execute("runs += 1")
    kept = dict(page.unacknowledged)
    page.drop()  # before the acknowledgement arrived
    page.open()
    page.until_idle(request)
    assert page.unacknowledged == {}
    page.unacknowledged = kept
    page.drop()
    page.open()
    confirmation = page.until(
        lambda message: message.kind == "taken" and message.content["msg_id"] == request, "taken again"
    )
    assert confirmation.content["position"] == 0
    assert page.run("print(runs)") == "1\n"


def test_two_pages_receive_the_same_and_each_knows_its_own_requests(lab: LabServer, kernel: str, follow: Open) -> None:
    first, second = follow(lab, kernel), follow(lab, kernel)
    request = first.execute(COUNT.format(5, 0))
    for page in (first, second):
        page.until_idle(request)
        assert page.printed(request) == lines(5)
    assert "taken" in first.kinds()
    assert "taken" not in second.kinds()
    third = follow(lab, kernel, after="now")
    assert third.next().kind == "hello"
    third.until(lambda message: is_status(message, "idle"), "how things stand")
    assert third.printed() == ""


def test_an_unknown_position_means_now(lab: LabServer, kernel: str, follow: Open) -> None:
    follow(lab, kernel).run("1")
    page = follow(lab, kernel, after=10**9)
    assert page.next().kind == "hello"
    assert page.run("print(2)") == "2\n"


def test_a_plain_jupyter_page_works_next_to_a_streaming_one(lab: LabServer, kernel: str, follow: Open) -> None:
    following, plain = follow(lab, kernel), lab.page(kernel)
    assert plain.run("print('plain')") == "plain\n"
    following.until(
        lambda message: message.kind == "stream" and message.content["text"] == "plain\n", "the other's output"
    )
    request = following.execute("print('following')")
    plain.until(lambda message: message["msg_type"] == "stream" and message["content"]["text"] == "following\n")
    following.until_idle(request)


def test_input_is_requested_on_all_pages_and_answered_by_one(lab: LabServer, kernel: str, follow: Open) -> None:
    first, second = follow(lab, kernel), follow(lab, kernel)
    request = first.execute("print('hello ' + input('who? '))", allow_stdin=True)
    first.until_kind("input_request")
    question = second.until_kind("input_request")
    assert question.parent["msg_id"] == request
    second.answer(question, "Ada")
    for page in (first, second):
        answer = page.until_kind("answered").content
        assert (answer["parent"], answer["value"]) == (request, "Ada")
        page.until_idle(request)
        assert page.printed(request) == "hello Ada\n"


def test_a_page_opened_after_an_input_request_knows_the_answered_cell(
    lab: LabServer, kernel: str, follow: Open
) -> None:
    first = follow(lab, kernel)
    request = first.execute("import getpass\nprint(len(getpass.getpass()))", allow_stdin=True)
    question = first.until_kind("input_request")
    late = follow(lab, kernel, after="now")
    late.until_kind("hello")
    first.answer(question, "secret")
    answer = late.until_kind("answered").content
    assert (answer["parent"], answer["value"]) == (request, None)
    first.until_idle(request)
    assert first.printed(request) == "6\n"


def test_a_requested_restart_is_not_reported_as_missed(lab: LabServer, kernel: str, follow: Open) -> None:
    page = follow(lab, kernel)
    page.run("x = 1")
    lab.post(f"/api/kernels/{kernel}/restart")
    page.until(lambda message: is_status(message, "starting") and message.number > 0, "the new kernel starts")
    page.drop()
    page.open()
    assert page.run("print('x' in dir())") == "False\n"
    assert not [message for message in page.received if is_status(message, "restarting")]


def test_a_missed_restart_is_reported_between_the_two_kernels(lab: LabServer, kernel: str, follow: Open) -> None:
    page, other = follow(lab, kernel), follow(lab, kernel)
    page.run("print('old')")
    request = page.execute("print('last'); import time; time.sleep(600)")
    other.until(lambda message: message.kind == "stream" and message.content["text"] == "last\n", "it runs")
    page.drop()
    lab.post(f"/api/kernels/{kernel}/restart")
    other.run("print('new')")
    page.open()
    page.until(
        lambda message: message.kind == "stream" and message.content["text"] == "new\n", "the new kernel's output"
    )
    words = [
        message.content["text"].strip() if message.kind == "stream" else "restarting"
        for message in page.received
        if message.kind == "stream" or is_status(message, "restarting")
    ]
    assert words == ["old", "last", "restarting", "new"]
    [restart] = [message for message in page.received if is_status(message, "restarting")]
    [last] = [message for message in page.received if message.kind == "stream" and message.parent["msg_id"] == request]
    assert restart.header["session"] == last.header["session"], "JupyterLab would forget what it has not handled yet"
    page.drop()
    page.open()
    page.run("1")
    assert len([message for message in page.received if is_status(message, "restarting")]) == 1


def test_a_kernel_that_dies_is_restarted_and_the_page_is_informed(lab: LabServer, kernel: str, follow: Open) -> None:
    page = follow(lab, kernel)
    page.run("print('alive')")
    page.execute("import os, signal; os.kill(os.getpid(), signal.SIGKILL)")
    page.until(lambda message: is_status(message, "restarting"), "it is restarted")
    page.drop()
    page.open()
    assert page.run("print('again')") == "again\n"
    assert page.printed() == "alive\nagain\n"
    assert page.numbers() == sorted(set(page.numbers()))


def test_a_foreign_kernel_uses_plain_jupyter_channels(new_lab: Callable[..., LabServer], follow: Open) -> None:
    lab = new_lab()
    spec = lab.home.parent / "jupyter" / "kernels" / "foreign"
    spec.mkdir(parents=True)
    (spec / "kernel.json").write_text(
        json.dumps({"argv": [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"],
                    "display_name": "Foreign", "language": "python"})
    )  # fmt: skip
    lab.start()
    kernel = lab.session(kernel="foreign")["kernel"]["id"]
    page = follow(lab, kernel)
    assert page.next().kind == "plain"


def test_the_server_is_killed_under_an_open_page(new_lab: Callable[..., LabServer], follow: Open) -> None:
    lab = new_lab().start()
    kernel = lab.session()["kernel"]["id"]
    page = follow(lab, kernel)
    request = page.execute(COUNT.format(300, 0.02))
    page.until(lambda message: message.kind == "stream", "it runs")
    for signum in (signal.SIGKILL, signal.SIGTERM):
        lab.end(signum)
        page.drop()
        lab.start()
        page.open()
        page.until(lambda message: message.kind == "stream", "it still runs")
    page.until_idle(request)
    assert page.printed(request) == lines(300)
    assert page.numbers() == sorted(set(page.numbers()))


def test_a_position_that_is_not_a_number_is_refused(lab: LabServer, kernel: str, follow: Open) -> None:
    with pytest.raises(websocket.WebSocketBadStatusException) as failure:
        follow(lab, kernel, after="yesterday")
    assert failure.value.status_code == 400


def test_an_invalid_message_is_ignored(lab: LabServer, kernel: str, follow: Open) -> None:
    page = follow(lab, kernel)
    assert page._socket is not None
    for data in (b"", b"\0" * 7, b"\xff" * 64, b"\1" + b"\0" * 31):
        page._socket.send_binary(data)
    page._socket.send("text")
    assert page.run("print(1)") == "1\n"


def test_a_slow_page_receives_everything_later(
    lab: LabServer, kernel: str, follow: Open, until: Callable[..., Any]
) -> None:
    """More than is kept in memory for it and fits into the websocket: it is read from disk again."""
    page = follow(lab, kernel)
    page.run("1")
    request = page.execute("for i in range(90):\n    print(i, 'x' * 1_000_000, flush=True)")
    until(lambda: lab.kernel(kernel)["execution_state"] == "busy", "it runs")
    until(lambda: lab.kernel(kernel)["execution_state"] == "idle", "it is done")
    page.until_idle(request)
    words = page.printed(request).split()
    assert words[::2] == [str(i) for i in range(90)]
    assert {len(word) for word in words[1::2]} == {1_000_000}
    assert page.numbers() == sorted(set(page.numbers()))


def test_a_position_before_the_compaction_is_reported_as_behind(lab: LabServer, kernel: str, follow: Open) -> None:
    page = follow(lab, kernel)
    page.run("1")
    page.drop()
    other = follow(lab, kernel)
    other.run("for i in range(40):\n    print('x' * 1_000_000)")  # starts a new segment
    folder = lab.home / "journals" / kernel
    subprocess.run([sys.executable, "-m", "ownlab.lab.journal.compaction", str(folder), "256"], check=True)
    [folded] = folder.glob("*.folded")
    page.open()
    hello = page.until_kind("hello")
    behind = page.until_kind("behind")
    assert behind.content["position"] == int(folded.stem)
    assert page.run("print('live')") == "live\n"
    assert page.printed() == "live\n"
    again = follow(lab, kernel, after=hello.content["position"])
    again.run("2")
    assert "behind" not in again.kinds()


def test_records_missing_on_disk_are_reported(lab: LabServer, kernel: str, follow: Open) -> None:
    page = follow(lab, kernel)
    page.run("1")
    page.drop()
    follow(lab, kernel).run("print('lost')")
    [log] = (lab.home / "journals" / kernel).glob("*.log")
    log.unlink()
    page.open()
    hello = page.until_kind("hello")
    assert page.until_kind("behind").content["position"] == hello.content["position"]
    assert page.run("print('live')") == "live\n"


def test_a_runtime_that_waits_for_a_card_can_be_streamed(
    new_lab: Callable[..., LabServer], follow: Open, until: Callable[..., Any]
) -> None:
    lab = new_lab().start()
    until(lambda: ALL in lab.get("/api/kernelspecs").json()["kernelspecs"], "the cards were read")
    holder = lab.session("holder.ipynb", ALL)["kernel"]["id"]
    waiting = lab.session("waiting.ipynb", ALL)["kernel"]["id"]
    page = follow(lab, waiting)
    assert page.next().kind == "hello"
    assert is_status(page.next(), "starting")
    request = page.execute("print('at last')")
    page.until(lambda message: message.kind == "taken" and message.content["msg_id"] == request, "it was taken")
    lab.end(signal.SIGKILL)
    page.drop()
    lab.start()
    page.open()
    lab.client.delete(f"{lab.url}/api/kernels/{holder}").raise_for_status()
    page.until_idle(request)
    assert page.printed(request) == "at last\n"
    assert not [message for message in page.received if is_status(message, "restarting")]


def test_a_runtime_whose_supervisor_was_killed_is_dead(lab: LabServer, kernel: str, follow: Open) -> None:
    page = follow(lab, kernel)
    page.run("print('before')")
    _, supervisor, _ = lab.processes(kernel)
    os.kill(supervisor["pid"], signal.SIGKILL)
    page.until(lambda message: is_status(message, "dead"), "it is over")
    page.drop()
    with pytest.raises(websocket.WebSocketBadStatusException) as failure:
        page.open()
    assert failure.value.status_code == 404

"""The journal socket of a real runtime: one order, on disk before it is sent, each message once."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.lab.kernel_replies import reply_to

from ownlab.lab.journal.records import Record, json_object
from ownlab.lab.store.rows import CardRequest

KIND = "NVIDIA GeForce GTX 1080 Ti"
ENDLESS = "n = 0\nwhile True:\n    get_ipython().display_pub.publish({'text/plain': str(n)})\n    n += 1"


@pytest.fixture(scope="module")
def runtime(tmp_path_factory: pytest.TempPathFactory, module_bench: Callable[[Path], Any]) -> Iterator[Any]:
    """One runtime of a lab for all tests that leave it as it was."""
    started = module_bench(tmp_path_factory.mktemp("line")).start_in_lab(notebook="/work/train.ipynb")
    yield started
    started.clear()


def kind(record: Record) -> str:
    head = json_object(record.parts[0])
    return str(head.get("msg_type") or head.get("event"))


def texts(records: list[Record]) -> str:
    return "".join(json_object(record.parts[3])["text"] for record in records if kind(record) == "stream")


def shown(records: list[Record]) -> list[str]:
    return [json_object(record.parts[3])["data"]["text/plain"] for record in records if kind(record) == "display_data"]


def is_question(record: Record) -> bool:
    return record.channel == "stdin" and not record.to_kernel


def is_kind(wanted: str) -> Callable[[Record], bool]:
    return lambda record: kind(record) == wanted


def test_numbers_have_no_gaps_and_are_on_disk_before_they_are_sent(runtime: Any) -> None:
    follower = runtime.follow()
    request = follower.execute("for n in range(50): print(n, flush=True)")

    def on_disk(record: Record) -> bool:
        assert runtime.journal(record.number - 1)[0] == record
        return kind(record) == "execute_reply"

    follower.until(on_disk)
    follower.run("1")
    numbers = [record.number for record in follower.records]
    assert numbers == list(range(follower.hello["position"] + 1, numbers[-1] + 1))
    assert [record.number for record in runtime.journal()] == list(range(1, numbers[-1] + 1))
    first = follower.records[0]
    assert (first.channel, first.to_kernel, kind(first)) == ("shell", True, "execute_request")
    assert json_object(first.parts[0])["msg_id"] == request
    assert texts(follower.records) == "".join(f"{n}\n" for n in range(50))
    on_shell = [kind(record) for record in follower.records if record.channel == "shell"]
    assert on_shell == ["execute_request", "execute_reply"] * 2


def test_a_late_follower_reads_the_beginning_from_disk(runtime: Any) -> None:
    first = runtime.follow()
    request = first.execute(f"try:\n    {ENDLESS.replace(chr(10), chr(10) + '    ')}\nexcept KeyboardInterrupt: pass")
    first.until(lambda record: shown([record]) == ["100"])

    second = runtime.follow()
    assert second.hello["busy"]
    assert second.hello["execution_state"] == "busy"
    before = runtime.journal()[: second.hello["position"]]
    second.until(lambda record: len(second.records) > 100)
    runtime.ask("signal", signum=int(signal.SIGINT))

    def over(record: Record) -> bool:
        return kind(record) == "execute_reply" and json_object(record.parts[1])["msg_id"] == request

    first.until(over)
    second.until(over)
    assert [record.number for record in before] == list(range(1, second.hello["position"] + 1))
    known = {record.number: record for record in before + second.records}
    assert [known[record.number] for record in first.records] == first.records
    assert second.records[0].number == second.hello["position"] + 1


def test_hello_contains_the_current_state(runtime: Any) -> None:
    follower = runtime.follow()
    request = follower.send("kernel_info_request", {})
    follower.until(
        lambda record: kind(record) == "kernel_info_reply" and json_object(record.parts[1])["msg_id"] == request
    )
    records = follower.run("1")

    hello = runtime.follow().hello

    assert (hello["busy"], hello["execution_state"], hello["launch"]) == (False, "idle", 1)
    assert hello["kernel_info"]["language_info"]["name"] == "python"
    assert hello["kernel_session"] == json_object(records[-1].parts[0])["session"]
    assert hello["position"] == records[-1].number


def test_a_message_that_is_sent_twice_is_forwarded_once(runtime: Any) -> None:
    follower, other = runtime.follow(), runtime.follow()
    follower.run("count = 0")
    name = follower.execute("count += 1")
    for sender in (follower, other):
        sender.execute("count += 1", name=name)
        sender.until_refused(name)

    assert texts(follower.run("print(count)")) == "1\n"
    requests = [record for record in runtime.journal() if name.encode() in record.parts[0]]
    assert [record.to_kernel for record in requests] == [True]


def test_an_input_request_is_answered_once_by_the_first_client(runtime: Any) -> None:
    follower, other = runtime.follow(), runtime.follow()
    request = follower.execute("print('before'); a = input('a? '); b = input('b? '); print(a, b)")
    records = follower.until(is_question)
    assert texts(records) == "before\n"  # outputs printed before the request have lower numbers
    first = other.until(is_question)[-1]

    other.answer(first, "one")
    second = follower.until(is_question)[-1]
    late = follower.answer(first, "late")
    follower.until_refused(late)
    follower.answer(second, "two")

    records = follower.until_done(request)
    assert texts(records) == "one two\n"
    answers = [record for record in runtime.journal() if kind(record) == "input_reply"][-2:]
    assert [json_object(record.parts[3])["value"] for record in answers] == ["one", "two"]
    assert [record.parts[1] for record in answers] == [first.parts[0], second.parts[0]]

    nobody_asked = follower.answer(second, "three")
    follower.until_refused(nobody_asked)


def test_an_interrupted_input_request_takes_no_reply(runtime: Any) -> None:
    follower = runtime.follow()
    request = follower.execute("input('a? ')")
    question = follower.until(is_question)[-1]
    runtime.ask("signal", signum=int(signal.SIGINT))
    follower.until_done(request)

    follower.until_refused(follower.answer(question, "late"))


ASKS_THE_PAGE = """
kernel = get_ipython().kernel
kernel.session.send(
    kernel.iopub_socket, "colab_request", {"request": {}}, parent=kernel.get_parent("shell"),
    metadata={"colab_request_type": "GetSecret", "colab_msg_id": "asked"},
)
heard = []
while len(heard) < 2:
    kernel.stdin_socket.poll(60_000)
    heard.append(kernel.session.recv(kernel.stdin_socket, 0)[1]["content"]["value"])
print([each.get("data", "nees")[::-1] for each in heard])
"""


def test_a_colab_request_is_answered_once_and_the_reply_is_not_recorded(runtime: Any) -> None:
    follower = runtime.follow()
    request = follower.execute(ASKS_THE_PAGE)
    follower.until(is_kind("colab_request"))

    def reply(name: str, **output: object) -> str:
        value = {"type": "colab_reply", "colab_msg_id": name, **output}
        sent: str = follower.send("input_reply", {"value": value, "status": "ok"}, "stdin")
        return sent

    follower.until_refused(reply("never asked", data="x"))
    reply("asked", ack=True)
    reply("asked", data="secret-word")
    records = follower.until_done(request)
    assert texts(records) == "['seen', 'drow-terces']\n"
    follower.until_refused(reply("asked", data="twice"))
    on_disk = b"".join(path.read_bytes() for path in Path(runtime.plan.journal).iterdir())
    assert b"secret-word" not in on_disk


def test_a_password_reaches_the_kernel_and_not_the_disk(runtime: Any) -> None:
    follower = runtime.follow()
    request = follower.execute("from getpass import getpass\nword = getpass('key? ')")
    follower.answer(follower.until(is_question)[-1], "open-sesame")
    follower.until_done(request)

    assert texts(follower.run("print(word[::-1])")) == "emases-nepo\n"
    on_disk = b"".join(path.read_bytes() for path in Path(runtime.plan.journal).iterdir())
    assert b"open-sesame" not in on_disk
    assert not any(b"open-sesame" in part for record in follower.records for part in record.parts)
    (kept,) = [record for record in follower.records if kind(record) == "input_reply"]
    assert json_object(kept.parts[3]) == {"value": None, "status": "ok"}


def test_a_jupyter_client_beside_a_follower(runtime: Any) -> None:
    client, follower = runtime.ready(), runtime.follow()

    request = client.execute("name = input('name? ')\nprint(name)", allow_stdin=True)
    question = follower.until(is_question)[-1]
    assert client.get_stdin_msg(timeout=300)["content"]["prompt"] == "name? "
    follower.answer(question, "by the follower")

    records = follower.until_done(request)
    assert reply_to(client, request)["content"]["status"] == "ok"
    assert texts(records) == "by the follower\n"
    assert "execute_reply" in [kind(record) for record in follower.records]

    follower.run("1")  # its reply is for nobody else; what the kernel publishes is
    own = client.execute("print('own')")
    assert reply_to(client, own)["content"]["status"] == "ok"
    assert texts(follower.until_done(own)) == "own\n"
    client.input("nobody asked")
    assert client.execute_interactive("1", timeout=300)["content"]["status"] == "ok"
    answers = [json_object(record.parts[3])["value"] for record in runtime.journal() if kind(record) == "input_reply"]
    assert "nobody asked" not in answers


def test_a_follower_of_status_messages_gets_no_outputs(runtime: Any) -> None:
    follower, all_of_it = runtime.follow(["status"]), runtime.follow()
    request = all_of_it.execute("print(1)\ndisplay(2)")
    all_of_it.until_done(request)

    kinds = [kind(record) for record in follower.until_done(request)]

    assert [each for each in kinds if each != "execute_reply"] == ["execute_request", "status", "status"]


def test_invalid_messages_have_no_effect(runtime: Any) -> None:
    follower = runtime.follow()
    for frames in ([b""], [b"send"], [b"send", b"shell"], [b"send", b"hb", *[b"{}"] * 4], [b"follow", b"["]):
        follower._socket.send_multipart(frames)
    follower._socket.send_multipart([b"send", b"shell", b"no json", b"{}", b"{}", b"{}"])
    follower.send("input_reply", {"value": "nobody asked"}, "stdin")

    assert texts(runtime.follow().run("print('alive')")) == "alive\n"


def test_buffers_are_forwarded_unchanged(runtime: Any) -> None:
    follower = runtime.follow()
    records = follower.run(
        "from comm import create_comm\ncreate_comm(target_name='t', buffers=[bytes(range(256)) * 9999, b''])"
    )

    (opened,) = [record for record in records if kind(record) == "comm_open"]
    assert list(opened.parts[4:]) == [bytes(range(256)) * 9999, b""]
    assert opened in runtime.journal(follower.hello["position"])


def test_a_restart_is_an_event_and_messages_wait_meanwhile(bench: Any) -> None:
    runtime = bench.start_in_lab()
    follower = runtime.follow()
    follower.run("x = 1")
    runtime.ask("kill", restart=True)
    runtime.wait("dead")
    assert follower.until(is_kind("kernel-ended"))

    hello = runtime.follow().hello
    assert (hello["execution_state"], hello["busy"], hello["launch"]) == ("dead", False, 1)
    request = follower.execute("print('x' in globals())")
    follower.until(is_kind("execute_request"))
    runtime.ask("relaunch")

    records = follower.until_done(request)
    assert json_object(next(record for record in records if kind(record) == "kernel").parts[0])["launch"] == 2
    assert texts(records) == "False\n"
    assert runtime.follow().hello["launch"] == 2


def test_cells_wait_for_a_card(bench: Any) -> None:
    first = bench.start_in_lab(want=CardRequest(KIND, 1), devices=bench.cards[:1])
    first.wait("running")
    second = bench.start_in_lab(want=CardRequest(KIND, 1), devices=bench.cards[:1], wait=True)
    second.wait("waiting")
    follower = second.follow()
    assert (follower.hello["launch"], follower.hello["execution_state"]) == (0, "starting")
    request = follower.execute("print('at last')")
    follower.until(is_kind("execute_request"))

    first.ask("end", now=True)

    assert texts(follower.until_done(request)) == "at last\n"


def test_the_end_is_the_last_record_and_the_socket_is_removed(bench: Any) -> None:
    runtime = bench.start_in_lab()
    follower = runtime.follow()
    follower.run("import ownlab\nownlab.on_end(lambda: print('last words', flush=True))")
    runtime.ask("end", why="enough")

    records = follower.until(is_kind("ended"))
    assert runtime.ended() == 0
    assert texts(records) == "last words\n"
    assert [json.loads(record.parts[0]) for record in records[-2:]] == [
        {"event": "kernel-ended", "why": "enough"},
        {"event": "ended", "why": "enough"},
    ]
    assert runtime.journal()[-1] == records[-1]
    assert not runtime.home.exists()


def test_everything_sent_is_on_disk_if_the_supervisor_is_killed(bench: Any) -> None:
    runtime = bench.start_in_lab()
    follower = runtime.follow()
    follower.execute(ENDLESS)
    follower.until(lambda record: shown([record]) == ["500"])
    os.kill(runtime.pid("supervisor"), signal.SIGKILL)
    runtime.ended()

    while follower._socket.poll(100):
        follower.until(lambda _: True)
    kept = {record.number: record for record in runtime.journal()}
    assert [kept[record.number] for record in follower.records] == follower.records
    assert list(kept) == list(range(1, len(kept) + 1))
    assert [kind(record) for record in kept.values()][-2:] == ["kernel-ended", "ended"]  # by the keeper

    again = bench.start(lab="lab", journal=runtime.plan.journal)  # as the provisioner does
    follower = again.follow()
    assert follower.hello["launch"] == 2
    records = again.journal(len(kept))
    assert (records[0].number, kind(records[0])) == (len(kept) + 1, "kernel")
    assert texts(follower.run("print('goes on')")) == "goes on\n"

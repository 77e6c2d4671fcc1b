"""Requests to the page: answers, errors, acknowledgements, interrupts, and missing pages."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.guest.colab.kernel_process import PYTHON, SECONDS, started
from tests.guest.colab.page import Page, open_page

ASK = "from google.colab import _message\n"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with open_page(tmp_path_factory.mktemp("kernel")) as opened:
        yield opened


def test_an_answer_arrives_unchanged(page: Page) -> None:
    sent: dict[str, Any] = {"data": {"text": "ä", "numbers": [1, 2.5, None]}}
    printed = page.result(ASK + "print(_message.blocking_request('any', {'a': 1}))", {"any": lambda body: sent})
    assert printed == "{'text': 'ä', 'numbers': [1, 2.5, None]}\n"


def test_a_request_belongs_to_its_cell_and_states_whether_it_expects_an_answer(page: Page) -> None:
    ran = page.run(ASK + "print('before', end=''); _message.send_request('tell', {'x': 1}, expect_reply=False)")
    assert [(each.type, each.body, each.wants_answer) for each in ran.requests] == [("tell", {"x": 1}, False)]
    assert ran.text == "before"


def test_an_error_of_the_page_is_raised(page: Page) -> None:
    ran = page.run(ASK + "_message.blocking_request('any')", {"any": lambda body: {"error": {"message": "not so"}}})
    assert ran.error == "MessageError: not so"


def test_an_acknowledged_request_waits_until_its_timeout(page: Page) -> None:
    assert page.result(ASK + "print(_message.blocking_request('any', timeout_sec=0.2))") == "None\n"


def test_without_a_page_nothing_is_sent_and_it_fails_at_once(page: Page) -> None:
    ran = page.headless(ASK + "print(_message.can_ask()); _message.blocking_request('any', timeout_sec=None)")
    assert (ran.text, ran.requests) == ("False\n", [])
    assert ran.error == "MessageError: nobody can answer: this notebook runs without a page"


def test_an_unresponsive_page_is_an_error(page: Page) -> None:
    code = (
        ASK
        + "_message.ACK_SECONDS = 0.2\ntry: _message.blocking_request('any', timeout_sec=None)\nfinally: _message.ACK_SECONDS = 10"
    )
    ran = page.run(code, is_there=False)
    assert ran.error == "MessageError: this notebook is not open in a page of ownlab"


def test_an_interruption_ends_the_waiting(page: Page) -> None:
    def interrupt(body: dict[str, Any]) -> dict[str, Any]:
        page.manager.interrupt_kernel()
        return {}

    assert page.run(ASK + "_message.blocking_request('any', timeout_sec=None)", {"any": interrupt}).error.startswith(
        "KeyboardInterrupt"
    )


def test_threads_get_their_own_answers_in_whatever_order_they_come(page: Page) -> None:
    code = """
import threading
from google.colab import _message
found = {}
def ask(n): found[n] = _message.blocking_request(f'ask{n}', n, timeout_sec=None)
threads = [threading.Thread(target=ask, args=(n,)) for n in range(4)]
for each in threads: each.start()
for each in threads: each.join()
print(found == {n: n * 10 for n in range(4)})
"""
    # The kernel hears of the answers only after all have asked, the last first.
    waiting: list[tuple[str, int]] = []
    all_asked = threading.Event()

    class Late(Page):
        def _answer(self, ran: Any, metadata: dict[str, Any], body: Any, answers: Any) -> None:
            waiting.append((metadata["colab_msg_id"], body))
            if len(waiting) == 4:
                all_asked.set()
                for message_id, number in reversed(waiting):
                    self.reply(message_id, data=number * 10)

    assert Late(page.manager, page.client).result(code) == "True\n"
    assert all_asked.is_set()


def test_a_late_answer_is_not_taken_for_another(page: Page) -> None:
    code = ASK + "print([_message.blocking_request('any', timeout_sec=0.1) for _ in range(2)])"
    ids: list[str] = []

    class Late(Page):
        def _answer(self, ran: Any, metadata: dict[str, Any], body: Any, answers: Any) -> None:
            ids.append(metadata["colab_msg_id"])
            for late in ids[:-1]:
                self.reply(late, data="too late")

    assert Late(page.manager, page.client).result(code) == "[None, None]\n"
    assert len(set(ids)) == 2


def test_a_late_answer_is_not_taken_for_typed_input(page: Page) -> None:
    asked: dict[str, str] = {}

    class Late(Page):
        def _answer(self, ran: Any, metadata: dict[str, Any], body: Any, answers: Any) -> None:
            asked[metadata["colab_request_type"]] = metadata["colab_msg_id"]

    def type_in(question: dict[str, Any]) -> dict[str, Any]:
        for each in asked.values():
            page.reply(each, ack=True)
            page.reply(each, data=f"not for {question['prompt']}")
        return {"data": "typed"}

    once = ASK + "from getpass import getpass\nprint(_message.blocking_request('once', timeout_sec=0.1), "
    late = Late(page.manager, page.client)
    assert late.result(once + "input('one'), getpass('two'))", {"input": type_in}) == "None typed typed\n"
    # Another thread waits for its answer meanwhile, and gets it.
    code = (
        once
        + "end='')\nfrom concurrent.futures import ThreadPoolExecutor as Pool\nimport contextvars\nwith Pool() as pool:\n"
        " here = contextvars.copy_context()\n"
        " found = pool.submit(here.run, _message.blocking_request, 'thread', timeout_sec=20)\n"
        " print(input('three'), found.result())"
    )
    assert late.result(code, {"input": type_in}) == "Nonetyped not for three\n"


def test_invalid_answers_are_ignored(page: Page) -> None:
    def answer(body: dict[str, Any]) -> dict[str, Any]:
        session, channel = page.client.session, page.client.stdin_channel
        channel.send(session.msg("input_reply", {"value": "text"}))
        channel.send(session.msg("input_reply", {"value": {"type": "other"}}))
        channel.send(session.msg("input_reply", {}))
        return {"data": 1}

    assert page.result(ASK + "print(_message.blocking_request('any'))", {"any": answer}) == "1\n"


def test_a_scratch_cell_is_asked_for(page: Page) -> None:
    ran = page.run(
        "from google.colab import _frontend; _frontend.create_scratch_cell('x = 1')",
        {"add_scratch_cell": lambda body: {"data": {}}},
    )
    assert ran.asked("add_scratch_cell") == [{"content": "x = 1", "openInBottomPane": False}]


def test_importing_google_colab_loads_nothing_heavy(tmp_path: Path) -> None:
    with open_page(tmp_path) as page:
        code = "import json, sys; print(json.dumps(sorted(name for name in sys.modules if name.startswith('google.colab'))))"
        loaded = json.loads(page.result(code))
    assert "google.colab" in loaded
    assert not {"google.colab.output", "google.colab.data_table", "google.colab.widgets"} & set(loaded)


def test_an_interrupted_question_shows_the_notebooks_own_lines(tmp_path: Path) -> None:
    code = "import getpass\ndef name():\n    return {}\nname()"
    with started(tmp_path, {}, PYTHON) as (manager, client):
        for question in ("input('Name? ')", "getpass.getpass('Name? ')"):
            client.execute(code.format(question), allow_stdin=True, stop_on_error=False)
            assert client.get_stdin_msg(timeout=SECONDS)["content"]["prompt"] == "Name? "
            manager.interrupt_kernel()
            while (message := client.get_iopub_msg(timeout=SECONDS))["msg_type"] != "error":
                pass
            shown = re.sub(r"\x1b\[[\d;]*m", "", "\n".join(message["content"]["traceback"]))
            assert message["content"]["ename"] == "KeyboardInterrupt"
            assert f"return {question}" in shown
            assert ".py" not in shown

"""What a page receives when it attaches to a runtime that is working."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from tests.lab.server.journal_maker import notebook_of
from tests.lab.server.stream_page import StreamPage

from ownlab.lab.journal.records import Record
from ownlab.lab.journal.state import JournalState
from ownlab.lab.server.attachment import attachment

if TYPE_CHECKING:
    from tests.lab.server.conftest import LabServer


@pytest.fixture
def kernel(lab: LabServer) -> Iterator[str]:
    name = f"{os.urandom(4).hex()}.ipynb"
    (lab.folder / name).write_text(json.dumps(notebook_of("a", "b")))
    kernel: str = lab.session(name)["kernel"]["id"]
    yield kernel
    lab.client.delete(f"{lab.url}/api/kernels/{kernel}")


@pytest.fixture
def page(lab: LabServer, kernel: str) -> Iterator[StreamPage]:
    made = StreamPage(f"ws://127.0.0.1:{lab.port}/api/kernels/{kernel}/channels", lab.token)
    yield made
    made.close()


@pytest.fixture
def attach(lab: LabServer, kernel: str) -> Callable[..., dict[str, Any]]:
    def ask(after: int = 0) -> dict[str, Any]:
        attachment: dict[str, Any] = lab.get(f"/ownlab/api/runtimes/{kernel}/attach?after={after}").json()
        return attachment

    return ask


Attach = Callable[..., dict[str, Any]]


def test_running_and_queued_cells_are_replayed_completely(page: StreamPage, attach: Attach) -> None:
    running = page.execute("print('one', flush=True); import time; time.sleep(60)", cell="a")
    queued = page.execute("print('two')", cell="b")
    page.until_kind("stream")
    attached = attach(10**9)
    first, second = attached["executions"]
    assert (first["msg_id"], first["cell"], first["state"]) == (running, "a", "running")
    assert first["queued_at"] <= first["started_at"] <= attached["now"]
    assert first["ended_at"] is None
    assert [each["header"]["msg_type"] for each in first["messages"]] == ["status", "execute_input", "stream"]
    assert first["messages"][2]["content"] == {"name": "stdout", "text": "one\n"}
    assert all(each["parent_header"]["msg_id"] == running for each in first["messages"])
    assert all(each["header"]["session"] == attached["kernel_session"] for each in first["messages"])
    assert first["request"]["header"]["msg_id"] == running
    assert first["request"]["metadata"]["cellId"] == "a"
    assert (second["msg_id"], second["state"], second["messages"]) == (queued, "queued", [])
    assert attached["position"] >= int(page.position)


def test_of_finished_cells_only_new_and_changeable_ones_are_replayed(page: StreamPage, attach: Attach) -> None:
    page.until_idle(page.execute("print('one')", cell="a"))
    page.until_idle(page.execute("from IPython.display import display; display(1, display_id='x')", cell="b"))
    attached = attach()
    assert [each["cell"] for each in attached["executions"]] == ["a", "b"]
    assert [each["state"] for each in attached["executions"]] == ["done", "done"]
    assert attached["executions"][0]["execution_count"] == 1
    assert [each["cell"] for each in attach(attached["position"])["executions"]] == ["b"]


def test_an_open_input_request_is_replayed(page: StreamPage, attach: Attach) -> None:
    page.execute("print(input('name? '))", cell="a", allow_stdin=True)
    question = page.until_kind("input_request")
    last = attach(10**9)["executions"][0]["messages"][-1]
    assert (last["channel"], last["content"]["prompt"]) == ("stdin", "name? ")
    assert last["header"]["msg_id"] == question.header["msg_id"]
    page.answer(question, "Ada")
    page.until_kind("stream")
    assert not any(each["channel"] == "stdin" for each in attach()["executions"][0]["messages"])


def test_nothing_is_replayed_of_a_kernel_that_is_gone(
    lab: LabServer, kernel: str, page: StreamPage, attach: Attach
) -> None:
    page.execute("import time; time.sleep(60)", cell="a")
    page.until_kind("execute_input")
    lab.post(f"/api/kernels/{kernel}/restart")
    assert attach()["executions"] == []


def test_attaching_requires_authentication(lab: LabServer, kernel: str) -> None:
    url = f"{lab.url}/ownlab/api/runtimes/{kernel}/attach"
    assert httpx.get(url, trust_env=False).status_code == 403
    assert lab.client.get(f"{url}?after=x").status_code == 400
    unknown = lab.client.get(f"{lab.url}/ownlab/api/runtimes/no-such/attach")
    assert unknown.status_code == 404  # for a page: the kernel has no journal, so its outputs are saved as they are
    assert "no journal" in unknown.json()["error"]["message"]


def test_new_packages_are_listed(page: StreamPage, attach: Attach) -> None:
    send = "k = get_ipython().kernel\nk.session.send(k.iopub_socket, 'ownlab_packages', {'pip': {'a': 'a==1'}})"
    page.until_idle(page.execute(send, cell="a"))
    attached = attach()
    assert attached["packages"] == {"pip": {"a": "a==1"}}
    assert attach(attached["position"])["packages"] == {}


def test_a_cell_that_waits_for_its_node_is_listed_once() -> None:
    """It may be in the outbox, which is read first, and in the journal by then."""
    request: dict[str, dict[str, Any]] = {
        "header": {"msg_id": "a", "msg_type": "execute_request"}, "metadata": {"cellId": "cell"}, "content": {"code": "1"},
    }  # fmt: skip
    journal = JournalState(1 << 20)

    def listed() -> list[tuple[str, str, str, dict[str, Any]]]:
        executions = json.loads(attachment(journal, 0, [request]))["executions"]
        return [(each["msg_id"], each["cell"], each["state"], each["request"]) for each in executions]

    assert listed() == [("a", "cell", "queued", request)]
    header, metadata, content = (json.dumps(part).encode() for part in request.values())
    journal.add(Record(1, "shell", True, 1.0, (header, b"{}", metadata, content)))
    assert [each[:3] for each in listed()] == [("a", "cell", "queued")]

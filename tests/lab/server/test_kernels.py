"""A runtime that waits for a card: its page is connected, and its messages are handled when the card is free."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.lab.server.conftest import LabServer

ALL = "ownlab-4-nvidia-geforce-gtx-1080-ti"
ONE = "ownlab-1-nvidia-geforce-gtx-1080-ti"
VISIBLE = "import os; print(f\"sees <{os.environ['CUDA_VISIBLE_DEVICES']}>\")"


STARTING = ("status", "starting")


def test_a_waiting_runtime_starts_when_its_card_is_free(
    new_lab: Callable[..., LabServer], until: Callable[..., Any]
) -> None:
    lab = new_lab().start()
    until(lambda: ALL in lab.get("/api/kernelspecs").json()["kernelspecs"], "the cards were read")
    holder = lab.session("holder.ipynb", ALL)["kernel"]["id"]
    given_up = lab.session("given-up.ipynb", ONE)
    waiting = lab.session("waiting.ipynb", ONE)["kernel"]["id"]
    assert (lab.state(waiting) or {})["state"] == "waiting"
    lab.page(waiting).until(
        lambda message: (message["msg_type"], message["content"].get("execution_state")) == STARTING
    )

    lab.end(signal.SIGKILL)
    lab.start()
    assert lab.kernel(waiting)["execution_state"] == "starting"
    shown = {runtime["id"]: runtime for runtime in lab.get("/ownlab/api/snapshot").json()["runtimes"]}
    assert (shown[waiting]["state"], shown[waiting]["place"]) == ("waiting", 2)
    assert "holder.ipynb" in shown[waiting]["why"]
    lab.client.delete(f"{lab.url}/api/sessions/{given_up['id']}").raise_for_status()
    until(lambda: not (lab.home / "runtimes" / given_up["kernel"]["id"]).exists(), "its folder is gone")

    page = lab.page(waiting)
    page.until(lambda message: (message["msg_type"], message["content"].get("execution_state")) == STARTING)
    page.execute(VISIBLE)
    lab.post(f"/api/kernels/{waiting}/restart")
    lab.post(f"/api/kernels/{waiting}/interrupt")
    assert (lab.state(waiting) or {})["state"] == "waiting", "there is nothing to restart yet"

    lab.client.delete(f"{lab.url}/api/kernels/{holder}").raise_for_status()
    assert re.search("sees <[0-3]>", page.printed(">"))
    until(lambda: lab.kernel(waiting)["execution_state"] == "idle", "the kernel is idle")
    assert page.run("print('after')") == "after\n"

"""A deleted session leaves no runtime behind, whatever happens at the same moment."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import httpx
import pytest

if TYPE_CHECKING:
    from tests.lab.server.conftest import LabServer


def delete(lab: LabServer, session: dict[str, Any]) -> int:
    """Delete a session as a client does: again if the server did not answer."""
    while True:
        with contextlib.suppress(httpx.TransportError):
            return lab.client.delete(f"{lab.url}/api/sessions/{session['id']}").status_code
        time.sleep(0.05)


def nothing_is_left(lab: LabServer, until: Callable[..., Any], runtimes: list[str]) -> None:
    """Fail if there is a runtime, or becomes one: a restart takes some seconds."""

    def left() -> list[Any]:
        listed = [(runtime["id"], runtime["state"]) for runtime in lab.get("/ownlab/api/snapshot").json()["runtimes"]]
        return [*listed, *(lab.home / "runtimes").glob("*"), *lab.get("/api/sessions").json()]

    until(lambda: not left(), "no runtime is left")
    end = time.monotonic() + 4
    while time.monotonic() < end:
        assert not left(), "a runtime came back"
        time.sleep(0.2)
    assert not [runtime for runtime in runtimes if lab.processes(runtime)]


def test_many_at_once(lab: LabServer, until: Callable[..., Any]) -> None:
    def once(number: int) -> str:
        session = lab.session(f"many-{number % 3}-{number}.ipynb")
        assert delete(lab, session) in (204, 404, 410)
        return str(session["kernel"]["id"])

    with ThreadPoolExecutor(6) as pool:
        runtimes = list(pool.map(once, range(12)))
    nothing_is_left(lab, until, runtimes)


@pytest.mark.parametrize("seconds", [0.0, 0.5, 1.5, 2.5, 3.2])
def test_while_a_dead_kernel_is_restarted(lab: LabServer, until: Callable[..., Any], seconds: float) -> None:
    session = lab.session(f"dead-{seconds}.ipynb")
    runtime = session["kernel"]["id"]
    state = until(lambda: (lab.state(runtime) or {}).get("kernel"), "it has a kernel")
    os.kill(state["pid"], signal.SIGKILL)
    time.sleep(seconds)
    assert delete(lab, session) in (204, 404, 410)
    nothing_is_left(lab, until, [runtime])


@pytest.mark.parametrize("seconds", [0.0, 0.05, 0.3, 1.0])
def test_while_somebody_restarts_it(lab: LabServer, until: Callable[..., Any], seconds: float) -> None:
    session = lab.session(f"restart-{seconds}.ipynb")
    runtime = session["kernel"]["id"]
    with ThreadPoolExecutor(1) as pool:
        pool.submit(lab.client.post, f"{lab.url}/api/kernels/{runtime}/restart")
        time.sleep(seconds)
        assert delete(lab, session) in (204, 404, 410)
    nothing_is_left(lab, until, [runtime])


@pytest.mark.parametrize("seconds", [0.0, 0.1, 0.5])
def test_while_the_server_is_killed(
    new_lab: Callable[..., LabServer], until: Callable[..., Any], seconds: float
) -> None:
    lab = new_lab().start()
    sessions = [lab.session(f"{number}.ipynb") for number in range(2)]
    with ThreadPoolExecutor(2) as pool:
        deleted = [pool.submit(delete, lab, session) for session in sessions]
        time.sleep(seconds)
        lab.end(signal.SIGKILL)
        lab.start()
        assert {future.result() for future in deleted} <= {204, 404, 410}
    # A server that died before it read the request has done nothing: what it left is found, and can be deleted.
    for session in lab.get("/api/sessions").json():
        assert delete(lab, session) in (204, 404)
    nothing_is_left(lab, until, [session["kernel"]["id"] for session in sessions])


def test_while_it_waits_for_a_card(lab: LabServer, until: Callable[..., Any]) -> None:
    card = next(name for name in lab.get("/api/kernelspecs").json()["kernelspecs"] if name.startswith("ownlab-4-"))
    first = lab.session("holds.ipynb", card)
    second = lab.session("waits.ipynb", card)
    assert delete(lab, second) == 204
    assert delete(lab, first) == 204
    nothing_is_left(lab, until, [first["kernel"]["id"], second["kernel"]["id"]])

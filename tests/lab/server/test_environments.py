"""The environments of the page: created, followed, cancelled and removed over HTTP, from a local package index."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.package_index import PackageIndex, make_packages, serve_packages

ROUTE = "/ownlab/api/environments"


@pytest.fixture
def index(tmp_path: Path) -> Iterator[PackageIndex]:
    with serve_packages(make_packages(tmp_path / "wheels")) as served:
        yield served


@pytest.fixture
def lab(new_lab: Callable[[str], Any], index: PackageIndex, tmp_path: Path) -> Any:
    made = new_lab("work")
    made.environ |= index.environment(tmp_path / "cache")
    made.environ["OWNLAB_MACHINE"] = str(Path(__file__).resolve().parents[2] / "machines" / "cpu.json")
    return made.start()


def states(lab: Any) -> dict[str, Any]:
    return {state["name"]: state for state in lab.get(ROUTE).json()["environments"]}


def failure(answer: httpx.Response) -> tuple[int, str]:
    return answer.status_code, answer.json()["error"]["message"]


def test_a_build_outlives_the_server_and_is_a_runtime_type_when_it_is_ready(
    lab: Any, index: PackageIndex, until: Callable[..., Any]
) -> None:
    assert [preset["name"] for preset in lab.get(ROUTE).json()["presets"]] == ["default", "deep-learning"]
    plan = lab.post("/ownlab/api/environment-plan", {"preset": "deep-learning"}).json()
    assert plan["download_bytes"] > 1_000_000
    assert {"torch", "ipykernel", "pip"} <= {package["name"] for package in plan["packages"]}
    assert states(lab) == {}, "a plan builds nothing"

    index.hold("torch")
    lab.post(ROUTE, {"preset": "deep-learning"})

    def halfway() -> Any:
        progress = (states(lab)["deep-learning"]["progress"] or {}) if states(lab) else {}
        return 0.3 < (progress.get("fraction") or 0) < 0.9 and "Downloading torch: " in progress["message"] and progress

    progress = until(halfway, "half of torch has arrived", 90)
    assert progress["phase"] == "downloading"
    assert 0 < progress["done_bytes"] < progress["total_bytes"]
    lab.post(ROUTE, {"preset": "deep-learning"})  # a second click changes nothing
    assert failure(lab.client.delete(f"{lab.url}{ROUTE}/deep-learning")) == (
        409,
        "The environment 'deep-learning' is being built.",
    )
    lab.end(signal.SIGKILL)
    lab.start()
    assert states(lab)["deep-learning"]["status"] == "building"
    index.release()
    until(lambda: states(lab)["deep-learning"]["status"] == "ready", "it is ready", 90)
    assert states(lab)["deep-learning"]["proof"] == "torch 2.13.0, proven on the CPU"

    def listed() -> bool:
        return any(kind["environment"] == "deep-learning" for kind in lab.get("/ownlab/api/types").json()["types"])

    until(listed, "it is a runtime type")
    page = lab.page(lab.session(kernel="ownlab-deep-learning-cpu")["kernel"]["id"])
    page.execute("import torch; print('torch is', torch.__version__)")
    assert "torch is 2.13.0" in page.printed("torch is 2.13.0")
    used = failure(lab.client.delete(f"{lab.url}{ROUTE}/deep-learning"))
    assert used[0] == 409
    assert "is in use by process" in used[1]


def test_a_build_is_cancelled_continued_and_removed(lab: Any, index: PackageIndex, until: Callable[..., Any]) -> None:
    index.hold("torch")
    lab.post(ROUTE, {"name": "mine", "preset": "deep-learning"})
    assert index.arrived.wait(90)
    answer = lab.post(f"{ROUTE}/mine/cancel", {}).json()["environments"]
    assert [(state["name"], state["status"]) for state in answer] == [("mine", "cancelled")]
    index.release()
    lab.post(ROUTE, {"name": "mine"})
    until(lambda: states(lab)["mine"]["status"] == "ready", "it is ready", 90)
    assert failure(lab.client.post(f"{lab.url}{ROUTE}/mine/cancel", json={}))[0] == 409
    assert lab.client.delete(f"{lab.url}{ROUTE}/mine").json()["environments"] == []
    assert not (lab.home / "environments" / "mine").exists()


def test_a_failure_says_what_to_do(lab: Any, until: Callable[..., Any]) -> None:
    lab.post(ROUTE, {"name": "odd", "packages": ["there-is-no-such-package"]})
    state = until(lambda: (found := states(lab)["odd"])["status"] == "failed" and found, "it failed", 90)
    assert "there-is-no-such-package" in state["error"]
    assert "ownlab env create odd --with there-is-no-such-package" in state["hint"]
    assert state["progress"] is None


def test_requests_are_checked(lab: Any) -> None:
    def posted(body: object) -> int:
        status: int = lab.client.post(lab.url + ROUTE, json=body).status_code
        return status

    assert posted({"name": "../x", "preset": "default"}) == 400
    assert posted({"name": "x", "preset": "everything"}) == 400
    assert posted({"name": "x", "packages": ["--index-url=http://evil.example"]}) == 400
    assert posted({"name": "x", "unknown": 1}) == 400
    assert lab.client.delete(f"{lab.url}{ROUTE}/nothing").status_code == 400
    assert lab.client.delete(f"{lab.url}{ROUTE}/..%2f..").status_code == 404
    with httpx.Client(trust_env=False) as stranger:
        assert stranger.get(lab.url + ROUTE).status_code == 403
        assert stranger.post(lab.url + ROUTE, json={"preset": "default"}).status_code == 403
        assert stranger.delete(f"{lab.url}{ROUTE}/default").status_code == 403
        assert stranger.post(f"{lab.url}/ownlab/api/environment-plan", json={}).status_code == 403
        assert stranger.post(f"{lab.url}{ROUTE}/default/cancel", json={}).status_code == 403
    assert states(lab) == {}

"""GET /ownlab/metrics: who may read it, and what it contains for a real notebook."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

if TYPE_CHECKING:
    from tests.lab.server.conftest import LabServer


@pytest.fixture
def token_file(lab: LabServer) -> Iterator[Path]:
    """The token file in the lab's configuration. A lab reads it for each request."""
    config = Path(lab.environ["OWNLAB_CONFIG"])
    file = config.with_name("metrics-token")
    before = config.read_text() if config.exists() else ""
    config.write_text(f'{before}\n[metrics]\ntoken_file = "{file}"\n')
    yield file
    config.write_text(before)


def get(lab: LabServer, path: str = "/ownlab/metrics", **headers: str) -> httpx.Response:
    return httpx.get(lab.url.rstrip("/") + path, headers=headers, trust_env=False, timeout=300)


def test_metrics_require_authentication(lab: LabServer) -> None:
    assert get(lab).status_code == 403
    assert get(lab, Authorization="Bearer wrong").status_code == 403
    for kind in ("Bearer", "token"):
        answer = get(lab, Authorization=f"{kind} {lab.token}")
        assert (answer.status_code, answer.headers["Content-Type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
    assert get(lab, f"/ownlab/metrics?token={lab.token}").status_code == 200


def test_the_metrics_token_gives_access_to_metrics_only(lab: LabServer, token_file: Path) -> None:
    assert get(lab, Authorization="Bearer for-prometheus").status_code == 403  # the file does not exist yet
    token_file.write_text("for-prometheus\n")
    assert get(lab, Authorization="Bearer for-prometheus").status_code == 200
    assert get(lab, Authorization="Bearer wrong").status_code == 403
    for path in ("/api/kernels", "/ownlab/api/snapshot", "/ownlab/api/types"):
        assert get(lab, path, Authorization="Bearer for-prometheus").status_code == 403


def test_metrics_contain_cards_and_notebooks(lab: LabServer, until: Callable[..., Any]) -> None:
    kernel = lab.session("scraped.ipynb")["kernel"]["id"]

    def read_metrics() -> dict[str, float]:
        text = get(lab, Authorization=f"Bearer {lab.token}").text
        samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
        assert {sample.labels["gpu"] for sample in samples if sample.name == "ownlab_card_lost"} == {"0", "1", "2", "3"}
        return {sample.name: sample.value for sample in samples if sample.labels.get("runtime") == kernel}

    metrics = until(
        lambda: (now := read_metrics()).get("ownlab_runtime_cpu_cores") is not None and now, "its load is measured"
    )
    assert metrics["ownlab_runtime_memory_bytes"] > 1024**2
    assert metrics["ownlab_runtime_processes"] >= 2

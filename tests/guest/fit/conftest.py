"""Traces of the models in models.py, made in one child process."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest
from tests.guest.fit.paths import HERE, LAUNCH, Asking, Trace


@pytest.fixture(scope="session")
def traced(torch_python: str, tmp_path_factory: pytest.TempPathFactory) -> Asking:
    """Answers to requests; a target without a colon is a function of models.py."""

    def ask(*requests: dict[str, Any]) -> list[Trace]:
        answer = [
            {
                **request,
                "target": request["target"]
                if ":" in request["target"]
                else f"{HERE / 'models.py'}:{request['target']}",
            }
            for request in requests
        ]
        path = tmp_path_factory.mktemp("fit") / "requests.json"
        path.write_text(json.dumps(answer))
        ran = subprocess.run(
            [torch_python, str(HERE / "trace_requests.py"), str(LAUNCH), str(path)],
            capture_output=True,
            text=True,
            timeout=400,
            check=False,
        )
        assert "ANSWERS" in ran.stdout, ran.stderr[-3000:]
        answers: list[Trace] = json.loads(ran.stdout.rpartition("ANSWERS")[2])
        return answers

    return ask


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Allow more time here: one fixture traces or measures many models, which takes minutes on a busy machine."""
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.timeout(450))

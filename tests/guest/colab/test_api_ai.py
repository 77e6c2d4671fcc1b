"""google.colab.ai with a server on this machine that speaks OpenAI's protocol."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.guest.colab.page import Page, open_page

KEY = "sk-never-shown"
AI = "from google.colab import ai\n"


class Model(BaseHTTPRequestHandler):
    """Echoes the prompt, word by word."""

    def do_GET(self) -> None:
        models = {"/v1/models": [{"id": "echo"}, {"id": "other"}], "/empty/models": []}
        if self.path == "/html/models":
            self._send(200, b"<html>", "text/html")
        elif self.path in models and self._is_known():
            self._send(200, json.dumps({"data": models[self.path]}).encode())
        else:
            self._send(404, b"no such thing")

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if not self._is_known():
            self._send(401, b'{"error": {"message": "wrong key"}}')
        elif asked["stream"]:
            words = f"{asked['model']}: {asked['messages'][0]['content']}".split(" ")
            lines = [json.dumps({"choices": [{"delta": {"content": word}}]}) for word in words]
            lines.append(json.dumps({"choices": []}))
            self._send(200, "".join(f"data: {line}\n\n" for line in [*lines, "[DONE]"]).encode(), "text/event-stream")
        else:
            text = f"{asked['model']}: {asked['messages'][0]['content']}"
            self._send(200, json.dumps({"choices": [{"message": {"content": text}}]}).encode())

    def _is_known(self) -> bool:
        return self.headers.get("Authorization") == f"Bearer {KEY}"

    def _send(self, status: int, body: bytes, kind: str = "application/json") -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Model) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory, address: str) -> Iterator[Page]:
    folder: Path = tmp_path_factory.mktemp("kernel")
    environ = {
        "OPENAI_BASE_URL": address + "/v1",
        "OPENAI_API_KEY": KEY,
        "MODEL_PROXY_HOST": "",
        "no_proxy": "127.0.0.1",
    }
    with open_page(folder, environ) as opened:
        yield opened


def test_text_is_generated_whole_and_streamed(page: Page) -> None:
    code = (
        AI
        + "print(ai.generate_text('Say hi', model_name='other'))\nprint(list(ai.generate_text('Say hi', 'other', stream=True)))"
    )
    expected = "other: Say hi\n['other:', 'Say', 'hi']\n"
    assert page.result(code) == page.headless(code).text == expected


def test_models_are_listed_and_the_first_replaces_colabs_default(page: Page) -> None:
    assert page.headless(AI + "print(ai.list_models(), ai.generate_text('x'))").text == "['echo', 'other'] echo: x\n"


def test_a_prompt_must_be_text(page: Page) -> None:
    assert page.headless(AI + "ai.generate_text('')").error == "ValueError: Prompt cannot be empty."
    assert page.headless(AI + "ai.generate_text(3)").error == "ValueError: Prompt must be a string."


def test_server_errors_are_explained_without_the_key(page: Page, address: str) -> None:
    def error_text(changes: str, code: str = "ai.generate_text('x', 'm')") -> str:
        restored = f"os.environ.update({changes})\ntry: {code}\nfinally: os.environ.update(old)"
        return page.headless(f"import os; old = dict(os.environ)\n{AI}{restored}").error

    refused = error_text("OPENAI_API_KEY='sk-wrong'")
    assert refused.startswith(f"ModelProxyServiceError: {address}/v1/chat/completions answered 401")
    assert "wrong key" in refused
    assert "sk-wrong" not in refused
    assert "cannot reach" in error_text("OPENAI_BASE_URL='http://127.0.0.1:9/v1'")
    assert "is not a server address" in error_text("OPENAI_BASE_URL='file:///etc/passwd'")
    assert "is not JSON" in error_text(f"OPENAI_BASE_URL='{address}/html'", "ai.list_models()")
    assert "RuntimeManagementError: google.colab.ai needs a server" in error_text("OPENAI_BASE_URL=''")

"""google.colab.ai: language models of any server with OpenAI's protocol: llama.cpp, vLLM, Ollama, or a company's own.

MODEL_PROXY_HOST (Colab's name) or OPENAI_BASE_URL is its address, with "/v1" where the server has that.
MODEL_PROXY_API_KEY or OPENAI_API_KEY is the key, where it needs one: an environment variable or a secret (userdata).
"""

import json
import os
import urllib.error
import urllib.request
from typing import Any, Dict, Generator, List, Optional, Tuple, Union

from . import errors, userdata

__all__ = ["ModelProxyServiceError", "generate_text", "list_models"]

DEFAULT = "google/gemini-2.5-flash"
SECONDS = 600.0  # without data from the server
_SERVERS = (("MODEL_PROXY_HOST", "MODEL_PROXY_API_KEY"), ("OPENAI_BASE_URL", "OPENAI_API_KEY"))


class ModelProxyServiceError(Exception):
    """The server cannot be reached, refuses the request, or sends an invalid answer."""


def generate_text(
    prompt: str, model_name: str = DEFAULT, stream: bool = False
) -> Union[str, Generator[str, Any, None]]:
    """Generate text for a prompt: as a whole, or as a stream of pieces.

    Colab's default model is Google's. Where the server does not have it, its first model is used.
    """
    if not prompt:
        raise ValueError("Prompt cannot be empty.")
    if not isinstance(prompt, str):
        raise ValueError("Prompt must be a string.")  # noqa: TRY004 Colab's class
    request = {
        "model": _model(model_name),
        "messages": [{"role": "user", "content": prompt}],
        "stream": stream,
    }
    response = _open("/chat/completions", request)
    if stream:
        return _pieces(response)
    with response:
        return str(_item(_read(response), "choices", 0, "message", "content") or "")


def list_models() -> List[str]:
    """Return the names of the server's models."""
    with _open("/models") as response:
        return [str(_item(each, "id")) for each in _item(_read(response), "data")]


def _model(name: str) -> str:
    if name != DEFAULT:
        return name
    try:
        known = list_models()
    except ModelProxyServiceError:
        return name  # a server may have no list; it reports an unknown model itself
    return name if name in known or not known else known[0]


def _pieces(response: Any) -> Generator[str, Any, None]:
    """Yield the text of server-sent events: lines "data: {…}", the last one "data: [DONE]"."""
    with response:
        for line in response:
            data = line.strip()
            if not data.startswith(b"data:") or data == b"data: [DONE]":
                continue
            choices = _parse_json(data[len(b"data:") :]).get("choices")
            piece = _item(choices, 0, "delta").get("content") if choices else None
            if piece:
                yield piece


def _server() -> Tuple[str, str]:
    """Return the address, and the name of the variable or secret with its key."""
    for address, key in _SERVERS:
        if os.environ.get(address):
            return os.environ[address].rstrip("/"), key
    raise errors.RuntimeManagementError(
        "google.colab.ai needs a server with OpenAI's protocol. Set OPENAI_BASE_URL to its address, "
        'for example os.environ["OPENAI_BASE_URL"] = "http://localhost:11434/v1", and OPENAI_API_KEY if it needs a key.'
    )


def _key(name: str) -> Optional[str]:
    if os.environ.get(name):
        return os.environ[name]
    try:
        return userdata.get(name)
    except (errors.Error, userdata.NotebookAccessError):
        return None  # many servers need none; one that does reports it


def _open(path: str, body: Optional[Dict[str, Any]] = None) -> Any:
    address, key_name = _server()
    if not address.startswith(("http://", "https://")):
        raise ModelProxyServiceError(f"{address} is not a server address: it must begin with http:// or https://")
    key = _key(key_name)
    headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {key}"} if key else {})}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(address + path, data, headers)  # noqa: S310 checked above
    try:
        return urllib.request.urlopen(request, timeout=SECONDS)  # noqa: S310
    except urllib.error.HTTPError as exc:
        answer = exc.read(2000).decode("utf-8", "replace").strip()
        raise ModelProxyServiceError(f"{address}{path} answered {exc.code}: {answer or exc.reason}") from None
    except OSError as exc:
        raise ModelProxyServiceError(f"cannot reach {address}: {getattr(exc, 'reason', exc)}") from None


def _read(response: Any) -> Any:
    try:
        return _parse_json(response.read())
    except OSError as exc:
        raise ModelProxyServiceError(f"the server's answer was cut off: {exc}") from None


def _parse_json(text: bytes) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        raise ModelProxyServiceError("the server's answer is not JSON. Check its address (with /v1).") from None


def _item(value: Any, *path: Union[str, int]) -> Any:
    try:
        for step in path:
            value = value[step]
    except (KeyError, IndexError, TypeError):
        raise ModelProxyServiceError(f"the server's answer has no {'.'.join(map(str, path))}") from None
    return value

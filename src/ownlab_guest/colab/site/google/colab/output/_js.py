"""JavaScript in the cell's output frame, and Python that it calls.

The page calls a registered function by opening a comm to TARGET with `{"name", "args", "kwargs"}`; it is closed with the
result, as IPython would show it, `{"data": {mime: …}, "metadata": …}`, or with `{"error": {"name", "message"}}`.
"""

import json
import re
from typing import Any, Callable, Dict, List, Optional

from .. import _message

TARGET = "ownlab_invoke"

_functions: Dict[str, Callable[..., Any]] = {}

# By far the most frequent question, and the one that has an answer without a page.
_PROXY_PORT = re.compile(r"\s*(?:await\s+)?google\.colab\.kernel\.proxyPort\(\s*(\d+)\s*(?:,[^()]*)?\)\s*;?\s*")


def eval_js(script: str, ignore_result: bool = False, timeout_sec: Optional[float] = None) -> Any:
    """What a script in the cell's output frame results in; promises are awaited.

    Without a page a script whose result is ignored does nothing, a port's address is the one on this machine, and
    any other raises MessageError.
    """
    request = {"script": script}
    if _message.can_ask():
        message_id = _message.send_request("cell_javascript_eval", request, expect_reply=not ignore_result)
        return None if ignore_result else _message.read_reply_from_input(message_id, timeout_sec)
    port = _PROXY_PORT.fullmatch(script)
    if port:
        return f"http://localhost:{port.group(1)}/"
    if not ignore_result:
        raise _message.MessageError(f"eval_js needs a page: {_message.NOBODY}")
    return None


def register_callback(function_name: str, callback: Callable[..., Any]) -> None:
    """Let JavaScript call a function: `google.colab.kernel.invokeFunction(function_name, args, kwargs)`."""
    _functions[function_name] = callback
    kernel = _message.running_kernel()
    if kernel is not None:
        kernel.comm_manager.register_target(TARGET, _answer)


def unregister_callback(function_name: str) -> None:
    """Take a function back."""
    if function_name not in _functions:
        raise ValueError(f"Callback function not registered: {function_name}.")
    del _functions[function_name]


def _invoke_function(function_name: str, json_args: str, json_kwargs: str) -> Any:
    """A registered function's result. By this name and with JSON because front ends made for Colab run it as code."""
    return _call(function_name, json.loads(json_args), json.loads(json_kwargs))


def _call(name: str, args: List[Any], kwargs: Dict[str, Any]) -> Any:
    if name not in _functions:
        raise ValueError(f"Function not found: {name}")
    return _functions[name](*args, **kwargs)


def _answer(comm: Any, opened: Dict[str, Any]) -> None:
    """One call from the page."""
    shell = _message.running_kernel().shell
    asked = opened["content"]["data"]
    try:
        result = _call(asked["name"], asked.get("args") or [], asked.get("kwargs") or {})
        data, metadata = ({}, {}) if result is None else shell.display_formatter.format(result)
    except Exception as exc:
        shell.showtraceback()
        comm.close({"error": {"name": type(exc).__name__, "message": str(exc)}})
        return
    comm.close({"data": data, "metadata": metadata})

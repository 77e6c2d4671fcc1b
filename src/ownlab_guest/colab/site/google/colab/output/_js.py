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

# By far the most frequent script, and the only one with an answer without a page.
_PROXY_PORT = re.compile(r"\s*(?:await\s+)?google\.colab\.kernel\.proxyPort\(\s*(\d+)\s*(?:,[^()]*)?\)\s*;?\s*")


def eval_js(script: str, ignore_result: bool = False, timeout_sec: Optional[float] = None) -> Any:
    """Run a script in the cell's output frame and return its result; promises are awaited.

    Without a page, a script whose result is ignored does nothing, a port's address is that on this machine, and any
    other script raises MessageError.
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
    """Unregister a function."""
    if function_name not in _functions:
        raise ValueError(f"Callback function not registered: {function_name}.")
    del _functions[function_name]


def _invoke_function(function_name: str, json_args: str, json_kwargs: str) -> Any:
    """Call a registered function. Front ends made for Colab run this as code, hence the name and JSON arguments."""
    return _call(function_name, json.loads(json_args), json.loads(json_kwargs))


def _call(name: str, args: List[Any], kwargs: Dict[str, Any]) -> Any:
    if name not in _functions:
        raise ValueError(f"Function not found: {name}")
    return _functions[name](*args, **kwargs)


def _answer(comm: Any, opened: Dict[str, Any]) -> None:
    """Handle a call from the page."""
    shell = _message.running_kernel().shell
    call = opened["content"]["data"]
    try:
        result = _call(call["name"], call.get("args") or [], call.get("kwargs") or {})
        data, metadata = ({}, {}) if result is None else shell.display_formatter.format(result)
    except Exception as exc:
        shell.showtraceback()
        comm.close({"error": {"name": type(exc).__name__, "message": str(exc)}})
        return
    comm.close({"data": data, "metadata": metadata})

"""Show ports of this machine in the page."""

import html
import json
import uuid
from typing import Any

from .._display import display_html

_PORT = """<div id="{id}"><a href={address} target="_blank" rel="noopener">{text}</a></div>
<script>
(async () => {{
  const place = document.getElementById({js_id});
  const colab = window.google && window.google.colab;
  const base = colab ? await colab.kernel.proxyPort({port}, {{cache: {cache}}}) : 'http://localhost:{port}/';
  const address = new URL({js_path}, base).toString();
  {show}
}})();
</script>"""

_AS_IFRAME = """const frame = document.createElement('iframe');
  Object.assign(frame, {{src: address, width: {width}, height: {height}}});
  frame.style.border = 0;
  frame.allow = 'accelerometer; autoplay; camera; clipboard-read; clipboard-write; fullscreen; gyroscope; microphone';
  place.replaceChildren(frame);"""

_AS_LINK = "place.firstElementChild.href = address;"


def serve_kernel_port_as_iframe(
    port: int, path: str = "/", width: str = "100%", height: str = "400", cache_in_notebook: bool = False
) -> None:
    """Show a port of this machine in the cell's output."""
    show = _AS_IFRAME.format(width=_js(str(width)), height=_js(str(height)))
    _display_port(port, path, _address(port, path), show, cache_in_notebook)


def serve_kernel_port_as_window(
    port: int, path: str = "/", anchor_text: Any = None, skip_warning: bool = False
) -> None:
    """Show a link to a port of this machine. Colab's warning does not apply here."""
    _display_port(port, path, anchor_text or _address(port, path), _AS_LINK, False)


def _display_port(port: int, path: str, text: str, show: str, cache: bool) -> None:
    element = f"ownlab-port-{uuid.uuid4().hex[:12]}"
    address = _address(int(port), path)
    page = _PORT.format(
        id=element,
        js_id=_js(element),
        address='"' + html.escape(address) + '"',
        text=html.escape(str(text)),
        port=int(port),
        cache=_js(bool(cache)),
        js_path=_js("./" + str(path).lstrip("/")),  # the page serves a port below a path
        show=show,
    )
    display_html(page, address)


def _address(port: int, path: str) -> str:
    return f"http://localhost:{port}/" + path.lstrip("/")


def _js(value: Any) -> str:
    """Write a value as JavaScript within HTML."""
    return json.dumps(value).replace("<", "\\u003c")

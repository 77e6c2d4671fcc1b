"""An HTML element. Before it is displayed, its state is here; afterwards it is in the page."""

import html
import json
import uuid
from typing import Any, Callable, Dict, List, Optional, Union

from .. import _message
from ..output import _js

Listener = Union[str, Callable[[], Any]]


class Element:
    """An element with attributes, properties, children and listeners that displays as a cell's result."""

    def __init__(
        self,
        tag: str,
        attributes: Optional[Dict[str, str]] = None,
        properties: Optional[Dict[str, Any]] = None,
        src: Optional[Dict[str, str]] = None,
    ) -> None:
        if src and not {"script", "module", "html"} & set(src):
            raise ValueError("Must provide a valid src.")
        for name, given in (("attributes", attributes), ("properties", properties)):
            if given and not isinstance(given, dict):
                raise ValueError(f"{name} must be a dict.")
        self._id = "ownlab-element-" + uuid.uuid4().hex[:12]
        self._tag, self._src = tag, src or {}
        self._attributes, self._properties = dict(attributes or {}), dict(properties or {})
        self._children: List[Union[str, Element]] = []
        self._listeners: Dict[str, Dict[Listener, str]] = {}  # event -> listener -> the function, in JavaScript
        self._is_displayed = False

    def get_attribute(self, name: str) -> Optional[str]:
        """Return an attribute's value."""
        value: Optional[str] = self._attributes.get(name)
        if self._is_in_page():
            value = self._eval_in_page(f".getAttribute({_json(name)})")
        return value

    def set_attribute(self, name: str, value: str) -> None:
        """Set an attribute."""
        if not isinstance(value, str):
            raise ValueError("Attribute value must be a string")  # noqa: TRY004 Colab's class
        self._attributes[name] = value
        self._run_in_page(f".setAttribute({_json(name)}, {_json(value)})")

    def get_property(self, name: str) -> Any:
        """Return a property's value."""
        return self._eval_in_page(f"[{_json(name)}]") if self._is_in_page() else self._properties.get(name)

    def set_property(self, name: str, value: Any) -> None:
        """Set a property."""
        self._properties[name] = value
        self._run_in_page(f"[{_json(name)}] = {_json(value)}")

    def call(self, method: str, *args: Any) -> Any:
        """Call a method of the element and return its result."""
        if not self._is_displayed:
            raise ValueError("Cannot call method on undisplayed element.")
        return self._eval_in_page(f"[{_json(method)}]({', '.join(_json(each) for each in args)})")

    def add_event_listener(self, name: str, callback: Listener) -> None:
        """Call a Python function, or run JavaScript, when an event occurs."""
        listeners = self._listeners.setdefault(name, {})
        if callback in listeners:
            raise ValueError("Callback is already added.")
        key = uuid.uuid4().hex
        if isinstance(callback, str):
            script = f"() => {{ {callback} }}"
        elif callable(callback):
            _js.register_callback(key, callback)
            script = f"() => google.colab.kernel.invokeFunction({_json(key)}, [], {{}})"
        else:
            raise ValueError("callback must be a js string or callable python")  # noqa: TRY004 Colab's class
        # Kept in the page under a key, so that the same function can be removed again.
        listeners[callback] = f"(window.__ownlab = window.__ownlab || {{}})[{_json(key)}] ||= ({script})"
        self._run_in_page(self._listener_call("add", name, callback))

    def remove_event_listener(self, name: str, callback: Listener) -> None:
        """Remove a listener."""
        if callback not in self._listeners.get(name, {}):
            raise ValueError("listener does not exist")
        self._run_in_page(self._listener_call("remove", name, callback))
        del self._listeners[name][callback]

    def append_child(self, child: Union[str, "Element"]) -> None:
        """Add text in HTML, or an element, as the last child."""
        self._children.append(child)
        markup = child if isinstance(child, str) else child._markup()
        self._run_in_page(f".append(document.createRange().createContextualFragment({_json(markup)}))")

    def remove_child(self, child: "Element") -> None:
        """Remove a child."""
        if child not in self._children:
            raise ValueError("Child parent must match.")
        self._children.remove(child)
        child.remove()

    def remove(self) -> None:
        """Remove the element from the page."""
        self._run_in_page(".remove()")
        self._is_displayed = False

    def _repr_html_(self) -> str:
        return self._markup()

    def _markup(self) -> str:
        """Return its HTML, and a script that sets what HTML cannot express."""
        self._is_displayed = True
        attributes = "".join(f' {name}="{html.escape(value)}"' for name, value in self._attributes.items())
        inside = "".join(each if isinstance(each, str) else each._markup() for each in self._children)
        steps = [f"element[{_json(name)}] = {_json(value)};" for name, value in self._properties.items()]
        steps += [
            "element" + self._listener_call("add", name, each) + ";"
            for name in self._listeners
            for each in self._listeners[name]
        ]
        script = f"<script>{{ const element = {self._lookup()}; {' '.join(steps)} }}</script>" if steps else ""
        tag = html.escape(self._tag)
        return f'{self._source()}<{tag} id="{self._id}"{attributes}>{inside}</{tag}>{script}'

    def _source(self) -> str:
        for kind, address in self._src.items():
            where = html.escape(address)
            if kind == "html":
                return f'<link rel="import" href="{where}">'
            if kind in ("script", "module"):
                return f'<script src="{where}"' + (' type="module"' if kind == "module" else "") + "></script>"
        return ""

    def _listener_call(self, verb: str, name: str, callback: Listener) -> str:
        return f".{verb}EventListener({_json(name)}, {self._listeners[name][callback]})"

    def _lookup(self) -> str:
        return f"document.getElementById({_json(self._id)})"

    def _eval_in_page(self, expression: str) -> Any:
        return _js.eval_js(self._lookup() + expression)

    def _is_in_page(self) -> bool:
        return self._is_displayed and _message.can_ask()

    def _run_in_page(self, expression: str) -> None:
        if self._is_in_page():
            _js.eval_js(self._lookup() + expression, ignore_result=True)


def _json(value: Any) -> str:
    """Write a value as JavaScript within HTML."""
    return json.dumps(value).replace("<", "\\u003c")

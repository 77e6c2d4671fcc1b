"""An HTML element. Before it is shown it is a record here; then it lives in the page, and is asked there."""

import html
import json
import uuid
from typing import Any, Callable, Dict, List, Optional, Union

from .. import _message
from ..output import _js

Listener = Union[str, Callable[[], Any]]


class Element:
    """An element with attributes, properties, children and listeners, which shows itself as a cell's result."""

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
        self._is_shown = False

    def get_attribute(self, name: str) -> Optional[str]:
        """An attribute's value."""
        value: Optional[str] = self._attributes.get(name)
        if self._is_in_page():
            value = self._ask(f".getAttribute({_json(name)})")
        return value

    def set_attribute(self, name: str, value: str) -> None:
        """Give an attribute a value."""
        if not isinstance(value, str):
            raise ValueError("Attribute value must be a string")  # noqa: TRY004 Colab's class
        self._attributes[name] = value
        self._tell(f".setAttribute({_json(name)}, {_json(value)})")

    def get_property(self, name: str) -> Any:
        """A property's value."""
        return self._ask(f"[{_json(name)}]") if self._is_in_page() else self._properties.get(name)

    def set_property(self, name: str, value: Any) -> None:
        """Give a property a value."""
        self._properties[name] = value
        self._tell(f"[{_json(name)}] = {_json(value)}")

    def call(self, method: str, *args: Any) -> Any:
        """What a method of the element returns."""
        if not self._is_shown:
            raise ValueError("Cannot call method on undisplayed element.")
        return self._ask(f"[{_json(method)}]({', '.join(_json(each) for each in args)})")

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
        # Kept in the page under a name, so that the same function can be removed again.
        listeners[callback] = f"(window.__ownlab = window.__ownlab || {{}})[{_json(key)}] ||= ({script})"
        self._tell(self._listening("add", name, callback))

    def remove_event_listener(self, name: str, callback: Listener) -> None:
        """Call it no more."""
        if callback not in self._listeners.get(name, {}):
            raise ValueError("listener does not exist")
        self._tell(self._listening("remove", name, callback))
        del self._listeners[name][callback]

    def append_child(self, child: Union[str, "Element"]) -> None:
        """Add text in HTML, or an element, as the last child."""
        self._children.append(child)
        markup = child if isinstance(child, str) else child._markup()
        self._tell(f".append(document.createRange().createContextualFragment({_json(markup)}))")

    def remove_child(self, child: "Element") -> None:
        """Take a child away."""
        if child not in self._children:
            raise ValueError("Child parent must match.")
        self._children.remove(child)
        child.remove()

    def remove(self) -> None:
        """Take the element off the page."""
        self._tell(".remove()")
        self._is_shown = False

    def _repr_html_(self) -> str:
        return self._markup()

    def _markup(self) -> str:
        """Its HTML, and a script that gives it what HTML cannot say."""
        self._is_shown = True
        attributes = "".join(f' {name}="{html.escape(value)}"' for name, value in self._attributes.items())
        inside = "".join(each if isinstance(each, str) else each._markup() for each in self._children)
        steps = [f"element[{_json(name)}] = {_json(value)};" for name, value in self._properties.items()]
        steps += [
            "element" + self._listening("add", name, each) + ";"
            for name in self._listeners
            for each in self._listeners[name]
        ]
        script = f"<script>{{ const element = {self._found()}; {' '.join(steps)} }}</script>" if steps else ""
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

    def _listening(self, verb: str, name: str, callback: Listener) -> str:
        return f".{verb}EventListener({_json(name)}, {self._listeners[name][callback]})"

    def _found(self) -> str:
        return f"document.getElementById({_json(self._id)})"

    def _ask(self, expression: str) -> Any:
        return _js.eval_js(self._found() + expression)

    def _is_in_page(self) -> bool:
        return self._is_shown and _message.can_ask()

    def _tell(self, expression: str) -> None:
        if self._is_in_page():
            _js.eval_js(self._found() + expression, ignore_result=True)


def _json(value: Any) -> str:
    """A value in JavaScript, inside of HTML."""
    return json.dumps(value).replace("<", "\\u003c")

"""The state of widgets in a notebook's metadata: with it, finished widgets (progress bars) are drawn without a kernel."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

__all__ = ["merge_widget_state"]

_STATE = "application/vnd.jupyter.widget-state+json"
_VIEW = "application/vnd.jupyter.widget-view+json"
_REFERENCE = "IPY_MODEL_"

# Widgets as notebooks save them, by model id.
Widgets = Mapping[str, Any]


def merge_widget_state(notebook: dict[str, Any], known: Widgets) -> bool:
    """Save the widgets that cells show, as runtimes know them; return whether anything changed.

    Widgets that no runtime knows are left as they are: others may have saved them.
    """
    if not known:
        return False
    metadata = notebook.setdefault("metadata", {})
    saved = metadata.get("widgets", {}).get(_STATE, {})
    before: Widgets = saved.get("state", {}) if isinstance(saved, dict) else {}
    shown = _with_references(_shown_widgets(notebook), {**before, **known})
    state = {key: value for key, value in before.items() if key not in known}
    state.update((key, known[key]) for key in shown if key in known)
    if state == before or not (state or before):
        return False
    if state:
        metadata.setdefault("widgets", {})[_STATE] = {"version_major": 2, "version_minor": 0, "state": state}
    else:
        del metadata["widgets"]
    return True


def _shown_widgets(notebook: Mapping[str, Any]) -> set[str]:
    """Return the models of the widgets that a notebook's outputs show."""
    shown = set()
    for output in (output for cell in notebook.get("cells") or () for output in cell.get("outputs") or ()):
        data = output.get("data") if isinstance(output, dict) else None
        view = data.get(_VIEW) if isinstance(data, dict) else None
        if isinstance(view, dict) and isinstance(view.get("model_id"), str):
            shown.add(view["model_id"])
    return shown


def _with_references(models: Iterable[str], known: Widgets) -> set[str]:
    """Return models with everything that they refer to: a box has children, each of them a style and a layout."""
    found: set[str] = set()
    left = [model for model in models if model in known]
    while left:
        model = left.pop()
        if model not in found:
            found.add(model)
            left += [name for name in _references(known[model]) if name in known]
    return found


def _references(value: Any) -> Iterable[str]:
    if isinstance(value, str):
        if value.startswith(_REFERENCE):
            yield value[len(_REFERENCE) :]
    elif isinstance(value, dict):
        for item in value.values():
            yield from _references(item)
    elif isinstance(value, list):
        for item in value:
            yield from _references(item)

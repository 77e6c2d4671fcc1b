"""The variables of a notebook, for the page's inspector: their names, types, shapes and the start of their values.

The page asks between two cells, and nothing may be disturbed by it: no code of unknown classes is called (no repr, no len), nothing is
copied from a device or waited for, and it ends soon whatever the variables are.
"""

import collections
import itertools
import sys
import time
import types
from typing import Any, Callable, Dict, Iterable, List, Optional, Tuple

__all__ = ["list_variables"]

MAX_VARIABLES = 500
SECONDS = 0.15  # for all of them; then only names and types
_ITEMS = 6  # of a list or an array
_CHARACTERS = 100  # of a value
_PREVIEW_ELEMENTS = 8  # of an array or a tensor in the host's memory
_PARAMETERS = 20_000  # of a module

_SKIPPED = (types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.MethodType, type)
_SEQUENCES: Dict[Any, Tuple[str, str]] = {
    list: ("[", "]"),
    tuple: ("(", ")"),
    set: ("{", "}"),
    frozenset: ("{", "}"),
    collections.deque: ("[", "]"),
}


class Variables:
    """The result. A page gets it as JSON when it evaluates an expression, and nothing else is computed for it."""

    def __init__(self, variables: List[Dict[str, Any]], total: int) -> None:
        self.variables, self.total = variables, total

    def __repr__(self) -> str:
        return "<%d variables>" % self.total

    def _repr_json_(self) -> Dict[str, Any]:
        return {"variables": self.variables, "total": self.total}


def list_variables(namespace: Optional[Dict[str, Any]] = None, hidden: Iterable[str] = ()) -> Variables:
    """Return what a namespace holds, by default that of the notebook, in the order of the names."""
    if namespace is None:
        from IPython.core.getipython import get_ipython

        shell: Any = get_ipython()
        namespace, hidden = shell.user_ns, shell.user_ns_hidden
    own = set(hidden)
    # By type(): the __class__ of a proxy is computed. In one step: other threads may add variables meanwhile.
    items = [
        (name, value)
        for name, value in list(namespace.items())
        if type(name) is str and not name.startswith("_") and name not in own and not issubclass(type(value), _SKIPPED)
    ]
    items.sort(key=lambda item: (item[0].lower(), item[0]))
    end = time.monotonic() + SECONDS
    shown = [_describe(name, value, time.monotonic() < end) for name, value in items[:MAX_VARIABLES]]
    return Variables(shown, len(items))


def _describe(name: str, value: Any, whole: bool) -> Dict[str, Any]:
    known: Dict[str, Any] = {"name": name, "type": type(value).__name__}
    if whole:
        try:
            known.update(_details(value))
        except Exception:  # a class that imitates another one
            known = {"name": name, "type": type(value).__name__}
    return known


def _details(value: Any) -> Dict[str, Any]:
    kind = type(value)
    if kind in _SEQUENCES or kind in (dict, str, bytes, bytearray, range):
        return {"length": len(value), "value": _preview(value), "bytes": sys.getsizeof(value)}
    if kind in (int, float, complex, bool, type(None)):
        return {"value": _preview(value)}
    for base in kind.__mro__:
        found = _LIBRARIES.get((base.__module__.partition(".")[0], base.__name__))
        if found is not None:
            return found(value, base is kind)
    return {}


def _preview(value: Any, depth: int = 0) -> str:
    """Return the start of a value of a built-in type, with the values in it; of others, only their types."""
    kind = type(value)
    if kind is int:
        return str(value) if value.bit_length() < 300 else "<%d bits>" % value.bit_length()
    if kind in (float, complex, bool, type(None), range):
        return repr(value)
    if kind in (str, bytes, bytearray):
        return repr(value[:_CHARACTERS]) + ("…" if len(value) > _CHARACTERS else "")
    if depth < 2 and kind is dict:
        pairs = ["%s: %s" % (_preview(key, 2), _preview(each, depth + 1)) for key, each in _first(value.items())]
        return _cut("{%s%s}" % (", ".join(pairs), _more(len(value))))
    if depth < 2 and kind in _SEQUENCES:
        left, right = _SEQUENCES[kind]
        return _cut(left + ", ".join(_preview(each, depth + 1) for each in _first(value)) + _more(len(value)) + right)
    return "<%s>" % kind.__name__


def _first(values: Any) -> List[Any]:
    return list(itertools.islice(values, _ITEMS))


def _more(length: int) -> str:
    return ", …" if length > _ITEMS else ""


def _cut(shown: str) -> str:
    return shown if len(shown) <= _CHARACTERS else shown[:_CHARACTERS] + "…"


# --- libraries: called with a value, and whether its class is exactly the library's ---------------------------------------------


def _numpy_array(value: Any, exact: bool) -> Dict[str, Any]:
    known: Dict[str, Any] = {"shape": _shape(value), "dtype": str(value.dtype), "bytes": int(value.nbytes)}
    if exact and value.size <= _PREVIEW_ELEMENTS and value.dtype.kind in "biufc":
        known["value"] = _numbers(value.tolist())
    return known


def _numpy_scalar(value: Any, exact: bool) -> Dict[str, Any]:
    return {"value": _preview(value.item()) if value.dtype.kind in "biufcSU" else "", "dtype": str(value.dtype)}


def _torch_tensor(value: Any, exact: bool) -> Dict[str, Any]:
    device = str(value.device)
    known: Dict[str, Any] = {"shape": _shape(value), "dtype": str(value.dtype).replace("torch.", ""), "device": device}
    if str(value.layout) == "torch.strided":
        known["bytes"] = int(value.numel()) * int(value.element_size())
        named = type(value).__name__ in (
            "Tensor",
            "Parameter",
        )  # another class may compute its values when they are read
        if named and device == "cpu" and value.numel() <= _PREVIEW_ELEMENTS:
            known["value"] = _numbers(value.tolist())
    return known


def _torch_module(value: Any, exact: bool) -> Dict[str, Any]:
    parameters = sys.modules["torch"].nn.Module.parameters
    count, size, device = 0, 0, ""
    for parameter in itertools.islice(parameters(value), _PARAMETERS):
        count += parameter.numel()
        size += parameter.numel() * parameter.element_size()
        device = device or str(parameter.device)
    return {"parameters": count, "bytes": size, "device": device}


def _jax_array(value: Any, exact: bool) -> Dict[str, Any]:
    devices = sorted(str(each) for each in value.devices())
    known = {"shape": _shape(value), "dtype": str(value.dtype), "bytes": int(value.nbytes)}
    return {**known, "device": ", ".join(devices[:2]) + ("…" if len(devices) > 2 else "")}


def _tensorflow_tensor(value: Any, exact: bool) -> Dict[str, Any]:
    device = str(value.device).rpartition("device:")[2].lower()
    return {"shape": [int(each) for each in value.shape], "dtype": str(value.dtype.name), "device": device}


def _data_frame(value: Any, exact: bool) -> Dict[str, Any]:
    columns = value.columns
    names = [str(each) for each in _first(columns) if type(each) in (str, int)]
    return {"shape": _shape(value), "value": _cut(", ".join(names) + _more(len(columns)))}


def _series(value: Any, exact: bool) -> Dict[str, Any]:
    return {"length": int(value.shape[0]), "dtype": str(value.dtype), "bytes": int(value.nbytes)}


def _image(value: Any, exact: bool) -> Dict[str, Any]:
    width, height = value.size
    return {"shape": [int(width), int(height)], "dtype": str(value.mode)}


_LIBRARIES: Dict[Tuple[str, str], Callable[[Any, bool], Dict[str, Any]]] = {
    ("numpy", "ndarray"): _numpy_array,
    ("numpy", "generic"): _numpy_scalar,
    ("torch", "Tensor"): _torch_tensor,
    ("torch", "Module"): _torch_module,
    ("jaxlib", "ArrayImpl"): _jax_array,
    ("jax", "ArrayImpl"): _jax_array,
    ("tensorflow", "EagerTensor"): _tensorflow_tensor,
    ("tensorflow", "ResourceVariable"): _tensorflow_tensor,
    ("pandas", "DataFrame"): _data_frame,
    ("pandas", "Series"): _series,
    ("pandas", "Index"): _series,
    ("PIL", "Image"): _image,
}


def _shape(value: Any) -> List[int]:
    return [int(each) for each in value.shape]


def _numbers(values: Any) -> str:
    """Return numbers in as few digits as they need to be told apart."""
    if isinstance(values, list):
        return _cut("[" + ", ".join(_numbers(each) for each in values) + "]")
    return "%.4g" % values if isinstance(values, float) else str(values)

"""Records and errors of ownlab, in a kernel whose environment has no ownlab.

ownlab runs in another environment there (host_client.py) and sends them as JSON with their types (`ownlab.json_encoding`).
Here they become objects of classes with the same names, attributes, repr and module, so that a notebook works in both kinds
of environment.
"""

from typing import Any, Dict, List, Tuple

from ownlab_guest.text import shown

__all__ = ["OwnlabError", "UsageError", "decode_error", "decode_record"]


class OwnlabError(Exception):
    """Something went wrong that is not a bug in ownlab."""

    exit_code = 3
    http_status = 500
    meaning = ""

    def __init__(self, message: str, *, hint: str = "") -> None:
        message = shown(message)
        super().__init__(message)
        self.message = message
        self.hint = shown(hint)


class UsageError(OwnlabError):
    """Wrong arguments."""

    exit_code = 2
    http_status = 400


# As tracebacks show them where ownlab is installed.
OwnlabError.__module__ = UsageError.__module__ = "ownlab.errors"

_record_types: Dict[Tuple[str, str], type] = {}
_error_types: Dict[Tuple[str, str], type] = {
    ("ownlab.errors", "OwnlabError"): OwnlabError,
    ("ownlab.errors", "UsageError"): UsageError,
}


class _Record:
    """An immutable record, as msgspec.Struct makes it on the other side."""

    __struct_fields__: Tuple[str, ...] = ()

    def __init__(self, fields: Dict[str, Any], properties: Dict[str, Any]) -> None:
        self.__dict__.update(fields)
        self.__dict__.update(properties)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError("immutable type: %r" % type(self).__name__)

    def __repr__(self) -> str:
        fields = ", ".join("%s=%r" % (name, getattr(self, name)) for name in self.__struct_fields__)
        return "%s(%s)" % (type(self).__name__, fields)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._values() == other._values()

    def __hash__(self) -> int:
        return hash(self._values())

    def _values(self) -> Tuple[Any, ...]:
        return tuple(getattr(self, name) for name in self.__struct_fields__)


def decode_record(sent: Any) -> Any:
    """Make the value that `ownlab.json_encoding.to_typed_builtins` described."""
    if isinstance(sent, list):
        return tuple(decode_record(item) for item in sent)
    if not isinstance(sent, dict):
        return sent
    if "mapping" in sent:
        return {decode_record(key): decode_record(value) for key, value in sent["mapping"]}
    fields = {name: decode_record(value) for name, value in sent["fields"].items()}
    properties = {name: decode_record(value) for name, value in sent["properties"].items()}
    key = sent["module"], sent["type"]
    if key not in _record_types:
        namespace = {"__module__": key[0], "__struct_fields__": tuple(fields)}
        _record_types[key] = type(key[1], (_Record,), namespace)
    return _record_types[key](fields, properties)


def decode_error(sent: Dict[str, Any]) -> OwnlabError:
    """Make the exception that `ownlab.json_encoding.error_to_builtins` described, ready to raise."""
    kind = _error_type(sent["types"])
    attributes = {name: decode_record(value) for name, value in sent["attributes"].items()}
    error: OwnlabError = kind.__new__(kind, attributes["message"])
    error.__dict__.update(attributes)
    return error


def _error_type(types: List[Dict[str, Any]]) -> Any:
    """Return the first class; the others are its base classes, up to OwnlabError."""
    first = types[0]
    key = first["module"], first["type"]
    if key not in _error_types:
        namespace = {name: first[name] for name in ("exit_code", "http_status", "meaning")}
        namespace.update(__module__=key[0], __doc__=first["doc"])
        _error_types[key] = type(key[1], (_error_type(types[1:]),), namespace)
    return _error_types[key]

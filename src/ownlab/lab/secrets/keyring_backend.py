"""The system keyring, through the optional library `keyring`. Only this file imports it."""

from __future__ import annotations

import importlib
from typing import Any

from ownlab.errors import LabError
from ownlab.text import text

__all__ = ["Keyring", "KeyringTrouble", "find_keyring"]

# The priority that the library itself recommends: below it are unencrypted files, and back ends that refuse everything.
_MIN_PRIORITY = 1.0


class KeyringTrouble(LabError):
    """The system keyring does not work: it is locked, or gone."""

    meaning = text("It is locked, or it belongs to a desktop session that does not run.")


class Keyring:
    """The values of one state folder. Messages of back ends are not shown: they may contain a value."""

    def __init__(self, backend: Any, service: str) -> None:
        self._backend = backend
        self._service = service

    def put(self, name: str, value: str) -> None:
        """Store a value. KeyringTrouble where that fails."""
        self._call("set_password", name, value)

    def get(self, name: str) -> str | None:
        """Return a value; None where the keyring has none of this name."""
        value = self._call("get_password", name)
        return value if isinstance(value, str) else None

    def delete(self, name: str) -> None:
        """Delete a value; a missing one is not an error."""
        if self.get(name) is not None:
            self._call("delete_password", name)

    def _call(self, method: str, *arguments: str) -> object:
        try:
            return getattr(self._backend, method)(self._service, *arguments)
        except Exception as exc:  # noqa: BLE001  # back ends may raise anything: D-Bus, a desktop dialog, a remote vault
            raise KeyringTrouble(
                text("The system keyring does not answer ({error}).", error=type(exc).__name__)
            ) from None


def find_keyring(service: str) -> Keyring | None:
    """Return the system keyring, where the library is installed and has a safe back end."""
    try:
        backend = importlib.import_module("keyring").get_keyring()
        # A chain of back ends has a high priority of its own, however weak its members are.
        members = getattr(backend, "backends", None) or (backend,)
        safe = max(float(member.priority) for member in members) >= _MIN_PRIORITY
    except Exception:  # noqa: BLE001  # not installed, or broken: the value goes into a file
        return None
    return Keyring(backend, service) if safe else None

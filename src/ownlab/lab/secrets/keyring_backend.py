"""The system's keyring: the one door to the `keyring` library, which is there or not. It is never a dependency of ours."""

from __future__ import annotations

import importlib
from typing import Any

from ownlab.errors import LabError

__all__ = ["Keyring", "KeyringTrouble", "find_keyring"]

# What the library recommends itself: below that are files without a key, and back ends that refuse everything.
_REAL = 1.0


class KeyringTrouble(LabError):
    """The system's keyring does not do what it is asked: it is locked, or gone."""

    meaning = "It is locked, or it belongs to a desktop session that is not there."


class Keyring:
    """The values of one state folder. What a back end raises is never told: nobody knows what words it uses."""

    def __init__(self, backend: Any, service: str) -> None:
        self._backend = backend
        self._service = service

    def put(self, name: str, value: str) -> None:
        """Store a value. KeyringTrouble where it cannot be."""
        self._call("set_password", name, value)

    def get(self, name: str) -> str | None:
        """A value; None where the keyring has none of this name."""
        value = self._call("get_password", name)
        return value if isinstance(value, str) else None

    def delete(self, name: str) -> None:
        """Take a value away; one that is gone already is no trouble."""
        if self.get(name) is not None:
            self._call("delete_password", name)

    def _call(self, method: str, *arguments: str) -> object:
        try:
            return getattr(self._backend, method)(self._service, *arguments)
        except Exception as exc:  # noqa: BLE001  # back ends are strangers: D-Bus, a desktop's dialogue, a remote vault
            raise KeyringTrouble(f"the system's keyring does not answer ({type(exc).__name__})") from None


def find_keyring(service: str) -> Keyring | None:
    """The system's keyring, where the library is installed and finds one that keeps values safe."""
    try:
        backend = importlib.import_module("keyring").get_keyring()
        # A chain of back ends has a high priority of its own, however weak its links are.
        links = getattr(backend, "backends", None) or (backend,)
        real = max(float(link.priority) for link in links) >= _REAL
    except Exception:  # noqa: BLE001  # not installed, or broken: a file will do
        return None
    return Keyring(backend, service) if real else None

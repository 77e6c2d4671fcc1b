"""A stand-in for the `keyring` library: a back end that keeps its values in the file that FAKE_KEYRING names.

FAKE_KEYRING_PRIORITY: how good it says that it is; FAKE_KEYRING_LOCKED: it refuses, and says too much while it does.
"""

import json
import os


class _Backend:
    priority = float(os.environ.get("FAKE_KEYRING_PRIORITY", "5"))

    def _values(self):
        if os.environ.get("FAKE_KEYRING_LOCKED"):
            raise RuntimeError("locked")
        try:
            with open(os.environ["FAKE_KEYRING"]) as file:
                return json.load(file)
        except FileNotFoundError:
            return {}

    def _write(self, values):
        with open(os.environ["FAKE_KEYRING"], "w") as file:
            json.dump(values, file)

    def set_password(self, service, name, value):
        try:
            self._write({**self._values(), f"{service}/{name}": value})
        except RuntimeError:
            raise RuntimeError(f"could not store {value}") from None

    def get_password(self, service, name):
        return self._values().get(f"{service}/{name}")

    def delete_password(self, service, name):
        values = self._values()
        del values[f"{service}/{name}"]
        self._write(values)


class _Chain(_Backend):
    """As keyring's ChainerBackend: a priority of its own, whatever its links are."""

    def __init__(self):
        self.backends = [_Backend(), _Backend()]

    priority = 10


def get_keyring():
    return _Chain() if os.environ.get("FAKE_KEYRING_CHAIN") else _Backend()

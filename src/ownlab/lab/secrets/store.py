"""A person's secrets, and which notebooks may have them.

In <state>/secrets (0700): secrets.json (0600) has names, grants, and the values that no keyring keeps. A grant is for a
notebook's real path, not for what stands in it; it does not follow a notebook that is moved. Other code of the same
person can read all that this person can read: grants keep honest notebooks apart, they are no wall.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import stat
import time
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from ownlab.config.paths import state_folder
from ownlab.errors import InputError, LabError, OwnlabError, RecordError, UsageError
from ownlab.file_lock import LOCK_SECONDS, wait_for_lock
from ownlab.files import replace_file
from ownlab.json_encoding import encode_json
from ownlab.lab.secrets.keyring_backend import KeyringTrouble, find_keyring
from ownlab.text import text

__all__ = [
    "LONGEST",
    "NotGranted",
    "Secret",
    "SecretList",
    "SecretNotFound",
    "SecretValue",
    "check_name",
    "forget_notebook",
    "grant",
    "list_secrets",
    "read_secret",
    "remove_secret",
    "revoke",
    "set_secret",
]

LONGEST = 100_000  # characters of a value: a service account's key has 2,400
# "=" would let NAME=VALUE pass for a name, and be listed.
_NAME = re.compile(r"[^\s=-][^\s=]{0,199}")


class SecretNotFound(InputError):
    """There is no secret of that name."""

    http_status = 404


class NotGranted(OwnlabError):
    """The secret is there, and this notebook may not have it."""

    http_status = 403


class Secret(Struct, frozen=True):
    """What may be told of a secret."""

    name: str
    where: Literal["keyring", "file"]
    notebooks: tuple[str, ...]  # the real paths of those that may read it
    changed: float  # when its value was set; seconds since the epoch


class SecretList(Struct, frozen=True):
    """`ownlab secrets --json`."""

    secrets: tuple[Secret, ...]


class SecretValue(Struct, frozen=True):
    """`ownlab secrets read --json`, for kernels: the one document that has a value in it."""

    value: str

    def __repr__(self) -> str:
        return "SecretValue(…)"


class _Entry(Struct, frozen=True):
    name: str
    changed: float
    value: str | None = None  # None: the keyring has it
    notebooks: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"_Entry({self.name!r})"

    def told(self) -> Secret:
        return Secret(self.name, "keyring" if self.value is None else "file", self.notebooks, self.changed)


class _Entries(Struct, frozen=True):
    secrets: tuple[_Entry, ...]


def check_name(name: str) -> None:
    """UsageError where it is no name for a secret. It is not said again: a value may stand in its place."""
    if _NAME.fullmatch(name) is None or not name.isprintable():
        raise UsageError(
            "this is no name for a secret",
            hint="A name is one word without '=', 200 characters at the most: HF_TOKEN. The value is asked for.",
        )


def list_secrets(environ: Mapping[str, str] = os.environ) -> tuple[Secret, ...]:
    """All that were set, in the order of their names; without their values."""
    return tuple(entry.told() for entry in _load(environ).values())


def set_secret(name: str, value: str, environ: Mapping[str, str] = os.environ) -> Secret:
    """Store a value: in the system's keyring, else in a file of the person's own. Grants that there are stay."""
    check_name(name)
    if not value or len(value) > LONGEST:
        raise UsageError("the value is empty" if not value else f"the value has more than {LONGEST:,} characters")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InputError("the value is no text: it has halves of characters in it") from None
    with _changing(environ) as entries:
        before = entries.get(name)
        kept = None if _put_in_keyring(name, value, environ) else value
        entries[name] = _Entry(name, time.time(), kept, before.notebooks if before else ())
        return entries[name].told()


def remove_secret(name: str, environ: Mapping[str, str] = os.environ) -> Secret:
    """Forget a secret, its value and its grants."""
    with _changing(environ) as entries:
        entry = _find(name, entries)
        keyring = find_keyring(_service(environ)) if entry.value is None else None
        if keyring is not None:
            keyring.delete(name)
        del entries[name]
    return entry.told()


def grant(name: str, notebook: str, environ: Mapping[str, str] = os.environ) -> Secret:
    """Let a notebook that is there read a secret."""
    path = _real(notebook)
    if path is None or not os.path.isfile(path):
        raise InputError(
            f"there is no notebook {_shown(notebook)}",
            hint="A secret is granted to a notebook that is there: whatever came to this place later would have it too.",
        )
    with _changing(environ) as entries:
        entry = _find(name, entries)
        entries[name] = msgspec.structs.replace(entry, notebooks=tuple(sorted({*entry.notebooks, path})))
        return entries[name].told()


def revoke(name: str, notebook: str, environ: Mapping[str, str] = os.environ) -> Secret:
    """Take a grant back. The notebook need not be there any more."""
    path = _real(notebook)
    with _changing(environ) as entries:
        entry = _find(name, entries)
        if path not in entry.notebooks:
            raise InputError(
                f"the secret {name!r} is not granted to {_shown(path or notebook)}", hint="See: ownlab secrets list"
            )
        entries[name] = msgspec.structs.replace(entry, notebooks=tuple(set(entry.notebooks) - {path}))
        return entries[name].told()


def forget_notebook(notebook: str, environ: Mapping[str, str] = os.environ) -> None:
    """A new notebook comes to this path: what was granted to an earlier one is not granted to it."""
    path = _real(notebook)
    if not any(path in entry.notebooks for entry in _load(environ).values()):
        return
    with _changing(environ) as entries:
        for name, entry in entries.items():
            left = tuple(each for each in entry.notebooks if each != path)
            entries[name] = msgspec.structs.replace(entry, notebooks=left)


def read_secret(name: str, notebooks: Iterable[str], environ: Mapping[str, str] = os.environ) -> SecretValue:
    """The value, for a notebook that it was granted to; of several paths (a run's copy, and its original) one will do."""
    entry = _find(name, _load(environ))
    given = [path for path in notebooks if path]
    if not any(_real(path) in entry.notebooks for path in given):
        for_whom = _shown(given[0]) if given else "a kernel without a notebook"
        command = f"ownlab secrets grant {shlex.quote(name)} {shlex.quote(for_whom) if given else 'NOTEBOOK'}"
        raise NotGranted(f"the secret {name!r} is not granted to {for_whom}", hint=f"Grant it: {command}")
    if entry.value is not None:
        return SecretValue(entry.value)
    keyring = find_keyring(_service(environ))
    if keyring is None:
        raise KeyringTrouble(
            f"the secret {name!r} is in the system's keyring, which is not to be found here",
            hint=f"Set it anew, and it is kept where that is possible: ownlab secrets set {shlex.quote(name)}",
        )
    value = keyring.get(name)
    if value is None:
        raise SecretNotFound(
            f"the system's keyring has the secret {name!r} no more",
            hint=f"Set it anew: ownlab secrets set {shlex.quote(name)}",
        )
    return SecretValue(value)


def _put_in_keyring(name: str, value: str, environ: Mapping[str, str]) -> bool:
    keyring = find_keyring(_service(environ))
    if keyring is None:
        return False
    try:
        keyring.put(name, value)
    except KeyringTrouble:  # nobody is there to unlock it: a file of one's own is what is left
        return False
    return True


def _find(name: str, entries: Mapping[str, _Entry]) -> _Entry:
    entry = entries.get(name)
    if entry is None:
        there = f"There is: {', '.join(entries)}." if entries else "None was set yet."
        raise SecretNotFound(f"there is no secret named {name!r}", hint=f"{there} Set it: ownlab secrets set NAME")
    return entry


def _real(notebook: str) -> str | None:
    """Its real path; None where it is none, or cannot be written down."""
    try:
        path = os.path.realpath(os.path.expanduser(notebook)) if notebook else None
        return path if path is None or path.encode() else None
    except (ValueError, OSError):  # a NUL, bytes that are no text, links in a circle
        return None


def _shown(path: str) -> str:
    return path.encode(errors="backslashreplace").decode()


# --- the file ---------------------------------------------------------------------------------------------------------


def _service(environ: Mapping[str, str]) -> str:
    """Two state folders of one person are two sets of secrets."""
    return f"ownlab in {state_folder(environ, make=False)}"


def _load(environ: Mapping[str, str]) -> dict[str, _Entry]:
    folder = state_folder(environ, make=False) / "secrets"
    path = folder / "secrets.json"
    if not os.path.lexists(folder):
        return {}
    _refuse_open(folder)
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:
            found = msgspec.json.decode(file.read(), type=_Entries).secrets
    except FileNotFoundError:
        return {}
    except OSError as exc:
        raise LabError(f"{path} cannot be read: {exc.strerror}") from exc
    except msgspec.DecodeError:  # its words are not told, for what they quote may be a value
        raise RecordError(f"{path} is damaged", hint="Remove it, then set your secrets anew.") from None
    return {entry.name: entry for entry in sorted(found, key=lambda entry: entry.name)}


@contextlib.contextmanager
def _changing(environ: Mapping[str, str]) -> Iterator[dict[str, _Entry]]:
    """One writer at a time: what is in the dictionary in the end is written, unless the block fails."""
    folder = state_folder(environ) / "secrets"
    try:
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder, 0o700)
        _refuse_open(folder)
        descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as exc:
        raise LabError(f"{folder} cannot be used: {exc.strerror}") from exc
    try:
        message = text("Another ownlab process has been changing the secrets for {seconds:g} s.", seconds=LOCK_SECONDS)
        wait_for_lock(descriptor, LabError(message))
        entries = _load(environ)
        yield entries
        record = encode_json(_Entries(tuple(entries.values())))
        replace_file(str(folder / "secrets.json"), msgspec.json.format(record, indent=1).decode() + "\n")
    except OSError as exc:
        raise LabError(f"{folder}/secrets.json cannot be written: {exc.strerror}") from exc
    finally:
        os.close(descriptor)


def _refuse_open(folder: Path) -> None:
    """Files are written here under names that others could guess: so the folder must be closed to them."""
    found = os.lstat(folder)
    if not stat.S_ISDIR(found.st_mode):
        raise LabError(
            f"{folder} is not a folder", hint="Somebody put something else in its place: look, and remove it."
        )
    # In a container root works in folders of the host's users.
    if found.st_uid != os.geteuid() and os.geteuid() != 0:
        raise LabError(
            f"{folder} belongs to another user (uid {found.st_uid})", hint="Set OWNLAB_HOME to a folder of your own."
        )
    if stat.S_IMODE(found.st_mode) & 0o077:
        raise LabError(f"{folder} is open to other users", hint=f"Close it: chmod 700 {shlex.quote(str(folder))}")

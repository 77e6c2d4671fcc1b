"""A person's secrets, and the notebooks that may read them.

<state>/secrets (0700) holds secrets.json (0600) with names, grants, and the values that are not in a keyring. A grant is for
the real path of a notebook, not for its content, and does not follow a notebook that is moved. Grants separate honest
notebooks. They do not protect against malicious code, which can read everything that its user can read.
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

from ownlab.atomic_files import replace_file
from ownlab.config.paths import state_folder
from ownlab.errors import InputError, LabError, OwnlabError, RecordError, UsageError
from ownlab.file_lock import LOCK_SECONDS, wait_for_lock
from ownlab.json_encoding import encode_json
from ownlab.lab.secrets.keyring_backend import KeyringTrouble, find_keyring
from ownlab.text import listing, sentences, text

__all__ = [
    "MAX_LENGTH",
    "NotGranted",
    "Secret",
    "SecretList",
    "SecretNotFound",
    "SecretValue",
    "check_name",
    "find_own_secret",
    "forget_notebook",
    "grant",
    "list_secrets",
    "read_secret",
    "remove_secret",
    "revoke",
    "set_secret",
]

MAX_LENGTH = 100_000  # characters of a value: a service account's key has 2,400
# "=" would let NAME=VALUE pass for a name, and be listed.
_NAME = re.compile(r"[^\s=-][^\s=]{0,199}")


class SecretNotFound(InputError):
    """There is no secret of that name."""

    http_status = 404


class NotGranted(OwnlabError):
    """The secret exists, but this notebook may not read it."""

    http_status = 403


class Secret(Struct, frozen=True):
    """A secret without its value."""

    name: str
    where: Literal["keyring", "file"]
    notebooks: tuple[str, ...]  # real paths of the notebooks that may read it
    changed: float  # when its value was set; seconds since the epoch


class SecretList(Struct, frozen=True):
    """`ownlab secrets --json`."""

    secrets: tuple[Secret, ...]


class SecretValue(Struct, frozen=True):
    """`ownlab secrets read --json`, for kernels: the only document that contains a value."""

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

    def without_value(self) -> Secret:
        return Secret(self.name, "keyring" if self.value is None else "file", self.notebooks, self.changed)


class _Entries(Struct, frozen=True):
    secrets: tuple[_Entry, ...]


def check_name(name: str) -> None:
    """Raise UsageError for an invalid name. The message does not repeat it: it may be a value."""
    if _NAME.fullmatch(name) is None or not name.isprintable():
        raise UsageError(
            text("This is not a valid name for a secret."),
            hint=text(
                "A name is one word without '=', at most 200 characters: HF_TOKEN. The command asks for the value."
            ),
        )


def list_secrets(environ: Mapping[str, str] = os.environ) -> tuple[Secret, ...]:
    """Return all secrets, sorted by name, without their values."""
    return tuple(entry.without_value() for entry in _load(environ).values())


def set_secret(name: str, value: str, environ: Mapping[str, str] = os.environ) -> Secret:
    """Store a value in the system keyring, else in a private file. Existing grants stay."""
    check_name(name)
    if not value or len(value) > MAX_LENGTH:
        raise UsageError(
            text("The value has more than {limit:,} characters.", limit=MAX_LENGTH)
            if value
            else text("The value is empty.")
        )
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InputError(text("The value is not valid text: it contains lone surrogates.")) from None
    with _update(environ) as entries:
        before = entries.get(name)
        in_file = None if _put_in_keyring(name, value, environ) else value
        entries[name] = _Entry(name, time.time(), in_file, before.notebooks if before else ())
        return entries[name].without_value()


def remove_secret(name: str, environ: Mapping[str, str] = os.environ) -> Secret:
    """Delete a secret with its value and grants."""
    with _update(environ) as entries:
        entry = _find(name, entries)
        keyring = find_keyring(_service(environ)) if entry.value is None else None
        if keyring is not None:
            keyring.delete(name)
        del entries[name]
    return entry.without_value()


def grant(name: str, notebook: str, environ: Mapping[str, str] = os.environ) -> Secret:
    """Allow an existing notebook to read a secret."""
    path = _real_path(notebook)
    if path is None or not os.path.isfile(path):
        raise InputError(
            text("There is no notebook {path}.", path=_printable(notebook)),
            hint=text(
                "Create the notebook first. A grant for a missing file would apply to any file that appears at this path."
            ),
        )
    with _update(environ) as entries:
        entry = _find(name, entries)
        entries[name] = msgspec.structs.replace(entry, notebooks=tuple(sorted({*entry.notebooks, path})))
        return entries[name].without_value()


def revoke(name: str, notebook: str, environ: Mapping[str, str] = os.environ) -> Secret:
    """Revoke a grant. The notebook need not exist any more."""
    path = _real_path(notebook)
    with _update(environ) as entries:
        entry = _find(name, entries)
        if path not in entry.notebooks:
            raise InputError(
                text("The secret {name!r} is not granted to {path}.", name=name, path=_printable(path or notebook)),
                hint=text("See: ownlab secrets list"),
            )
        entries[name] = msgspec.structs.replace(entry, notebooks=tuple(set(entry.notebooks) - {path}))
        return entries[name].without_value()


def forget_notebook(notebook: str, environ: Mapping[str, str] = os.environ) -> None:
    """Revoke all grants of a path, because a new notebook is created there."""
    path = _real_path(notebook)
    if not any(path in entry.notebooks for entry in _load(environ).values()):
        return
    with _update(environ) as entries:
        for name, entry in entries.items():
            others = tuple(each for each in entry.notebooks if each != path)
            entries[name] = msgspec.structs.replace(entry, notebooks=others)


def read_secret(name: str, notebooks: Iterable[str], environ: Mapping[str, str] = os.environ) -> SecretValue:
    """Return the value for a notebook that may read it. One of several paths suffices: a run's copy and its original."""
    entry = _find(name, _load(environ))
    paths = [path for path in notebooks if path]
    if not any(_real_path(path) in entry.notebooks for path in paths):
        raise _not_granted(name, paths)
    return _value(entry, environ)


def find_own_secret(name: str, environ: Mapping[str, str] = os.environ) -> SecretValue | None:
    """Return the value for a command of the person it belongs to, which needs no grant; None if there is no such secret."""
    entry = _load(environ).get(name)
    return None if entry is None else _value(entry, environ)


def _value(entry: _Entry, environ: Mapping[str, str]) -> SecretValue:
    name = entry.name
    if entry.value is not None:
        return SecretValue(entry.value)
    keyring = find_keyring(_service(environ))
    if keyring is None:
        raise KeyringTrouble(
            text("The secret {name!r} is in the system keyring, which is not available here.", name=name),
            hint=text(
                "Set it again to store it where that is possible: ownlab secrets set {name}", name=shlex.quote(name)
            ),
        )
    value = keyring.get(name)
    if value is None:
        raise SecretNotFound(
            text("The secret {name!r} is missing from the system keyring.", name=name),
            hint=text("Set it again: ownlab secrets set {name}", name=shlex.quote(name)),
        )
    return SecretValue(value)


def _not_granted(name: str, paths: list[str]) -> NotGranted:
    quoted = shlex.quote(name)
    if not paths:
        return NotGranted(
            text("The secret {name!r} is not granted to a kernel without a notebook.", name=name),
            hint=text("Grant it: ownlab secrets grant {name} NOTEBOOK", name=quoted),
        )
    path = _printable(paths[0])
    return NotGranted(
        text("The secret {name!r} is not granted to {path}.", name=name, path=path),
        hint=text("Grant it: ownlab secrets grant {name} {path}", name=quoted, path=shlex.quote(path)),
    )


def _put_in_keyring(name: str, value: str, environ: Mapping[str, str]) -> bool:
    keyring = find_keyring(_service(environ))
    if keyring is None:
        return False
    try:
        keyring.put(name, value)
    except KeyringTrouble:  # nobody can unlock it: the value goes into a file
        return False
    return True


def _find(name: str, entries: Mapping[str, _Entry]) -> _Entry:
    entry = entries.get(name)
    if entry is None:
        existing = (
            text("Existing secrets: {names}.", names=listing(entries, "{items}, {last}"))
            if entries
            else text("No secret has been set yet.")
        )
        raise SecretNotFound(
            text("There is no secret named {name!r}.", name=name),
            hint=sentences(existing, text("Set it: ownlab secrets set NAME")),
        )
    return entry


def _real_path(notebook: str) -> str | None:
    """Return the real path; None where there is none, or where it is not valid text."""
    try:
        path = os.path.realpath(os.path.expanduser(notebook)) if notebook else None
        return path if path is None or path.encode() else None
    except (ValueError, OSError):  # a NUL, invalid bytes, circular links
        return None


def _printable(path: str) -> str:
    return path.encode(errors="backslashreplace").decode()


# --- the file ---------------------------------------------------------------------------------------------------------


def _service(environ: Mapping[str, str]) -> str:
    """Return the keyring's service name: each state folder has its own set of secrets."""
    return f"ownlab in {state_folder(environ, make=False)}"


def _load(environ: Mapping[str, str]) -> dict[str, _Entry]:
    folder = state_folder(environ, make=False) / "secrets"
    path = folder / "secrets.json"
    if not os.path.lexists(folder):
        return {}
    _check_private(folder)
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:
            entries = msgspec.json.decode(file.read(), type=_Entries).secrets
    except FileNotFoundError:
        return {}
    except OSError as exc:
        raise LabError(text("Cannot read {path}: {cause}.", path=path, cause=exc.strerror)) from exc
    except msgspec.DecodeError:  # its message is not shown: it may quote a value
        raise RecordError(
            text("{path} is damaged.", path=path), hint=text("Remove it, then set your secrets again.")
        ) from None
    return {entry.name: entry for entry in sorted(entries, key=lambda entry: entry.name)}


@contextlib.contextmanager
def _update(environ: Mapping[str, str]) -> Iterator[dict[str, _Entry]]:
    """Lock the file, and write the dictionary when the block ends without an error."""
    folder = state_folder(environ) / "secrets"
    try:
        with contextlib.suppress(FileExistsError):
            os.mkdir(folder, 0o700)
        _check_private(folder)
        descriptor = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as exc:
        raise LabError(text("Cannot use {folder}: {cause}.", folder=folder, cause=exc.strerror)) from exc
    try:
        message = text("Another ownlab process has been changing the secrets for {seconds:g} s.", seconds=LOCK_SECONDS)
        wait_for_lock(descriptor, LabError(message))
        entries = _load(environ)
        yield entries
        record = encode_json(_Entries(tuple(entries.values())))
        replace_file(str(folder / "secrets.json"), msgspec.json.format(record, indent=1).decode() + "\n")
    except OSError as exc:
        raise LabError(text("Cannot write {path}: {cause}.", path=folder / "secrets.json", cause=exc.strerror)) from exc
    finally:
        os.close(descriptor)


def _check_private(folder: Path) -> None:
    """Raise LabError unless the folder is closed to other users: file names in it can be guessed."""
    status = os.lstat(folder)
    if not stat.S_ISDIR(status.st_mode):
        raise LabError(text("{folder} is not a folder.", folder=folder), hint=text("Check what it is, and remove it."))
    # In a container, root works in folders of the host's users.
    if status.st_uid != os.geteuid() and os.geteuid() != 0:
        raise LabError(
            text("{folder} belongs to another user (uid {uid}).", folder=folder, uid=status.st_uid),
            hint=text("Set OWNLAB_HOME to a folder of your own."),
        )
    if stat.S_IMODE(status.st_mode) & 0o077:
        raise LabError(
            text("{folder} is accessible to other users.", folder=folder),
            hint=text("Close it: chmod 700 {folder}", folder=shlex.quote(str(folder))),
        )

"""`ownlab secrets` as a process, with a real terminal for typed values."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

VALUE = "hf_fOrTyTwO"
FAKES = Path(__file__).resolve().parents[2] / "fakes" / "keyring"
Valid = Callable[[str, str], Any]
Secrets = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def secrets(ownlab: Callable[..., Any], tmp_path: Path) -> Secrets:
    """Run `ownlab secrets ARGUMENTS` with its own state folder."""

    def run(*arguments: str, stdin: str | bytes = "", **env: str) -> Any:
        return ownlab("secrets", *arguments, stdin=stdin, env={"OWNLAB_HOME": str(tmp_path / "home"), **env})

    return run


@pytest.fixture
def notebook(tmp_path: Path) -> str:
    path = tmp_path / "n.ipynb"
    path.write_text("{}")
    return str(path)


def test_set_grant_read_revoke_and_remove(secrets: Secrets, notebook: str, valid: Valid) -> None:
    assert "There are no secrets" in secrets().stdout
    ran = secrets("set", "HF_TOKEN", stdin=f"{VALUE}\n")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "Stored HF_TOKEN in a file that only you can read." in ran.stdout
    assert "not granted to any notebook" in secrets("list").stdout
    read = ("read", "HF_TOKEN", "--notebook", notebook, "--json")
    refused = secrets(*read)
    assert refused.returncode == 3
    assert valid(refused.stdout, "error")["error"]["kind"] == "NotGranted"
    assert secrets("grant", "HF_TOKEN", notebook).returncode == 0
    assert valid(secrets(*read).stdout, "secrets-read") == {"value": VALUE}
    (listed,) = valid(secrets("--json").stdout, "secrets")["secrets"]
    assert (listed["name"], listed["where"], listed["notebooks"]) == ("HF_TOKEN", "file", [notebook])
    os.unlink(notebook)
    assert f"{notebook}  (missing)" in secrets().stdout
    assert valid(secrets("revoke", "HF_TOKEN", notebook, "--json").stdout, "secrets")["secrets"][0]["notebooks"] == []
    assert secrets("remove", "HF_TOKEN").stdout == "Removed HF_TOKEN.\n"
    missing = secrets(*read)
    assert missing.returncode == 3
    assert json.loads(missing.stdout)["error"]["kind"] == "SecretNotFound"


def test_only_read_prints_a_value(secrets: Secrets, notebook: str, tmp_path: Path) -> None:
    ran = [secrets("set", "A", "--json", stdin=VALUE), secrets("grant", "A", notebook, "--json"), secrets("--json")]
    ran += [
        secrets("list"),
        secrets("grant", "A", "none.ipynb", "--json"),
        secrets("read", "A", "--notebook", "x", "--json"),
    ]
    ran += [secrets("set", "A", stdin=VALUE), secrets("set", "A B", stdin=VALUE), secrets("remove", "A", "--json")]
    assert VALUE not in "".join(each.stdout + each.stderr for each in ran)
    assert "Traceback" not in "".join(each.stderr for each in ran)
    assert not [path for path in (tmp_path / "home").rglob("*") if path.is_file() and VALUE in path.read_text()]


@pytest.mark.parametrize(
    "arguments",
    [
        (VALUE,),
        ("--", VALUE),
        ("--value", VALUE),
        (f"--value={VALUE}",),
        (f"-----{VALUE}",),
        (VALUE, "--json"),
        ("x", VALUE),
    ],
)
def test_a_value_on_the_command_line_is_refused_and_not_repeated(arguments: tuple[str, ...], secrets: Secrets) -> None:
    ran = secrets("set", "A", *arguments)
    assert ran.returncode == 2
    assert VALUE not in ran.stdout + ran.stderr
    assert "not accepted on the command line" in ran.stderr
    ran = secrets("set", f"A={VALUE}")
    assert ran.returncode == 2
    assert VALUE not in ran.stdout + ran.stderr


def test_a_secret_is_granted_only_to_an_existing_notebook(secrets: Secrets, tmp_path: Path) -> None:
    secrets("set", "A", stdin=VALUE)
    for path in (tmp_path / "none.ipynb", tmp_path):
        ran = secrets("grant", "A", str(path))
        assert ran.returncode == 3
        assert f"There is no notebook {path}" in ran.stderr
    assert secrets("grant", "B", __file__).returncode == 3
    assert secrets("revoke", "A", __file__).returncode == 3


@pytest.mark.parametrize(
    ("given", "kept"),
    [(b"x", "x"), (b"x\n", "x"), (b"x\r\n", "x"), (b"\xef\xbb\xbf x \n\n", " x \n"), ("ß\n{\n}\n".encode(), "ß\n{\n}")],
)
def test_the_final_newline_of_a_piped_value_is_removed(
    given: bytes, kept: str, secrets: Secrets, notebook: str
) -> None:
    assert secrets("set", "A", stdin=given).returncode == 0
    secrets("grant", "A", notebook)
    assert json.loads(secrets("read", "A", "--notebook", notebook, "--json").stdout) == {"value": kept}


@pytest.mark.parametrize(("given", "code"), [(b"", 2), (b"\n", 2), (b"hf_\xff\xfe", 3), (b"x" * 400_002, 2)])
def test_invalid_values_are_refused(given: bytes, code: int, secrets: Secrets) -> None:
    ran = secrets("set", "A", stdin=given)
    assert ran.returncode == code
    assert "Traceback" not in ran.stderr
    assert json.loads(secrets("--json").stdout) == {"secrets": []}


def test_read_is_hidden_in_the_help(secrets: Secrets) -> None:
    assert not re.search(r"^  read ", secrets("--help").stdout, re.MULTILINE)


# --- typing -----------------------------------------------------------------------------------------------------------


def type_in(home: Path, typed: bytes) -> tuple[int, str]:
    """Type this when asked. Return the exit code and what the terminal shows."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ["OWNLAB_HOME"] = str(home)
        os.execv(sys.executable, [sys.executable, "-m", "ownlab", "secrets", "set", "A"])
    seen, deadline, sent = b"", time.monotonic() + 180, False
    try:
        while time.monotonic() < deadline:
            try:
                part = os.read(terminal, 4096)
            except OSError:  # on Linux, the other end was closed
                break
            seen += part
            if not sent and b"not shown" in seen:
                os.write(terminal, typed)
                sent = True
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), seen.decode()
    except BaseException:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        raise
    finally:
        os.close(terminal)


def test_a_typed_value_is_not_shown(secrets: Secrets, notebook: str, tmp_path: Path) -> None:
    code, seen = type_in(tmp_path / "home", f"{VALUE}\n".encode())
    assert code == 0
    assert "Value of A (not shown): " in seen
    assert "Stored A" in seen
    assert VALUE not in seen
    secrets("grant", "A", notebook)
    assert json.loads(secrets("read", "A", "--notebook", notebook, "--json").stdout) == {"value": VALUE}


@pytest.mark.parametrize(
    ("typed", "code", "words"),
    [
        (b"\n", 2, "The value is empty"),
        (b"\x03", 130, "Interrupted"),
        (b"\x04", 130, "Interrupted"),
        (b'{\n"a": "hf_fOrTyTwO"\n}\n', 2, "has several lines"),
        (b"-----BEGIN KEY-----\nhf_fOrTyTwO\n", 2, "has several lines"),
        (b"x" * 4095 + b"\n", 2, "too long"),
    ],
)
def test_a_value_that_is_too_long_for_a_terminal_is_refused(
    typed: bytes, code: int, words: str, secrets: Secrets, tmp_path: Path
) -> None:
    found, seen = type_in(tmp_path / "home", typed)
    assert found == code
    assert words in seen
    assert VALUE not in seen
    assert json.loads(secrets("--json").stdout) == {"secrets": []}


# --- the system's keyring ---------------------------------------------------------------------------------------------


@pytest.fixture
def keyring(tmp_path: Path) -> dict[str, str]:
    return {"PYTHONPATH": str(FAKES), "FAKE_KEYRING": str(tmp_path / "keyring.json")}


def in_home(tmp_path: Path) -> str:
    return "".join(path.read_text() for path in (tmp_path / "home" / "secrets").iterdir())


def test_a_keyring_keeps_the_value_and_the_file_does_not(
    secrets: Secrets, keyring: dict[str, str], notebook: str, tmp_path: Path
) -> None:
    assert "Stored A in the system's keyring." in secrets("set", "A", stdin=VALUE, **keyring).stdout
    assert VALUE not in in_home(tmp_path)
    assert list(json.loads((tmp_path / "keyring.json").read_text()).values()) == [VALUE]
    assert secrets("grant", "A", notebook, **keyring).returncode == 0
    read = ("read", "A", "--notebook", notebook, "--json")
    assert json.loads(secrets(*read, **keyring).stdout) == {"value": VALUE}
    locked = secrets(*read, **keyring, FAKE_KEYRING_LOCKED="1")
    assert json.loads(locked.stdout)["error"]["kind"] == "KeyringTrouble"
    without = secrets(*read)
    assert "not available here" in json.loads(without.stdout)["error"]["message"]
    assert secrets("remove", "A", **keyring).returncode == 0
    assert json.loads((tmp_path / "keyring.json").read_text()) == {}


@pytest.mark.parametrize(
    "weak",
    [
        {"FAKE_KEYRING_PRIORITY": "0"},
        {"FAKE_KEYRING_PRIORITY": "0.5"},
        {"FAKE_KEYRING_CHAIN": "1", "FAKE_KEYRING_PRIORITY": "0.5"},
        {"FAKE_KEYRING_LOCKED": "1"},
    ],
)
def test_an_insecure_or_locked_keyring_is_not_used(
    weak: dict[str, str], secrets: Secrets, keyring: dict[str, str], notebook: str, tmp_path: Path
) -> None:
    ran = secrets("set", "A", stdin=VALUE, **keyring, **weak)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "in a file that only you can read" in ran.stdout
    assert VALUE not in ran.stdout
    assert not (tmp_path / "keyring.json").exists()
    assert stat.S_IMODE((tmp_path / "home" / "secrets" / "secrets.json").stat().st_mode) == 0o600
    secrets("grant", "A", notebook)
    assert json.loads(secrets("read", "A", "--notebook", notebook, "--json").stdout) == {"value": VALUE}


def test_a_value_missing_in_the_keyring_is_reported(
    secrets: Secrets, keyring: dict[str, str], notebook: str, tmp_path: Path
) -> None:
    secrets("set", "A", stdin=VALUE, **keyring)
    secrets("grant", "A", notebook)
    (tmp_path / "keyring.json").unlink()
    ran = secrets("read", "A", "--notebook", notebook, "--json", **keyring)
    assert json.loads(ran.stdout)["error"]["kind"] == "SecretNotFound"
    assert secrets("remove", "A", **keyring).returncode == 0

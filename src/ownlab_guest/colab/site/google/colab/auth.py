"""Google's credentials, as its libraries look for them: Application Default Credentials.

Nobody but Google can sign a person in. What is here finds credentials that are there, and lets `gcloud` get them where it
is installed; it never says that somebody is signed in who is not.
"""

import contextlib
import json
import os
import shutil
import subprocess
import tempfile
from typing import Any, ContextManager, Dict, Optional

from . import _message, errors, files, output

__all__ = ["authenticate_service_account", "authenticate_user"]

CREDENTIALS = "GOOGLE_APPLICATION_CREDENTIALS"
_NO_WAY = (
    "There are no Google credentials. `gcloud auth application-default login` in a terminal makes them; "
    f"or set {CREDENTIALS} to a file with a service account's key."
)


def authenticate_user(clear_output: bool = True, project_id: Optional[str] = None) -> None:
    """See that there are credentials: those that are there, or those that `gcloud` gets from a person."""
    if project_id is not None:
        _use_project(project_id)
    if _credentials():
        return
    if shutil.which("gcloud") is None or not _message.can_ask():
        raise errors.AuthorizationError(_NO_WAY)
    with _shown(clear_output):
        _log_in()
    if not _credentials():
        raise errors.AuthorizationError("`gcloud` ended without credentials. " + _NO_WAY)


def authenticate_service_account(clear_output: bool = True) -> None:
    """See that there is a service account's key: the one that is there, or one that is uploaded."""
    if _credentials().get("type") == "service_account":
        return
    with _shown(clear_output):
        folder = tempfile.mkdtemp(prefix="ownlab-key-")  # nobody else may read it
        uploaded = files.upload(folder)
        if len(uploaded) != 1:
            shutil.rmtree(folder)
            raise errors.AuthorizationError("One file is needed: the JSON of a service account's key")
        (path,) = uploaded
        if _read(path).get("type") != "service_account":
            shutil.rmtree(folder)
            raise errors.AuthorizationError("Invalid service account key provided")
        os.chmod(path, 0o600)
        os.environ[CREDENTIALS] = path
        if shutil.which("gcloud"):
            _gcloud("auth", "activate-service-account", "--quiet", "--key-file", path)


def _shown(clear_output: bool) -> ContextManager[Any]:
    return output.temporary() if clear_output else contextlib.nullcontext()


def _use_project(project_id: str) -> None:
    """As in Google's Cloud Shell; libraries and `gcloud` take it from there."""
    for name in ("GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_QUOTA_PROJECT", "CLOUDSDK_CORE_PROJECT"):
        os.environ[name] = project_id


def _credentials() -> Dict[str, Any]:
    """The credentials that Google's libraries would find; {} where there are none."""
    config = os.environ.get("CLOUDSDK_CONFIG") or os.path.join(os.path.expanduser("~"), ".config", "gcloud")
    return _read(os.environ.get(CREDENTIALS) or os.path.join(config, "application_default_credentials.json"))


def _read(path: str) -> Dict[str, Any]:
    try:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) and "type" in found else {}


def _log_in() -> None:
    """`gcloud` prints an address and waits for the code that a person gets there."""
    command = ["gcloud", "auth", "application-default", "login", "--no-launch-browser", "--quiet"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, bufsize=0
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            for line in process.stdout:
                print(line, end="")
                if "https://" in line:
                    process.stdin.write(input("Enter the authorization code: ") + "\n")
                    process.stdin.close()
                    break
            rest = process.stdout.read()
        except BaseException:
            process.kill()
            raise
        print(rest, end="")
    if process.returncode:
        raise errors.AuthorizationError(f"`{' '.join(command)}` ended with {process.returncode}: {rest.strip()}")


def _gcloud(*arguments: str) -> None:
    ran = subprocess.run(
        ["gcloud", *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=120
    )
    if ran.returncode:
        raise errors.AuthorizationError(f"`gcloud {arguments[0]} {arguments[1]}` failed: {ran.stderr.strip()}")

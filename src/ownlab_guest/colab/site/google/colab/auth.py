"""google.colab.auth: Google credentials as Google's libraries find them (Application Default Credentials).

Only Google can sign a person in. These functions find existing credentials, or let `gcloud` get them where it is installed.
They never pretend that a person is signed in.
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
_NO_CREDENTIALS = (
    "There are no Google credentials. Run `gcloud auth application-default login` in a terminal, "
    f"or set {CREDENTIALS} to a file with a service account key."
)


def authenticate_user(clear_output: bool = True, project_id: Optional[str] = None) -> None:
    """Ensure that there are credentials: existing ones, or new ones through `gcloud`."""
    if project_id is not None:
        _use_project(project_id)
    if _credentials():
        return
    if shutil.which("gcloud") is None or not _message.can_ask():
        raise errors.AuthorizationError(_NO_CREDENTIALS)
    with _shown(clear_output):
        _log_in()
    if not _credentials():
        raise errors.AuthorizationError("`gcloud` did not create credentials. " + _NO_CREDENTIALS)


def authenticate_service_account(clear_output: bool = True) -> None:
    """Ensure that there is a service account key: an existing one, or one that is uploaded."""
    if _credentials().get("type") == "service_account":
        return
    with _shown(clear_output):
        folder = tempfile.mkdtemp(prefix="ownlab-key-")  # private to this user
        uploaded = files.upload(folder)
        if len(uploaded) != 1:
            shutil.rmtree(folder)
            raise errors.AuthorizationError("Upload one file: the JSON of a service account key")
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
    """Set the project as in Google's Cloud Shell, for libraries and `gcloud`."""
    for name in ("GOOGLE_CLOUD_PROJECT", "GOOGLE_CLOUD_QUOTA_PROJECT", "CLOUDSDK_CORE_PROJECT"):
        os.environ[name] = project_id


def _credentials() -> Dict[str, Any]:
    """Return the credentials that Google's libraries would find; {} where there are none."""
    config = os.environ.get("CLOUDSDK_CONFIG") or os.path.join(os.path.expanduser("~"), ".config", "gcloud")
    return _read(os.environ.get(CREDENTIALS) or os.path.join(config, "application_default_credentials.json"))


def _read(path: str) -> Dict[str, Any]:
    try:
        with open(path, encoding="utf-8") as file:
            credentials = json.load(file)
    except (OSError, ValueError):
        return {}
    return credentials if isinstance(credentials, dict) and "type" in credentials else {}


def _log_in() -> None:
    """Run `gcloud`, which prints an address and waits for the code that a person gets there."""
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
        raise errors.AuthorizationError(
            f"`{' '.join(command)}` failed with exit code {process.returncode}: {rest.strip()}"
        )


def _gcloud(*arguments: str) -> None:
    ran = subprocess.run(
        ["gcloud", *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=120
    )
    if ran.returncode:
        raise errors.AuthorizationError(f"`gcloud {arguments[0]} {arguments[1]}` failed: {ran.stderr.strip()}")

"""Mount a remote (Google Drive, S3, WebDAV …) with rclone, in one process that lives as long as the kernel."""

import base64
import http.client
import json
import os
import re
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from typing import IO, Any, Dict, Optional

from ownlab_guest.text import shown, text

__all__ = ["Rclone"]

POLL_SECONDS = 0.1
END_SECONDS = 10.0
# "name:path" with a name that rclone allows: neither an option nor a folder of this machine
_REMOTE = re.compile(r"[\w.+@][\w.+@ -]*:.*", re.DOTALL)

_TIME = re.compile(r"^\d{4}/\d\d/\d\d \d\d:\d\d:\d\d ")


class Rclone:
    """`rclone mount` of one remote."""

    def __init__(self, remote: str, readonly: bool, seconds: float) -> None:
        self._remote, self._readonly, self._seconds = remote, readonly, seconds
        self._process: Optional["subprocess.Popen[bytes]"] = None
        self._port, self._password = 0, secrets.token_urlsafe(16)
        self._log: Optional[IO[bytes]] = None
        if not _REMOTE.fullmatch(remote):
            message = text(
                "mount failed: OWNLAB_DRIVE_REMOTE must have the form name:path, not {remote}", remote=repr(remote)
            )
            raise ValueError(shown(message))
        if not shutil.which("rclone"):
            message = text(
                "mount failed: {remote} needs rclone, which is not installed (https://rclone.org/install)",
                remote=remote,
            )
            raise ValueError(shown(message))
        if not shutil.which("fusermount3") and not shutil.which("fusermount"):
            raise ValueError(
                shown(text("mount failed: rclone needs fusermount3, which is in the system package fuse3"))
            )
        try:
            os.close(os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC))
        except OSError as exc:
            message = text("mount failed: rclone needs /dev/fuse: {reason}", reason=exc.strerror)
            raise ValueError(shown(message)) from exc

    def mount(self, folder: str) -> None:
        """Mount the remote on an empty folder; ValueError with the end of rclone's log where that fails."""
        from ownlab_guest.colab.mount_namespace import terminate_with_parent

        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port = int(probe.getsockname()[1])
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 (open as long as the process)
        options = ["--vfs-cache-mode", "writes", *(["--read-only"] if self._readonly else [])]
        self._process = subprocess.Popen(
            ["rclone", "mount", *options, "--", self._remote, folder],
            env=self._environment(),
            stdin=subprocess.DEVNULL,
            stdout=self._log,
            stderr=self._log,
            start_new_session=True,  # otherwise an interrupted cell would end it
            preexec_fn=terminate_with_parent,
        )
        deadline = time.monotonic() + self._seconds
        while not os.path.ismount(folder):
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.end()
                reason = self._log_tail() or text("rclone took too long")
                raise ValueError(shown(text("mount failed: {reason}", reason=reason)))
            time.sleep(POLL_SECONDS)

    def flush(self, seconds: float) -> None:
        """Wait until the remote has all written files; TimeoutError after so many seconds."""
        deadline = time.monotonic() + seconds
        while self._process and self._process.poll() is None:
            pending = self._pending_uploads()
            if not pending:
                return
            if time.monotonic() > deadline:
                message = text(
                    "{count} files have not been uploaded to {remote} yet", count=pending, remote=self._remote
                )
                raise TimeoutError(shown(message))
            time.sleep(POLL_SECONDS)

    def end(self) -> None:
        """End the process. It uploads the rest the next time it runs."""
        if not self._process:
            return
        self._process.terminate()
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _environment(self) -> Dict[str, str]:
        """The password is in the environment, since all users of the machine can read arguments."""
        own = {"ADDR": f"127.0.0.1:{self._port}", "USER": "ownlab", "PASS": self._password}
        return {**os.environ, "RCLONE_RC": "true", **{"RCLONE_RC_" + name: value for name, value in own.items()}}

    def _pending_uploads(self) -> int:
        answer = self._ask("vfs/stats")
        if "error" in answer:
            raise OSError(
                text("this version of rclone does not report pending uploads: {error}", error=answer["error"])
            )
        cache = answer.get("diskCache") or {}
        return int(cache.get("uploadsInProgress", 0)) + int(cache.get("uploadsQueued", 0))

    def _ask(self, call: str) -> Dict[str, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=END_SECONDS)
        try:
            credentials = base64.b64encode(f"ownlab:{self._password}".encode()).decode()
            connection.request("POST", "/" + call, headers={"Authorization": "Basic " + credentials})
            answer: Dict[str, Any] = json.loads(connection.getresponse().read())
        finally:
            connection.close()
        return answer

    def _log_tail(self) -> str:
        if self._log is None:
            return ""
        self._log.seek(0)
        lines = self._log.read().decode(errors="replace").strip().split("\n")[-2:]  # the cause and its consequence
        return "; ".join(_TIME.sub("", line).strip() for line in lines)

"""A remote (Google Drive, S3, WebDAV …) as a folder, by rclone: one process that lives as long as the kernel."""

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

__all__ = ["Rclone"]

POLL_SECONDS = 0.1
END_SECONDS = 10.0
# "name:path", a name as rclone allows it: nothing that it would take for an option, nor a folder of this machine
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
            raise ValueError(f"mount failed: OWNLAB_DRIVE_REMOTE is {remote!r}, and not name:path")
        if not shutil.which("rclone"):
            raise ValueError(
                f"mount failed: {remote} is a remote of rclone, which is not installed here (https://rclone.org/install)"
            )
        if not shutil.which("fusermount3") and not shutil.which("fusermount"):
            raise ValueError("mount failed: rclone needs fusermount3, which comes with the system's package fuse3")
        try:
            os.close(os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC))
        except OSError as exc:
            raise ValueError(f"mount failed: rclone needs /dev/fuse: {exc.strerror}") from exc

    def mount(self, folder: str) -> None:
        """Show the remote in an empty folder; ValueError with rclone's last words where it does not come."""
        from ownlab_guest.colab.mount_namespace import end_with_us

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
            start_new_session=True,  # else an interrupted cell would end it
            preexec_fn=end_with_us,
        )
        deadline = time.monotonic() + self._seconds
        while not os.path.ismount(folder):
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.end()
                why = self._last_words() or "rclone took too long"
                raise ValueError(f"mount failed: {why}")
            time.sleep(POLL_SECONDS)

    def flush(self, seconds: float) -> None:
        """Wait until the remote has all that was written; TimeoutError after so many seconds."""
        deadline = time.monotonic() + seconds
        while self._process and self._process.poll() is None:
            waiting = self._waiting()
            if not waiting:
                return
            if time.monotonic() > deadline:
                raise TimeoutError(f"{waiting} files have still to be uploaded to {self._remote}")
            time.sleep(POLL_SECONDS)

    def end(self) -> None:
        """End the process; what it had not uploaded, it uploads the next time."""
        if not self._process:
            return
        self._process.terminate()
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _environment(self) -> Dict[str, str]:
        """The password stands here and not among the arguments, which everybody on the machine can read."""
        own = {"ADDR": f"127.0.0.1:{self._port}", "USER": "ownlab", "PASS": self._password}
        return {**os.environ, "RCLONE_RC": "true", **{"RCLONE_RC_" + name: value for name, value in own.items()}}

    def _waiting(self) -> int:
        answer = self._ask("vfs/stats")
        if "error" in answer:
            raise OSError(f"this rclone does not say what it has still to upload: {answer['error']}")
        cache = answer.get("diskCache") or {}
        return int(cache.get("uploadsInProgress", 0)) + int(cache.get("uploadsQueued", 0))

    def _ask(self, call: str) -> Dict[str, Any]:
        line = http.client.HTTPConnection("127.0.0.1", self._port, timeout=END_SECONDS)
        try:
            who = base64.b64encode(f"ownlab:{self._password}".encode()).decode()
            line.request("POST", "/" + call, headers={"Authorization": "Basic " + who})
            answer: Dict[str, Any] = json.loads(line.getresponse().read())
        finally:
            line.close()
        return answer

    def _last_words(self) -> str:
        if self._log is None:
            return ""
        self._log.seek(0)
        lines = self._log.read().decode(errors="replace").strip().split("\n")[-2:]  # the cause, and what came of it
        return "; ".join(_TIME.sub("", line).strip() for line in lines)

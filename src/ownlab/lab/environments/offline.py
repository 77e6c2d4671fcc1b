"""What to do where the package index cannot be reached: the exact commands that bring the packages here."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Mapping

from ownlab.config.settings import LabOptions
from ownlab.errors import LabError
from ownlab.lab.environments.plan import with_torch
from ownlab.lab.environments.presets import package_name, requirements
from ownlab.lab.environments.records import NewEnvironment
from ownlab.lab.environments.uv import UvFailed
from ownlab.text import text

__all__ = ["create_command", "offline_commands"]


_VERSION = re.compile(r"3\.\d+")


def create_command(request: NewEnvironment) -> str:
    """Return the command that creates this environment, or continues to."""
    words = ["ownlab", "env", "create", request.name]
    if request.preset == "deep-learning" and "torch" not in map(package_name, request.packages):
        words += ["--with", "torch"]
    for package in request.packages:
        words += ["--with", package]
    if request.python:
        words += ["--python", request.python]
    return shlex.join(words)


def offline_commands(
    request: NewEnvironment, failure: UvFailed, options: LabOptions, environ: Mapping[str, str] = os.environ
) -> str:
    """Return the hint for a build that failed: how to continue it, and without a network how to bring the packages."""
    again = create_command(request)
    if not failure.unreachable:
        return text("To try again, also with other packages or another --python: {command}", command=again)
    version = request.python or ""
    if _VERSION.fullmatch(version) is None:
        version = ".".join(map(str, sys.version_info[:2]))
    packages = shlex.join(_packages(request, version, options, environ))
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


def _packages(
    request: NewEnvironment, version: str, options: LabOptions, environ: Mapping[str, str]
) -> tuple[str, ...]:
    """Return what the build will ask for without a network, when PyTorch's own index does not answer."""
    wanted = requirements(request)
    try:
        return with_torch(wanted, version, options, environ, lambda _: False)[0]
    except LabError:  # the usual index has no torch for this machine
        return wanted

"""The packages of an environment with their exact versions."""

from __future__ import annotations

import os
from collections.abc import Mapping

from ownlab.config.loader import resolve_lab_options
from ownlab.errors import LabError
from ownlab.lab.environments.records import EnvironmentExport
from ownlab.lab.environments.registry import find_environment
from ownlab.lab.environments.uv import find_uv, uv_environment, without_credentials
from ownlab.processes import runner
from ownlab.text import text

__all__ = ["export_environment", "requirements_text"]

_SECONDS = 60.0


def export_environment(name: str, environ: Mapping[str, str] = os.environ) -> EnvironmentExport:
    """List what is installed in an environment, whoever created it. UsageError if there is none of that name."""
    environment = find_environment(name, environ)
    variables = uv_environment(resolve_lab_options(environ=environ), environ)
    command = [find_uv(variables), "--directory", "/", "pip", "freeze", "--python", environment.python]
    ran = runner.run(command, deadline=_SECONDS, env=variables)
    if ran.returncode != 0:
        raise LabError(text("The packages of {name} cannot be listed: {reason}", name=name, reason=ran.output))
    # A package that was installed from an address keeps it, but not a password in it.
    packages = tuple(without_credentials(line) for line in ran.stdout.splitlines() if line.strip())
    return EnvironmentExport(name, environment.version, packages)


def requirements_text(export: EnvironmentExport) -> str:
    """Return the export as a requirements file."""
    return "".join(f"{line}\n" for line in (f"# {export.name}: Python {export.python}", *export.packages))

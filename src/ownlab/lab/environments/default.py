"""The default environment: what a first notebook needs, built once when a lab is started."""

from __future__ import annotations

import os
from collections.abc import Mapping

from ownlab.lab.environments.builds import is_building, read_build, start_build
from ownlab.lab.environments.records import NewEnvironment
from ownlab.lab.environments.registry import DEFAULT, list_environments

__all__ = ["ensure_default"]


def ensure_default(environ: Mapping[str, str] = os.environ) -> bool:
    """Start to build the default environment in the background, if there is none; return whether it is being built.

    One that a person cancelled or removed is not built again; a build that failed or was interrupted is continued.
    """
    if any(each.name == DEFAULT and each.is_there for each in list_environments(environ)):
        return False
    build = read_build(DEFAULT, environ)
    if build is not None and build.outcome in ("cancelled", "removed"):
        return False
    if not is_building(DEFAULT, environ):
        start_build(NewEnvironment(DEFAULT, DEFAULT), environ)
    return True

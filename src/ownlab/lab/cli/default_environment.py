"""The default environment in `ownlab up`: its build is started in the background and followed in the terminal.

What builds it is imported after the server was started, since people wait for the server.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Mapping

import click

from ownlab.config.settings import LabOptions
from ownlab.errors import OwnlabError
from ownlab.text import sentences, text

__all__ = ["open_when_built", "start_default"]

# How long the browser waits for the default environment.
_BUILD_SECONDS = 60.0


def start_default(settings: LabOptions, environ: Mapping[str, str], notices: list[str]) -> bool:
    """Start to build the default environment; return whether it is being built. The lab works without it."""
    if not settings.default_environment:
        return False
    from ownlab.lab.environments.default import ensure_default

    try:
        built = ensure_default(environ)
    except OwnlabError as exc:
        notices.append(sentences(text("The default environment is not built."), exc.message, exc.hint))
        return False
    if built:
        notices.append(
            text(
                "The default environment (numpy, pandas, matplotlib, …) is being built. Cells that are run before it is ready "
                "wait for it. Its state: ownlab env list"
            )
        )
    return built


def _follow_default(ended: threading.Event) -> None:
    """Print the progress of the default environment below the address of the lab."""
    from ownlab.lab.environments.registry import DEFAULT
    from ownlab.lab.terminal.environments import follow_build

    try:
        with contextlib.suppress(OSError, OwnlabError):  # the terminal was closed; the build goes on
            follow_build(DEFAULT, lambda line: click.echo(line, err=True))
    finally:
        ended.set()


def open_when_built(address: str | None) -> None:
    """Follow the first build of the default environment, and open the browser when a first notebook works.

    It opens after a while in any case: the page shows the progress, too.
    """
    from ownlab.lab.service.browser import open_browser

    ended = threading.Event()
    threading.Thread(target=_follow_default, args=(ended,), daemon=True, name="default-environment").start()

    def wait() -> None:
        ended.wait(_BUILD_SECONDS)
        if address is not None:
            open_browser(address)

    threading.Thread(target=wait, daemon=True, name="browser").start()

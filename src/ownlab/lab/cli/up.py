"""`ownlab up`: give me a notebook on a GPU, now."""

from __future__ import annotations

import contextlib
import os
import secrets
import shlex
import sys
from functools import partial
from typing import NamedTuple

import click

from ownlab.cli.options import json_option
from ownlab.config.loader import resolve_lab_options
from ownlab.config.paths import kernels_export, missing_config
from ownlab.config.settings import LabOptions
from ownlab.errors import LabError
from ownlab.lab.service.labs import Lab, LabLock, holder, lab_id, read_lab, take
from ownlab.lab.service.ports import choose_port
from ownlab.lab.service.up import (
    Look,
    await_lab,
    check_folder,
    look_around,
    refuse_other_host,
    somebody_serves,
)
from ownlab.lab.service.watchdog import Detached, Start, Watchdog, new_log
from ownlab.lab.service.welcome import WELCOME, place_welcome

# What shows things is imported while the server starts: it is the server that people wait for.

__all__ = ["command"]


class _Asked(NamedTuple):
    folder: str
    options: LabOptions
    environ: dict[str, str]
    as_json: bool
    notices: list[str]


@click.command("up")
@click.argument("folder", default=".")
@json_option
@click.option(
    "--port", type=click.IntRange(0, 65535), help="The port on 127.0.0.1. Default: that of last time, or any."
)
@click.option("--no-browser", is_flag=True, help="Print the address, and open nothing.")
@click.option("--detach", is_flag=True, help="Go to the background once the lab is up.")
@click.option("--limits", "preset", metavar="PRESET", help="Limits of runtimes: none, colab or kaggle.")
def command(folder: str, as_json: bool, port: int | None, no_browser: bool, detach: bool, preset: str | None) -> None:
    """Serve FOLDER (default: this one) as a lab in the browser.

    The lab listens on 127.0.0.1 alone; its address has the token in it. Ctrl-C ends the server, never a runtime: the next
    `ownlab up` finds it again. A server that dies is started again. A second `ownlab up` on the same folder opens the lab
    that is there.
    """
    options = resolve_lab_options(port=port, browser=False if no_browser else None, preset=preset)
    environ = {**os.environ, **({"OWNLAB_LIMITS_PRESET": preset} if preset else {})}
    asked = _Asked(check_folder(folder), options, environ, as_json, _notices(environ))
    lock = take(asked.folder, "watchdog")
    if lock is None:
        _join(asked)
        return
    with lock:
        if holder(asked.folder) is None:
            _start(asked, lock, detach)
            return
    _join(asked)  # a server whose watchdog was killed


def _notices(environ: dict[str, str]) -> list[str]:
    export = kernels_export(environ)
    kernels = f"For `jupyter execute`, papermill and VS Code, first:\n{export}"
    return [missing_config(environ), kernels if export else ""]


def _start(asked: _Asked, lock: LabLock, detach: bool) -> None:
    before = read_lab(asked.folder)
    port = choose_port(asked.options.port, before.port if before else None)
    first = before is None and (place_welcome(asked.folder) or os.path.exists(os.path.join(asked.folder, WELCOME)))
    start = Start(asked.folder, port, before.token if before else secrets.token_hex(24), asked.environ)
    if before and not asked.options.port and port != before.port:
        asked.notices.append(
            f"Port {before.port} of last time is taken: pages that are still open must be opened anew."
        )
    new_log(asked.folder, asked.environ)
    dog = Detached(start, lock) if detach else Watchdog(start, lambda words: click.echo(words, err=True))
    dog.start()
    try:
        look = look_around(asked.options, asked.environ)
        lab = _wait(asked.folder, dog)
        show = partial(_show, asked, lab, look, f"lab/tree/{WELCOME}" if first else "lab", stays=not detach)
        if isinstance(dog, Watchdog):
            dog.run(show)
    except BaseException:
        dog.end()
        raise
    if isinstance(dog, Detached):
        show()  # whoever reads it may stop reading (`| head`): the lab stays
    else:
        dog.end()
        with contextlib.suppress(OSError):  # the terminal was closed: nobody reads it
            _say_goodbye(asked.folder, look.store.folder)


def _wait(folder: str, dog: Watchdog | Detached) -> Lab:
    from ownlab.render.console import working

    with working("Starting the lab"):
        lab = await_lab(folder, dog.alive)
    if lab is None:
        raise dog.failure()
    return lab


def _join(asked: _Asked) -> None:
    """Another `ownlab up` serves this folder, or is about to."""
    from ownlab.render.console import working

    refuse_other_host(asked.folder)
    with working("Waiting for the lab that is starting"):
        lab = await_lab(asked.folder, lambda: somebody_serves(asked.folder))
    if lab is None:
        raise LabError(
            "the lab ended while it was joined", hint=f"Start it anew: ownlab up {shlex.quote(asked.folder)}"
        )
    click.echo("This folder is served already; what follows is the lab that is there.", err=True)
    if asked.options.port not in (0, lab.port):
        first = f"ownlab down {shlex.quote(asked.folder)}"
        click.echo(f"It stays on port {lab.port}; to change that, first: {first}", err=True)
    _show(asked, lab, look_around(asked.options, asked.environ), "lab", stays=False)


def _show(asked: _Asked, lab: Lab, look: Look, page: str, *, stays: bool) -> None:
    from ownlab.lab.service.browser import JOIN_SECONDS, can_open, open_browser
    from ownlab.lab.service.overview import lab_state
    from ownlab.lab.terminal.labs import show_lab
    from ownlab.render.console import console
    from ownlab.render.documents import echo_record

    state = lab_state(lab, look.store.folder, page)
    if asked.as_json:
        echo_record(state)
    else:
        show_lab(state, _facts(look, asked, state.runtimes), asked.environ, console())
        end = "Ctrl-C ends the server; runtimes go on." if stays else f"End it: ownlab down {shlex.quote(lab.folder)}"
        click.echo(f"\n{end}")
    sys.stdout.flush()
    # Whoever reads a document is a program: it opens what it likes.
    if asked.options.browser and not asked.as_json and can_open(asked.environ):
        opening = open_browser(lab.address(page))
        if not stays:
            opening.join(JOIN_SECONDS)


def _facts(look: Look, asked: _Asked, running: int) -> list[tuple[str, str]]:
    from ownlab.lab.terminal.labs import describe_limits

    store, limits = look.store, describe_limits(look.limits, asked.options.preset)
    facts = [("types", ", ".join(kind.label for kind in look.types))]
    facts.append(("store", f"{store.folder} ({'shared' if store.shared else 'your own'})"))
    if limits:
        facts.append(("limits", limits))
    if running:
        facts.append(("running", "1 runtime goes on" if running == 1 else f"{running} runtimes go on"))
    return facts + [("note", words) for words in (store.notice, *asked.notices) if words]


def _say_goodbye(folder: str, store_folder: str) -> None:
    from ownlab.lab.service.overview import runtime_word, still_running
    from ownlab.lab.terminal.labs import show_running
    from ownlab.render.console import console

    running = [runtime_word(row) for row in still_running(store_folder, lab_id(folder))]
    click.echo(
        "\nThe server has ended." + (" Still running, and going on:" if running else " Nothing is left running.")
    )
    if running:
        show_running(running, console())
        click.echo(f"Come back: ownlab up {shlex.quote(folder)}\nEnd them:  ownlab down --all {shlex.quote(folder)}")

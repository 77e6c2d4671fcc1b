"""`ownlab up`: serve a folder as a lab in the browser."""

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
from ownlab.config.settings import LabOptions, setting_named
from ownlab.errors import LabError
from ownlab.lab.service.labs import Lab, LabLock, lab_id, lock_holder, read_lab, take_lock
from ownlab.lab.service.ports import choose_port
from ownlab.lab.service.up import (
    Surroundings,
    check_folder,
    is_served,
    read_surroundings,
    refuse_other_host,
    wait_until_served,
)
from ownlab.lab.service.watchdog import Detached, Start, Watchdog, new_log
from ownlab.lab.service.welcome import WELCOME, place_welcome
from ownlab.text import plural, text

# Rendering is imported while the server starts, since people wait for the server.

__all__ = ["command"]


class _Options(NamedTuple):
    folder: str
    settings: LabOptions
    environ: dict[str, str]
    as_json: bool
    notices: list[str]


@click.command("up")
@click.argument("folder", default=".")
@json_option
@click.option(
    "--port", type=click.IntRange(0, 65535), help="The port on 127.0.0.1. Default: the last one, or any free port."
)
@click.option("--no-browser", is_flag=True, help="Print the address; do not open a browser.")
@click.option("--detach", is_flag=True, help="Run in the background once the lab is up.")
@click.option("--limits", "preset", metavar="PRESET", help=setting_named("limits.preset").meaning)
def command(folder: str, as_json: bool, port: int | None, no_browser: bool, detach: bool, preset: str | None) -> None:
    """Serve FOLDER (default: this one) as a lab in the browser.

    The lab listens on 127.0.0.1 only; its address contains the token. Ctrl-C stops the server but no runtime: the next
    `ownlab up` finds them again. A server that crashes is restarted. A second `ownlab up` on the same folder opens the
    running lab.
    """
    settings = resolve_lab_options(port=port, browser=False if no_browser else None, preset=preset)
    environ = {**os.environ, **({"OWNLAB_LIMITS_PRESET": preset} if preset else {})}
    options = _Options(check_folder(folder), settings, environ, as_json, _notices(environ))
    lock = take_lock(options.folder, "watchdog")
    if lock is None:
        _join(options)
        return
    with lock:
        if lock_holder(options.folder) is None:
            _start(options, lock, detach)
            return
    _join(options)  # a server whose watchdog was killed


def _notices(environ: dict[str, str]) -> list[str]:
    export = kernels_export(environ)
    kernels = text("For `jupyter execute`, papermill and VS Code, run first:\n{command}", command=export)
    return [missing_config(environ), kernels if export else ""]


def _start(options: _Options, lock: LabLock, detach: bool) -> None:
    before = read_lab(options.folder)
    port = choose_port(options.settings.port, before.port if before else None)
    first = before is None and (place_welcome(options.folder) or os.path.exists(os.path.join(options.folder, WELCOME)))
    start = Start(options.folder, port, before.token if before else secrets.token_hex(24), options.environ)
    if before and not options.settings.port and port != before.port:
        options.notices.append(
            text(
                "Port {port} of the last start is in use: pages that are still open must be reopened.", port=before.port
            )
        )
    new_log(options.folder, options.environ)
    watchdog = Detached(start, lock) if detach else Watchdog(start, lambda line: click.echo(line, err=True))
    watchdog.start()
    try:
        surroundings = read_surroundings(options.settings, options.environ)
        lab = _wait(options.folder, watchdog)
        show = partial(_show, options, lab, surroundings, f"lab/tree/{WELCOME}" if first else "lab", stays=not detach)
        if isinstance(watchdog, Watchdog):
            watchdog.run(show)
    except BaseException:
        watchdog.end()
        raise
    if isinstance(watchdog, Detached):
        show()  # the reader may close the pipe (`| head`): the lab keeps running
    else:
        watchdog.end()
        with contextlib.suppress(OSError):  # the terminal was closed
            _show_still_running(options.folder, surroundings.store.folder)


def _wait(folder: str, watchdog: Watchdog | Detached) -> Lab:
    from ownlab.render.console import working

    with working("Starting the lab"):
        lab = wait_until_served(folder, watchdog.alive)
    if lab is None:
        raise watchdog.failure()
    return lab


def _join(options: _Options) -> None:
    """Show the lab that another `ownlab up` serves or is starting."""
    from ownlab.render.console import working

    refuse_other_host(options.folder)
    with working("Waiting for the lab that is starting"):
        lab = wait_until_served(options.folder, lambda: is_served(options.folder))
    if lab is None:
        raise LabError(
            text("The lab stopped while waiting for it."),
            hint=text("Start it again: ownlab up {folder}", folder=shlex.quote(options.folder)),
        )
    click.echo(text("This folder is served already. This is the running lab:"), err=True)
    if options.settings.port not in (0, lab.port):
        folder = shlex.quote(options.folder)
        notice = text(
            "It stays on port {port}. To change that, first run: ownlab down {folder}", port=lab.port, folder=folder
        )
        click.echo(notice, err=True)
    _show(options, lab, read_surroundings(options.settings, options.environ), "lab", stays=False)


def _show(options: _Options, lab: Lab, surroundings: Surroundings, page: str, *, stays: bool) -> None:
    from ownlab.lab.service.browser import JOIN_SECONDS, can_open, open_browser
    from ownlab.lab.service.overview import lab_state
    from ownlab.lab.terminal.labs import show_lab
    from ownlab.render.console import console
    from ownlab.render.documents import echo_record

    state = lab_state(lab, surroundings.store.folder, page)
    if options.as_json:
        echo_record(state)
    else:
        show_lab(state, _facts(surroundings, options, state.runtimes), options.environ, console())
        folder = shlex.quote(lab.folder)
        end = text("Ctrl-C stops the server; runtimes keep running.")
        click.echo(f"\n{end if stays else text('Stop it: ownlab down {folder}', folder=folder)}")
    sys.stdout.flush()
    # JSON is read by a program, which opens the address itself.
    if options.settings.browser and not options.as_json and can_open(options.environ):
        opening = open_browser(lab.address(page))
        if not stays:
            opening.join(JOIN_SECONDS)


def _facts(surroundings: Surroundings, options: _Options, running: int) -> list[tuple[str, str]]:
    from ownlab.lab.terminal.labs import describe_limits

    store, limits = surroundings.store, describe_limits(surroundings.limits, options.settings.preset)
    facts = [("types", ", ".join(kind.label for kind in surroundings.types))]
    owner = (
        text("{folder} (shared)", folder=store.folder)
        if store.shared
        else text("{folder} (your own)", folder=store.folder)
    )
    facts.append(("store", owner))
    if limits:
        facts.append(("limits", limits))
    if running:
        facts.append(("running", plural(running, "1 runtime is still running", "{n} runtimes are still running")))
    return facts + [("note", notice) for notice in (store.notice, *options.notices) if notice]


def _show_still_running(folder: str, store_folder: str) -> None:
    from ownlab.lab.service.overview import runtime_summary, still_running
    from ownlab.lab.terminal.labs import show_running
    from ownlab.render.console import console

    running = [runtime_summary(row) for row in still_running(store_folder, lab_id(folder))]
    if not running:
        click.echo("\n" + text("The server has stopped. Nothing is left running."))
        return
    click.echo("\n" + text("The server has stopped. Still running:"))
    show_running(running, console())
    click.echo(text("Come back: ownlab up {folder}\nStop them: ownlab down --all {folder}", folder=shlex.quote(folder)))

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

from ownlab.cli.options import json_option, language_variables
from ownlab.config.loader import resolve_lab_options
from ownlab.config.paths import kernels_export, missing_config
from ownlab.config.settings import LabOptions, setting_named
from ownlab.errors import LabError, UsageError
from ownlab.lab.cli.default_environment import open_when_built, start_default
from ownlab.lab.service.labs import Lab, LabLock, NetworkHost, is_served, lab_id, lock_holder, read_lab, take_lock
from ownlab.lab.service.ports import HOST, choose_port
from ownlab.lab.service.up import (
    Surroundings,
    check_folder,
    read_surroundings,
    refuse_other_host,
    wait_until_served,
)
from ownlab.lab.service.watchdog import Detached, Start, Watchdog, new_log
from ownlab.languages import ENGLISH, LANGUAGE_OPTION, choose_language
from ownlab.text import listing, plural, text

# Rendering is imported while the server starts, since people wait for the server.

__all__ = ["command"]


class _Options(NamedTuple):
    folder: str
    settings: LabOptions
    environ: dict[str, str]
    as_json: bool
    notices: list[str]
    network: NetworkHost | None


@click.command("up")
@click.argument("folder", default=".")
@json_option
@click.option(
    "--port", type=click.IntRange(0, 65535), help="The port on 127.0.0.1. Default: the last one, or any free port."
)
@click.option(
    "--host",
    metavar="NAME",
    help="Listen for other computers of a trusted network under this name or address, with TLS.",
)
@click.option("--certificate", metavar="FILE", help="With --host: a certificate (PEM). Default: a self-signed one.")
@click.option("--key", metavar="FILE", help="With --host: the private key of the certificate (PEM).")
@click.option("--no-browser", is_flag=True, help="Print the address; do not open a browser.")
@click.option("--detach", is_flag=True, help="Run in the background once the lab is up.")
@click.option(
    "--no-default-environment",
    "no_default",
    is_flag=True,
    help="Do not build the default environment: runtimes start in ownlab's own Python until there is one.",
)
@click.option("--engine", metavar="NAME", help=setting_named("lab.engine").meaning)
@click.option("--limits", "preset", metavar="PRESET", help=setting_named("limits.preset").meaning)
def command(
    folder: str,
    as_json: bool,
    port: int | None,
    host: str | None,
    certificate: str | None,
    key: str | None,
    no_browser: bool,
    detach: bool,
    no_default: bool,
    engine: str | None,
    preset: str | None,
) -> None:
    """Serve FOLDER (default: this one) as a lab in the browser.

    The first start builds a default environment in the background: numpy, pandas, matplotlib, scikit-learn, pillow, tqdm and
    ipywidgets. The active virtual environment, or that of conda, becomes a runtime type.

    The lab listens on 127.0.0.1 only, unless --host is given; its address contains the token. To use it from another
    computer over SSH, run `ownlab connect` there. Ctrl-C stops the server but no runtime: the next
    `ownlab up` finds them again. A server that crashes is restarted. A second `ownlab up` on the same folder opens the
    running lab.

    \b
    ownlab up
    ownlab up ~/notebooks --port 8899
    ownlab up --detach                    in the background; then: ownlab status, ownlab down
    """
    settings = resolve_lab_options(
        port=port,
        browser=False if no_browser else None,
        default_environment=False if no_default else None,
        lab_engine=engine,
        preset=preset,
    )
    environ = {**os.environ, **({"OWNLAB_LIMITS_PRESET": preset} if preset else {}), **language_variables()}
    if engine is not None:
        environ["OWNLAB_LAB_ENGINE"] = engine
    _check_engine(settings, environ)
    network = _network(host, certificate, key, environ)
    options = _Options(check_folder(folder), settings, environ, as_json, _notices(environ), network)
    lock = take_lock(options.folder, "watchdog")
    if lock is None:
        _join(options)
        return
    with lock:
        if lock_holder(options.folder) is None:
            _start(options, lock, detach)
            return
    _join(options)  # a server whose watchdog was killed


def _check_engine(settings: LabOptions, environ: dict[str, str]) -> None:
    """Refuse an engine that is not there before anything is started."""
    from ownlab.lab.engines.registry import DEFAULT_ENGINE, find_engine

    if settings.lab_engine != DEFAULT_ENGINE:
        find_engine(settings.lab_engine, environ, settings).notebook_types()


def _network(host: str | None, certificate: str | None, key: str | None, environ: dict[str, str]) -> NetworkHost | None:
    if host is None:
        if certificate is not None or key is not None:
            raise UsageError(text("--certificate and --key need --host NAME: on 127.0.0.1 a lab uses no TLS."))
        return None
    from ownlab.lab.service.network_host import prepare_network_host

    return prepare_network_host(host, certificate, key, environ)


def _notices(environ: dict[str, str]) -> list[str]:
    export = kernels_export(environ)
    kernels = text("For `jupyter execute`, papermill and VS Code, run first:\n{command}", command=export)
    return [missing_config(environ), kernels if export else ""]


def _start(options: _Options, lock: LabLock, detach: bool) -> None:
    before = read_lab(options.folder)
    remembered = before.port if before else None
    port = choose_port(options.settings.port, remembered, options.network.address if options.network else HOST)
    start = Start(
        options.folder,
        port,
        before.token if before else secrets.token_hex(24),
        options.environ,
        options.network,
        _page_language(options),
    )
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
        from ownlab.lab.environments.active import offer_active

        options.notices.extend(offer_active(options.environ))
        surroundings = read_surroundings(options.settings, options.environ)
        lab = _wait(options.folder, watchdog)
        built = start_default(options.settings, options.environ, options.notices)
        show = partial(_show, options, lab, surroundings, stays=not detach, built=built)
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
            _show_still_running(options)


def _page_language(options: _Options) -> str:
    """Return the language in which pages begin; "": as JupyterLab chooses. --json does not make them English."""
    chosen = click.get_current_context().meta.get(LANGUAGE_OPTION) or options.settings.language
    if chosen:
        return str(chosen)
    language = choose_language(options.environ)
    return "" if language == ENGLISH else language


def _wait(folder: str, watchdog: Watchdog | Detached) -> Lab:
    from ownlab.render.console import working

    with working(text("Starting the lab")):
        lab = wait_until_served(folder, watchdog.alive)
    if lab is None:
        raise watchdog.failure()
    return lab


def _join(options: _Options) -> None:
    """Show the lab that another `ownlab up` serves or is starting."""
    from ownlab.render.console import working

    refuse_other_host(options.folder)
    with working(text("Waiting for the lab that is starting")):
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
    if options.network is not None and lab.listens_on != options.network.address:
        folder = shlex.quote(options.folder)
        notice = text("Its address does not change. To use --host, first run: ownlab down {folder}", folder=folder)
        click.echo(notice, err=True)
    _show(options, lab, read_surroundings(options.settings, options.environ), stays=False)


def _show(options: _Options, lab: Lab, surroundings: Surroundings, *, stays: bool, built: bool = False) -> None:
    from ownlab.lab.service.browser import JOIN_SECONDS, can_open, open_browser
    from ownlab.lab.service.overview import lab_state, own_runtimes
    from ownlab.lab.terminal.labs import show_lab
    from ownlab.render.console import console
    from ownlab.render.documents import echo_record

    runtimes = own_runtimes(options.settings, options.environ)
    state = lab_state(lab, runtimes)
    options.notices.append(runtimes.trouble)
    if options.as_json:
        echo_record(state)
    else:
        show_lab(state, _facts(surroundings, options, state.runtimes), options.environ, console())
        folder = shlex.quote(lab.folder)
        end = text("Ctrl-C stops the server; runtimes keep running.")
        click.echo(f"\n{end if stays else text('Stop it: ownlab down {folder}', folder=folder)}")
    sys.stdout.flush()
    opens = options.settings.browser and can_open(options.environ)
    if options.as_json:  # it is read by a program, which opens the address itself
        return
    if built and stays:
        open_when_built(lab.address() if opens else None)
    elif opens:
        opening = open_browser(lab.address())
        if not stays:
            opening.join(JOIN_SECONDS)


def _facts(surroundings: Surroundings, options: _Options, running: int) -> list[tuple[str, str]]:
    from ownlab.lab.terminal.labs import describe_limits

    store, limits = surroundings.store, describe_limits(surroundings.limits, options.settings.preset)
    facts: list[tuple[str, str]] = [
        (text("types"), listing((kind.label for kind in surroundings.types), "{items}, {last}"))
    ]
    owner = (
        text("{folder} (shared)", folder=store.folder)
        if store.shared
        else text("{folder} (private)", folder=store.folder)
    )
    facts.append((text("store"), owner))
    if limits:
        facts.append((text("limits"), limits))
    if running:
        facts.append((text("running"), plural(running, "1 runtime is still running", "{n} runtimes are still running")))
    return facts + [(text("note"), notice) for notice in (store.notice, *options.notices) if notice]


def _show_still_running(options: _Options) -> None:
    from ownlab.lab.service.overview import own_runtimes, runtime_summary
    from ownlab.lab.terminal.labs import show_running
    from ownlab.render.console import console

    folder = options.folder
    runtimes = own_runtimes(options.settings, options.environ).of_lab(lab_id(folder))
    running = [runtime_summary(row) for row in runtimes]
    if not running:
        click.echo("\n" + text("The server has stopped. Nothing is left running."))
        return
    click.echo("\n" + text("The server has stopped. Still running:"))
    show_running(running, console())
    click.echo(text("Come back: ownlab up {folder}\nStop them: ownlab down --all {folder}", folder=shlex.quote(folder)))

"""`ownlab history`: the versions of a notebook. Needs no server."""

from __future__ import annotations

import os
import sys

import click
from click.shell_completion import CompletionItem
from msgspec import Struct

from ownlab.cli.options import json_option
from ownlab.errors import InputError, OwnlabError, UsageError
from ownlab.lab.notebooks.files import notebook_json
from ownlab.lab.notebooks.history.comparison import NotebookDifference, compare_notebooks
from ownlab.lab.notebooks.history.deleted import deleted_notebooks, find_deleted, purge_deleted, restore_deleted
from ownlab.lab.notebooks.history.records import DeletedNotebook, DeletedNotebooks, VersionContent
from ownlab.lab.notebooks.history.version_store import VersionStore
from ownlab.lab.service.history import list_versions, open_history, present_notebook, restore_version, save_version
from ownlab.render.documents import echo_record
from ownlab.text import plural, text

__all__ = ["RestoredNotebook", "command"]

_MAX_NAME = 200


class RestoredNotebook(Struct, frozen=True):
    """`ownlab history --deleted --restore NOTEBOOK --json`."""

    id: str
    notebook: str  # its file; beside the old place if that is taken


def _complete_version(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Return the versions of the notebook that was named before, newest first."""
    from ownlab.lab.terminal.history import describe_reason, describe_time

    try:
        if context.params.get("deleted"):
            gone = deleted_notebooks()
            return [CompletionItem(each.path) for each in gone if each.path.startswith(incomplete)]
        # An option without its value ends click's parsing early; what it has not parsed is in `args`.
        notebook = context.params.get("notebook") or next(iter(context.args), "")
        versions = reversed(open_history(notebook).versions())
    except OwnlabError:
        return []
    return [
        CompletionItem(word, help=f"{describe_time(each.at)}, {describe_reason(each)}")
        for each in versions
        if (word := each.name if each.name and each.name.startswith(incomplete) and incomplete else each.id).startswith(
            incomplete
        )
    ]


@click.command("history")
@click.argument("notebook", metavar="NOTEBOOK", type=click.Path(), required=False)
@json_option
@click.option("-n", "limit", metavar="N", type=click.IntRange(1), help="List only the newest N versions.")
@click.option(
    "--diff",
    metavar="VERSION",
    shell_complete=_complete_version,
    help="Show what has changed since VERSION, cell by cell; with --to, up to that version.",
)
@click.option("--to", metavar="VERSION", shell_complete=_complete_version, help="See --diff.")
@click.option("--show", metavar="VERSION", shell_complete=_complete_version, help="Show the cells of VERSION.")
@click.option("-o", "--output", metavar="FILE", type=click.Path(), help="With --show: write it to FILE as a notebook.")
@click.option("--force", is_flag=True, help="Overwrite FILE.")
@click.option(
    "--restore",
    metavar="VERSION",
    shell_complete=_complete_version,
    help="Put VERSION in place of the notebook. The present one stays in the history.",
)
@click.option("--save", metavar="NAME", help="Record the notebook as it is now, under a name.")
@click.option(
    "--name",
    "rename",
    metavar="VERSION NAME",
    nargs=2,
    shell_complete=_complete_version,
    help='Name VERSION; "" takes its name away. Named versions are kept until they are purged.',
)
@click.option(
    "--purge", metavar="VERSION", shell_complete=_complete_version, help="Remove VERSION; there is no way back."
)
@click.option("--purge-all", is_flag=True, help="Remove all versions of the notebook.")
@click.option("-y", "--yes", is_flag=True, help="Remove without asking.")
@click.option(
    "--deleted", is_flag=True, help="List notebooks that were deleted in a lab; with --restore or --purge, one of them."
)
def command(
    notebook: str | None,
    as_json: bool,
    limit: int | None,
    diff: str | None,
    to: str | None,
    show: str | None,
    output: str | None,
    force: bool,
    restore: str | None,
    save: str | None,
    rename: tuple[str, str] | None,
    purge: str | None,
    purge_all: bool,
    yes: bool,
    deleted: bool,
) -> None:
    """List the versions of NOTEBOOK, newest first; compare, restore, name and remove them.

    A lab records versions while you work: when a notebook is opened, when editing rests, and before it is restored or
    deleted. VERSION is the id of a version, the beginning of it, or its name. Pending edits of open pages count as part of
    the present notebook, and pages of a running lab show a restored version at once.

    \b
    ownlab history train.ipynb                             when and why each version was made
    ownlab history train.ipynb --diff 20261116-1149        what has changed since
    ownlab history train.ipynb --restore works             the version that was named "works"
    ownlab history train.ipynb --purge-all                 forget everything, for example a pasted password
    ownlab history --deleted --restore old.ipynb           a notebook that was deleted in a lab
    """
    chosen = [name for name, value in (
        ("--diff", diff), ("--show", show), ("--restore", restore), ("--save", save), ("--name", rename),
        ("--purge", purge), ("--purge-all", purge_all or None),
    ) if value is not None]  # fmt: skip
    _check_usage(notebook, chosen, to, output, deleted)
    if deleted:
        _deleted(restore, purge, yes, as_json)
        return
    assert notebook is not None
    store = open_history(notebook)
    if diff is not None:
        _diff(notebook, store, diff, to, as_json)
    elif show is not None:
        _show(store, show, output, force, as_json)
    elif chosen:
        done = _change(notebook, store, restore=restore, save=save, rename=rename, purge=purge, yes=yes)
        if as_json:
            echo_record(list_versions(notebook, store))
        else:
            click.echo(done)
    else:
        _list(notebook, store, limit, as_json)


def _check_usage(notebook: str | None, chosen: list[str], to: str | None, output: str | None, deleted: bool) -> None:
    if len(chosen) > 1:
        raise UsageError(text("{first} and {second} cannot be combined.", first=chosen[0], second=chosen[1]))
    if to is not None and chosen != ["--diff"]:
        raise UsageError(text("--to needs --diff."))
    if output is not None and chosen != ["--show"]:
        raise UsageError(text("--output needs --show."))
    if deleted and (notebook is not None or chosen not in ([], ["--restore"], ["--purge"])):
        raise UsageError(
            text("--deleted takes no notebook, and no other option than --restore or --purge."),
            hint=text("For example: ownlab history --deleted --restore NOTEBOOK"),
        )
    if notebook is None and not deleted:
        raise UsageError(text("Name a notebook."), hint=text("For example: ownlab history train.ipynb"))


def _list(notebook: str, store: VersionStore, limit: int | None, as_json: bool) -> None:
    import msgspec

    history = list_versions(notebook, store)
    shown = msgspec.structs.replace(history, versions=history.versions[:limit])
    if as_json:
        echo_record(shown)
        return
    from ownlab.lab.terminal.history import show_history
    from ownlab.render.console import console

    show_history(notebook, shown, len(history.versions), console())


def _diff(notebook: str, store: VersionStore, since: str, to: str | None, as_json: bool) -> None:
    before, after = store.find(since), store.find(to) if to is not None else None
    newer = store.load(after) if after is not None else present_notebook(notebook)
    cells = tuple(compare_notebooks(store.load(before), newer))
    difference = NotebookDifference(os.path.realpath(notebook), before, after, cells)
    if as_json:
        echo_record(difference)
        return
    from ownlab.lab.terminal.history import show_difference
    from ownlab.render.console import console

    show_difference(notebook, difference, console())


def _show(store: VersionStore, name: str, output: str | None, force: bool, as_json: bool) -> None:
    version = store.find(name)
    notebook = store.load(version)
    if output is not None:
        _write(output, notebook_json(notebook), force)
    if as_json:
        echo_record(VersionContent(version, notebook))
    elif output is not None:
        click.echo(text("Written to {path}.", path=output))
    else:
        from ownlab.lab.terminal.history import show_version
        from ownlab.render.console import console

        show_version(version, notebook, console())


def _write(path: str, content: str, force: bool) -> None:
    try:
        with open(path, "w" if force else "x", encoding="utf-8", newline="\n") as file:
            file.write(content)
    except FileExistsError as exc:
        raise UsageError(text("{path} exists already.", path=path), hint=text("Overwrite it with --force.")) from exc
    except OSError as exc:
        raise InputError(text("Cannot write {path}: {reason}.", path=path, reason=exc.strerror)) from exc


def _change(
    notebook: str,
    store: VersionStore,
    *,
    restore: str | None,
    save: str | None,
    rename: tuple[str, str] | None,
    purge: str | None,
    yes: bool,
) -> str:
    """Change the history or the notebook, and return what was done."""
    if restore is not None:
        version = store.find(restore)
        restore_version(notebook, store, version)
        return text("Restored version {version} of {notebook}.", version=version.id, notebook=notebook)
    if save is not None:
        saved = save_version(notebook, store, _checked_name(save))
        assert saved is not None  # it has a name
        return text("Saved version {version}: {name}.", version=saved.id, name=save)
    if rename is not None:
        version, name = store.find(rename[0]), rename[1].strip()
        store.rename(version, _checked_name(name) if name else None)
        if not name:
            return text("Version {version} has no name any more.", version=version.id)
        return text("Version {version} is now {name}.", version=version.id, name=name)
    if purge is not None:
        version = store.find(purge)
        _ask(text("Remove version {version} of {notebook} for good?", version=version.id, notebook=notebook), yes)
        store.purge(version)
        return text("Removed version {version}.", version=version.id)
    count = len(store.versions())
    _ask(
        plural(
            count,
            "Remove the only version of {notebook} for good?",
            "Remove all {n} versions of {notebook} for good?",
            notebook=notebook,
        ),
        yes,
    )
    store.purge()
    return plural(count, "Removed 1 version.", "Removed {n} versions.")


def _checked_name(name: str) -> str:
    name = name.strip()
    if not name or len(name) > _MAX_NAME or not name.isprintable():
        raise UsageError(text("A name has between 1 and {most} characters, and no control characters.", most=_MAX_NAME))
    return name


def _ask(question: str, yes: bool) -> None:
    if yes:
        return
    if not sys.stdin.isatty():
        raise UsageError(text("Nobody can be asked here."), hint=text("Add --yes to remove without asking."))
    click.confirm(question, abort=True, err=True)


# -- deleted notebooks


def _deleted(restore: str | None, purge: str | None, yes: bool, as_json: bool) -> None:
    gone = deleted_notebooks()
    if restore is not None:
        _restore_deleted(_find_deleted(gone, restore), as_json)
        return
    if purge is not None:
        found = _find_deleted(gone, purge)
        _ask(text("Remove all versions of {notebook} for good?", notebook=found.path), yes)
        purge_deleted(found.id)
        gone = deleted_notebooks()
        if not as_json:
            click.echo(text("Removed all versions of {notebook}.", notebook=found.path))
            return
    if as_json:
        echo_record(DeletedNotebooks(tuple(gone)))
        return
    from ownlab.lab.terminal.history import show_deleted
    from ownlab.render.console import console

    show_deleted(gone, console())


def _restore_deleted(found: DeletedNotebook, as_json: bool) -> None:
    identity = find_deleted(found.id)
    if identity is None:
        raise InputError(text("{notebook} has just been restored.", notebook=found.path))
    try:
        path = restore_deleted(identity)
    except OSError as exc:
        raise InputError(text("Cannot write {path}: {reason}.", path=found.path, reason=exc.strerror)) from exc
    if as_json:
        echo_record(RestoredNotebook(found.id, path))
    else:
        click.echo(text("Restored {notebook}.", notebook=path))


def _find_deleted(gone: list[DeletedNotebook], wanted: str) -> DeletedNotebook:
    """Find a notebook by its path, of several the last one deleted; by the beginning of its id; or by its name."""
    real = os.path.realpath(wanted)
    for found in (
        [each for each in gone if each.path == real][:1],
        [each for each in gone if wanted and each.id.startswith(wanted)],
        [each for each in gone if wanted and each.path.endswith(os.sep + wanted)],
    ):
        if len(found) == 1:
            return found[0]
        if found:
            raise InputError(
                text("{notebook} matches several deleted notebooks.", notebook=wanted),
                hint=text("Name one by its path or its id; `ownlab history --deleted` lists them."),
            )
    raise InputError(
        text("No deleted notebook {notebook} is known.", notebook=wanted or '""'),
        hint=text("`ownlab history --deleted` lists them."),
    )

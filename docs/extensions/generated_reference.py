"""Replaces markers in reference pages by Markdown that is generated from the program itself, so that it cannot be out of date.

`<!-- generated: commands -->` in a page becomes a section per command (from click), `settings` a section per table of the
configuration file, `schemas` a table of all JSON documents.

In another language than English the help of commands is that of the program; what else is on these pages is translated as on any other.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from typing import Any

import click
from sphinx.application import Sphinx
from sphinx.util import logging

from ownlab.cli.main import COMMANDS, cli
from ownlab.cli.translated_help import translate_click
from ownlab.config.settings import NONE, PRESETS, SETTINGS, TABLES, UNITS, Setting
from ownlab.languages import translations
from ownlab.render.documents import DOCUMENTS
from ownlab.text import translated, use_translations

_log = logging.getLogger(__name__)
# Of the table of a command's options.
_HEADER = ("| option | meaning |", "|---|---|")
_MARKER = re.compile(r"^<!-- generated: (\w+) -->$", re.MULTILINE)


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the extension."""
    app.connect("builder-inited", _choose_language)
    app.connect("source-read", _replace_markers)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _choose_language(app: Sphinx) -> None:
    """Let commands speak the language of the site: they are translated when they are loaded, further down."""
    translate = translations(app.config.language)
    if translate is not None:
        use_translations(translate)
        translate_click()


def _replace_markers(app: Sphinx, page: str, source: list[str]) -> None:
    def generated(marker: re.Match[str]) -> str:
        generator = _GENERATORS.get(marker[1])
        if generator is None:
            known = ", ".join(_GENERATORS)
            _log.warning("nothing generates %r; there are %s", marker[1], known, location=page, type="generated")
            return ""
        if app.builder.name == "gettext":
            return "\n".join(_HEADER)  # the rest is in ownlab's catalogues
        return "\n".join(generator())

    source[0] = _MARKER.sub(generated, source[0])


# --- commands -------------------------------------------------------------------------------------------------------------


def commands() -> Iterator[str]:
    """A heading per section of `ownlab --help`, with its commands and their subcommands below."""
    context = click.Context(cli, info_name="ownlab")
    section = ""
    for name, entry in COMMANDS.items():
        if entry.section != section:
            section = entry.section
            yield from (f"## {translated(section)}", "")
        command = cli.get_command(context, name)
        assert command is not None
        yield from _command(command, click.Context(command, parent=context, info_name=name), "###")


def _command(command: click.Command, context: click.Context, heading: str) -> Iterator[str]:
    yield from (f"{heading} `{context.command_path}`", "")
    usage = " ".join(command.collect_usage_pieces(context))
    yield from ("```text", f"{context.command_path} {usage}", "```", "")
    yield from _paragraphs(inspect.cleandoc(command.help or ""))
    rows = [row for parameter in command.get_params(context) if (row := parameter.get_help_record(context)) is not None]
    rows = [(option, meaning) for option, meaning in rows if meaning and not option.endswith("--help")]
    if rows:
        yield from _HEADER
        yield from (f"| `{_cell(option)}` | {_prose(_cell(meaning))} |" for option, meaning in rows)
        yield ""
    if command.epilog:
        yield from _paragraphs(inspect.cleandoc(command.epilog))
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            assert child is not None
            if not child.hidden:
                yield from _command(child, click.Context(child, parent=context, info_name=name), heading + "#")


def _paragraphs(text: str) -> Iterator[str]:
    """A help text as Markdown. A paragraph that begins with click's mark against wrapping is a block of code."""
    for paragraph in re.split(r"\n\s*\n", text.split("\f")[0]):
        if paragraph.startswith("\b"):
            yield from ("```text", *paragraph.splitlines()[1:], "```", "")
        elif paragraph.strip():
            yield from (_prose(paragraph), "")


def _prose(text: str) -> str:
    """Plain text as Markdown: what looks like markup outside of backquotes is shown literally, and options as code."""
    parts = text.split("`")
    for index in range(0, len(parts), 2):
        escaped = re.sub(r"([*_<>\[\]#~])", r"\\\1", parts[index])
        parts[index] = re.sub(r"(?<![\w-])(--?[a-zA-Z][\w-]*)", r"`\1`", escaped)
    return "`".join(parts) if len(parts) % 2 else text


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", r"\|")


# --- settings -------------------------------------------------------------------------------------------------------------


def settings() -> Iterator[str]:
    """A section per table of the configuration file, and one with the presets of limits."""
    for table in TABLES:
        yield from (f"## [{table}]", "")
        for setting in SETTINGS:
            if setting.name.partition(".")[0] == table:
                yield from _setting(setting)
    yield from ("## [units]", "")
    yield "What an hour costs, in units that your group chooses. Any other name in this table is the name of a card."
    yield ""
    for setting in UNITS:
        yield from _setting(setting, variable=False)
    yield from ("## Presets of limits", "")
    yield from ("| preset | limits | sources |", "|---|---|---|")
    for preset in PRESETS.values():
        limits = ", ".join(f"{name} = {value:g}" for name, value in preset.limits.items()) or NONE
        yield f"| `{preset.name}` | {_cell(limits)} | {_cell('; '.join(preset.sources))} |"


def _setting(setting: Setting, variable: bool = True) -> Iterator[str]:
    yield from (f"`{setting.name}`", f": {setting.meaning}", "")
    default = "not set" if setting.default in (None, "") else f"`{_toml(setting.default)}`"
    if setting.default is None and setting.limit is not None:
        default = "no limit"
    names = f"; variable: `{setting.environment_variable}`" if variable else ""
    yield from (f"  Default: {default}{names}", "")


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, tuple):
        return str(list(value))
    return f'"{value}"' if isinstance(value, str) else f"{value:g}"


# --- JSON documents -------------------------------------------------------------------------------------------------------


def schemas() -> Iterator[str]:
    """A table of the documents and the files of their schemas."""
    yield from ("| document | schema | record |", "|---|---|---|")
    for name, record in sorted(DOCUMENTS.items()):
        yield f"| {name} | [{name}.json](../schemas/{name}.json) | `{record}` |"


_GENERATORS = {"commands": commands, "settings": settings, "schemas": schemas}

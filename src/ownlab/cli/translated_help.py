"""The help of commands, and click's own words, in the language of the process.

Help is written as literals in decorators and docstrings. It is translated when a command is loaded: its paragraphs are the
messages of the catalogue, so that reformatting one leaves the others translated.
"""

from __future__ import annotations

import inspect
import sys

import click

from ownlab.render import wide_text
from ownlab.text import template, translated

__all__ = ["translate_click", "translate_help"]

# click's own modules call gettext by these names; its catalogue would be chosen by the environment alone.
_CLICK_MODULES = ("core", "decorators", "exceptions", "formatting", "parser", "shell_completion", "termui", "types")


# A word of click that its sources keep in a variable: for the catalogue.
_REQUIRED = template("required")


def translate_help(command: click.Command) -> click.Command:
    """Translate the help of a command and of its options, once."""
    if getattr(command, "_ownlab_translated", False):
        return command
    command._ownlab_translated = True  # type: ignore[attr-defined]
    command.help = _paragraphs(command.help)
    command.short_help = _paragraphs(command.short_help) or _first_sentence(command.help)
    command.epilog = _paragraphs(command.epilog)
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            parameter.help = _paragraphs(parameter.help)
    return command


def _paragraphs(words: str | None) -> str | None:
    if not words:
        return words
    return "\n\n".join(translated(paragraph) for paragraph in inspect.cleandoc(words).split("\n\n"))


def _first_sentence(words: str | None) -> str | None:
    """What the list of commands shows. click takes the first sentence itself, but knows only those of English."""
    paragraph = (words or "").partition("\n\n")[0]
    return None if paragraph.isascii() else paragraph.partition("。")[0]


def translate_click() -> None:
    """Let click's own words ("Usage:", "Missing argument") come from our catalogue, and its lines have the right width."""
    wide_text.install()
    _mend_sentences()
    click.HelpFormatter.write_heading = _write_heading  # type: ignore[method-assign, assignment]
    _translate_types()
    for name in _CLICK_MODULES:
        module = sys.modules.get(f"click.{name}")
        if module is not None and hasattr(module, "_"):
            module._ = translated  # type: ignore[attr-defined]  # private: tests/cli/test_translated_help.py
        if module is not None and hasattr(module, "ngettext"):
            module.ngettext = _counted  # type: ignore[attr-defined]


def _mend_sentences() -> None:
    """Chinese has no space after "：", and its own full stop and semicolon where click puts its own between words."""
    if not translated("Usage:").endswith("："):
        return
    write_usage, missing = click.HelpFormatter.write_usage, click.MissingParameter.format_message
    no_option, help_record = click.NoSuchOption.format_message, click.Option.get_help_record

    def write(formatter: click.HelpFormatter, prog: str, args: str = "", prefix: str | None = None) -> None:
        write_usage(formatter, prog, args, translated("Usage:") if prefix is None else prefix)

    def describe(error: click.MissingParameter) -> str:
        message = missing(error)
        return f"{message[:-1]}。" if message.endswith(".") else message

    def describe_option(error: click.NoSuchOption) -> str:
        return no_option(error).replace("。 ", "。")

    def record(option: click.Option, context: click.Context) -> tuple[str, str] | None:
        found = help_record(option, context)
        if found is None:
            return None
        words, bracket, values = found[1].rpartition("[")
        return found[0], f"{words}{bracket}{values.replace('; ', '；')}"

    click.HelpFormatter.write_usage = write  # type: ignore[method-assign, assignment]
    click.MissingParameter.format_message = describe  # type: ignore[method-assign, assignment]
    click.NoSuchOption.format_message = describe_option  # type: ignore[method-assign, assignment]
    click.Option.get_help_record = record  # type: ignore[method-assign, assignment]


def _translate_types() -> None:
    """The names of types are in messages ("'x' is not a valid integer."), and stand for values in help."""
    types = click.types
    types.StringParamType.name = types.UnprocessedParamType.name = translated("text")
    types.IntParamType.name, types.IntRange.name = translated("integer"), translated("integer range")
    types.FloatParamType.name, types.FloatRange.name = translated("number"), translated("number range")
    types.File.name = translated("filename")


def _write_heading(formatter: click.HelpFormatter, heading: str) -> None:
    formatter.write(f"{' ' * formatter.current_indent}{translated('{heading}:').format(heading=heading)}\n")


def _counted(one: str, many: str, n: int) -> str:
    return translated(one if n == 1 else many)

"""The pages of the documentation that are generated from the program."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from docs.extensions import generated_reference
from tests.docs.site_builder import build_site

from ownlab.cli.main import COMMANDS, cli
from ownlab.config.settings import PRESETS, SETTINGS, UNITS
from ownlab.render.documents import DOCUMENTS

DOCS = Path(__file__).resolve().parents[2] / "docs"


def command_paths(command: click.Command, context: click.Context) -> list[str]:
    paths = [context.command_path]
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            child = command.get_command(context, name)
            assert child is not None
            if not child.hidden:
                paths += command_paths(child, click.Context(child, parent=context, info_name=name))
    return paths


def visible_commands(group: click.Group, context: click.Context) -> Iterator[tuple[click.Command, click.Context]]:
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if command.hidden:
            continue
        own = click.Context(command, parent=context, info_name=name)
        yield command, own
        if isinstance(command, click.Group):
            yield from visible_commands(command, own)


def examples(command: click.Command) -> list[str]:
    """The command lines in its help, without the remarks after them."""
    # `completion` names a shell before each.
    lines = [re.sub(r"^(sudo |\w+: +)", "", line.strip()) for line in (command.help or "").splitlines()]
    return [re.split(r" {3,}| [<>|] ", line)[0] for line in lines if line.startswith("ownlab ")]


def test_the_help_of_every_command_has_an_example() -> None:
    assert isinstance(cli, click.Group)
    without = [
        context.command_path
        for command, context in visible_commands(cli, click.Context(cli, info_name="ownlab"))
        if not any(f"{line} ".startswith(f"{context.command_path} ") for line in examples(command))
    ]
    assert without == []


def test_examples_have_only_options_that_exist() -> None:
    assert isinstance(cli, click.Group)
    top = click.Context(cli, info_name="ownlab")
    for command, context in visible_commands(cli, top):
        for line in examples(command):
            found: click.Command = cli
            words = shlex.split(line)[1:]
            while words and isinstance(found, click.Group) and (below := found.get_command(top, words[0])) is not None:
                found, words = below, words[1:]
            known = {name for parameter in found.params for name in (*parameter.opts, *parameter.secondary_opts)}
            given = [word.partition("=")[0] for word in words[: words.index("--") if "--" in words else None]]
            unknown = [word for word in given if word.startswith("-") and word != "-" and word not in known]
            # The words after a script are its own arguments.
            assert not unknown or any(word.endswith(".py") for word in words), (context.command_path, line, unknown)


def test_every_command_has_a_section_with_its_options() -> None:
    page = "\n".join(generated_reference.commands())
    headings = re.findall(r"^#{3,} `(.*)`$", page, re.MULTILINE)
    assert headings == command_paths(cli, click.Context(cli, info_name="ownlab"))[1:]
    assert [heading.split()[1] for heading in headings if heading.count(" ") == 1] == list(COMMANDS)
    run = page.partition("### `ownlab run`")[2].partition("\n### ")[0]
    assert "ownlab run [OPTIONS] NOTEBOOK" in run
    assert re.search(r"^\| `-p NAME=VALUE` \| .+ \|$", run, re.MULTILINE), run
    assert "| `--help`" not in page


def test_help_texts_become_markdown() -> None:
    @click.command(help="Reads *.ipynb of <FOLDER>; see `a*b` and --all.\n\n\b\nkept\n  as it is\n\n\fnot shown")
    @click.option("--all", is_flag=True, help="One | two, with_underscores_.")
    @click.argument("folder")
    def example(**options: object) -> None:
        """Not called."""

    lines = list(generated_reference._command(example, click.Context(example, info_name="example"), "###"))
    assert lines == [
        "### `example`",
        "",
        "```text",
        "example [OPTIONS] FOLDER",
        "```",
        "",
        r"Reads \*.ipynb of \<FOLDER\>; see `a*b` and `--all`.",
        "",
        "```text",
        "kept",
        "  as it is",
        "```",
        "",
        "| option | meaning |",
        "|---|---|",
        r"| `--all` | One \| two, with\_underscores\_. |",
        "",
    ]


def test_every_setting_and_preset_is_listed_with_default_and_variable() -> None:
    page = "\n".join(generated_reference.settings())
    for setting in (*SETTINGS, *UNITS):
        assert f"`{setting.name}`\n: {setting.meaning}" in page
    for setting in SETTINGS:
        assert f"variable: `{setting.environment_variable}`" in page
    assert all(f"| `{name}` |" in page for name in PRESETS)
    assert "Default: no limit; variable: `OWNLAB_LIMITS_IDLE_MINUTES`" in page


def test_every_document_links_to_a_schema_that_exists() -> None:
    rows = re.findall(r"^\| (\S+) \| \[\S+\]\((\S+)\) \|", "\n".join(generated_reference.schemas()), re.MULTILINE)
    assert [name for name, _ in rows] == sorted(DOCUMENTS)
    assert all((DOCS / "reference" / link).is_file() for _, link in rows)


def test_a_marker_in_a_page_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = "# Title\n\n<!-- generated: settings -->\n\nText with <!-- generated: settings --> in a line.\n"
    site, warnings = build_site(tmp_path, monkeypatch, "generated_reference", index=page)
    assert warnings == ""
    built = (site / "index.html").read_text(encoding="utf-8")
    assert built.count("limits.idle_minutes</span>") == 1, built


def test_an_unknown_marker_is_a_warning_that_names_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, warnings = build_site(
        tmp_path, monkeypatch, "generated_reference", index="# Title\n\n<!-- generated: nothing -->\n"
    )
    assert "index.md: WARNING: nothing generates 'nothing'; there are commands, settings, schemas" in warnings


@pytest.mark.parametrize("name", ["commands", "settings", "schemas"])
def test_each_generator_is_used_by_a_page(name: str) -> None:
    assert f"\n<!-- generated: {name} -->\n" in (DOCS / "reference" / f"{name}.md").read_text(encoding="utf-8")

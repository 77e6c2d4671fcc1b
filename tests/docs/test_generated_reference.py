"""The pages of the documentation that are generated from the program."""

from __future__ import annotations

import re
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

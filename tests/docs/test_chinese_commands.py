"""The reference of commands in the Chinese site: the help of the program in Chinese."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from ownlab.cli.main import COMMANDS
from ownlab.languages import translations

EXTENSIONS = Path(__file__).resolve().parents[2] / "docs" / "extensions"


def test_commands_are_in_the_language_of_the_site(tmp_path: Path) -> None:
    """In a process of its own: commands are translated once, when they are loaded."""
    source = tmp_path / "source"
    source.mkdir()
    (source / "index.md").write_text("# Commands\n\n<!-- generated: commands -->\n", encoding="utf-8")
    settings = ["extensions=myst_parser,generated_reference", "language=zh_CN", "html_theme=basic"]
    subprocess.run(
        [
            sys.executable,
            "-m",
            "sphinx",
            "-q",
            "-W",
            "-C",
            *(word for each in settings for word in ("-D", each)),
            source,
            tmp_path,
        ],
        env={**os.environ, "PYTHONPATH": str(EXTENSIONS)},
        timeout=300,
        check=True,
    )
    page = re.sub(r"<[^>]+>", "", (tmp_path / "index.html").read_text(encoding="utf-8"))
    words = translations("zh_CN")
    assert words is not None
    assert words("Print one JSON document instead of text.") in page
    assert "Print one JSON document" not in page
    sections = {words(entry.section) for entry in COMMANDS.values()}
    assert all(re.search(rf"^{section}", page, re.MULTILINE) for section in sections)

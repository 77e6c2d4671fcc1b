"""Documentation names files that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
ROOTS = (ROOT, ROOT / "src", ROOT / "src" / "ownlab", ROOT / "docs", ROOT / "tests")
# Sources of other projects, which rules quote: "torch/cuda/__init__.py".
OTHER_PROJECTS = ("torch/",)
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def missing_paths(page: str) -> list[str]:
    """Paths with a folder in them, quoted as code, of source files here, that lead to no file below any of the roots."""
    paths = re.findall(r"`((?!/)[\w./-]+/[\w.-]*\.(?:py|tsx?|toml))`", page)
    ours = [path for path in paths if not path.startswith(OTHER_PROJECTS)]
    return [path for path in ours if not any((root / path).exists() for root in ROOTS)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_that_a_page_names_exist(page: Path) -> None:
    assert missing_paths(page.read_text()) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:|#)([^)#\s]+)", page.read_text())
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_a_planted_wrong_path_is_found() -> None:
    assert missing_paths("see `lab/server/nowhere.py`, `torch/cuda/__init__.py` and `cli/main.py`") == [
        "lab/server/nowhere.py"
    ]


def test_files_that_the_notice_names_exist() -> None:
    paths = re.findall(r"(?:src|labextension)/[\w./-]*\w", (ROOT / "NOTICE").read_text())
    assert len(paths) > 20
    assert [path for path in paths if not (ROOT / path).exists()] == []

"""Configuration of the documentation site: `make docs` builds it into build/docs, and in Chinese into build/docs/zh_CN."""

from __future__ import annotations

import sys
from pathlib import Path

from ownlab import __version__

sys.path.insert(0, str(Path(__file__).parent / "extensions"))

project = "ownlab"
author = "the authors of ownlab"
copyright = author  # noqa: A001 - Sphinx reads this name
release = version = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "generated_reference",
    "internal_links",
    "site_languages",
    "chinese_search",
]
exclude_patterns = ["extensions", "locale"]
source_suffix = {".md": "markdown"}
root_doc = "index"
default_role = "code"  # docstrings write `name`

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4

language = "en"
locale_dirs = ["locale"]  # translations/README.md says how its catalogues are made
gettext_compact = False  # one per page
gettext_additional_targets = ["literal-block"]

nitpicky = True
# Types in signatures that have no page: the standard library (a build needs no network) and internal records.
nitpick_ignore_regex = [("py:.*", r"(?!ownlab\.\w+$).*")]

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88

html_theme = "pydata_sphinx_theme"
html_title = f"ownlab {__version__}"
templates_path = ["templates"]
html_static_path = ["static"]
html_css_files = ["site.css"]
html_domain_indices = False
html_sidebars: dict[str, list[str]] = {"index": [], "tutorial": []}  # their sections have no other pages
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "logo": {"text": "ownlab"},
    "navbar_align": "left",
    "navbar_end": ["languages", "theme-switcher", "navbar-icon-links"],
    "show_toc_level": 2,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_dark_style": "github-dark",  # comments in grey, not in yellow
}

"""Charts as Vega-Lite: for notebooks as they are, and saved as PNG, SVG or one HTML page that needs no network."""

from __future__ import annotations

import html
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ownlab.errors import InputError, UsageError
from ownlab.text import text

__all__ = ["MIME", "SCHEMA", "Spec", "check_chart_file", "save_chart"]

Spec = dict[str, Any]

MIME = "application/vnd.vegalite.v5+json"
SCHEMA = "https://vega.github.io/schema/vega-lite/v5.json"
_VERSION = "5.21"


def check_chart_file(path: Path) -> str:
    """Return the suffix of a file that a chart can be saved as; call it before long work. UsageError if it cannot be saved."""
    kind = path.suffix.lower()
    if kind not in (".png", ".svg", ".html", ".htm"):
        raise UsageError(text("Cannot draw into {path}: its name must end in .png, .svg or .html.", path=path))
    if find_spec("vl_convert") is None:  # 88 MB, so not installed by default
        raise UsageError(
            text("Cannot draw into {path}: the package vl-convert-python is not installed.", path=path),
            hint=text("Install it: {command}", command="pip install 'ownlab[charts]'"),
        )
    return kind


def save_chart(chart: Spec, path: Path) -> None:
    """Draw a chart into a .png, .svg or .html file."""
    kind = check_chart_file(path)
    import vl_convert

    drawn: bytes
    if kind == ".png":
        drawn = vl_convert.vegalite_to_png(chart, vl_version=_VERSION, scale=2)
    else:
        svg = vl_convert.vegalite_to_svg(chart, vl_version=_VERSION)
        drawn = (svg if kind == ".svg" else _page(chart["title"]["text"], svg)).encode()
    try:
        path.write_bytes(drawn)
    except OSError as error:
        raise InputError(text("Cannot write {path}: {reason}.", path=path, reason=error.strerror)) from error


def _page(title: str, svg: str) -> str:
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f"<title>ownlab: {html.escape(title)}</title>\n"
        "<style>body { margin: 2em auto; max-width: 70em; background: white } svg { max-width: 100%; height: auto }</style>\n"
        f"</head>\n<body>\n{svg}\n</body>\n</html>\n"
    )

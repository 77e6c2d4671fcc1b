"""What a data set contains, as HTML: a page of its own (`ownlab data inspect --sheet FILE.html`), or a part of a notebook.

Everything is in the file: pictures are data, styles are inline. The colours follow JupyterLab's theme, or the browser's.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from ownlab.instruments.data.inspection.records import Illustrated, Inspection, Thumbnail
from ownlab.text import facts, plural, text, translated
from ownlab.units import format_bytes

__all__ = ["inspection_fragment", "inspection_page"]

_SHOWN = 12
_BAR = 16  # em
_FAINT = "color:var(--jp-ui-font-color2,GrayText)"
_BAD = "color:var(--jp-error-color1,#c62828)"
_PAGE = """<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width"><meta name="color-scheme" content="light dark">
<title>{title}</title></head>
<body style="font-family:system-ui,sans-serif;max-width:76em;margin:1.5em auto;padding:0 1em">
{content}
</body>
</html>
"""


def inspection_page(inspection: Illustrated) -> str:
    """Return a whole page."""
    return _PAGE.format(title=escape(inspection.path), content=inspection_fragment(inspection))


def inspection_fragment(inspection: Illustrated) -> str:
    """Return what a notebook shows below a cell."""
    if inspection.is_table:
        size = plural(inspection.files, "one row", "{n:,} rows")
    else:
        files = plural(inspection.files, "one file", "{n:,} files")
        size = facts(files, format_bytes(inspection.bytes), *_images(inspection))
    parts = [
        f"<h3>{escape(inspection.path)}</h3>",
        f"<p>{escape(size)}</p>",
        _problems(inspection),
        _kinds(inspection),
        _classes(inspection),
        _pictures(inspection.thumbnails),
    ]
    return "\n".join(part for part in parts if part)


def _images(inspection: Inspection) -> list[str]:
    if not inspection.image_sizes:
        return []
    first = inspection.image_sizes[0]
    sizes = plural(inspection.image_size_count, "one image size", "{n:,} image sizes")
    common = text("most often {width}×{height} ({n:,})", width=first.width, height=first.height, n=first.images)
    return [sizes, common]


def _problems(inspection: Inspection) -> str:
    parts = []
    if inspection.broken_count:
        title = plural(inspection.broken_count, "One file is broken", "{n:,} files are broken")
        rows = [f"{broken.name}: {broken.reason}" for broken in inspection.broken]
        parts.append(_list(title, rows, _BAD))
    if inspection.duplicate_count:
        title = plural(inspection.duplicate_count, "One file is a copy of another", "{n:,} files are copies of others")
        parts.append(_list(title, list(inspection.duplicates), ""))
    if not parts and inspection.images_checked:
        parts.append(f"<p>{escape(text('No file is broken, and none is there twice.'))}</p>")
    if not inspection.images_checked:
        note = text("Images were not decoded: this Python lacks Pillow. Choose another environment with --python.")
        parts.append(f'<p style="{_BAD}">{escape(note)}</p>')
    return "\n".join(parts)


def _list(title: str, rows: list[str], style: str) -> str:
    items = "".join(f"<li>{escape(row)}</li>" for row in rows)
    return f'<details open><summary style="{style}"><b>{escape(title)}</b></summary><ul>{items}</ul></details>'


def _kinds(inspection: Inspection) -> str:
    rows: list[tuple[str, str]] = [
        (
            f".{kind.extension}",
            facts(
                plural(kind.files, "one file", "{n:,} files"),
                format_bytes(kind.bytes),
                text("{low} to {high} each", low=format_bytes(kind.smallest), high=format_bytes(kind.largest)),
            ),
        )
        for kind in inspection.kinds[:_SHOWN]
    ]
    rows += [(column.name, translated(column.kind)) for column in inspection.columns]
    return _table([(escape(name), escape(value)) for name, value in rows])


def _classes(inspection: Inspection) -> str:
    classes = inspection.classes
    if not classes:
        return ""
    title = plural(len(classes), "One class", "{n:,} classes")
    most = classes[0].samples
    rows = []
    for entry in classes[:_SHOWN]:
        width = max(0.1, _BAR * entry.samples / most)
        bar = f'<div style="background:var(--jp-brand-color1,#3f7de0);height:.8em;width:{width:.2f}em"></div>'
        rows.append((escape(entry.name), f"{entry.samples:,}", bar))
    if len(classes) > _SHOWN:
        more = text("… and {n:,} more, down to {least:,}", n=len(classes) - _SHOWN, least=classes[-1].samples)
        rows.append((escape(more), "", ""))
    return f"<h4>{escape(title)}</h4>\n{_table(rows)}"


def _table(rows: Sequence[tuple[str, ...]]) -> str:
    """Cells are HTML."""
    cell = '<td style="text-align:left;padding:.1em 1em .1em 0">'
    lines = "".join(f"<tr>{''.join(f'{cell}{value}</td>' for value in row)}</tr>" for row in rows)
    return f"<table>{lines}</table>" if rows else ""


def _pictures(thumbnails: tuple[Thumbnail, ...]) -> str:
    if not thumbnails:
        return ""
    figures = "".join(
        f'<figure style="margin:0;width:112px" title="{escape(picture.name)} · {picture.width}×{picture.height}">'
        f'<img alt="{escape(picture.name)}" src="data:image/jpeg;base64,{escape(picture.jpeg)}">'
        f'<figcaption style="{_FAINT};font-size:.75em;overflow:hidden;text-overflow:ellipsis;white-space:nowrap">'
        f"{escape(picture.label or picture.name)}</figcaption></figure>"
        for picture in thumbnails
    )
    return f'<div style="display:flex;flex-wrap:wrap;gap:8px;align-items:end;margin-top:1em">{figures}</div>'

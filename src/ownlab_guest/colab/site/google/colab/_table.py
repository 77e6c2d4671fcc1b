"""An HTML table: the first page as plain HTML, and a small script that sorts, filters and pages where scripts run."""

import html as _html
import json
import math
import numbers
import uuid
from typing import Any, List, Optional, Sequence, Union

Cell = Union[str, float, int, None]

MAX_CELL_LENGTH = 1000
MAX_EXACT_INTEGER = 2**53  # JavaScript's numbers are not exact beyond it

_STYLE = """<style>
#ID {font-size: var(--jp-ui-font-size1, 13px); font-family: var(--jp-ui-font-family, sans-serif);
  color: var(--jp-ui-font-color1, inherit); overflow-x: auto}
#ID table {border-collapse: collapse; font-variant-numeric: tabular-nums; border: 1px solid var(--jp-border-color2, #ddd)}
#ID th, #ID td {padding: 4px 10px; text-align: left; border-bottom: 1px solid var(--jp-border-color2, #ddd)}
#ID th.number, #ID td.number {text-align: right}
#ID thead th {background: var(--jp-layout-color2, #eee)}
#ID tbody tr, #ID tbody tr:nth-child(odd) {background: transparent}
#ID tbody tr:hover {background: var(--jp-layout-color2, #eee)}
#ID td {max-width: 40em; overflow: hidden; text-overflow: ellipsis; white-space: nowrap}
#ID th button {all: unset; cursor: pointer; font-weight: 600}
#ID th button:focus-visible {outline: 1px solid currentColor}
#ID th[aria-sort=ascending] button::after {content: " ▲"}
#ID th[aria-sort=descending] button::after {content: " ▼"}
#ID header:not(:empty) {padding: 4px 0}
#ID nav {display: flex; gap: 8px; align-items: center; padding: 4px 0; color: var(--jp-ui-font-color2, inherit)}
#ID input, #ID nav button {padding: 2px 8px; border: 1px solid var(--jp-border-color1, #bbb); border-radius: 3px;
  background: transparent; color: inherit; font: inherit; font-size: var(--jp-ui-font-size0, 11px); line-height: 16px}
#ID input {width: 200px}
#ID nav button {cursor: pointer}
#ID nav button:disabled {opacity: 0.4; cursor: default}
#ID nav button:hover:not(:disabled) {background: var(--jp-layout-color2, #eee)}
#ID :is(input, nav button):focus-visible {outline: 2px solid var(--jp-brand-color1, #1976d2)}
</style>"""

_SCRIPT = r"""((id, names, rows, size) => {
  const place = document.getElementById(id);
  const [top, heads, body, nav] = ['header', 'thead tr', 'tbody', 'nav'].map(name => place.querySelector(name));
  const numeric = names.map((_, n) => rows.some(row => typeof row[n] === 'number'));
  let page = 0, column = -1, sign = 1, shown = rows;
  const make = (tag, properties) => Object.assign(document.createElement(tag), properties);
  const compare = (a, b) => {
    if (a === null || b === null) return (a === null) - (b === null);
    if (typeof a === typeof b) return sign * (typeof a === 'number' ? a - b : a.localeCompare(b));
    return typeof a === 'number' ? -1 : 1;
  };
  const text = value => value === null ? '' : String(value);
  const rounded = value => {
    if (typeof value !== 'number' || Number.isInteger(value)) return text(value);
    const size = Math.abs(value);
    if (size < 1e-4 || size >= 1e15) return String(Number(value.toPrecision(4)));
    return String(Number(value.toFixed(Math.min(6, Math.max(0, 5 - Math.floor(Math.log10(size)))))));
  };
  const draw = () => {
    const last = Math.max(0, Math.ceil(shown.length / size) - 1);
    page = Math.min(Math.max(page, 0), last);
    body.replaceChildren(...shown.slice(page * size, (page + 1) * size).map(row => {
      const line = make('tr', {});
      line.append(...row.map((value, n) =>
        make('td', {textContent: rounded(value), title: text(value), className: numeric[n] ? 'number' : ''})));
      return line;
    }));
    [...heads.children].forEach((head, n) =>
      head.setAttribute('aria-sort', n !== column ? 'none' : sign > 0 ? 'ascending' : 'descending'));
    where.textContent = shown.length ? `${page * size + 1}–${Math.min(shown.length, (page + 1) * size)} of ${shown.length}` : 'none';
    back.disabled = page === 0;
    next.disabled = page === last;
  };
  const choose = () => {
    const wanted = filter.value.toLowerCase();
    shown = wanted ? rows.filter(row => row.some(value => [text, rounded].some(form => form(value).toLowerCase().includes(wanted)))) : [...rows];
    if (column >= 0) shown.sort((a, b) => compare(a[column], b[column]));
    page = 0;
    draw();
  };
  heads.replaceChildren(...names.map((name, n) => {
    const head = make('th', {scope: 'col', className: numeric[n] ? 'number' : ''});
    head.append(make('button', {type: 'button', textContent: name, onclick: () => {
      [column, sign] = [n, column === n ? -sign : 1];
      choose();
    }}));
    return head;
  }));
  const back = make('button', {type: 'button', textContent: '‹ Previous', onclick: () => { page--; draw(); }});
  const next = make('button', {type: 'button', textContent: 'Next ›', onclick: () => { page++; draw(); }});
  const where = make('span', {});
  const filter = make('input', {type: 'search', placeholder: 'Filter', oninput: choose});
  filter.setAttribute('aria-label', 'Filter');
  for (const event of ['keydown', 'keypress']) filter.addEventListener(event, e => e.stopPropagation());
  top.replaceChildren(filter);
  nav.replaceChildren(back, where, next);
  draw();
})"""


def cell(value: Any) -> Cell:
    """Convert a value for the table: a number that can be sorted, None, or text."""
    if value is None or isinstance(value, str):
        return value and _shortened(value)
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        text = str(value)
        return None if text in ("<NA>", "NaT") else _shortened(text)
    if isinstance(value, numbers.Integral):
        whole = int(value)
        return whole if abs(whole) <= MAX_EXACT_INTEGER else str(whole)
    number = float(value)
    return number if math.isfinite(number) else (None if math.isnan(number) else str(number))


def header(name: Any) -> str:
    """Return a column's name."""
    return _shortened(" / ".join(map(str, name)) if isinstance(name, tuple) else str(name))


def html(names: Sequence[str], rows: List[List[Cell]], page_size: int, min_width: Optional[str] = None) -> str:
    """Return the table with all its rows and the script."""
    element, size = "ownlab-table-" + uuid.uuid4().hex[:12], max(1, page_size)
    first = plain(names, rows[:size], f"{min(size, len(rows))} of {len(rows)} rows")
    width = f' style="min-width: {_html.escape(min_width)}"' if min_width else ""
    arguments = ", ".join(_js(each) for each in (element, list(names), rows, size))
    style = _STYLE.replace("#ID", "#" + element)
    return f'{style}\n<div id="{element}"{width}>{first}</div>\n<script>{_SCRIPT}({arguments})</script>'


def plain(names: Sequence[str], rows: List[List[Cell]], note: str) -> str:
    """Return some rows without a script."""
    heads = "".join(f'<th scope="col">{_html.escape(name)}</th>' for name in names)
    lines = "".join(_line(row) for row in rows)
    table = f"<table><thead><tr>{heads}</tr></thead><tbody>{lines}</tbody></table>"
    return f"<header></header>{table}<nav>{_html.escape(note)}</nav>"


def _line(row: List[Cell]) -> str:
    return "<tr>" + "".join(f"<td>{_html.escape(_rounded(each))}</td>" for each in row) + "</tr>"


def _rounded(value: Cell) -> str:
    """Return a value as the script shows it: at least six digits of a number, and all before its point."""
    if not isinstance(value, float):
        return "" if value is None else str(value)
    size = abs(value)
    if size >= 1e15 or 0 < size < 1e-4:
        return f"{value:.4g}"
    if value.is_integer():
        return str(int(value))
    return f"{value:.{min(6, max(0, 5 - math.floor(math.log10(size))))}f}".rstrip("0").rstrip(".")


def _js(value: Any) -> str:
    """Write a value as JavaScript within HTML."""
    return json.dumps(value, separators=(",", ":")).replace("<", "\\u003c")


def _shortened(text: str) -> str:
    return text if len(text) <= MAX_CELL_LENGTH else text[: MAX_CELL_LENGTH - 1] + "…"

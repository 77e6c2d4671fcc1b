"""The output of tables, charts, tabs, grids, images and elements, with a page and without."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from tests.guest.colab.page import Page, Ran, open_page

FRAME = """
import pandas as pd
df = pd.DataFrame({'name': ['b', '<i>a</i>', None], 'n': [1, 2**60, 3], 'x': [0.5, float('nan'), float('inf')]}, index=[7, 8, 9])
from google.colab import data_table
"""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with open_page(tmp_path_factory.mktemp("kernel")) as opened:
        yield opened


def both(page: Page, code: str) -> Ran:
    """Return the output of a cell in the page, which must equal that without one."""
    ran, alone = page.run(code), page.headless(code)
    assert (ran.error, alone.error) == ("", "")
    assert [sorted(each["data"]) for each in ran.outputs] == [sorted(each["data"]) for each in alone.outputs]
    assert ran.requests == []
    return ran


def rows_of(html: str) -> tuple[list[str], list[list[Any]], int]:
    """(names, rows, rows on a page) that the table's script is given."""
    arguments = json.loads("[" + re.findall(r"\}\)\((.*)\)</script>", html)[-1] + "]")
    return arguments[1], arguments[2], arguments[3]


def test_a_table_has_all_rows_and_needs_no_network(page: Page) -> None:
    page.needs("pandas")
    ran = both(page, FRAME + "data_table.DataTable(df, num_rows_per_page=2)")
    names, rows, size = rows_of(ran.html)
    assert names == ["index", "name", "n", "x"]
    assert rows == [[7, "b", 1, 0.5], [8, "<i>a</i>", str(2**60), None], [9, None, 3, "inf"]]
    assert size == 2
    assert "http" not in ran.html
    assert "<i>" not in ran.html
    assert ran.html.count("<td>") == 8, "the first page stands there without a script, too"
    assert "name" in ran.text


def test_a_table_shows_the_first_ones_of_too_many(page: Page) -> None:
    page.needs("pandas")
    ran = both(page, FRAME + "data_table.DataTable(df, include_index=False, max_rows=1, max_columns=2)")
    assert rows_of(ran.html)[:2] == (["name", "n"], [["b", 1]])
    assert "Warning: total number of rows (3) exceeds max_rows (1)" in ran.text


def test_the_extension_shows_every_frame_as_a_table_until_it_is_unloaded(page: Page) -> None:
    page.needs("pandas")
    page.result(FRAME + "%load_ext google.colab.data_table")
    assert rows_of(both(page, "df").html)[0] == ["index", "name", "n", "x"]
    many = both(page, "pd.DataFrame([range(30)])")
    assert "exceeds max_columns (20). Falling back to pandas display." in many.text
    assert "dataframe" in many.html
    assert "<script>" not in both(page, "pd.DataFrame({('a', 'b'): [1]})").html
    page.result("%unload_ext google.colab.data_table")
    assert "<script>" not in both(page, "df").html
    page.result(
        "data_table.enable_dataframe_formatter(); data_table.enable_dataframe_formatter(); data_table.disable_dataframe_formatter()"
    )
    assert "<script>" not in both(page, "df").html


def test_display_dataframe_has_tabs(page: Page) -> None:
    page.needs("pandas", "ipywidgets", "matplotlib")
    both(page, FRAME + "data_table.display_dataframe(df)")


def test_quickchart_draws(page: Page) -> None:
    page.needs("pandas", "matplotlib")
    ran = both(
        page,
        FRAME
        + "from google.colab import autoviz\nautoviz.quickchart(df[['name', 'n', 'x']].rename(columns={'x': 'in $'}))",
    )
    assert ran.html.count("data:image/png;base64,") == 4
    assert (
        "No charts" in both(page, FRAME + "from google.colab import autoviz\nautoviz.quickchart(pd.DataFrame())").text
    )


def test_an_image_of_opencv_is_shown(page: Page) -> None:
    page.needs("numpy", "PIL")
    code = "import numpy as np\nfrom google.colab.patches import cv2_imshow\n"
    for shape in ("(2, 3)", "(2, 3, 1)", "(2, 3, 3)", "(2, 3, 4)"):
        ran = both(page, code + f"cv2_imshow(np.zeros({shape}) + 300)")
        assert base64.b64decode(ran.outputs[0]["data"]["image/png"]).startswith(b"\x89PNG")
    data = both(page, code + "cv2_imshow(np.array([[[1, 2, 3]]]))").outputs[0]["data"]["image/png"]
    decode = (
        f"import base64, io, PIL.Image; print(PIL.Image.open(io.BytesIO(base64.b64decode({data!r}))).getpixel((0, 0)))"
    )
    assert page.result(decode) == "(3, 2, 1)\n", "BGR has become RGB"


def test_cv2_imshow_names_its_replacement(page: Page) -> None:
    page.needs("cv2")
    ran = page.run("import cv2; cv2.imshow('window', 0)")
    assert ran.error.startswith("DisabledFunctionError: cv2.imshow() is disabled in Colab")
    assert "from google.colab.patches import cv2_imshow" in ran.error
    ran = page.headless("import os; os.environ['ENABLE_CV2_IMSHOW'] = '1'; cv2.imshow('window', 0)")
    assert "DisabledFunctionError" not in ran.error
    page.headless("del os.environ['ENABLE_CV2_IMSHOW']")


def test_a_module_named_cv2_is_still_found(page: Page) -> None:
    code = """
import os, sys, tempfile, importlib
kept = {name: sys.modules.pop(name) for name in list(sys.modules) if name.partition('.')[0] == 'cv2'}
folder = tempfile.mkdtemp(); sys.path.insert(0, folder)
open(folder + '/cv2.py', 'w').write('def imshow(name, image): return 1\\ndef other(): return 2')
import cv2
try: cv2.imshow('a', 0)
except ValueError as exc: print(type(exc).__name__, cv2.other(), cv2.__spec__.loader.name)
sys.path.remove(folder); del sys.modules['cv2']; sys.modules.update(kept)
"""
    assert both(page, code).text == "DisabledFunctionError 2 cv2\n"


def test_outputs_go_into_tabs(page: Page) -> None:
    page.needs("ipywidgets")
    code = """
from google.colab import widgets
tabs = widgets.TabBar(['a', 'b', 'b'])
with tabs.output_to('a'): print('in a')
with tabs.output_to(1, select=False): print('in b')
shown = [each for each in tabs]
tabs.clear_tab('a')
with tabs.output_to(2): tabs.clear_tab()
print(shown, tabs._tabs.selected_index)
"""
    assert both(page, code).text.endswith("[0, 1, 2] 2\n")
    bad = {
        "tabs.output_to('b')": "ValueError: Ambiguous tab name: b",
        "tabs.output_to('z')": "ValueError: 'z' is not a tab: 'a', 'b', 'b'",
        "tabs.clear_tab()": "WidgetException: No active component selected",
        "widgets.TabBar(['a'], location='up')": "ValueError: Invalid value for location: 'up'",
        "with tabs.output_to(0), tabs.output_to(1): pass": "WidgetException: Already inside a component",
        "with tabs.output_to(0): 1 / 0": "ZeroDivisionError: division by zero",
    }
    assert {each: page.run(each).error for each in bad} == bad
    assert page.result("with tabs.output_to(0): pass\ntabs.remove()") == ""


def test_outputs_go_into_a_grid(page: Page) -> None:
    page.needs("ipywidgets")
    code = """
from google.colab import widgets
grid = widgets.Grid(2, 2, header_row=True, header_column=True, style='td {color: red}')
with grid.output_to(1, 1): print('x')
cells = [each for each in grid]
grid.clear_cell(1, 1)
seen = []
made = widgets.create_grid([1, 2], [3, 4, 5], lambda a, b: seen.append((a, b)))
print(made.rows, made.columns, seen, cells)
"""
    pairs, cells = [(1, 3), (1, 4), (1, 5), (2, 3), (2, 4), (2, 5)], [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert both(page, code).text.endswith(f"3 4 {pairs} {cells}\n")
    assert page.run("grid.clear_cell(5, 0)").error == "ValueError: 5 is not a valid row"
    assert page.run("grid.output_to(0, 9)").error == "WidgetException: (0, 9) is not a cell of a 2x2 grid"


def test_output_in_a_tab_goes_to_its_widget(page: Page) -> None:
    """Messages in a tab's context are those that an Output widget takes: its msg_id is the cell's meanwhile."""
    page.needs("ipywidgets")
    code = """
from google.colab import widgets
tabs = widgets.TabBar(['a'])
with tabs.output_to('a'): inside = tabs._parts[0].msg_id
print(bool(inside), bool(tabs._parts[0].msg_id))
"""
    assert both(page, code).text.endswith("True False\n")


def test_an_interactive_table_turns_pages_and_sorts(page: Page) -> None:
    page.needs("pandas", "ipywidgets")
    code = (
        FRAME
        + """
from google.colab.widgets import InteractiveTable
table = InteractiveTable(pd.DataFrame({'n': range(25)}), page_size=10)
def shown(): return table._shown.value.count('<td>'), table._shown.value.partition('<nav>')[2][:12]
print(table.rows, shown()); table._next.click(); table._next.click(); table._next.click(); print(shown())
table._sort.value = 0; table._order.value = False; print(shown(), '<td>24</td>' in table._shown.value)
"""
    )
    assert both(page, code).text == "25 (10, '1–10 of 25</')\n(5, '21–25 of 25<')\n(10, '1–10 of 25</') True\n"


def test_missing_ipywidgets_are_an_error(page: Page) -> None:
    code = "import sys; kept = {n: sys.modules.pop(n) for n in list(sys.modules) if n.partition('.')[0] == 'ipywidgets'}\nsys.modules['ipywidgets'] = None\n"
    after = "\nfinally: del sys.modules['ipywidgets']; sys.modules.update(kept)"
    ran = page.run(code + "from google.colab import widgets\ntry: widgets.TabBar(['a'])" + after)
    assert ran.error == "WidgetException: google.colab.widgets needs ipywidgets: %pip install ipywidgets"


def test_an_element_is_displayed_and_controlled(page: Page) -> None:
    made = """
from google.colab import html
box = html.Element('input', attributes={'title': '"x"'}, properties={'value': '</script>'}, src={'module': 'data:text/javascript,'})
box.append_child('<b>t</b>')
clicks = []
def clicked(): clicks.append(1)
box.add_event_listener('click', clicked)
box.add_event_listener('click', 'console.log(1)')
box
"""
    ran = both(page, made)
    assert 'title="&quot;x&quot;"' in ran.html
    assert "\\u003c/script>" in ran.html
    assert "<b>t</b>" in ran.html
    called = re.findall(r'invokeFunction\(\\?"([0-9a-f]+)', ran.html)[0]
    page.run(made)
    answers = {"cell_javascript_eval": lambda body: {"data": "now"}}
    asked = page.run("print(box.get_attribute('title'), box.get_property('value'), box.call('focus', 1))", answers)
    assert asked.text == "now now now\n"
    scripts = [each["script"] for each in asked.asked("cell_javascript_eval")]
    assert [each.partition(")")[2] for each in scripts] == ['.getAttribute("title")', '["value"]', '["focus"](1)']
    answer = page.run(
        "box.set_attribute('a', 'b'); box.set_property('c', [1]); box.remove_event_listener('click', clicked); box.remove()"
    )
    assert len(answer.requests) == 4
    assert not any(each.wants_answer for each in answer.requests)
    assert len(called) == 32


def test_an_element_without_a_page_keeps_its_state(page: Page) -> None:
    code = "from google.colab import html\ne = html.Element('p'); e._repr_html_(); e.set_attribute('a', 'b'); e.set_property('c', 1); print(e.get_attribute('a'), e.get_property('c'))"
    assert page.headless(code).text == "b 1\n"
    assert page.headless("e.set_attribute('a', 1)").error == "ValueError: Attribute value must be a string"
    assert page.headless("html.Element('p', src={'x': 1})").error == "ValueError: Must provide a valid src."


def test_a_resource_is_in_its_address(page: Page) -> None:
    code = "from google.colab import html\nprint(html.create_resource('hello', extension='js').url, html.create_resource(b'x').content)"
    url, content = both(page, code).text.split(" ")
    assert base64.b64decode(url.partition(",")[2]) == b"hello"
    assert url.startswith(("data:text/javascript;", "data:application/javascript;"))
    assert content == "b'x'\n"
    assert page.run("html.create_resource()").error.startswith("ValueError")

"""The output of google.colab in the page, for each row of the table in docs/COLAB.md.

| row | tested here, or where |
|---|---|
| files.*, runtime.unassign, userdata | test_colab.py; upload_file: upload_download of the suite (test_colab_suite.py) |
| drive | drive_train, drive_resume of the suite |
| auth | SIGNING_IN; refused: google_services of the suite |
| output.eval_js, register_callback, serve_kernel_port_as_iframe, kernel.comms | test_colab.py |
| output.serve_kernel_port_as_window | WINDOW |
| output.*_custom_widget_manager | serve_port of the suite |
| output.clear, use_tags, temporary | TAGS |
| output.redirect_to_element, to_*_area, no_vertical_scroll | test_outputs_in_other_areas |
| data_table, display_dataframe, autoviz, widgets.* | test_tables_tabs_and_grids |
| patches.cv2_imshow, cv2.imshow | IMAGES |
| ai | MODELS |
| html | ELEMENT, RESOURCE |
| snippets, syntax, sql, sheets, errors | SMALL; sheets: google_services of the suite |
"""

from __future__ import annotations

import json
from pathlib import Path

from playwright.sync_api import FilePayload, Locator, expect
from tests_browser.lab import Lab, wait_for
from tests_browser.notebook import LabPage, Notebook
from tests_browser.test_colab import prompt_of, write
from tests_colab.suite import put_gcloud

TAGS = """
from google.colab import output
from IPython.display import HTML, display
print("stays")
with output.use_tags(["spinner", "other"]):
    print("printed with a tag")
    display(HTML("<i>shown with a tag</i>"))
with output.use_tags("other"):
    print("has one of both")
output.clear(output_tags=["spinner", "other"])
with output.temporary():
    print("for a moment")
print("and this")
"""

WINDOW = "output.serve_kernel_port_as_window(8123, path='/a', anchor_text='Look')"

IMAGES = """
import numpy as np
from google.colab.patches import cv2_imshow
cv2_imshow(np.full((4, 6, 3), (255, 0, 0)))
open("cv2.py", "w").write("def imshow(name, image): raise SystemExit")
import cv2
try:
    cv2.imshow("window", None)
except ValueError as exc:
    print(type(exc).__name__, "cv2_imshow" in str(exc))
"""

MODELS = """
import http.server, json, os, threading
class Models(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self._say({"data": [{"id": "tiny"}]})
    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self._say({"choices": [{"message": {"content": asked["model"] + ": " + asked["messages"][0]["content"].upper()}}]})
    def _say(self, answer):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(answer).encode())
    def log_message(self, *args):
        pass
models = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Models)
threading.Thread(target=models.serve_forever, daemon=True).start()
os.environ.update(OPENAI_BASE_URL=f"http://127.0.0.1:{models.server_port}/v1", OPENAI_API_KEY="none")
from google.colab import ai
print(ai.list_models(), ai.generate_text("a poem"))
"""

ELEMENT = """
from google.colab import html
clicks = []
button = html.Element("button", attributes={"title": "a button"}, properties={"textContent": "Press"})
button.add_event_listener("click", lambda: clicks.append(1))
button
"""

RESOURCE = """
button.set_property("disabled", True)
print(button.get_attribute("title"), button.get_property("textContent"), clicks)
print(html.create_resource(content="<p>", extension="html").url[:5])
"""

SMALL = """
from google.colab import errors, snippets, sql, syntax
snippets.register("https://example.org/snippets.ipynb")
print(syntax.html("<b>"), syntax.sql("SELECT 1"), issubclass(errors.AuthorizationError, errors.Error))
from google.colab.sql import bigquery
try:
    bigquery.run("SELECT 1")
except errors.Error as exc:
    print("google-cloud-bigquery" in str(exc))
"""

AREAS = """
from google.colab import output
from IPython.display import HTML, display
print("in its turn")
with output.to_footer_area():
    print("beneath")
    with output.to_default_area():
        print("in its turn too")
    display(HTML("<b>beneath too</b>"))
with output.to_header_area():
    print("above")
display(HTML('<div id="place" style="border: 1px solid">here: </div>'))
with output.redirect_to_element("#place"):
    print("moved")
with output.redirect_to_element("#nowhere at [all"):
    print("has no place")
with output.redirect_to_element(".cm-content, .jp-InputPrompt, .jp-Toolbar"):
    print("nor here")
output.no_vertical_scroll()
print("last")
"""

TABLES = """
import pandas as pd
from google.colab import data_table, widgets
frame = pd.DataFrame({"city": ["Rome", "Bern", "Oslo"], "size": [3, 1, 2]})
data_table.DataTable(frame, include_index=False, num_rows_per_page=2)
"""

FORMATTER = """
data_table.enable_dataframe_formatter()
display(frame)
data_table.disable_dataframe_formatter()
display(frame)
"""

TABS = """
tabs = widgets.TabBar(["one", "two"])
with tabs.output_to("two"):
    print("in two")
with tabs.output_to(0):
    print("in one")
"""

GRID = """
grid = widgets.Grid(2, 2, header_row=True)
with grid.output_to(0, 1):
    print("head")
with grid.output_to(1, 1):
    print("body")
widgets.create_grid([1, 2], ["x"], lambda row, column: f"{column}{row}")
data_table.display_dataframe(frame)
widgets.InteractiveTable(frame, page_size=2)
"""

LATE = """
from google.colab.output import eval_js
print(eval_js("new Promise(done => { window.late = done; })", timeout_sec=0.5))
print(repr(input("name? ")))
"""

KEY: FilePayload = {
    "name": "key.json",
    "mimeType": "application/json",
    "buffer": json.dumps({"type": "service_account", "project_id": "p"}).encode(),
}


def run_all(page: LabPage, name: str) -> Notebook:
    """Open a notebook, and start all its cells."""
    notebook = page.notebook(name).ready()
    page.menu("Run", "Run All Cells")
    return notebook


def rows(table: Locator) -> list[list[str]]:
    """Return the text of a table's cells, without the header."""
    return [line.locator("td").all_inner_texts() for line in table.locator("tbody tr").all()]


def test_outputs_of_the_api(page: LabPage, lab: Lab) -> None:
    name = write(lab, "shows.ipynb", TAGS, WINDOW, IMAGES, MODELS, SMALL, ELEMENT)
    notebook = run_all(page, name)
    notebook.cell(5).get_by_role("button", name="Press").click()
    assert notebook.cell(5).get_by_role("button", name="Press").get_attribute("title") == "a button"
    expect(notebook.cell(0).locator(".jp-OutputArea")).not_to_contain_text("with a tag")
    expect(notebook.cell(0).locator(".jp-OutputArea")).not_to_contain_text("for a moment")
    for words in ("stays", "has one of both", "and this"):
        expect(notebook.cell(0).locator(".jp-OutputArea")).to_contain_text(words)
    expect(notebook.cell(1).get_by_role("link", name="Look")).to_have_attribute("href", f"{lab.url}proxy/8123/a")
    assert notebook.cell(2).locator("img").evaluate("image => [image.naturalWidth, image.naturalHeight]") == [6, 4]
    expect(notebook.output(2).last).to_have_text("DisabledFunctionError True")
    expect(notebook.output(3)).to_have_text("['tiny'] tiny: A POEM")
    expect(notebook.output(4)).to_have_text("<b> SELECT 1 True\nTrue\n", use_inner_text=True)
    notebook.write(0, RESOURCE)
    notebook.run(0)
    # The old outputs are there until the code is saved.
    expect(notebook.cell(0).locator(".jp-OutputArea")).to_contain_text("a button Press [1]")
    expect(notebook.output(0)).to_contain_text("data:")
    expect(notebook.cell(5).get_by_role("button", name="Press")).to_be_disabled()


def test_outputs_in_other_areas(page: LabPage, lab: Lab) -> None:
    name = write(lab, "areas.ipynb", AREAS)
    made = json.loads((lab.folder / name).read_text(encoding="utf-8"))
    made["cells"][0]["metadata"]["scrolled"] = True
    (lab.folder / name).write_text(json.dumps(made), encoding="utf-8")
    order = [
        "above",
        "in its turn",
        "in its turn too",
        "here: moved",
        "has no place",
        "nor here",
        "last",
        "beneath",
        "beneath too",
    ]

    def visible_outputs(notebook: Notebook) -> list[str]:
        """Return the visible outputs from top to bottom."""
        shown = [output for output in notebook.output(0).all() if output.is_visible() and not is_nested(output)]
        heights = sorted(map(top, shown))
        return [" ".join(output.inner_text().split()) for y in heights for output in shown if top(output) == y]

    def is_nested(output: Locator) -> bool:
        return bool(output.evaluate("output => output.parentElement.closest('.jp-OutputArea-output') !== null"))

    def top(output: Locator) -> float:
        return (output.bounding_box() or {"y": 0})["y"]

    notebook = page.notebook(name).ready()
    assert "jp-mod-outputsScrolled" in (notebook.cell(0).get_attribute("class") or "")
    notebook.run(0)
    expect(notebook.cell(0)).to_contain_text("last")
    wait_for(lambda: visible_outputs(notebook) == order or None, f"outputs {order}, not {visible_outputs(notebook)}")
    assert "jp-mod-outputsScrolled" not in (notebook.cell(0).get_attribute("class") or "")
    notebook.save()
    texts = json.dumps(json.loads((lab.folder / name).read_text(encoding="utf-8"))["cells"][0]["outputs"])
    assert [texts.count(words) for words in ("above", "moved", "has no place", "beneath")] == [1, 1, 1, 2]

    notebook = page.notebook(name)
    wait_for(lambda: visible_outputs(notebook) == order or None, "the same outputs after a reload")
    notebook.ready().write(0, "print('another')")
    notebook.run(0)
    expect(notebook.cell(0).locator(".jp-OutputArea")).to_have_text("another")

    place = {"data": {"text/html": '<div id="place">here: </div>'}, "metadata": {}, "output_type": "display_data"}
    moved = {"data": {"text/plain": "moved"}, "output_type": "display_data"}
    made["cells"][0]["outputs"] = [
        place,
        *({**moved, "metadata": {"ownlab": {"area": area}}} for area in ("#place", "#output-header")),
    ]
    (lab.folder / "strange.ipynb").write_text(json.dumps(made), encoding="utf-8")
    notebook = page.notebook("strange.ipynb").ready()
    assert visible_outputs(notebook) == ["here:", "moved", "moved"]  # not trusted: it was not run here


def test_tables_tabs_and_grids(page: LabPage, lab: Lab) -> None:
    notebook = run_all(page, write(lab, "tables.ipynb", TABLES, FORMATTER, TABS, GRID))
    table = notebook.output(0).last
    expect(table.locator("tbody tr")).to_have_count(2)
    table.get_by_role("button", name="size").click()
    assert rows(table) == [["Bern", "1"], ["Oslo", "2"]]
    table.get_by_role("button", name="Next").click()
    assert rows(table) == [["Rome", "3"]]
    table.get_by_label("Filter").fill("os")
    assert rows(table) == [["Oslo", "2"]]
    expect(notebook.output(1).nth(0).get_by_label("Filter")).to_be_visible()
    expect(notebook.output(1).nth(1).locator("table.dataframe")).to_be_visible()
    expect(notebook.output(1).nth(1).get_by_label("Filter")).to_have_count(0)

    tabs = notebook.cell(2)
    expect(tabs.get_by_text("in one", exact=True)).to_be_visible()
    expect(tabs.get_by_text("in two", exact=True)).not_to_be_visible()
    tabs.get_by_role("tab", name="two").click()
    expect(tabs.get_by_text("in two", exact=True)).to_be_visible()

    grids = notebook.cell(3)
    for words in ("head", "body", "'x1'", "'x2'"):
        expect(grids.get_by_text(words, exact=True)).to_be_visible()
    grids.get_by_role("tab", name="Charts").click()
    expect(grids.locator("img[alt=chart]").first).to_be_visible()
    grids.get_by_role("button", name="Next").last.click()
    expect(grids.locator("table").last).to_contain_text("Oslo")


def test_sign_in(page: LabPage, lab: Lab, tmp_path: Path) -> None:
    (tmp_path / "person").mkdir()
    around = f"import os\nos.environ.update(PATH={put_gcloud(tmp_path)!r}, HOME={str(tmp_path / 'person')!r})\n"
    cells = (
        around + "from google.colab import auth\nauth.authenticate_user(project_id='p')\nprint('signed in')",
        "auth.authenticate_user()\nauth.authenticate_service_account()\nprint(auth._credentials()['project_id'])",
    )
    notebook = run_all(page, write(lab, "auth.ipynb", *cells))
    expect(notebook.cell(0)).to_contain_text("https://accounts.example.org/authorize")
    notebook.box(0).fill("right")
    notebook.box(0).press("Enter")
    expect(notebook.output(0).last).to_have_text("signed in")
    expect(notebook.cell(0).locator(".jp-OutputArea")).not_to_contain_text("accounts.example.org")
    prompt_of(notebook, 1).locator("input[type=file]").set_input_files([KEY])
    expect(notebook.output(1).last).to_have_text("p")


def test_a_late_answer_does_not_answer_a_later_input(page: LabPage, lab: Lab) -> None:
    notebook = run_all(page, write(lab, "late.ipynb", LATE, "print('after')"))
    expect(notebook.box(0)).to_be_visible()
    page.page.evaluate("window.late('not what was typed')")
    notebook.box(0).fill("typed")
    notebook.box(0).press("Enter")
    expect(notebook.output(0).last).to_contain_text("'typed'")
    expect(notebook.output(1)).to_have_text("after")
    assert "not what was typed" not in notebook.text(0)

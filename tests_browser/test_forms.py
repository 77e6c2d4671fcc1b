"""Colab forms in the page: every field type in both directions, and changes of the cell meanwhile."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import partial

import pytest
from playwright.sync_api import Request, Route, expect
from tests_browser.forms import Forms, write_notebook
from tests_browser.lab import Lab, wait_for
from tests_browser.network import Network
from tests_browser.notebook import LabPage

TYPES = """\
#@title 😀 All types
text = "hello" #@param {type:"string"}
single = 'x' #@param {type:"string"}
choice = "fp16" #@param ["fp32", "fp16"]
either = "a" #@param ["a", "b"] {allow-input: true}
raw = [1, 2] #@param {type:"raw"}
count = 12 #@param {type:"integer"}
rate = 3e-4 #@param {type:"number"}
slide = 0.5 #@param {type:"slider", min:0, max:1, step:0.1}
flag = True #@param {type:"boolean"}
day = "2026-01-31" #@param {type:"date"}
called = int("4") #@param {type:"number"}
if flag:
    inner = "i" #@param {type:"string"}
print(text)"""
SHOWN = {
    "text": "hello", "single": "x", "choice": "fp16", "either": "a", "raw": "[1, 2]", "count": "12", "rate": "3e-4",
    "slide": "0.5", "flag": "true", "day": "2026-01-31", "called": 'int("4")', "inner": "i",
}  # fmt: skip

FORMS_URL = re.compile(r"/ownlab/api/forms\b")
ONE = '#@title One\nname = "a" #@param {type:"string"}\nother = 1 #@param {type:"integer"}'
HIDDEN = '#@title Hidden { display-mode: "form" }\nname = "a" #@param {type:"string"}\nprint("ran", name)'


def test_every_field_type_in_both_directions(page: LabPage, lab: Lab) -> None:
    name = write_notebook(lab, "types.ipynb", TYPES)
    forms = Forms.opened(page, name)
    assert forms.values(0) == SHOWN
    expect(forms.form(0).get_by_role("heading")).to_have_text("😀 All types")

    forms.field(0, "text").fill('say "hi" \\ 😀')
    forms.field(0, "single").fill("it's")
    forms.field(0, "choice").select_option("fp32")
    forms.field(0, "either").fill("something else")
    forms.field(0, "raw").fill("{'a': 1}")
    forms.field(0, "count").fill("-7")
    forms.field(0, "rate").fill("0.5")
    forms.field(0, "slide").fill("0.8")
    forms.field(0, "flag").uncheck()
    forms.field(0, "day").fill("2027-12-24")
    forms.field(0, "called").fill("6 * 7")
    forms.field(0, "inner").fill("")
    written = [
        'text = "say \\"hi\\" \\\\ 😀"', "single = 'it\\'s'", 'choice = "fp32"', 'either = "something else"', "raw = {'a': 1}",
        "count = -7", "rate = 0.5", "slide = 0.8", "flag = False", 'day = "2027-12-24"', "called = 6 * 7",
        "if flag:", '    inner = ""', "print(text)",
    ]  # fmt: skip
    lines = forms.source(0).split("\n")
    comments = [line.partition(" #@")[1:] for line in TYPES.split("\n")]
    assert lines[1:] == [text + "".join(rest) for text, rest in zip(written, comments[1:], strict=True)]
    assert [cell["source"] for cell in forms.saved(lab, name)] == ["\n".join(lines)]

    forms.write(0, TYPES.replace('"hello"', '"back"').replace("True #", "maybe() #"))
    expect(forms.field(0, "text")).to_have_value("back")
    assert forms.values(0) == SHOWN | {"text": "back", "flag": "maybe()"}


def test_invalid_input_is_not_written(page: LabPage, lab: Lab) -> None:
    odd = '#@title Odd\nvalue = "c" #@param ["a", "b"]\nraw = [1] #@param {type:"raw"}\nbig = 900 #@param {type:"slider", max:10}\n'
    forms = Forms.opened(page, write_notebook(lab, "odd.ipynb", odd + 'under = 1_000 #@param {type:"integer"}'))
    before = forms.source(0)
    assert forms.values(0) == {"value": "c", "raw": "[1]", "big": "900", "under": "1_000"}
    for field, typed in (("raw", "[1, 2"), ("raw", '"open'), ("raw", ""), ("under", "1.5"), ("under", "x")):
        forms.field(0, field).fill(typed)
        expect(forms.field(0, field)).to_have_attribute("aria-invalid", "true")
        assert forms.source(0) == before
    forms.press("Escape")
    expect(forms.cell(0)).to_be_focused()
    assert forms.values(0) == {"value": "c", "raw": "[1]", "big": "900", "under": "1_000"}

    forms.field(0, "value").select_option("b")
    expect(forms.line(0, 1)).to_have_text('value = "b" #@param ["a", "b"]')
    assert forms.field(0, "value").locator("option").all_inner_texts() == ["a", "b"]
    slider = forms.form(0).get_by_role("slider", name="big")
    slider.fill("3")
    expect(forms.field(0, "big")).to_have_value("3")
    expect(forms.line(0, 3)).to_have_text('big = 3 #@param {type:"slider", max:10}')


def test_undo(page: LabPage, lab: Lab) -> None:
    forms = Forms.opened(page, write_notebook(lab, "undo.ipynb", ONE))
    forms.field(0, "name").press_sequentially("bc")
    forms.field(0, "other").press("ArrowUp")
    expect(forms.field(0, "other")).to_have_value("2")
    assert '"abc"' in forms.source(0) or '"bca"' in forms.source(0)

    forms.press("ControlOrMeta+z")
    expect(forms.field(0, "other")).to_have_value("1")
    expect(forms.field(0, "name")).not_to_have_value("a")
    forms.press("ControlOrMeta+z")
    expect(forms.field(0, "name")).to_have_value("a")
    assert forms.source(0) == ONE
    forms.press("ControlOrMeta+Shift+z")
    expect(forms.field(0, "name")).not_to_have_value("a")

    forms.line(0, 2).click()
    forms.press("ControlOrMeta+z")
    expect(forms.field(0, "name")).to_have_value("a")
    assert forms.source(0) == ONE


def test_hidden_code(page: LabPage, lab: Lab) -> None:
    both = {"source": ONE, "metadata": {"cellView": "form", "kept": {"a": 1}}}
    name = write_notebook(lab, "hidden.ipynb", HIDDEN, both)
    forms = Forms.opened(page, name).ready()
    for number in (0, 1):
        expect(forms.editor(number)).to_be_hidden()
        expect(forms.prompt(number)).to_be_visible()
        expect(forms.toggle(number)).to_have_attribute("aria-expanded", "false")
    forms.field(0, "name").fill("b")
    assert [name.strip() for name in forms.form(0).get_by_role("button").all_inner_texts()] == ["Show code"]
    forms.cell(0).get_by_role("button", name="Run this cell").click()
    expect(forms.output(0)).to_have_text("ran b")
    expect(forms.prompt(0)).to_have_text("[1]:")

    forms.toggle(0).click()
    expect(forms.editor(0)).to_be_visible()
    expect(forms.toggle(0)).to_have_text("Hide code")
    assert forms.source(0) == HIDDEN.replace('"a"', '"b"')
    forms.form(0).get_by_role("heading").dblclick()
    expect(forms.editor(0)).to_be_hidden()
    forms.form(1).get_by_role("heading").click(button="right")
    page.page.locator(".lm-Menu-item", has_text="Show the Form’s Code").click()
    expect(forms.editor(1)).to_be_visible()
    metadata = [cell["metadata"] for cell in forms.saved(lab, name)]
    assert metadata[0]["cellView"] == "form"
    assert metadata[1] == {"cellView": "both", "kept": {"a": 1}}


AUTO = """\
#@title Auto { run: "auto" }
n = 1 #@param {type:"integer"}
t = "a" #@param {type:"string"}
import pathlib, time
while not pathlib.Path("go").exists():
    time.sleep(0.05)
print(n, t)"""


def test_auto_run(page: LabPage, lab: Lab) -> None:
    go = lab.folder / "go"
    go.touch()
    forms = Forms.opened(page, write_notebook(lab, "auto.ipynb", AUTO)).ready()
    forms.field(0, "n").fill("2")
    forms.press("Enter")
    expect(forms.line(0, 1)).to_contain_text("n = 2")
    expect(forms.prompt(0)).to_have_text("[ ]:")  # the user has not run it yet

    forms.field(0, "t").press("ControlOrMeta+Enter")
    expect(forms.output(0)).to_have_text("2 a")
    expect(forms.field(0, "t")).to_be_focused()
    go.unlink()
    forms.field(0, "n").fill("3")
    forms.press("Tab")
    expect(forms.prompt(0)).to_have_text("[*]:")
    expect(forms.field(0, "t")).to_be_focused()
    for text in ("b", "c"):  # changes during a run cause one more run, not one for each
        forms.field(0, "t").fill(text)
        forms.press("Enter")
    go.touch()
    expect(forms.output(0)).to_have_text("3 c")
    expect(forms.prompt(0)).to_have_text("[3]:")
    expect(forms.field(0, "t")).to_be_focused()


def test_markdown_between_fields(page: LabPage, lab: Lab) -> None:
    words = (
        "#@title A *marked* title\n#@markdown First, <b onclick='x()'>bold</b> <script>window.bad = 1</script>\n"
        'a = "1" #@param {type:"string"}\n#@markdown - one\n#@markdown - two\n#@markdown ---\n#@markdown $x^2$ and [a link](https://example.org)\n'
        'b = "2" #@param {type:"string"}\n'
    )
    forms = Forms.opened(page, write_notebook(lab, "words.ipynb", words))
    form = forms.form(0)
    expect(form.get_by_role("heading").locator("em")).to_have_text("marked")
    expect(form.locator("li")).to_have_text(["one", "two"])
    expect(form.locator("hr")).to_have_count(1)
    expect(form.get_by_role("link", name="a link")).to_have_attribute("href", "https://example.org")
    expect(form.locator("mjx-container")).to_have_count(1)
    expect(form.locator("b")).to_have_text("bold")
    assert form.locator("[onclick], script").count() == 0
    assert page.page.evaluate("window.bad") is None
    order = form.evaluate("form => [...form.children].map(child => child.innerText.trim().split(/\\s/)[0])")
    assert order[1:] == ["First,", "a:", "one", "b:"]


def test_cells_are_deleted_copied_moved_split_and_merged(page: LabPage, lab: Lab) -> None:
    name = write_notebook(lab, "cells.ipynb", ONE, "print('plain')")
    forms = Forms.opened(page, name)
    forms.command_mode(0)
    forms.press("d", "d")
    expect(forms.panel.locator(".ownlab-Form")).to_have_count(0)
    forms.press("z")
    expect(forms.field(0, "name")).to_have_value("a")
    forms.command_mode(0)
    forms.press("c", "v", "v")  # two copies below
    for number in (1, 2):
        forms.field(number, "name").fill(f"copy {number}")
    expect(forms.field(0, "name")).to_have_value("a")
    forms.field(0, "other").click()  # in a cell that is not active
    page.page.keyboard.type("7")
    expect(forms.field(0, "other")).to_have_value(re.compile("17|71"))
    forms.command_mode(2)
    forms.press("ControlOrMeta+Shift+ArrowUp")
    expect(forms.field(1, "name")).to_have_value("copy 2")
    forms.field(1, "name").fill("moved")
    forms.field(1, "other").fill("5")
    expect(forms.field(2, "name")).to_have_value("copy 1")

    forms.line(0, 2).click()
    forms.press("Home", "ControlOrMeta+Shift+-")  # split
    expect(forms.form(1).locator(".ownlab-Form-row")).to_have_count(1)
    forms.field(1, "other").fill("9")
    forms.command_mode(0)
    forms.press("Shift+ArrowDown", "Shift+m")  # merge
    expect(forms.form(0).locator(".ownlab-Form-row")).to_have_count(2)
    expect(forms.field(0, "other")).to_have_value("9")

    forms.command_mode(0)
    forms.press("m")
    expect(forms.panel.locator(".ownlab-Form")).to_have_count(2)
    forms.press("y")
    expect(forms.panel.locator(".ownlab-Form")).to_have_count(3)
    forms.field(0, "name").fill("last")
    forms.write(3, ONE)
    expect(forms.field(3, "name")).to_have_value("a")
    saved = [re.split("\n+", cell["source"])[1:] for cell in forms.saved(lab, name)]  # merging inserts a blank line
    given = [("last", 9), ("moved", 5), ("copy 1", 1), ("a", 1)]
    assert saved == [
        [f'name = "{name}" #@param {{type:"string"}}', f'other = {number} #@param {{type:"integer"}}']
        for name, number in given
    ]


def test_late_responses_of_the_server(page: LabPage, lab: Lab) -> None:
    held: list[Route] = []
    forms = Forms.opened(page, write_notebook(lab, "late.ipynb", ONE))
    page.page.route(FORMS_URL, lambda route: held.append(route))

    field = forms.field(0, "name")
    field.fill("wide")
    field.evaluate("field => field.setSelectionRange(2, 2)")
    field.press_sequentially("XY")
    wait_for(lambda: _process_events(page) and held, "the page asks")
    held.pop(0).continue_()
    field.press_sequentially("Z")
    wait_for(lambda: _process_events(page) and held, "the page asks again")
    expect(field).to_have_value("wiXYZde")
    assert field.evaluate("field => field.selectionStart") == 5
    held.pop(0).continue_()
    expect(forms.form(0)).not_to_have_class(re.compile("ownlab-mod-stale"))
    assert field.evaluate("field => field.selectionStart") == 5

    # The code changes during a request: the response is about an older source.
    forms.line(0, 0).click()
    forms.press("Home")
    page.page.keyboard.insert_text("# more\n")
    wait_for(lambda: _process_events(page) and held, "the page asks")
    page.page.keyboard.insert_text("x = 'y'\n")
    held.pop(0).continue_()
    forms.field(0, "other").fill("42")  # its place in the source is not known now
    assert "other = 1 " in forms.source(0)
    wait_for(lambda: _process_events(page) and held, "the page asks")
    while held:
        held.pop(0).continue_()
    expect(forms.line(0, 4)).to_contain_text("other = 42 ")
    assert forms.source(0) == "# more\nx = 'y'\n" + ONE.replace('"a"', '"wiXYZde"').replace("= 1", "= 42")
    page.page.unroute_all()


def test_viewing_a_notebook_does_not_change_it(page: LabPage, lab: Lab) -> None:
    lines = [f"{line}\n" for line in ONE.split("\n")]
    odd = {"source": lines, "metadata": {"cellView": "form", "id": "x", "colab": {"a": []}}}
    locked = {"source": TYPES, "metadata": {"editable": False}}
    name = write_notebook(lab, "looked.ipynb", TYPES, HIDDEN, ONE, odd, locked)
    before = json.loads((lab.folder / name).read_text(encoding="utf-8"))["cells"]
    forms = Forms.opened(page, name).ready()
    expect(forms.form(3)).to_be_visible()
    forms.field(0, "text").focus()
    for _ in range(8):
        forms.press("Tab")
    for name_of in SHOWN:  # fields of read-only cells are disabled
        expect(forms.field(4, name_of)).to_be_disabled()
    expect(forms.form(4).get_by_role("slider")).to_be_disabled()
    forms.command_mode(2)
    after = forms.saved(lab, name)
    assert [cell["source"] for cell in after] == ["".join(cell["source"]) for cell in before]
    assert [cell["metadata"] for cell in after] == [cell["metadata"] for cell in before]

    write_notebook(lab, name, TYPES.replace("hello", "from disk"))
    page.menu("File", "Reload Notebook from Disk")
    expect(forms.field(0, "text")).to_have_value("from disk")
    expect(forms.panel.locator(".ownlab-Form")).to_have_count(1)


def test_two_views(page: LabPage, lab: Lab) -> None:
    forms = Forms.opened(page, write_notebook(lab, "views.ipynb", ONE, HIDDEN))
    page.menu("File", "New View for Notebook")
    views = page.page.locator(".jp-NotebookPanel")
    expect(views.locator(".ownlab-Form")).to_have_count(4)
    first, second = (views.nth(number).get_by_label("name:", exact=True).first for number in (0, 1))
    first.fill("from the first")
    expect(second).to_have_value("from the first")
    second.fill("and back")
    expect(first).to_have_value("and back")
    assert 'name = "and back" #@' in forms.source(0)
    views.nth(1).locator(".ownlab-Form-toggle").nth(1).click()
    expect(views.locator(".jp-InputArea-editor").nth(1)).to_be_visible()
    expect(views.locator(".jp-InputArea-editor").nth(3)).to_be_visible()


def test_five_hundred_cells_with_windowing(page: LabPage, lab: Lab, windowed: None) -> None:
    cells = [ONE.replace('"a"', f'"{number}"') if number % 5 == 0 else f"print({number})" for number in range(500)]
    asked: list[int] = []

    def on_request(request: Request) -> None:
        if FORMS_URL.search(request.url) and request.post_data:
            asked.append(len(json.loads(request.post_data)["cells"]))

    page.page.on("request", on_request)
    forms = Forms.opened(page, write_notebook(lab, "many.ipynb", *cells))
    expect(forms.field(0, "name")).to_have_value("0")
    assert asked == [100]
    forms.field(0, "name").fill("first")
    for number, share in ((495, 1), (0, 0)):
        wait_for(partial(forms.scrolled_to, number, share), f"the form of cell {number}")
        page.page.keyboard.type("typed")
        cell = forms.panel.locator(f"[data-windowed-list-index='{number}']")
        expect(cell.get_by_label("name:")).to_have_value("typed")
        expect(cell.locator(".cm-line").nth(1)).to_contain_text('name = "typed"')
    wait_for(lambda: _process_events(page) and len(asked) > 1, "changed cells are parsed again")
    assert max(asked[1:]) <= 2, "only changed cells are parsed again"


@pytest.fixture
def windowed(lab: Lab) -> Iterator[None]:
    """Use JupyterLab's "full" windowing: cells out of view are removed from the page."""
    address = f"{lab.url}lab/api/settings/@jupyterlab/notebook-extension:tracker"
    for mode in ("full", "contentVisibility"):
        raw = json.dumps({"windowingMode": mode})
        lab.client.put(address, json={"raw": raw}).raise_for_status()
        if mode == "full":
            yield


def test_the_keyboard(page: LabPage, lab: Lab) -> None:
    source = ONE + '\nflag = False #@param {type:"boolean"}\npick = "a" #@param ["a", "b"]\nprint(name, flag, pick)'
    forms = Forms.opened(page, write_notebook(lab, "keys.ipynb", source, HIDDEN)).ready()
    forms.command_mode(0)
    while not forms.toggle(0).evaluate("one => one === document.activeElement"):  # JupyterLab's own buttons come first
        forms.press("Tab")
    for name in ("name", "other", "flag", "pick"):
        forms.press("Tab")
        expect(forms.field(0, name)).to_be_focused()
    # In a field, letters are input: none of them adds, deletes or cuts a cell.
    for name in ("flag", "pick", "name"):
        forms.field(0, name).focus()
        forms.press("d", "d", "x", "a", "b", "m", "ArrowDown", "ArrowUp")
    assert forms.panel.locator(".jp-Notebook-cell").count() == 2
    forms.field(0, "pick").select_option("b")
    forms.field(0, "name").fill("keys")
    forms.field(0, "flag").focus()
    forms.press("Space", "ControlOrMeta+s", "Shift+Enter")
    expect(forms.output(0)).to_have_text("keys True b")
    expect(forms.cell(1)).to_be_focused()
    expect(forms.cell(1)).to_have_class(re.compile("jp-mod-active"))
    forms.press("Enter")  # its code is hidden, so the fields get the focus
    expect(forms.field(1, "name")).to_be_focused()
    forms.press("End", "b", "Escape")
    expect(forms.field(1, "name")).to_have_value("ab")
    expect(forms.cell(1)).to_be_focused()
    forms.press("a")
    expect(forms.panel.locator(".jp-Notebook-cell")).to_have_count(3)


def test_fields_work_while_the_server_is_unreachable(page: LabPage, lab: Lab) -> None:
    name = write_notebook(lab, "away.ipynb", ONE)
    with Network(int(lab.state["port"])) as network:
        forms = Forms.opened(page, name, network.url).ready()
        network.cut()
        forms.field(0, "name").fill("longer than it was")
        forms.field(0, "other").fill("22")
        assert forms.source(0) == ONE.replace('"a"', '"longer than it was"').replace("= 1", "= 22")
        forms.line(0, 0).click()
        forms.press("Home")
        page.page.keyboard.insert_text("third = 3 #@param {type:'number'}\n")
        forms.field(0, "name").fill("typed meanwhile")
        expect(page.page.locator(".ownlab-ServerNotice")).to_be_visible()
        network.restore()
        expect(forms.field(0, "third")).to_have_value("3")
        expect(forms.line(0, 2)).to_contain_text('name = "typed meanwhile"')
        page.page.goto("about:blank")


def test_a_server_without_forms(page: LabPage, lab: Lab) -> None:
    page.page.route(FORMS_URL, lambda route: route.fulfill(status=404, body="no"))
    with page.page.expect_response(FORMS_URL):
        notebook = page.notebook(write_notebook(lab, "plain.ipynb", HIDDEN))
    expect(notebook.cell(0).locator(".jp-InputArea-editor")).to_be_visible()
    expect(notebook.cell(0)).not_to_have_class(re.compile("ownlab-mod"))
    page.page.unroute_all()


def _process_events(page: LabPage) -> bool:
    """Let Playwright process events: it calls route handlers only during its own calls."""
    page.page.evaluate("0")
    return True

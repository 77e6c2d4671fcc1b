"""google.colab.output: JavaScript, callbacks, tags, areas and ports, in the page and without one."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.guest.colab.page import Page, open_page

OUTPUT = "from google.colab import output\n"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with open_page(tmp_path_factory.mktemp("kernel")) as opened:
        yield opened


def both(page: Page, code: str) -> list[str]:
    """Return what is left of a cell's output, with a page and without one."""
    return [page.result(code), page.headless(code).text]


def test_eval_js_returns_the_result_of_the_script(page: Page) -> None:
    ran = page.run(OUTPUT + "print(output.eval_js('1 + 1'))", {"cell_javascript_eval": lambda body: {"data": 2}})
    assert (ran.text, ran.asked("cell_javascript_eval")) == ("2\n", [{"script": "1 + 1"}])


def test_eval_js_raises_script_errors_and_respects_its_timeout(page: Page) -> None:
    error = {"error": {"name": "TypeError", "message": "x is undefined"}}
    ran = page.run(OUTPUT + "output.eval_js('x()')", {"cell_javascript_eval": lambda body: error})
    assert ran.error == "MessageError: TypeError: x is undefined"
    assert page.result(OUTPUT + "print(output.eval_js('slow()', timeout_sec=0.1))") == "None\n"


def test_eval_js_whose_result_is_ignored_does_not_wait(page: Page) -> None:
    ran = page.run(OUTPUT + "print(output.eval_js('play()', ignore_result=True))")
    assert (ran.text, [each.wants_answer for each in ran.requests]) == ("None\n", [False])
    assert page.headless(OUTPUT + "print(output.eval_js('play()', ignore_result=True))").text == "None\n"


def test_eval_js_without_a_page_fails_but_for_a_ports_address(page: Page) -> None:
    assert "eval_js needs a page" in page.headless(OUTPUT + "output.eval_js('1 + 1')").error
    for script in (
        "google.colab.kernel.proxyPort(8000)",
        "await google.colab.kernel.proxyPort(8000, {'cache': false});",
    ):
        assert page.headless(OUTPUT + f"print(output.eval_js({script!r}))").text == "http://localhost:8000/\n"


def test_javascript_calls_a_function(page: Page) -> None:
    page.result(
        OUTPUT
        + """
from IPython.display import JSON
def add(a, b=0):
    print('adding')
    return JSON({'sum': a + b})
output.register_callback('add', add)
"""
    )
    closed, ran = page.invoke("add", 1, b=2)
    assert (closed["data"]["application/json"], ran.text) == ({"sum": 3}, "adding\n")
    closed, ran = page.invoke("add", "x", b=2)
    assert (closed["error"]["name"], ran.error[:9]) == ("TypeError", "TypeError")
    code = "from google.colab.output import _js; print(_js._invoke_function('add', '[1]', '{\"b\": 4}').data)"
    assert page.result(code) == "adding\n{'sum': 5}\n"


def test_an_unregistered_callback_is_not_called(page: Page) -> None:
    page.headless(OUTPUT + "output.register_callback('gone', lambda: None); output.unregister_callback('gone')")
    closed, _ = page.invoke("gone")
    assert closed["error"] == {"name": "ValueError", "message": "Function not found: gone"}
    assert page.headless(OUTPUT + "output.unregister_callback('gone')").error == (
        "ValueError: Callback function not registered: gone."
    )


def test_a_function_that_returns_nothing_and_asks_the_page(page: Page) -> None:
    page.result(OUTPUT + "from google.colab import _message\noutput.register_callback('ask', _message.can_ask)")
    assert page.invoke("ask")[0]["data"]["text/plain"] == "True"
    page.result(OUTPUT + "output.register_callback('nothing', lambda: None)")
    assert page.invoke("nothing")[0] == {"data": {}, "metadata": {}}


def test_clear_removes_everything(page: Page) -> None:
    assert both(page, OUTPUT + "print('old'); output.clear(); print('new')") == ["new\n"] * 2
    assert both(page, OUTPUT + "print('old'); output.clear(wait=True)") == ["old\n"] * 2
    assert both(page, OUTPUT + "print('old'); output.clear(wait=True); print('new')") == ["new\n"] * 2
    assert page.run(OUTPUT + "output.clear(wait=1)").error == "ValueError: wait must be a boolean value"


def test_clear_removes_outputs_with_all_given_tags(page: Page) -> None:
    code = """
from IPython.display import display
print('0')
with output.use_tags('a') as tags:
    print('1', tags == {'a'})
    display({'text/plain': '2 '}, raw=True)
    print('3')
    with output.use_tags(['b', 'c']):
        print('4')
    with output.use_tags('d', append=False):
        print('5')
    print('6')
print('7')
"""
    kept = {
        "": ["0\n1 True\n2 3\n4\n5\n6\n7\n"] * 2,
        "output.clear(output_tags='a')": ["0\n5\n7\n"] * 2,
        "output.clear(output_tags=['a', 'b'])": ["0\n1 True\n2 3\n5\n6\n7\n"] * 2,
        "output.clear(output_tags='d')": ["0\n1 True\n2 3\n4\n6\n7\n"] * 2,
        "output.clear(output_tags='e')": ["0\n1 True\n2 3\n4\n5\n6\n7\n"] * 2,
    }
    assert {clear: both(page, OUTPUT + code + clear) for clear in kept} == kept


def test_temporary_output_is_cleared_unless_the_block_failed(page: Page) -> None:
    code = (
        OUTPUT
        + "import sys\nprint('a')\nwith output.temporary():\n print('b'); print('c', file=sys.stderr)\nprint('d')"
    )
    assert both(page, code) == ["a\nd\n"] * 2
    ran = page.headless(OUTPUT + "with output.temporary():\n print('seen')\n 1 / 0")
    assert (ran.text, ran.error) == ("seen\n", "ZeroDivisionError: division by zero")
    assert page.headless("print('afterwards')").text == "afterwards\n"


def test_a_progress_bar_with_a_tag_is_one_line(page: Page) -> None:
    code = "import sys\nwith output.use_tags('x'):\n for n in range(5): sys.stdout.write(f'\\r{n} of 5'); sys.stdout.flush()\n print(' done')"
    assert both(page, OUTPUT + code) == ["4 of 5 done\n"] * 2


def test_long_text_is_not_sent_repeatedly(page: Page) -> None:
    code = """
import time
with output.use_tags('x'):
    for number in range(4000):
        print(number, 'x' * 60)
        if number % 400 == 0: time.sleep(0.2)
    print('half', end=' '); print('a line')
"""
    wanted = "".join(f"{number} {'x' * 60}\n" for number in range(4000)) + "half a line\n"
    ran = page.run(OUTPUT + code)
    assert ran.text == wanted
    parts = [each["data"]["text/plain"] for each in ran.outputs]
    assert max(map(len, parts)) < 70_000
    assert all(each.endswith("\n") for each in parts)


def test_output_that_is_captured_stays_captured(page: Page) -> None:
    code = (
        OUTPUT
        + """
from IPython.utils.capture import capture_output
with capture_output() as kept:
    with output.temporary():
        print('inside')
print('kept', repr(kept.stdout))
"""
    )
    assert both(page, code) == ["kept 'inside\\n'\n"] * 2


def test_areas_are_the_pages_and_plain_output_without_one(page: Page) -> None:
    code = (
        OUTPUT
        + """
print('first')
with output.to_header_area(): print('head')
with output.to_footer_area():
    print('foot')
    with output.to_default_area(), output.use_tags('t'): print('body')
    print('foot again')
with output.redirect_to_element('#it\\'s'):
    print('cleared')
    output.clear()
    print('there')
output.no_vertical_scroll()
"""
    )
    ran = page.run(code.replace("    output.clear()\n", ""))
    areas = [(each["data"]["text/plain"], each.get("metadata", {})) for each in ran.outputs]
    assert areas == [
        ("first\n", {}),
        ("head\n", {"ownlab": {"area": "#output-header"}}),
        ("foot\n", {"ownlab": {"area": "#output-footer"}}),
        ("body\n", {}),
        ("foot again\n", {"ownlab": {"area": "#output-footer"}}),
        ("cleared\nthere\n", {"ownlab": {"area": "#it's"}}),
    ]
    assert [each["script"][:41] for each in ran.asked("cell_javascript_eval")] == [
        "google.colab.output.setIframeHeight(-1, t"
    ]
    assert page.run(code).text == "there\n"
    alone = page.headless(code)
    assert (alone.text, alone.requests) == ("there\n", [])


def test_a_port_is_proxied_with_a_page_and_direct_without(page: Page) -> None:
    for ran in (page.run(OUTPUT + "output.serve_kernel_port_as_iframe(8000, path='/a?b=<c>', height='600')"),):
        assert "colab.kernel.proxyPort(8000, {cache: false})" in ran.html
        assert 'new URL("./a?b=\\u003cc>", base)' in ran.html
        assert 'height: "600"' in ran.html
        assert "<c>" not in ran.html
        assert ran.text == "http://localhost:8000/a?b=<c>"
    ran = page.headless(OUTPUT + "output.serve_kernel_port_as_window(8000, anchor_text='<Look>')")
    assert '<a href="http://localhost:8000/" target="_blank" rel="noopener">&lt;Look&gt;</a>' in ran.html


def test_widget_manager_calls_do_nothing(page: Page) -> None:
    code = (
        OUTPUT
        + "output.enable_custom_widget_manager(); output.enable_custom_widget_manager('5.0.0a'); output.disable_custom_widget_manager()"
    )
    assert both(page, code) == ["", ""]

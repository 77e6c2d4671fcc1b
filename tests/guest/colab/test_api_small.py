"""Small modules of google.colab: the package, unassign, credentials, snippets, and unavailable features."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.guest.colab.page import Page, open_page

GCLOUD = """#!/bin/sh
# Stands in for Google's program: prints an address, and takes the code "right" for a sign-in.
[ "$1 $2" = "auth activate-service-account" ] && { [ -r "$5" ]; exit; }
[ "$1 $2 $3" = "auth application-default login" ] || exit 3
echo "Go to the following link in your browser:"; echo; echo "    https://accounts.example.org/?x=1"; echo
printf "Once finished, enter the verification code: "; read -r code
[ "$code" = right ] || { echo "ERROR: wrong code"; exit 1; }
mkdir -p "$HOME/.config/gcloud"
echo '{"type": "authorized_user"}' > "$HOME/.config/gcloud/application_default_credentials.json"
echo "Credentials saved."
"""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    folder = tmp_path_factory.mktemp("kernel")
    (folder / "bin").mkdir()
    (folder / "bin" / "gcloud").write_text(GCLOUD)
    (folder / "bin" / "gcloud").chmod(0o755)
    with open_page(folder, {"HOME": str(folder), "PATH": f"{folder / 'bin'}:{os.environ['PATH']}"}) as opened:
        yield opened


def error(page: Page, code: str) -> str:
    """The error that a cell ends with, in the page as without one."""
    ran, alone = page.run(code), page.headless(code)
    assert ran.error == alone.error
    return ran.error


def test_the_package_lists_what_colabs_lists(page: Page) -> None:
    code = """
import google.colab
print(' '.join(google.colab.__all__))
from google.colab import *
print(all(name in globals() for name in google.colab.__all__))
print(google.colab.userdata.get, google.colab.ai.list_models, google.colab.patches.cv_imshow)
"""
    listed, everything, *_ = page.result(code).splitlines()
    assert listed == "auth autoviz data_table drive files output runtime snippets widgets"
    assert everything == "True"
    assert error(page, "import google.colab; google.colab.nothing").startswith("AttributeError: module 'google.colab'")


def test_there_is_no_google_package_that_hides_others(page: Page) -> None:
    assert page.result("import google; print(google.__file__ if hasattr(google, '__file__') else None)") == "None\n"


def test_signatures_are_colabs(page: Page) -> None:
    code = """
import inspect, json
from google.colab import ai, auth, data_table, files, output, patches, runtime, snippets, userdata, widgets, _message, html
def of(f): return str(inspect.signature(f)).partition(' ->')[0].replace("'", '')
def plain(f): return [f'{p.name}={p.default!r}' if p.default is not p.empty else p.name for p in inspect.signature(f).parameters.values()]
found = {f.__module__ + '.' + f.__qualname__: plain(f) for f in [
 files.upload, files.upload_file, files.download, files.view, userdata.get, auth.authenticate_user,
 auth.authenticate_service_account, output.eval_js, output.register_callback, output.clear, output.use_tags,
 output.serve_kernel_port_as_iframe, output.serve_kernel_port_as_window, output.enable_custom_widget_manager,
 data_table.DataTable, widgets.TabBar, widgets.Grid, widgets.create_grid, runtime.unassign, snippets.register,
 patches.cv2_imshow, ai.generate_text, html.Element, html.create_resource, _message.blocking_request, _message.send_request]}
print(json.dumps(found))
"""
    signatures = {name.removeprefix("google.colab."): value for name, value in json.loads(page.result(code)).items()}
    assert signatures == {
        "files.upload": ["target_dir=''"],
        "files.upload_file": ["filename"],
        "files.download": ["filename"],
        "files.view": ["filepath"],
        "userdata.get": ["key"],
        "auth.authenticate_user": ["clear_output=True", "project_id=None"],
        "auth.authenticate_service_account": ["clear_output=True"],
        "output._js.eval_js": ["script", "ignore_result=False", "timeout_sec=None"],
        "output._js.register_callback": ["function_name", "callback"],
        "output._tags.clear": ["wait=False", "output_tags=()"],
        "output._tags.use_tags": ["tags", "append=True"],
        "output._ports.serve_kernel_port_as_iframe": [
            "port",
            "path='/'",
            "width='100%'",
            "height='400'",
            "cache_in_notebook=False",
        ],
        "output._ports.serve_kernel_port_as_window": ["port", "path='/'", "anchor_text=None", "skip_warning=False"],
        "output._widgets.enable_custom_widget_manager": ["version='5.0.0a'"],
        "data_table.DataTable": [
            "dataframe",
            "include_index=None",
            "num_rows_per_page=None",
            "max_rows=None",
            "max_columns=None",
            "min_width=None",
        ],
        "widgets._tabbar.TabBar": ["tab_names", "location='top'"],
        "widgets._grid.Grid": ["rows", "columns", "header_row=False", "header_column=False", "style=''"],
        "widgets._grid.create_grid": [
            "row_data",
            "col_data",
            "render",
            "header_render=None",
            "header_row=True",
            "header_column=True",
        ],
        "runtime.unassign": [],
        "snippets.register": ["url"],
        "patches.cv2_imshow": ["a"],
        "ai.generate_text": ["prompt", "model_name='google/gemini-2.5-flash'", "stream=False"],
        "html._element.Element": ["tag", "attributes=None", "properties=None", "src=None"],
        "html._resource.create": [
            "content=None",
            "filepath=None",
            "handler=None",
            "headers=None",
            "extension=None",
            "route=None",
        ],
        "_message.blocking_request": ["request_type", "request=''", "timeout_sec=5", "parent=None"],
        "_message.send_request": ["request_type", "request_body", "parent=None", "expect_reply=True"],
    }


def test_the_extension_loads(page: Page) -> None:
    assert page.result("%load_ext google.colab\n%reload_ext google.colab\nprint('on')") == "on\n"


def test_syntax_returns_the_string(page: Page) -> None:
    code = "from google.colab import syntax; print(syntax.html('a'), syntax.javascript('b'), syntax.sql('c'), syntax.css('d'))"
    assert page.result(code) == "a b c d\n"


def test_snippets_are_registered_only_with_a_page(page: Page) -> None:
    code = "from google.colab import snippets; snippets.register('https://example.org/a.ipynb')"
    assert page.run(code).asked("register_snippets") == [{"url": "https://example.org/a.ipynb"}]
    ran = page.headless(code)
    assert (ran.requests, ran.error) == ([], "")


def test_google_only_features_name_alternatives(page: Page) -> None:
    assert "needs Google's own page" in error(
        page, "from google.colab import sheets; sheets.InteractiveSheet(title='x')"
    )
    assert "google-cloud-bigquery" in error(page, "from google.colab.sql import bigquery; bigquery.run('SELECT 1')")
    assert error(page, "from google.colab import autoviz; autoviz.get_df('x')").startswith("ValueError: autoviz.get_df")


def test_credentials_that_are_there_are_enough(page: Page, tmp_path: Path) -> None:
    key = tmp_path / "key.json"
    key.write_text(json.dumps({"type": "service_account"}))
    code = f"""
import os; os.environ['GOOGLE_APPLICATION_CREDENTIALS'] = {str(key)!r}
from google.colab import auth
auth.authenticate_user(project_id='my-project'); auth.authenticate_service_account()
print(os.environ.pop('GOOGLE_CLOUD_PROJECT'))
del os.environ['GOOGLE_APPLICATION_CREDENTIALS']
"""
    assert page.result(code) == page.headless(code).text == "my-project\n"


def test_missing_credentials_are_an_error(page: Page) -> None:
    code = "from google.colab import auth; auth.authenticate_user()"
    none = "AuthorizationError: There are no Google credentials. Run `gcloud auth application-default login`"
    assert page.headless(code).error.startswith(none)
    without = "import os; path = os.environ['PATH']; os.environ['PATH'] = ''\ntry: " + code.partition("; ")[2]
    assert page.run(f"from google.colab import auth\n{without}\nfinally: os.environ['PATH'] = path").error.startswith(
        none
    )
    assert "needs a page" in page.headless("from google.colab import auth; auth.authenticate_service_account()").error


def test_gcloud_signs_a_person_in(page: Page) -> None:
    code = "from google.colab import auth; auth.authenticate_user(); print('signed in')"
    wrong = page.run(code, {"input": lambda body: {"data": "wrong"}})
    assert "gcloud auth application-default login" in wrong.error
    assert "ERROR: wrong code" in wrong.error
    assert "https://accounts.example.org/?x=1" in wrong.text
    asked: list[str] = []

    def type_code(body: dict[str, Any]) -> dict[str, Any]:
        asked.append(body["prompt"])
        return {"data": "right"}

    assert page.result(code, {"input": type_code}) == "signed in\n", "what was shown meanwhile is gone"
    assert asked == ["Enter the authorization code: "]
    assert page.headless(code).text == "signed in\n"
    page.result(
        "import os, pathlib; pathlib.Path.home().joinpath('.config/gcloud/application_default_credentials.json').unlink()"
    )


def test_a_service_accounts_key_is_uploaded(page: Page) -> None:
    def pick(body: dict[str, Any], content: str) -> dict[str, Any]:
        path = Path(body["target_dir"]) / "key.json"
        path.write_text(content)
        return {"data": {"files": [{"name": "key.json", "path": str(path)}]}}

    code = "from google.colab import auth; auth.authenticate_service_account()"
    wrong = page.run(code, {"ownlab_upload": lambda body: pick(body, "{}")})
    assert wrong.error == "AuthorizationError: Invalid service account key provided"
    page.result(code, {"ownlab_upload": lambda body: pick(body, '{"type": "service_account"}')})
    kept = page.result(
        "import os; path = os.environ['GOOGLE_APPLICATION_CREDENTIALS']; print(oct(os.stat(path).st_mode)[-3:], path)"
    )
    mode, _, path = kept.strip().partition(" ")
    assert (mode, json.loads(Path(path).read_text())) == ("600", {"type": "service_account"})
    page.result("os.remove(os.environ.pop('GOOGLE_APPLICATION_CREDENTIALS')); os.rmdir(os.path.dirname(path))")


def test_a_kernel_outside_ownlab_cannot_unassign(page: Page) -> None:
    code = "import os; os.environ.pop('OWNLAB_RUNTIME', 0)\nfrom google.colab import runtime; runtime.unassign()"
    assert error(page, code) == "RuntimeManagementError: This kernel is not a runtime of ownlab, so it cannot be ended."


def test_a_runtime_that_does_not_end_is_an_error(page: Page, tmp_path: Path) -> None:
    code = f"""
import os
os.environ.update(OWNLAB_RUNTIME='none', OWNLAB_HOST={sys.executable!r}, OWNLAB_HOME={str(tmp_path)!r}, OWNLAB_STORE={str(tmp_path)!r})
from google.colab import runtime
try: runtime.unassign()
finally: del os.environ['OWNLAB_RUNTIME'], os.environ['OWNLAB_HOST']
"""
    assert page.headless(code).error.startswith("RuntimeManagementError: The runtime could not be ended")


def test_the_page_ends_the_runtime(tmp_path: Path) -> None:
    with open_page(tmp_path, {"OWNLAB_RUNTIME": "some-runtime"}) as page:
        asked: list[Any] = []

        class Ending(Page):
            def _answer(self, ran: Any, metadata: dict[str, Any], body: Any, answers: Any) -> None:
                asked.append((metadata["colab_request_type"], body))
                self.reply(metadata["colab_msg_id"], data={})
                self.manager.signal_kernel(15)  # as the server does when a session is shut down

        request = page.client.execute("from google.colab import runtime; runtime.unassign(); open('after', 'w')")
        end = time.monotonic() + 180
        while page.manager.is_alive() and time.monotonic() < end:
            try:
                message = page.client.get_iopub_msg(timeout=0.1)
            except Exception:  # noqa: BLE001 nothing yet
                continue
            if message["msg_type"] == "colab_request" and message["parent_header"]["msg_id"] == request:
                Ending(page.manager, page.client)._answer(
                    None, message["metadata"], message["content"]["request"], None
                )
        assert not page.manager.is_alive()
        assert asked == [("ownlab_unassign", {})]
        assert not (tmp_path / "after").exists(), "nothing of the cell runs after it"

"""google.colab in the page: requests of the kernel are answered in the cell; scripts in outputs call the kernel."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import httpx
from playwright.sync_api import FilePayload, Locator, expect
from tests_browser.lab import CPU, Lab, notebook_of, wait_for
from tests_browser.notebook import LabPage, Notebook

from ownlab.lab.secrets.store import list_secrets, set_secret

UPLOAD = """
from google.colab import files
got = files.upload()
print(sorted((name, len(content)) for name, content in got.items()))
"""

FILES: list[FilePayload] = [
    {"name": "data.csv", "mimeType": "text/csv", "buffer": b"a,b\n1,2\n"},
    {"name": "größer (2).bin", "mimeType": "application/octet-stream", "buffer": bytes(range(256)) * 40_000},
]

USERDATA_CELL = """
from google.colab import userdata
try:
    print("length", len(userdata.get("TOKEN_OF_TESTS")))
except Exception as exc:
    print(type(exc).__name__)
"""

GRANT_CELL = """
from google.colab import _message
print(_message.blocking_request("ownlab_grant", {"key": "NEW_TOKEN", "notebook": ""}, timeout_sec=None))
print(len(__import__("google.colab.userdata").colab.userdata.get("NEW_TOKEN")))
"""

SCRIPTS = """
from IPython.display import Javascript, display
from google.colab.output import eval_js
display(Javascript('''
async function pressed(words) {
  const button = document.createElement('button');
  button.textContent = words;
  document.body.appendChild(button);
  await new Promise(done => button.onclick = done);
  button.remove();
  return {words, inCell: true};
}
'''))
print(eval_js("pressed('Take the photo')"))
print(eval_js("1 + 1"), eval_js("[1, 'two', null]"), eval_js("await Promise.resolve('waited')"))
print(eval_js("document.title = 'Changed by a script'", ignore_result=True))
try:
    eval_js("nowhere.to.be.found")
except Exception as exc:
    print(type(exc).__name__, exc)
"""

CALLS = """
from IPython.display import HTML, JSON, display
from google.colab import output
def add(one, other, times=1):
    print("called with", one, other)
    return JSON({"sum": (one + other) * times})
def fail():
    raise RuntimeError("on purpose")
output.register_callback("test.add", add)
output.register_callback("test.fail", fail)
display(HTML('''
<button id="call">Call</button> <span id="said"></span> <span id="failed"></span>
<script>
document.querySelector('#call').onclick = async () => {
  const result = await google.colab.kernel.invokeFunction('test.add', [1, 2], {times: 2});
  document.querySelector('#said').textContent = 'sum ' + result.data['application/json'].sum;
  try {
    await google.colab.kernel.invokeFunction('test.fail', [], {});
  } catch (error) {
    document.querySelector('#failed').textContent = error.name + ': ' + error.message;
  }
};
</script>'''))
"""

SERVED = """
import http.server, threading
from google.colab import output
class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(f"<p>served {self.path}</p>".encode())
    def log_message(self, *args):
        pass
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page)
threading.Thread(target=server.serve_forever, daemon=True).start()
output.serve_kernel_port_as_iframe(server.server_port, path="/hello")
print(output.eval_js(f"google.colab.kernel.proxyPort({server.server_port})"))
"""

# A DataFrame as saved by Colab.
SAVED_TABLE = """
<div id="df-1"><table><tr><td>a saved table</td></tr></table>
<button class="colab-df-convert" onclick="convertToInteractive('df-1')" style="display:none;">Convert</button>
<script>
  const buttonEl = document.querySelector('#df-1 button.colab-df-convert');
  buttonEl.style.display = google.colab.kernel.accessAllowed ? 'block' : 'none';
  async function convertToInteractive(key) {
    const element = document.querySelector('#df-1');
    const dataTable = await google.colab.kernel.invokeFunction('convertToInteractive', [key], {});
    if (!dataTable) return;
    element.innerHTML = '';
  }
</script></div>
"""


def write(lab: Lab, name: str, *cells: str) -> str:
    """Write a notebook with Colab mode into the lab's folder."""
    made = notebook_of(CPU, *cells)
    made["metadata"]["ownlab"] = {"colab": True}
    (lab.folder / name).write_text(json.dumps(made), encoding="utf-8")
    return name


def prompt_of(notebook: Notebook, number: int) -> Locator:
    """Return the prompt of a cell."""
    return notebook.cell(number).locator(".ownlab-Ask")


def choose(notebook: Notebook, number: int, files: list[FilePayload]) -> None:
    with notebook.page.expect_file_chooser() as chooser:
        prompt_of(notebook, number).get_by_role("button", name="Choose files").click()
    chooser.value.set_files(files)


def test_files_are_uploaded_downloaded_and_viewed(page: LabPage, lab: Lab) -> None:
    download = "open('über uns.txt', 'w').write('bytes of a file')\nfiles.download('über uns.txt')\nprint('gone on')"
    elsewhere = "import tempfile\nwith tempfile.NamedTemporaryFile('w', suffix='.txt') as file:\n    print(file.write('elsewhere'), file.flush())\n    files.download(file.name)"
    view = (
        f"open({str(lab.folder / 'seen.txt')!r}, 'w').write('to be seen')\nfiles.view({str(lab.folder / 'seen.txt')!r})"
    )
    notebook = page.notebook(write(lab, "files.ipynb", UPLOAD, download, "files.upload()", elsewhere, view)).ready()
    notebook.run(0)
    expect(prompt_of(notebook, 0)).to_contain_text("This notebook asks for files.")
    choose(notebook, 0, FILES)
    expect(notebook.output(0).last).to_contain_text("[('data.csv', 8), ('größer (2).bin', 10240000)]")
    expect(prompt_of(notebook, 0)).to_have_count(0)

    with page.page.expect_download() as downloaded:
        notebook.run(1)
    assert downloaded.value.suggested_filename == "über uns.txt"
    assert Path(downloaded.value.path()).read_bytes() == b"bytes of a file"
    expect(notebook.output(1)).to_contain_text("gone on")

    notebook.run(2)
    prompt_of(notebook, 2).get_by_role("button", name="Cancel").click()
    expect(notebook.output(2)).to_contain_text("The upload was cancelled in the page")
    expect(prompt_of(notebook, 2)).to_have_count(0)
    with page.page.expect_download() as downloaded:
        notebook.run(3)
    assert Path(downloaded.value.path()).read_bytes() == b"elsewhere"
    notebook.run(4)
    expect(page.page.locator(".jp-FileEditor .cm-content")).to_contain_text("to be seen")
    (lab.folder / "by a script.txt").write_text("seen by a script")
    page.page.evaluate("path => google.colab.files.view(path)", str(lab.folder / "by a script.txt"))
    expect(page.page.get_by_text("seen by a script")).to_be_visible()


def test_files_beside_a_notebook_are_found(page: LabPage, lab: Lab) -> None:
    (lab.folder / "beside.csv").write_text("a,b\n1,2\n")
    code = "name = 'beside'\nprint(open(name + '.csv').read())\nopen(name + '.csv', 'w').write('changed')"
    notebook = page.notebook(write(lab, "reader.ipynb", code)).ready()
    notebook.run(0)
    expect(notebook.output(0).first).to_contain_text("1,2")
    expect(notebook.output(0).last).to_contain_text("Copied from the notebook's folder into /content: beside.csv.")
    assert (lab.folder / "beside.csv").read_text() == "a,b\n1,2\n"


def test_an_upload_prompt_survives_a_reload(pages: Callable[[], LabPage], lab: Lab) -> None:
    name = write(lab, "waiting.ipynb", UPLOAD, "files.upload()")
    first = pages()
    notebook = first.notebook(name).ready()
    notebook.run(0)
    expect(prompt_of(notebook, 0)).to_be_visible()
    notebook = first.notebook(name)
    expect(prompt_of(notebook, 0)).to_be_visible()
    other = pages().notebook(name)
    expect(prompt_of(other, 0)).to_be_visible()
    choose(other, 0, FILES[:1])
    for shown in (notebook, other):
        expect(prompt_of(shown, 0)).to_have_count(0)
        expect(shown.output(0).last).to_contain_text("[('data.csv', 8)]")
    notebook.run(1)
    expect(prompt_of(other, 1)).to_be_visible()
    lab.client.post(f"{lab.url}api/kernels/{lab.kernel_of(name)}/interrupt").raise_for_status()
    for shown in (notebook, other):
        expect(shown.output(1)).to_contain_text("KeyboardInterrupt")
        expect(prompt_of(shown, 1)).to_have_count(0)


def test_secrets_are_granted_or_refused(page: LabPage, lab: Lab) -> None:
    set_secret("TOKEN_OF_TESTS", "a-value-of-tests", lab.environ)
    name = write(lab, "secrets.ipynb", USERDATA_CELL, USERDATA_CELL, GRANT_CELL)
    notebook = page.notebook(name).ready()
    notebook.run(0)
    expect(prompt_of(notebook, 0)).to_contain_text("This notebook asks for the secret TOKEN_OF_TESTS.")
    prompt_of(notebook, 0).get_by_role("button", name="Refuse").click()
    expect(notebook.output(0)).to_have_text("NotebookAccessError")
    notebook.run(1)
    expect(prompt_of(notebook, 1)).to_be_visible()
    notebook.run(1)  # a reflex: the question stays
    expect(page.notification).to_contain_text("This cell waits for your answer")
    prompt_of(notebook, 1).get_by_role("button", name="Grant access").click()
    expect(notebook.output(1)).to_have_text("length 16")
    focused = page.page.evaluate("document.activeElement.closest('.jp-Notebook') !== null")
    assert focused, "the keyboard belongs to the notebook again, not to nothing"
    assert list_secrets(lab.environ)[0].notebooks == (str((lab.folder / name).resolve()),)
    notebook.run(0)
    expect(notebook.output(0)).to_have_text("length 16")

    notebook.run(2)
    expect(prompt_of(notebook, 2)).to_contain_text("which does not exist yet")
    prompt_of(notebook, 2).get_by_label("Value of NEW_TOKEN").fill("typed in")
    prompt_of(notebook, 2).get_by_role("button", name="Save and grant access").click()
    expect(notebook.output(2)).to_contain_text("{'granted': True}")
    expect(notebook.output(2)).to_contain_text("8")
    notebook.save()
    assert "typed in" not in (lab.folder / name).read_text(encoding="utf-8")


def test_a_secret_that_is_granted_in_the_panel_answers_the_cell(page: LabPage, lab: Lab) -> None:
    set_secret("TOKEN_OF_PANEL", "a-value-of-the-panel", lab.environ)
    name = write(lab, "panel.ipynb", USERDATA_CELL.replace("TOKEN_OF_TESTS", "TOKEN_OF_PANEL"))
    notebook = page.notebook(name).ready()
    notebook.run(0)
    expect(prompt_of(notebook, 0)).to_contain_text("This notebook asks for the secret TOKEN_OF_PANEL.")
    row = page.side_panel("Secrets").get_by_role("article", name="TOKEN_OF_PANEL")
    row.get_by_role("switch").click()
    expect(notebook.output(0)).to_have_text("length 20")
    expect(prompt_of(notebook, 0)).to_have_count(0)


def test_eval_js_and_calls_from_scripts(page: LabPage, lab: Lab) -> None:
    notebook = page.notebook(write(lab, "scripts.ipynb", SCRIPTS, CALLS, SERVED)).ready()
    notebook.run(0)
    notebook.cell(0).get_by_role("button", name="Take the photo").click()
    expect(notebook.output(0).last).to_contain_text("{'words': 'Take the photo', 'inCell': True}")
    expect(notebook.output(0).last).to_contain_text("2 [1, 'two', None] waited")
    expect(notebook.output(0).last).to_contain_text("MessageError ReferenceError: nowhere is not defined")

    notebook.run(1)
    notebook.cell(1).get_by_role("button", name="Call").click()
    expect(notebook.cell(1).locator("#said")).to_have_text("sum 6")
    expect(notebook.cell(1).locator("#failed")).to_have_text("RuntimeError: on purpose")
    expect(notebook.cell(1)).to_contain_text("called with 1 2")

    notebook.run(2)
    frame = notebook.cell(2).frame_locator("iframe")
    expect(frame.locator("p")).to_have_text("served /hello")
    expect(notebook.output(2).last).to_contain_text(f"{lab.url}proxy/")
    address = notebook.output(2).last.inner_text().strip()
    assert lab.client.get(address).is_success
    assert not httpx.get(address, trust_env=False).is_success


def test_outputs_saved_by_colab_are_harmless(page: LabPage, lab: Lab) -> None:
    made = notebook_of(CPU, "df")
    made["metadata"]["colab"] = {"provenance": []}
    kinds = {
        "text/plain": "a table",
        "text/html": SAVED_TABLE,
        "application/vnd.google.colaboratory.intrinsic+json": {"type": "dataframe", "variable_name": "df"},
    }
    made["cells"][0]["outputs"] = [
        {"output_type": "execute_result", "execution_count": 1, "metadata": {}, "data": kinds},
        {
            "output_type": "display_data",
            "metadata": {},
            "data": {"application/vnd.colab-display-data+json": {"pip_warning": {"packages": ["numpy"]}}},
        },
    ]
    (lab.folder / "saved.ipynb").write_text(json.dumps(made), encoding="utf-8")
    trust = [sys.executable, "-m", "jupyter", "trust", str(lab.folder / "saved.ipynb")]
    subprocess.run(trust, env=lab.environ, check=True, capture_output=True)
    notebook = page.notebook("saved.ipynb").ready()
    expect(notebook.cell(0)).to_contain_text("a saved table")
    expect(notebook.cell(0).locator(".colab-df-convert")).to_have_css("display", "none")  # its script ran
    assert page.page.evaluate("google.colab.kernel.invokeFunction('convertToInteractive', ['df-1'], {})") is None


def test_unassign_ends_the_runtime(page: LabPage, lab: Lab) -> None:
    name = write(lab, "unassign.ipynb", "from google.colab import runtime\nruntime.unassign()")
    notebook = page.notebook(name).ready()
    kernel = lab.kernel_of(name)
    notebook.run(0)
    wait_for(lambda: lab.runtime(kernel) is None, "the runtime has ended")


def test_colab_mode_is_switched(page: LabPage, lab: Lab) -> None:
    name = lab.write("switch.ipynb", CPU, "import sys\nprint('google.' + 'colab' in sys.modules)")
    notebook = page.notebook(name).ready()
    notebook.run(0)
    expect(notebook.output(0)).to_have_text("False")
    notebook.indicator.click()
    switch = page.page.get_by_role("switch", name="Colab mode: off")
    expect(switch).not_to_be_checked()
    switch.click()
    expect(page.dialog).to_contain_text("Restart the kernel in Colab mode?")
    assert json.loads((lab.folder / name).read_text(encoding="utf-8"))["metadata"]["ownlab"] == {"colab": True}
    page.answer("Restart")
    notebook.ready()
    notebook.indicator.click()
    expect(page.page.get_by_role("switch", name="Colab mode: on")).to_be_checked()
    page.page.keyboard.press("Escape")
    notebook.run(0)
    expect(notebook.output(0)).to_have_text("True")

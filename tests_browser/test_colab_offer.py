"""Notebooks that need Colab mode without saying so, and outputs that reach their kernel's machine as on Colab."""

from __future__ import annotations

import json

from playwright.sync_api import expect
from tests_browser.lab import CPU, Lab
from tests_browser.notebook import LabPage
from tests_browser.test_colab import write

# A library that looks for Colab; the notebook itself does not name it.
PROBE = """
import importlib
try:
    importlib.import_module("google" + ".colab")
except ImportError:
    print("not on Colab")
"""

OFFER = "google.colab is available in Colab mode"


def test_one_click_from_an_import_error_to_colab_mode(lab: Lab, page: LabPage) -> None:
    lab.write("new.ipynb", CPU, "size = 3", PROBE, "")
    notebook = page.notebook("new.ipynb").ready()
    notebook.run(0)
    notebook.run(1)
    expect(notebook.output(1)).to_have_text("not on Colab")
    # Typed after the kernel has started as a plain one.
    notebook.write(2, "from google.colab import drive\nprint(size, __import__('os').getcwd())")
    notebook.run(2)
    offer = notebook.cell(2).get_by_role("group", name=OFFER)
    expect(offer).to_contain_text("the cells above that have run are run again")
    assert notebook.panel.get_by_role("group", name=OFFER).count() == 1  # none for the cell that only probes
    # It is not an output, and is there again after a reload.
    page.page.reload()
    notebook.ready()
    expect(offer).to_be_visible()
    offer.get_by_role("button", name="Restart in Colab mode and run again").click()
    expect(notebook.output(2)).to_have_text("3 /content")
    expect(notebook.output(1)).to_have_count(0)
    expect(offer).to_have_count(0)
    saved = json.loads((lab.folder / "new.ipynb").read_text())
    assert saved["metadata"]["ownlab"]["colab"] is True
    assert OFFER not in json.dumps(saved["cells"])


def test_the_drive_is_mounted_first_whatever_failed_above(lab: Lab, page: LabPage) -> None:
    lab.write("mount.ipynb", CPU, "1 / 0", "print('run', 'again')", "")
    notebook = page.notebook("mount.ipynb").ready()
    notebook.run(0)
    expect(notebook.output(0)).to_contain_text("ZeroDivisionError")
    notebook.run(1)
    expect(notebook.output(1)).to_have_text("run again")
    notebook.cell(2).locator(".cm-content").click()
    page.files("Drive").get_by_role("button", name="Mount Drive").click()
    page.answer("Restart and mount")
    expect(notebook.output(2)).to_contain_text("Mounted at /content/drive")
    expect(notebook.prompt(2)).to_have_text("[1]:")
    expect(notebook.prompt(1)).to_have_text("[2]:")
    expect(notebook.prompt(0)).to_have_text("[1]:")  # of before: it failed, and was not run again


def test_a_declined_offer_stays_away(lab: Lab, page: LabPage) -> None:
    lab.write("plain.ipynb", CPU, "")
    notebook = page.notebook("plain.ipynb").ready()
    notebook.write(0, "import google.colab.patches")
    notebook.run(0)
    offer = notebook.cell(0).get_by_role("group", name=OFFER)
    offer.get_by_role("button", name="Not now").click()
    expect(offer).to_have_count(0)
    notebook.run(0)
    expect(notebook.prompt(0)).to_have_text("[2]:")
    expect(offer).to_have_count(0)


# As in Google's notebook advanced_outputs: a script gets bytes, and loads what the kernel serves.
BUFFERS = """
from IPython.display import HTML, Javascript, display
def answer(comm, message):
    comm.send({"size": len(message["buffers"][0])}, None, [bytes(message["buffers"][0])])
get_ipython().kernel.comm_manager.register_target("bytes", answer)
display(Javascript('''
(async () => {
  const sent = new Uint8Array([7, 8, 9]);
  const channel = await google.colab.kernel.comms.open('bytes', 'the data', [sent.buffer]);
  for await (const message of channel.messages) {
    const got = new Uint8Array(message.buffers[0]);
    element.append(`${message.data.size} bytes: ${[...got]} ${message.buffers[0] instanceof ArrayBuffer}`);
    break;
  }
})();
'''))
"""

SERVED = """
import http.server, threading
from IPython.display import HTML, display
class Files(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/javascript")
        self.end_headers()
        self.wfile.write(b"document.getElementById('place').append('loaded ' + location.protocol)")
    def log_message(self, *args):
        pass
files = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Files)
threading.Thread(target=files.serve_forever, daemon=True).start()
display(HTML(f'<div id="place"></div><script src="https://localhost:{files.server_port}/code.js"></script>'))
"""


def test_buffers_and_addresses_in_outputs(lab: Lab, page: LabPage) -> None:
    write(lab, "outputs.ipynb", BUFFERS, SERVED)
    notebook = page.notebook("outputs.ipynb").ready()
    notebook.run(0)
    expect(notebook.output(0)).to_contain_text("3 bytes: 7,8,9 true")
    notebook.run(1)
    expect(notebook.output(1)).to_contain_text("loaded http:")

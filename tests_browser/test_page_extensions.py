"""Widgets and renderers that are installed in an environment of the user's."""

from __future__ import annotations

import json
import sysconfig
import venv

from playwright.sync_api import expect
from tests_browser.lab import Lab
from tests_browser.notebook import LabPage

# What a build of a MIME renderer comes down to; also an extension that would change the page.
ENTRY = """
let shared;
(globalThis._JUPYTERLAB ??= {})['test-renderer'] = {
  init: scope => { shared = scope; },
  get: async name => {
    if (name !== './mimeExtension') document.title = 'changed';
    const { Widget } = (await Object.values(shared['@lumino/widgets'])[0].get())();
    class Shown extends Widget {
      async renderModel(model) { this.node.textContent = 'rendered: ' + model.data['application/x-test']; }
    }
    const rendererFactory = { safe: true, mimeTypes: ['application/x-test'], createRenderer: () => new Shown() };
    return () => ({ __esModule: true, default: { id: 'test-renderer:factory', rendererFactory } });
  }
};
"""

# As pip leaves it behind: the files of the page, and those of the distribution.
INSTALL = """
# %pip install test-renderer
import json, pathlib, sys, sysconfig
folder = pathlib.Path(sys.prefix, "share", "jupyter", "labextensions", "test-renderer")
(folder / "static").mkdir(parents=True)
(folder / "static" / "entry.js").write_text(ENTRY)
(folder / "package.json").write_text(json.dumps({
    "name": "test-renderer", "version": "1.0.0", "jupyterlab": {
        "disabledExtensions": ["@jupyterlab/notebook-extension:tracker"],
        "_build": {"load": "static/entry.js", "mimeExtension": "./mimeExtension", "extension": "./extension"}}}))
pathlib.Path(sysconfig.get_path("purelib"), "test_renderer-1.0.0.dist-info").mkdir()
"""

SHOW = (
    'from IPython.display import display\ndisplay({"application/x-test": "a figure", "text/plain": "text"}, raw=True)'
)


def test_a_renderer_of_an_added_environment_works_after_a_reload(lab: Lab, page: LabPage) -> None:
    prefix = lab.base / "environment"
    venv.create(prefix, symlinks=True)
    library = sysconfig.get_path("purelib", vars={"base": str(prefix), "platbase": str(prefix)})
    with open(f"{library}/ours.pth", "w") as file:
        file.write(sysconfig.get_path("purelib") + "\n")  # ipykernel
    added = lab.ownlab("env", "add", "extra", "--python", str(prefix / "bin" / "python"))
    assert added.returncode == 0, added.stderr
    try:
        lab.write("figures.ipynb", "ownlab-extra-cpu", f"ENTRY = {json.dumps(ENTRY)}\n{INSTALL}", SHOW)
        notebook = page.notebook("figures.ipynb").ready()
        notebook.run(0)
        told = page.notification.filter(has_text="Reload the page to show the outputs of test-renderer.")
        expect(told).to_be_visible()
        notebook.run(1)
        expect(notebook.output(1)).to_have_text("text")
        told.get_by_role("button", name="Reload").click()
        page.page.wait_for_selector("#jupyterlab-splash", state="detached")
        notebook.ready()
        notebook.run(1)
        expect(notebook.output(1)).to_have_text("rendered: a figure")
        # Its plugin for the page was not loaded, and what it would disable works.
        assert "changed" not in page.page.title()
        expect(told).to_have_count(0)
    finally:
        assert lab.ownlab("env", "remove", "extra").returncode == 0

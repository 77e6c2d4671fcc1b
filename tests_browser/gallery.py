"""Screenshots of every step of a test, wide and narrow, light and dark, for people who look at them.

They are taken only if OWNLAB_GALLERY names a folder.
"""

from __future__ import annotations

import os
from pathlib import Path

from playwright.sync_api import Page, expect

__all__ = ["Gallery"]

FOLDER = "OWNLAB_GALLERY"
SIZES = ((1440, 900), (1000, 800))
THEMES = ("JupyterLab Light", "JupyterLab Dark")

# As `jupyter lab --expose-app-in-browser` does. The configuration is complete once something follows it: a page that arrives in
# pieces shows the observer a part of it first.
_EXPOSE_APP = """
new MutationObserver((_, observer) => {
    const config = document.getElementById('jupyter-config-data');
    if (config?.nextSibling) {
        observer.disconnect();
        config.textContent = JSON.stringify({...JSON.parse(config.textContent), exposeAppInBrowser: true});
    }
}).observe(document, {childList: true, subtree: true});
"""


class Gallery:
    """Takes pictures of one page. It must be made before the page is loaded."""

    def __init__(self, page: Page) -> None:
        self.page, self.count = page, 0
        self.folder = Path(os.environ[FOLDER]) if os.environ.get(FOLDER) else None
        if self.folder:
            self.folder.mkdir(parents=True, exist_ok=True)
            # JupyterLab's menu changes the theme, too, but not while a dialog or a menu is open.
            page.add_init_script(_EXPOSE_APP)

    def shoot(self, name: str) -> None:
        """Take the page in every size and theme, and leave it as it was."""
        self.count += 1
        before = self.page.viewport_size
        if self.folder is None or before is None:
            return
        for theme in (*THEMES[1:], THEMES[0]):
            self.page.evaluate("theme => jupyterapp.commands.execute('apputils:change-theme', {theme})", theme)
            expect(self.page.locator("body")).to_have_attribute("data-jp-theme-name", theme)
            expect(self.page.locator("#jupyterlab-splash")).to_have_count(0)
            for width, height in SIZES:
                self.page.set_viewport_size({"width": width, "height": height})
                self.page.evaluate(
                    "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
                )
                word = theme.rpartition(" ")[2].lower()
                self.page.screenshot(path=self.folder / f"{self.count:02d}-{name}-{width}-{word}.png")
            self.page.set_viewport_size(before)

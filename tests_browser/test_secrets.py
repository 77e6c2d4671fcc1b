"""The panel of secrets: they are added, granted to notebooks, and removed."""

from __future__ import annotations

from playwright.sync_api import APIResponse, Route, expect
from tests_browser.lab import CPU, Lab
from tests_browser.notebook import LabPage

from ownlab.lab.secrets.store import list_secrets, read_secret

VALUE = "a-value-that-nobody-sees"


def test_secrets_are_added_granted_and_removed(page: LabPage, lab: Lab) -> None:
    sent: list[str] = []
    held: list[tuple[Route, APIResponse]] = []
    page.page.on("response", lambda answer: sent.append(answer.text()) if "/api/secrets" in answer.url else None)
    name = lab.write("asks.ipynb", CPU, "import google.colab.userdata as u\nprint(len(u.get('PANEL_TOKEN')))")
    notebook = page.notebook(name).ready()
    page.page.route("**/api/secrets**", lambda route: held.append((route, route.fetch())), times=1)
    panel = page.side_panel("Secrets")
    value = panel.get_by_label("Value", exact=True)
    panel.get_by_label("Name").fill("PANEL_TOKEN")
    value.fill(VALUE)
    panel.get_by_role("button", name="Add secret").click()
    row = panel.get_by_role("article", name="PANEL_TOKEN")
    expect(row).to_be_visible()
    with page.page.expect_event("requestfinished", lambda request: request == held[0][0].request):
        held[0][0].fulfill(response=held[0][1])
    assert row.is_visible()  # an outdated response is ignored
    expect(value).to_have_value("")
    access = row.get_by_role("switch")
    expect(access).not_to_be_checked()
    access.click()
    expect(access).to_be_checked()
    path = str((lab.folder / name).resolve())
    assert read_secret("PANEL_TOKEN", [path], lab.environ).value == VALUE
    notebook.run(0)
    expect(notebook.output(0)).to_have_text(str(len(VALUE)))

    row.get_by_role("button", name="Replace").click()
    expect(row.get_by_label("New value of PANEL_TOKEN")).to_have_value("")
    row.get_by_label("New value of PANEL_TOKEN").fill("another")
    row.get_by_role("button", name="Save").click()
    expect(row.get_by_role("button", name="Save")).to_have_count(0)
    notebook.run(0)
    expect(notebook.output(0)).to_have_text("7")

    panel.get_by_label("Name").fill("PANEL_TOKEN")
    value.fill("x")
    value.press("Enter")
    expect(panel.get_by_role("alert")).to_contain_text("A secret named PANEL_TOKEN already exists")
    access.click()
    expect(access).not_to_be_checked()
    row.get_by_role("button", name="Remove").click()
    expect(page.dialog).to_contain_text("Remove the secret PANEL_TOKEN?")
    page.answer("Remove")
    expect(row).to_have_count(0)
    assert "PANEL_TOKEN" not in [secret.name for secret in list_secrets(lab.environ)]
    assert sent
    assert not any(VALUE in text for text in sent)

"""A notebook connects when it is needed: opening starts nothing, running a cell or Connect starts its last runtime type."""

from __future__ import annotations

import json
import os
import re
import signal
import sys
from collections.abc import Callable

import pytest
from playwright.sync_api import Locator, expect
from tests_browser.lab import CARD, CPU, Lab, notebook_of, wait_for
from tests_browser.notebook import LabPage, Notebook

PRINT_CARDS = "import os; print('sees', repr(os.environ['CUDA_VISIBLE_DEVICES']))"


def menu_of(page: LabPage) -> Locator:
    return page.page.get_by_role("dialog", name="This notebook’s runtime")


def test_opening_starts_nothing_and_a_cell_connects(page: LabPage, lab: Lab) -> None:
    notebook = page.notebook(lab.write("opened.ipynb", CARD, PRINT_CARDS, "print('second')"))
    expect(notebook.connect_button).to_contain_text("1 × GTX 1080 Ti")
    page.page.wait_for_timeout(1_000)  # JupyterLab would have started a kernel by now
    assert lab.get("api/sessions") == []
    assert lab.snapshot()["runtimes"] == []

    notebook.run(0)
    notebook.run(1)  # while it is connecting
    expect(notebook.output(0)).to_have_text(re.compile(r"sees '\d'"))
    expect(notebook.output(1)).to_have_text("second")
    expect(notebook.indicator).to_contain_text("1 × GTX 1080 Ti")
    assert [runtime["type"] for runtime in lab.snapshot()["runtimes"]] == [CARD]
    expect(page.dialog).to_have_count(0)


def test_a_running_runtime_is_attached_to(pages: Callable[[], LabPage], lab: Lab) -> None:
    first = pages()
    notebook = first.notebook(lab.write("attached.ipynb", CPU, "x = 41", "print(x + 1)")).ready()
    notebook.run(0)
    expect(notebook.prompt(0)).to_have_text("[1]:")
    first.page.close()
    later = pages().notebook("attached.ipynb")
    expect(later.indicator).to_contain_text("CPU")
    later.run(1)
    expect(later.output(1)).to_have_text("42")


def test_a_notebook_of_another_machine_gets_a_type_of_its_language(page: LabPage, lab: Lab) -> None:
    made = notebook_of("conda-env-somewhere-py", "print('ran')")
    (lab.folder / "foreign.ipynb").write_text(json.dumps(made), encoding="utf-8")
    notebook = page.notebook("foreign.ipynb")
    notebook.run(0)
    expect(notebook.output(0)).to_have_text("ran")
    expect(page.notification).to_contain_text("no runtime type conda-env-somewhere-py: foreign")
    expect(page.dialog).to_have_count(0)  # JupyterLab would ask which kernel to start


def test_a_new_notebook_keeps_its_type(page: LabPage, lab: Lab) -> None:
    page.open()
    page.tile(CARD).click()
    notebook = Notebook(page.page)
    expect(notebook.connect_button).to_contain_text("1 × GTX 1080 Ti")
    notebook.write(0, "1 + 1")
    wait_for(
        lambda: any(CARD in file.read_text(encoding="utf-8") for file in lab.folder.glob("Untitled*.ipynb")),
        "the type is saved in the notebook",
    )
    assert lab.get("api/sessions") == []


def test_the_connection_can_be_read_in_a_narrow_window(page: LabPage, lab: Lab) -> None:
    page.page.set_viewport_size({"width": 1000, "height": 700})
    notebook = page.notebook(lab.write("narrow.ipynb", CARD, ""))
    expect(notebook.connect_button).to_be_visible()
    notebook.connect()
    expect(notebook.panel.locator(".ownlab-Indicator-button.ownlab-state-running")).to_be_visible()
    for label in ("RAM", "Disk"):
        bar = notebook.indicator.locator(".ownlab-Bar", has_text=label)
        expect(bar.locator(".ownlab-Bar-figure")).to_have_text(re.compile(r"^[\d.]+ [KMGT]iB$"))
        expect(bar.locator(".ownlab-Bar-figure")).to_be_visible()
    box = notebook.indicator.bounding_box()
    toolbar = notebook.panel.locator(".jp-NotebookPanel-toolbar").bounding_box()
    assert box is not None
    assert toolbar is not None
    assert toolbar["x"] < box["x"]
    assert box["x"] + box["width"] <= toolbar["x"] + toolbar["width"] <= 1000


@pytest.mark.restarts_kernel
def test_a_cell_run_right_after_the_runtime_was_stopped_elsewhere(pages: Callable[[], LabPage], lab: Lab) -> None:
    """By the command line, and by another page: the cell connects the notebook again, or says that it has not run."""
    page = pages()
    name = lab.write("elsewhere.ipynb", CPU, "before = 1", "print('before' in dir())")
    notebook = page.notebook(name).ready()
    stops: list[Callable[[str], object]] = [lambda kernel: lab.ownlab("runtimes", "stop", kernel), lab.end]
    for stop in stops:
        notebook.run(0)
        expect(notebook.prompt(0)).to_have_text("[1]:")
        stop(lab.kernel_of(name))
        notebook.run(1)
        said = page.notification.filter(has_text="The runtime was stopped before the cell ran.")
        expect(said.or_(notebook.output(1)).first).to_be_visible()
        if notebook.output(1).count() == 0:  # the runtime took it while it was ending
            notebook.run(1)
        expect(notebook.prompt(1)).to_have_text("[1]:")
        expect(notebook.output(1)).to_have_text("False")
        expect(page.dialog).to_have_count(0)
        lab.end(lab.kernel_of(name))
        expect(notebook.connect_button).to_be_visible()


@pytest.mark.restarts_kernel
def test_disconnect_and_delete_says_what_it_deletes(page: LabPage, lab: Lab) -> None:
    made = notebook_of(CPU, "open('/content/made.txt', 'w').write('x' * 2048)")
    made["metadata"]["ownlab"] = {"colab": True}
    (lab.folder / "deleted.ipynb").write_text(json.dumps(made), encoding="utf-8")
    notebook = page.notebook("deleted.ipynb").ready()
    notebook.run(0)
    expect(notebook.output(0)).to_have_text("2048")
    kernel = lab.kernel_of("deleted.ipynb")
    content = lab.base / "home" / "content" / kernel
    assert (content / "made.txt").exists()

    notebook.indicator.click()
    menu_of(page).get_by_role("button", name="Disconnect and delete runtime…").click()
    expect(page.dialog).to_contain_text("all variables")
    expect(page.dialog).to_contain_text(re.compile(r"the folder /content of this runtime, with .*\d KiB"))
    expect(page.dialog).to_contain_text("are kept")
    page.answer("Cancel")
    assert (content / "made.txt").exists()

    page.menu("Runtime", "Disconnect and Delete Runtime…")
    page.answer("Disconnect and delete")
    expect(notebook.connect_button).to_be_visible()
    wait_for(lambda: not content.exists(), "/content is deleted")
    assert (lab.folder / "deleted.ipynb").exists()
    notebook.run(0)  # connects again
    assert lab.kernel_of("deleted.ipynb") != kernel
    expect(notebook.prompt(0)).to_have_text("[1]:")
    expect(page.dialog).to_have_count(0)
    assert len(lab.snapshot()["runtimes"]) == 1  # none without a notebook was left behind


@pytest.mark.restarts_kernel
def test_restart_and_run_all(page: LabPage, lab: Lab) -> None:
    notebook = page.notebook(lab.write("again.ipynb", CPU, "print('seen' in dir())", "seen = 1"))
    page.menu("Runtime", "Restart and Run All…")  # not connected: nothing to restart, and nothing to ask
    expect(notebook.output(0)).to_have_text("False")
    expect(notebook.prompt(1)).to_have_text("[2]:")
    notebook.run(0)
    expect(notebook.output(0)).to_have_text("True")
    notebook.indicator.click()
    menu_of(page).get_by_role("button", name="Restart and run all…").click()
    page.answer("Confirm Kernel Restart")  # JupyterLab's own dialog
    expect(notebook.prompt(1)).to_have_text("[2]:")
    expect(notebook.output(0)).to_have_text("False")


def test_idle_runtimes_can_be_stopped_in_the_queue(page: LabPage, lab: Lab) -> None:
    kernels = [lab.start(f"idle-{number}.ipynb", CARD) for number in range(4)]
    wait_for(
        lambda: [runtime["state"] for runtime in lab.snapshot()["runtimes"]] == ["running"] * 4, "four runtimes run"
    )
    notebook = page.notebook(lab.write("fifth.ipynb", CARD, PRINT_CARDS))
    notebook.run(0)
    idle = page.dialog.get_by_role("region", name="Your idle runtimes")
    expect(idle).to_contain_text(re.compile(r"idle-2\.ipynb.*1 × GTX 1080 Ti, idle for \d+ (s|min)"))
    idle.get_by_role("button", name="Stop the runtime of idle-2.ipynb").click()
    expect(notebook.output(0)).to_contain_text("sees")
    expect(page.dialog).to_have_count(0)
    assert lab.runtime(kernels[2]) is None


@pytest.mark.kills_server
def test_a_server_that_dies_while_a_notebook_is_opened(page: LabPage, lab: Lab) -> None:
    """JupyterLab closes a notebook if its request for checkpoints fails."""
    lab.write("opening.ipynb", CPU, "print('opened')")
    page.open()
    killed = lab.server_pid

    def kill(route: object) -> None:
        if lab.server_pid == killed:
            os.kill(killed, signal.SIGKILL)
        route.continue_()  # type: ignore[attr-defined]

    page.page.route("**/checkpoints*", kill)
    with page.page.expect_event("requestfailed", lambda request: "checkpoints" in request.url):
        page.page.locator(".jp-DirListing-item", has_text="opening.ipynb").dblclick()
    wait_for(lambda: lab.server_pid != killed and lab.is_up(), "another server answers")
    notebook = Notebook(page.page)
    notebook.run(0)
    expect(notebook.output(0)).to_have_text("opened")


def test_the_runtime_menu_has_each_command_once(page: LabPage, lab: Lab) -> None:
    page.notebook(lab.write("menu.ipynb", CPU, "1")).ready()
    page.page.locator(".lm-MenuBar-item", has_text="Runtime").click()
    items = page.page.locator(".lm-Menu-item:not([data-type=separator]):visible .lm-Menu-itemLabel")
    expect(items.first).to_have_text("Connect")
    labels = items.all_inner_texts()
    page.page.keyboard.press("Escape")
    assert len(set(labels)) == len(labels)
    # Of two commands for the same thing, ours: they say what happens to the card and to /content.
    assert "Change Runtime Type…" in labels
    assert "Stop Runtime…" in labels
    for twice in ("Change Kernel…", "Shut Down Kernel", "Reconnect to Kernel"):
        assert twice not in labels


def test_the_toolbar_names_the_environment(page: LabPage, lab: Lab) -> None:
    assert lab.ownlab("env", "add", "second", "--python", sys.executable).returncode == 0
    try:
        wait_for(lambda: "ownlab-second-cpu" in lab.get("api/kernelspecs")["kernelspecs"], "the lab lists its types")
        notebook = page.notebook(lab.write("second.ipynb", "ownlab-second-cpu", "1"))
        expect(notebook.connect_button).to_contain_text("CPU · second")
        notebook.ready()
        expect(notebook.indicator).to_contain_text("CPU · second")
        notebook.indicator.click()
        expect(menu_of(page)).to_contain_text("Environment: second")
    finally:
        assert lab.ownlab("env", "remove", "second").returncode == 0


def test_a_notebook_that_names_the_cpu_type_as_the_command_line_does(page: LabPage, lab: Lab) -> None:
    notebook = page.notebook(lab.write("named.ipynb", "ownlab-cpu", "print('runs')"))
    notebook.run(0)
    expect(notebook.output(0)).to_have_text("runs")
    expect(page.dialog).to_have_count(0)
    expect(page.notification).to_have_count(0)

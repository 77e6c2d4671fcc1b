"""Notebooks that were written for a GPU on Colab: the page proposes a runtime type with a card."""

from __future__ import annotations

import json

from playwright.sync_api import expect
from tests_browser.lab import CARD, CPU, Lab, notebook_of, wait_for
from tests_browser.notebook import LabPage


def test_a_runtime_type_is_proposed(page: LabPage, lab: Lab) -> None:
    made = notebook_of(CPU, "print(1)")
    made["metadata"] |= {"accelerator": "GPU", "colab": {"gpuType": "T4", "odd": [1, None]}}
    for name in ("made-for-t4.ipynb", "stays.ipynb"):
        (lab.folder / name).write_text(json.dumps(made), encoding="utf-8")
    notebook = page.notebook("made-for-t4.ipynb")
    expect(page.notification).to_contain_text(
        "This notebook was made for a T4 GPU. Run it on 1 × NVIDIA GeForce GTX 1080 Ti?"
    )
    assert lab.get("api/sessions") == []  # nothing has been started for it
    page.notification.get_by_role("button", name="Run it there").click()
    expect(notebook.indicator).to_contain_text("1 × GTX 1080 Ti")
    wait_for(
        lambda: (lab.runtime(lab.kernel_of("made-for-t4.ipynb")) or {}).get("type") == CARD, "the notebook has a card"
    )
    expect(page.notification).to_have_count(0)
    notebook.ready().save()
    saved = json.loads((lab.folder / "made-for-t4.ipynb").read_text(encoding="utf-8"))["metadata"]
    assert saved["kernelspec"]["name"] == CARD
    assert {"accelerator": saved["accelerator"], "colab": saved["colab"]} == {
        "accelerator": "GPU", "colab": {"gpuType": "T4", "odd": [1, None]},
    }  # fmt: skip

    notebook = page.notebook("stays.ipynb").ready()
    expect(page.notification).to_be_visible()
    notebook.run(0)
    expect(page.notification).to_have_count(0)  # running a cell is a decision
    lab.end(lab.kernel_of("stays.ipynb"))
    page.notebook("stays.ipynb").ready()
    page.notification.get_by_role("button", name="Not for this notebook").click()

    def remembered() -> bool:
        metadata = json.loads((lab.folder / "stays.ipynb").read_text(encoding="utf-8"))["metadata"]
        return bool(metadata.get("ownlab") == {"accelerator": False} and metadata["colab"] == made["metadata"]["colab"])

    wait_for(remembered, "the decision is saved in the notebook")
    lab.end(lab.kernel_of("stays.ipynb"))
    page.notebook("stays.ipynb").ready()
    expect(page.notification).to_have_count(0)

"""A notebook on a node of a real cluster, as people see it: the tile, the queue, the running cell, a cut line, a node without power."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect
from tests.lab.engines.slurm.cluster import missing
from tests.lab.engines.slurm.node_namespaces import NodeCluster, lacking
from tests_browser.gallery import Gallery
from tests_browser.lab import ROOT, Lab, wait_for
from tests_browser.notebook import LabPage, Notebook

ONE, ALL, CPU = "ownlab-slurm-gpu-1-fake", "ownlab-slurm-gpu-4-fake", "ownlab-slurm-gpu-cpu"
WHERE = "import os; print(os.uname().nodename, 'sees', repr(os.environ['CUDA_VISIBLE_DEVICES']))"
# Prints a line whenever a file of the next number appears, so that the test decides how far it is.
STEPS = """\
import os, time
for number in range(1, 4):
    while not os.path.exists(f"step-{number}"): time.sleep(0.02)
    print("step", number, flush=True)
print("end")"""
SLEEPS = "import time\nprint('at work', flush=True)\nwhile True: time.sleep(0.05)"


@pytest.fixture(scope="module")
def cluster() -> Iterator[NodeCluster]:
    """Two nodes in namespaces of this machine, with four fake GPUs each."""
    reason = missing() or lacking()
    if reason:
        pytest.skip(reason)
    root = Path(tempfile.mkdtemp(prefix="ownlab-slurm-", dir="/tmp"))
    root.chmod(0o755)
    cluster = NodeCluster(root, node_timeout=3600, kill_wait=10)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
        shutil.rmtree(root, ignore_errors=True)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory, cluster: NodeCluster) -> Iterator[Lab]:
    """A lab on the login node, which has no card."""
    created = Lab(
        tmp_path_factory.mktemp("lab"),
        SLURM_CONF=cluster.env["SLURM_CONF"],
        PATH=cluster.env["PATH"],
        OWNLAB_MACHINE=str(ROOT / "tests" / "machines" / "cpu.json"),
        OWNLAB_LAB_ENGINE="slurm",
        OWNLAB_SLURM_POLL_SECONDS="0.5",
        OWNLAB_SLURM_DEADLINE_SECONDS="120",
    )
    try:
        yield created.up()
    finally:
        created.clear()


def test_a_tile_starts_a_notebook_on_a_node_and_a_cut_line_loses_nothing(
    page: LabPage, lab: Lab, cluster: NodeCluster
) -> None:
    gallery = Gallery(page.page)
    page.open()
    expect(page.tile(ONE)).to_contain_text("free on the cluster · at most 1 h")
    gallery.shoot("tiles")
    page.tile(ONE).click()
    notebook = Notebook(page.page).ready()
    notebook.write(0, WHERE)
    notebook.run(0)
    expect(notebook.output(0)).to_have_text(re.compile(r"^n[12] sees '0'\s*$"))
    node = notebook.text(0).split()[0]
    expect(notebook.indicator).to_contain_text("1 × fake")
    gallery.shoot("ran")
    [runtime] = lab.snapshot()["runtimes"]
    name = runtime["notebook"].rpartition("/")[2]
    row = page.details(name)
    expect(row).to_contain_text(f"node {node}")
    expect(row).to_contain_text("card 0")
    gallery.shoot("panel")
    row.get_by_role("button", name=f"Open a terminal on the node of {name}").click()
    terminal = page.page.locator(".jp-Terminal")
    expect(terminal.locator(".xterm-screen")).to_be_visible()
    terminal.click()
    page.page.keyboard.type("(hostname; echo job=$SLURM_JOB_ID cards=$CUDA_VISIBLE_DEVICES.) > where.txt\n")
    there = lab.folder / "where.txt"
    wait_for(lambda: there.exists() and there.read_text().endswith("cards=0.\n"), "it is in the job, with its card")
    assert there.read_text().split()[0] == node
    page.page.keyboard.type("echo job $SLURM_JOB_ID on $(hostname): cards $CUDA_VISIBLE_DEVICES\n")
    gallery.shoot("terminal")
    page.page.keyboard.type("exit\n")
    expect(terminal).to_have_count(0)

    notebook.write(1, STEPS)
    notebook.run(1)
    (lab.folder / "step-1").touch()
    expect(notebook.output(1)).to_have_text("step 1\n")
    with cluster.cut_network(node):
        (lab.folder / "step-2").touch()
        journal = lab.base / "home" / "runtimes" / runtime["id"] / "node" / "journal"
        wait_for(
            lambda: any(b"step 2" in path.read_bytes() for path in journal.glob("*.log")), "the node has written it"
        )
        gallery.shoot("cut")
        expect(notebook.output(1)).to_have_text("step 1\n")
    (lab.folder / "step-3").touch()
    expect(notebook.output(1)).to_have_text("step 1\nstep 2\nstep 3\nend\n")
    expect(notebook.prompt(1)).to_have_text("[2]:")
    gallery.shoot("complete")


def test_a_notebook_waits_in_the_queue_of_the_cluster_and_starts_by_itself(page: LabPage, lab: Lab) -> None:
    gallery = Gallery(page.page)
    holders = [lab.start(lab.write(f"holder-{number}.ipynb", ALL, ""), ALL) for number in range(2)]
    wait_for(lambda: [each["state"] for each in lab.snapshot()["runtimes"]] == ["running"] * 2, "both nodes are in use")
    page.open()
    expect(page.tile(ONE)).to_contain_text(re.compile(r"expected start .*\d\d:\d\d.* · at most 1 h"))
    gallery.shoot("tiles-in-use")
    notebook = page.notebook(lab.write("waits.ipynb", ONE, WHERE)).connect()
    expect(notebook.indicator).to_contain_text("waiting")
    wait_for(
        lambda: any("its nodes or GPUs are in use" in each["why"] for each in lab.snapshot()["runtimes"]), "the reason"
    )
    gallery.shoot("queue")
    expect(page.details("waits.ipynb")).to_contain_text("its nodes or GPUs are in use")
    gallery.shoot("queue-panel")
    notebook.run(0)
    expect(notebook.prompt(0)).to_have_text("[*]:")
    lab.end(holders[0])
    expect(notebook.output(0)).to_have_text(re.compile(r"^n[12] sees '0'\s*$"))
    expect(page.dialog).to_have_count(0)


def test_an_open_page_goes_on_when_the_relay_is_killed(page: LabPage, lab: Lab) -> None:
    """Once while a cell runs, once while another one is in its queue."""
    notebook = page.notebook(
        lab.write("relay.ipynb", CPU, STEPS.replace("step-", "relay-"), "print('after it')")
    ).ready()
    [runtime] = [each["id"] for each in lab.snapshot()["runtimes"] if each["notebook"].endswith("relay.ipynb")]
    state = lab.base / "home" / "runtimes" / runtime / "state.json"

    def relay() -> int:
        return int((json.loads(state.read_text())["supervisor"] or {"pid": 0})["pid"])

    notebook.run(0)
    (lab.folder / "relay-1").touch()
    expect(notebook.output(0)).to_have_text("step 1\n")
    first = relay()
    os.kill(first, signal.SIGKILL)
    for number in (2, 3):
        (lab.folder / f"relay-{number}").touch()
    expect(notebook.output(0)).to_have_text("step 1\nstep 2\nstep 3\nend\n")
    wait_for(lambda: relay() not in (0, first), "another relay")
    os.kill(relay(), signal.SIGSTOP)
    notebook.run(1)
    expect(notebook.prompt(1)).to_have_text("[*]:")
    os.kill(relay(), signal.SIGKILL)
    expect(notebook.output(1)).to_have_text("after it\n")
    expect(notebook.prompt(1)).to_have_text("[2]:")
    expect(page.dialog).to_have_count(0)


def test_a_node_without_power_is_said_in_the_cell(page: LabPage, lab: Lab, cluster: NodeCluster) -> None:
    gallery = Gallery(page.page)
    notebook = page.notebook(lab.write("fails.ipynb", CPU, WHERE, SLEEPS, "print('never')")).ready()
    notebook.run(0)
    expect(notebook.output(0)).to_have_text(re.compile(r"^n[12] sees ''\s*$"))
    node = notebook.text(0).split()[0]
    notebook.run(1)
    expect(notebook.output(1)).to_have_text("at work\n")
    notebook.run(2)
    cluster.cut_power(node)
    cluster.ask("scontrol", "update", f"NodeName={node}", "State=DOWN", "Reason=power")
    try:
        expect(notebook.cell(1)).to_contain_text("a node of its Slurm job has failed")
        expect(notebook.output(1).first).to_have_text("at work\n")
        gallery.shoot("node-failed")
    finally:
        cluster.start_node(node)
        cluster.ask("scontrol", "update", f"NodeName={node}", "State=RESUME")

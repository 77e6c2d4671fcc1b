"""`ownlab top` in pipes: tables, JSON, CSV with the names of nvidia-smi, recordings, Prometheus, and wrong options."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.command_line import Ownlab
from tests.instruments.top.scenes import scene

from ownlab.json_encoding import encode_json

STREAMS = Path(__file__).resolve().parents[2] / "streams"


@pytest.fixture
def top(tmp_path: Path, ownlab: Ownlab) -> Callable[..., subprocess.CompletedProcess[str]]:
    """`ownlab top ARGUMENTS` with the recorded cards of an H200, and without runtimes."""

    def run(*arguments: str, stream: str = "h200-tiny") -> subprocess.CompletedProcess[str]:
        return ownlab("top", *arguments, env=world(tmp_path, stream))

    return run


def world(folder: Path, stream: str = "h200-tiny") -> dict[str, str]:
    return {
        "OWNLAB_STREAM": str(STREAMS / f"{stream}.ndjson"),
        "OWNLAB_HOME": str(folder / "home"),
        "OWNLAB_CONFIG": str(folder / "config.toml"),
    }


Top = Callable[..., "subprocess.CompletedProcess[str]"]


def test_a_pipe_gets_a_table_with_the_verdict(top: Top) -> None:
    ran = top()
    assert ran.returncode == 0
    assert re.search(r"^0 NVIDIA H200 +100 % +0\.\d % +0 %", ran.stdout, re.MULTILINE)
    assert "Small kernels: the card is busy 100 % of the time" in ran.stdout
    assert re.search(r"^host +CPU", ran.stdout, re.MULTILINE)
    assert "\x1b" not in ran.stdout


def test_json_is_one_document(top: Top, valid: Callable[[str, str], Any]) -> None:
    reading = valid(top("--once", "--json").stdout, "top")
    assert reading["verdicts"][0]["code"] == "small"
    assert reading["sample"]["cards"][0]["saturation"]["sm"] < 1
    # Rates and saturation are of an interval. A busy machine may delay the first of its two samples.
    assert reading["sample"]["seconds"] > 0.01


def test_json_loads_little(tmp_path: Path) -> None:
    heavy = ["rich", "textual", "sqlite3", "psutil", "ownlab.render.documents", "ownlab.lab.store.store", "asyncio"]
    code = (
        "import sys\nfrom ownlab.cli.main import cli\n"
        "cli(['top', '--once', '--json'], standalone_mode=False)\n"
        f"print([name for name in {heavy!r} if name in sys.modules], file=sys.stderr)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, **world(tmp_path)}, check=True
    )
    if os.path.exists("/var/lib/ownlab"):
        pytest.skip("this machine has a store")
    assert ran.stderr.splitlines()[-1] == "[]"


def test_without_a_gpu_the_host_is_shown_with_the_reason(ownlab: Ownlab, machines: Path) -> None:
    ran = ownlab("top", "--once", env={"OWNLAB_MACHINE": str(machines / "cpu.json")})
    assert ran.returncode == 0
    assert "No GPU to watch" in ran.stdout
    assert "cores" in ran.stdout


def test_a_query_of_card_fields_fails_without_a_card(ownlab: Ownlab, machines: Path) -> None:
    env = {"OWNLAB_MACHINE": str(machines / "cpu.json")}
    ran = ownlab("top", "--query", "index,utilization.gpu,host.cpu", env=env)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert "No GPU to query: " in ran.stderr
    assert ownlab("top", "--query", "count,host.cores", "--format", "noheader", env=env).stdout.startswith("0, ")


def test_a_query_of_a_missing_card_prints_no_header(top: Top) -> None:
    ran = top("--query", "index", "-i", "9")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "There is no card 9" in ran.stderr


def test_a_single_reading_takes_as_long_as_its_interval(top: Top) -> None:
    # On a busy machine a short reading takes longer, and the table says how long.
    assert re.search(r"^verdicts over [\d.]+ s(; use --interval SECONDS for longer)?$", top().stdout, re.MULTILINE)
    reading = json.loads(top("--json", "--interval", "0.8").stdout)
    assert reading["sample"]["seconds"] >= 0.6
    assert reading["verdicts"][0]["seconds"] >= 0.7


@pytest.mark.parametrize("arguments", [["--once"], ["--json"], ["--query", "index"], ["report", "--json", "FILE"]])
def test_a_full_disk_behind_stdout_is_an_error(tmp_path: Path, arguments: list[str]) -> None:
    words = [str(STREAMS / "h200-tiny.ndjson") if word == "FILE" else word for word in arguments]
    with open("/dev/full", "wb") as full:
        ran = subprocess.run(
            [sys.executable, "-m", "ownlab", "top", *words],
            stdout=full,
            stderr=subprocess.PIPE,
            env={**os.environ, **world(tmp_path)},
            check=False,
        )
    assert (ran.returncode, ran.stderr) == (3, b"ownlab: Cannot write the output: No space left on device.\n")


def test_queries_of_nvidia_smi_work_as_they_are(top: Top) -> None:
    ran = top("--query-gpu=index,name,utilization.gpu,memory.used,sm.active,verdict", "--format=csv")
    head, line = ran.stdout.splitlines()
    assert head == "index, name, utilization.gpu [%], memory.used [MiB], sm.active [%], verdict"
    assert re.fullmatch(r"0, NVIDIA H200, 100 %, \d+ MiB, 0\.7\d %, small", line)
    bare = top("--query", "index,utilization.gpu", "--format", "csv,noheader,nounits").stdout
    assert bare == "0, 100\n"
    assert top("--query-gpu=utilization.gpu", "--format=noheader", "--id=0").stdout == "100 %\n"


def test_watch_repeats_until_it_is_interrupted(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "ownlab", "top", "-l", "0.2", "--json"]
    env = {**os.environ, **world(tmp_path)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env) as ran:
        assert ran.stdout is not None
        readings = [json.loads(ran.stdout.readline()) for _ in range(3)]
        ran.send_signal(signal.SIGINT)
        assert ran.wait(20) == 130
    assert readings[0]["sample"]["seconds"] > 0.01
    assert readings[0]["sample"]["at"] < readings[1]["sample"]["at"] < readings[2]["sample"]["at"]


@pytest.mark.parametrize("suffix", ["ndjson", "csv"])
def test_a_recording_can_be_replayed_and_reported(
    top: Top, tmp_path: Path, suffix: str, valid: Callable[[str, str], Any]
) -> None:
    path = tmp_path / f"run.{suffix}"
    command = [sys.executable, "-m", "ownlab", "top", "--record", str(path), "--interval", "0.1"]
    env = {**os.environ, **world(tmp_path)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env) as ran:
        assert ran.stderr is not None
        assert "Recording to" in ran.stderr.readline()
        deadline = time.monotonic() + 180
        while len(path.read_bytes().splitlines()) < 6:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        ran.kill()  # written samples stay
    again = top("--replay", str(path), "--once")
    assert "Small kernels" in again.stdout
    summary = valid(top("report", str(path), "--json").stdout, "top-report")
    assert summary["cards"][0]["shares"] == {"small": 100.0}
    fast = top("--replay", str(path), "--speed", "1000", "--watch", "0.1", "--json")
    assert len(fast.stdout.splitlines()) >= 3


def test_a_report_can_be_saved_as_a_chart(top: Top, tmp_path: Path) -> None:
    ran = top("report", str(STREAMS / "h200-starved.ndjson"), "--save", str(tmp_path / "run.svg"))
    assert ran.returncode == 0
    assert "Starved" in ran.stdout
    assert (tmp_path / "run.svg").read_text().startswith("<svg")


def test_only_some_cards(ownlab: Ownlab, tmp_path: Path) -> None:
    path = tmp_path / "two.ndjson"
    path.write_bytes(b"".join(encode_json(each) + b"\n" for each in scene(4, "product", "small")))
    env = {"OWNLAB_STREAM": str(path)}
    reading = json.loads(ownlab("top", "--json", "--cards", "1", env=env).stdout)
    assert [card["index"] for card in reading["sample"]["cards"]] == [1]
    assert reading["sample"]["processes"] == []  # these are on card 0
    reading = json.loads(ownlab("top", "--json", "--cards", "GPU-00000000", env=env).stdout)
    assert [process["pid"] for process in reading["sample"]["processes"]] == [4711, 815, 99_999_999]
    ran = ownlab("top", "--json", "--cards", "0,7", env=env)
    assert ran.returncode == 2
    assert "There is no card 7" in ran.stderr
    assert "Available cards: 0, 1" in ran.stderr


def test_prometheus_can_scrape(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "ownlab", "top", "--serve", "127.0.0.1:0"]
    env = {**os.environ, **world(tmp_path, "h200-bf16")}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=env) as ran:
        try:
            assert ran.stderr is not None
            address = re.search(r"http://\S+/metrics", ran.stderr.readline())
            assert address is not None
            for _ in range(2):
                metrics = urllib.request.urlopen(address[0], timeout=300).read().decode()
            assert re.search(r'^DCGM_FI_DEV_GPU_UTIL\{.*modelName="NVIDIA H200".*\} \d+', metrics, re.MULTILINE)
            assert "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE" in metrics
        finally:
            ran.send_signal(signal.SIGINT)
            assert ran.wait(20) == 130


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--query", "utilisation.gpu"], "Did you mean utilization.gpu?"),
        (["--query", "index", "--format", "xml"], "Unknown format 'xml'"),
        (["--record", "run.txt"], "must end in .csv or .ndjson"),
        (["--record", "run.csv", "--fields", "memory.usd"], "Did you mean memory.used?"),
        (["--once", "--watch", "1"], "--once cannot be combined with --watch"),
        (["--speed", "2"], "--speed needs --replay FILE"),
        (["--fields", "index"], "--fields needs --record"),
        (["--format", "csv"], "--format needs --query"),
        (["--query", "index", "--json"], "cannot be combined with --json"),
        (["--token-file", "x"], "--token-file needs --serve"),
        (["--serve", "127.0.0.1:0", "--once"], "--serve cannot be combined with --once"),
        (["--serve", "0.0.0.0:0"], "is reachable from other machines"),
        (["--serve", "nowhere"], "is not an address to serve at"),
        (["--cards", ","], "contains no card"),
        (["--interval", "0"], "--interval"),
        (["--interval", "nan"], "is not a finite number"),
        (["--watch", "inf"], "is not a finite number"),
        (["--window", "inf"], "is not a finite number"),
    ],
)
def test_wrong_options_are_refused(top: Top, tmp_path: Path, arguments: list[str], message: str) -> None:
    ran = top(*arguments)
    assert ran.returncode == 2
    assert message in ran.stderr
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize("arguments", [["--replay", "FILE", "--once"], ["report", "FILE"]])
def test_a_file_that_is_not_a_recording_is_refused(top: Top, tmp_path: Path, arguments: list[str]) -> None:
    wrong = tmp_path / "notes.ndjson"
    wrong.write_text("# Notes\n")
    ran = top(*[str(wrong) if word == "FILE" else word for word in arguments])
    assert ran.returncode == 3
    assert "is not a recording: it looks like text" in ran.stderr
    ran = top(*[str(tmp_path / "none.csv") if word == "FILE" else word for word in arguments])
    assert ran.returncode == 3
    assert "none.csv does not exist" in ran.stderr


def test_a_full_disk_is_reported(top: Top, tmp_path: Path) -> None:
    full = tmp_path / "full.csv"
    full.symlink_to("/dev/full")
    ran = top("--record", str(full), "--once")
    assert ran.returncode == 3
    assert "the disk is full" in ran.stderr


def test_fields_are_listed(top: Top) -> None:
    ran = top("--query", "help")
    assert re.search(r"^tensor\.active +time in which tensor cores were active \(%\)$", ran.stdout, re.MULTILINE)

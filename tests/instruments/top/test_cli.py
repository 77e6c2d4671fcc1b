"""`ownlab top` in pipes: tables, JSON, CSV by nvidia-smi's names, recordings, Prometheus, and what is refused."""

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
    """`ownlab top ARGUMENTS` beside an H200 on which something ran, and without anybody's runtimes."""

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
    assert "Small kernels: something runs 100 % of the time" in ran.stdout
    assert re.search(r"^host +CPU", ran.stdout, re.MULTILINE)
    assert "\x1b" not in ran.stdout


def test_json_is_one_document(top: Top, valid: Callable[[str, str], Any]) -> None:
    look = valid(top("--once", "--json").stdout, "top")
    assert look["verdicts"][0]["code"] == "small"
    assert look["sample"]["cards"][0]["saturation"]["sm"] < 1
    assert look["sample"]["seconds"] > 0.1  # rates and saturation are of an interval


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


def test_without_a_gpu_it_says_so_and_shows_the_host(ownlab: Ownlab, machines: Path) -> None:
    ran = ownlab("top", "--once", env={"OWNLAB_MACHINE": str(machines / "cpu.json")})
    assert ran.returncode == 0
    assert "No GPU to watch" in ran.stdout
    assert "cores" in ran.stdout


def test_without_a_card_a_query_of_cards_fails(ownlab: Ownlab, machines: Path) -> None:
    env = {"OWNLAB_MACHINE": str(machines / "cpu.json")}
    ran = ownlab("top", "--query", "index,utilization.gpu,host.cpu", env=env)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert "no GPU to ask: " in ran.stderr
    assert ownlab("top", "--query", "count,host.cores", "--format", "noheader", env=env).stdout.startswith("0, ")


def test_a_card_that_is_not_there_has_no_header(top: Top) -> None:
    ran = top("--query", "index", "-i", "9")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "there is no card 9" in ran.stderr


def test_one_look_takes_as_long_as_it_is_told(top: Top) -> None:
    # On a machine under load a short look takes longer than it was meant to, and says how long.
    assert re.search(r"^verdicts over [\d.]+ s; --interval SECONDS looks longer$", top().stdout, re.MULTILINE)
    look = json.loads(top("--json", "--interval", "0.8").stdout)
    assert look["sample"]["seconds"] >= 0.6
    assert look["verdicts"][0]["seconds"] >= 0.7


@pytest.mark.parametrize("arguments", [["--once"], ["--json"], ["--query", "index"], ["report", "--json", "FILE"]])
def test_output_that_cannot_be_written_is_said(tmp_path: Path, arguments: list[str]) -> None:
    given = [str(STREAMS / "h200-tiny.ndjson") if each == "FILE" else each for each in arguments]
    with open("/dev/full", "wb") as full:
        ran = subprocess.run(
            [sys.executable, "-m", "ownlab", "top", *given],
            stdout=full,
            stderr=subprocess.PIPE,
            env={**os.environ, **world(tmp_path)},
            check=False,
        )
    assert (ran.returncode, ran.stderr) == (3, b"ownlab: cannot write the output: No space left on device\n")


def test_queries_of_nvidia_smi_work_as_they_are(top: Top) -> None:
    ran = top("--query-gpu=index,name,utilization.gpu,memory.used,sm.active,verdict", "--format=csv")
    head, line = ran.stdout.splitlines()
    assert head == "index, name, utilization.gpu [%], memory.used [MiB], sm.active [%], verdict"
    assert re.fullmatch(r"0, NVIDIA H200, 100 %, \d+ MiB, 0\.7\d %, small", line)
    bare = top("--query", "index,utilization.gpu", "--format", "csv,noheader,nounits").stdout
    assert bare == "0, 100\n"
    assert top("--query-gpu=utilization.gpu", "--format=noheader", "--id=0").stdout == "100 %\n"


def test_watch_goes_on_until_it_is_ended(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "ownlab", "top", "-l", "0.2", "--json"]
    env = {**os.environ, **world(tmp_path)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env) as ran:
        assert ran.stdout is not None
        looks = [json.loads(ran.stdout.readline()) for _ in range(3)]
        ran.send_signal(signal.SIGINT)
        assert ran.wait(20) == 130
    assert looks[0]["sample"]["seconds"] > 0.1
    assert looks[0]["sample"]["at"] < looks[1]["sample"]["at"] < looks[2]["sample"]["at"]


@pytest.mark.parametrize("suffix", ["ndjson", "csv"])
def test_what_is_recorded_can_be_played_back_and_reported(
    top: Top, tmp_path: Path, suffix: str, valid: Callable[[str, str], Any]
) -> None:
    path = tmp_path / f"run.{suffix}"
    command = [sys.executable, "-m", "ownlab", "top", "--record", str(path), "--interval", "0.1"]
    env = {**os.environ, **world(tmp_path)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env) as ran:
        assert ran.stderr is not None
        assert "Recording into" in ran.stderr.readline()
        deadline = time.monotonic() + 30
        while len(path.read_bytes().splitlines()) < 6:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        ran.kill()  # what was written stays
    again = top("--replay", str(path), "--once")
    assert "Small kernels" in again.stdout
    told = valid(top("report", str(path), "--json").stdout, "top-report")
    assert told["cards"][0]["shares"] == {"small": 100.0}
    fast = top("--replay", str(path), "--speed", "1000", "--watch", "0.1", "--json")
    assert len(fast.stdout.splitlines()) >= 3


def test_a_report_is_drawn(top: Top, tmp_path: Path) -> None:
    ran = top("report", str(STREAMS / "h200-starved.ndjson"), "--save", str(tmp_path / "run.svg"))
    assert ran.returncode == 0
    assert "Starved" in ran.stdout
    assert (tmp_path / "run.svg").read_text().startswith("<svg")


def test_only_some_cards(ownlab: Ownlab, tmp_path: Path) -> None:
    path = tmp_path / "two.ndjson"
    path.write_bytes(b"".join(encode_json(each) + b"\n" for each in scene(4, "product", "small")))
    env = {"OWNLAB_STREAM": str(path)}
    look = json.loads(ownlab("top", "--json", "--cards", "1", env=env).stdout)
    assert [card["index"] for card in look["sample"]["cards"]] == [1]
    assert look["sample"]["processes"] == []  # these are on card 0
    look = json.loads(ownlab("top", "--json", "--cards", "GPU-00000000", env=env).stdout)
    assert [process["pid"] for process in look["sample"]["processes"]] == [4711, 815, 99_999_999]
    ran = ownlab("top", "--json", "--cards", "0,7", env=env)
    assert ran.returncode == 2
    assert "there is no card 7" in ran.stderr
    assert "There are: 0, 1" in ran.stderr


def test_prometheus_is_answered(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "ownlab", "top", "--serve", "127.0.0.1:0"]
    env = {**os.environ, **world(tmp_path, "h200-bf16")}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=env) as ran:
        try:
            assert ran.stderr is not None
            address = re.search(r"http://\S+/metrics", ran.stderr.readline())
            assert address is not None
            for _ in range(2):
                said = urllib.request.urlopen(address[0], timeout=20).read().decode()
            assert re.search(r'^DCGM_FI_DEV_GPU_UTIL\{.*modelName="NVIDIA H200".*\} \d+', said, re.MULTILINE)
            assert "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE" in said
        finally:
            ran.send_signal(signal.SIGINT)
            assert ran.wait(20) == 130


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--query", "utilisation.gpu"], "The nearest is utilization.gpu"),
        (["--query", "index", "--format", "xml"], "there is no format 'xml'"),
        (["--record", "run.txt"], "must end in .csv or .ndjson"),
        (["--record", "run.csv", "--fields", "memory.usd"], "The nearest is memory.used"),
        (["--once", "--watch", "1"], "--once prints once"),
        (["--speed", "2"], "give --replay FILE"),
        (["--fields", "index"], "give --record too"),
        (["--format", "csv"], "give --query too"),
        (["--query", "index", "--json"], "does not go with --json"),
        (["--token-file", "x"], "goes with --serve"),
        (["--serve", "127.0.0.1:0", "--once"], "does nothing else"),
        (["--serve", "0.0.0.0:0"], "can be reached from other machines"),
        (["--serve", "nowhere"], "no address to serve at"),
        (["--cards", ","], "names no card"),
        (["--interval", "0"], "--interval"),
        (["--interval", "nan"], "no length of time"),
        (["--watch", "inf"], "no length of time"),
        (["--window", "inf"], "no length of time"),
    ],
)
def test_what_cannot_work_is_refused(top: Top, tmp_path: Path, arguments: list[str], says: str) -> None:
    ran = top(*arguments)
    assert ran.returncode == 2
    assert says in ran.stderr
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize("arguments", [["--replay", "FILE", "--once"], ["report", "FILE"]])
def test_a_file_that_is_no_recording(top: Top, tmp_path: Path, arguments: list[str]) -> None:
    wrong = tmp_path / "notes.ndjson"
    wrong.write_text("# Notes\n")
    ran = top(*[str(wrong) if each == "FILE" else each for each in arguments])
    assert ran.returncode == 3
    assert "is no recording: it looks like text" in ran.stderr
    ran = top(*[str(tmp_path / "none.csv") if each == "FILE" else each for each in arguments])
    assert ran.returncode == 3
    assert "No such file" in ran.stderr


def test_a_full_disk_is_said(top: Top, tmp_path: Path) -> None:
    full = tmp_path / "full.csv"
    full.symlink_to("/dev/full")
    ran = top("--record", str(full), "--once")
    assert ran.returncode == 3
    assert "the disk is full" in ran.stderr


def test_fields_are_listed(top: Top) -> None:
    ran = top("--query", "help")
    assert re.search(r"^tensor\.active +time in which tensor cores worked \(%\)$", ran.stdout, re.MULTILINE)

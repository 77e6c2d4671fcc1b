"""Metrics for Prometheus: names, units and labels, read with its own parser; and access to the server."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from ownlab.errors import InputError, LabError, UsageError
from ownlab.instruments.top.metrics_server import MetricsServer, ScrapeSampler, parse_address
from ownlab.instruments.top.prometheus import CONTENT_TYPE, exposition
from ownlab.instruments.top.records import (
    CardProcess,
    CardSample,
    HostSample,
    Owner,
    ProcessSample,
    Sample,
    Saturation,
    Verdict,
)
from ownlab.instruments.top.source import open_source

STREAMS = Path(__file__).resolve().parents[2] / "streams"
MIB = 1024**2
ANN = Owner("r1", '/work/a "b"\\c.ipynb', "ann")
BOB = Owner("r2", "/work/b.ipynb", "bob")
CARD = CardSample(
    "GPU-1",
    0,
    name="NVIDIA H200",
    bus_id="00000000:3B:00.0",
    memory_total=1000 * MIB,
    memory_used=300 * MIB,
    memory_free=690 * MIB,
    utilisation=99.0,
    energy=12.5,
    throttle=("power_cap",),
    saturation=Saturation(sm=0.75, nvlink_sent=1e9),
    pcie_sent=2e6,
    processes=(
        CardProcess(10, memory=100 * MIB, sm=40.0),
        CardProcess(11, memory=50 * MIB, sm=20.0),
        CardProcess(20, memory=None),
        CardProcess(30, memory=7 * MIB),
    ),
)
SAMPLE = Sample(
    at=1.0,
    seconds=15.0,
    host=HostSample(cores=8, cpu=25.0, memory=64, memory_used=16),
    cards=(CARD, CardSample("GPU-2", 1, lost="GPU is lost")),
    processes=(
        ProcessSample(10, owner=ANN, user="ann", cpu=150.0, memory=4096, processes=3),
        ProcessSample(11, owner=ANN, user="ann", cpu=50.0, memory=1024),  # a worker, included in the first
        ProcessSample(20, owner=BOB, user="bob"),
        ProcessSample(30, user="eve", command="python"),
    ),
)


def read(exposed: bytes) -> list[tuple[str, dict[str, str], float]]:
    return [
        (metric.name, metric.labels, metric.value)
        for family in text_string_to_metric_families(exposed.decode())
        for metric in family.samples
    ]


def values(name: str, label: str = "gpu", sample: Sample = SAMPLE) -> dict[str, float]:
    """Return values by a label."""
    metrics = read(exposition(sample, [Verdict("GPU-1", "small", "Small.")], hostname="host"))
    return {labels[label]: value for known, labels, value in metrics if known == name}


def test_names_units_and_labels_are_those_of_dcgm_exporter() -> None:
    labels = next(labels for name, labels, _ in read(exposition(SAMPLE, hostname="host")) if name.endswith("GPU_UTIL"))
    assert labels == {
        "gpu": "0",
        "UUID": "GPU-1",
        "pci_bus_id": "00000000:3B:00.0",
        "device": "nvidia0",
        "modelName": "NVIDIA H200",
        "Hostname": "host",
        "notebook": '/work/a "b"\\c.ipynb,/work/b.ipynb',
        "person": "ann,bob",
    }
    assert values("DCGM_FI_DEV_GPU_UTIL") == {"0": 99.0}  # nothing for the lost card
    assert values("DCGM_FI_DEV_FB_USED") == {"0": 300.0}
    assert values("DCGM_FI_DEV_FB_FREE") == {"0": 690.0}
    assert values("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION") == {"0": 12500.0}
    assert values("DCGM_FI_PROF_SM_ACTIVE") == {"0": 0.0075}
    assert values("DCGM_FI_PROF_PCIE_TX_BYTES") == {"0": 2e6}
    assert values("DCGM_FI_PROF_NVLINK_TX_BYTES") == {"0": 1e9}


def test_unknown_values_are_left_out() -> None:
    exposed = exposition(Sample(1.0, None, HostSample(), (CardSample("GPU-1", 0),), trouble=""), hostname="host")
    assert {name for name, _, _ in read(exposed)} == {"ownlab_card_lost", "ownlab_cards_known"}
    assert b"0.0\n" in exposed  # ownlab_card_lost


def test_metrics_that_dcgm_exporter_does_not_have() -> None:
    assert values("ownlab_card_lost") == {"0": 0.0, "1": 1.0}
    assert values("ownlab_card_verdict", "code") == {"small": 1.0}
    assert values("ownlab_card_throttled", "reason") == {"power_cap": 1.0}
    assert values("ownlab_host_cpu_ratio", "Hostname") == {"host": 0.25}
    assert values("ownlab_interval_seconds", "Hostname") == {"host": 15.0}
    assert values("ownlab_cards_known", "Hostname", Sample(1.0, None, HostSample(), trouble="NVML: no")) == {"host": 0}


def test_use_of_cards_is_by_notebook_or_else_by_user() -> None:
    assert values("ownlab_card_memory_used_bytes", "person") == {"ann": 150.0 * MIB, "eve": 7.0 * MIB}
    assert values("ownlab_card_kernels_ratio", "person") == {"ann": 0.6}
    assert values("ownlab_runtime_cpu_cores", "runtime") == {"r1": 1.5}
    assert values("ownlab_runtime_memory_bytes", "notebook") == {ANN.notebook: 4096.0}
    assert values("ownlab_runtime_processes", "person") == {"ann": 3.0, "bob": 1.0}


def test_a_mig_instance_has_the_uuid_of_its_card_as_in_dcgm_exporter() -> None:
    sample = Sample(1.0, 1.0, HostSample(), (CardSample("MIG-1", 0, parent="GPU-1", memory_used=MIB),))
    assert values("DCGM_FI_DEV_FB_USED", "UUID", sample) == {"GPU-1": 1.0}
    assert values("DCGM_FI_DEV_FB_USED", "GPU_I_ID", sample) == {"MIG-1": 1.0}


# --- served -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def serve() -> Iterator[Callable[..., str]]:
    """Start servers, and return their URLs."""
    with contextlib.ExitStack() as stack:

        def start(token_file: Path | None = None, address: str = "127.0.0.1:0") -> str:
            source = open_source({"OWNLAB_STREAM": str(STREAMS / "h200-tiny.ndjson")})
            stack.callback(source.close)
            server = MetricsServer(ScrapeSampler(source), address, token_file=token_file)
            thread = threading.Thread(target=server.serve)
            thread.start()
            stack.callback(thread.join)
            stack.callback(server.close)
            return server.url

        yield start


def get(url: str, **headers: str) -> httpx.Response:
    return httpx.get(url, headers=headers, trust_env=False, timeout=300)


def test_a_recorded_card_is_served(serve: Callable[..., str]) -> None:
    url = serve()
    assert url.endswith("/metrics")
    answer = get(url)
    assert (answer.status_code, answer.headers["Content-Type"]) == (200, CONTENT_TYPE)
    metrics = {name: value for name, _, value in read(answer.content)}
    assert metrics["DCGM_FI_DEV_GPU_UTIL"] == 100.0
    assert 0.007 < metrics["DCGM_FI_PROF_SM_ACTIVE"] < 0.008
    assert metrics["ownlab_host_memory_bytes"] > MIB
    assert get(url.replace("/metrics", "/")).status_code == 404
    # DNS rebinding: the name of another site that points here.
    assert get(url, Host="evil.example").status_code == 403
    assert get(url, Host="localhost:1").status_code == 200


def test_a_token_in_a_file_is_required(serve: Callable[..., str], tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("secret\n")
    url = serve(file)
    assert get(url).status_code == 401
    assert get(url, Authorization="Bearer wrong").status_code == 401
    assert get(url, Authorization="Bearer secret", Host="lab.example").status_code == 200
    file.write_text("another")
    assert get(url, Authorization="Bearer secret").status_code == 401
    assert get(url, Authorization="Bearer another").status_code == 200
    file.write_text("")
    assert get(url, Authorization="Bearer").status_code == 401


def test_invalid_addresses_and_tokens_are_refused(serve: Callable[..., str], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not an address to serve at"):
        parse_address("here")
    with pytest.raises(UsageError, match="is reachable from other machines"):
        serve(address="0.0.0.0:0")
    with pytest.raises(InputError, match="gone does not exist"):
        serve(tmp_path / "gone")
    taken = serve().removeprefix("http://").removesuffix("/metrics")
    with pytest.raises(LabError, match=r"Cannot serve at .*: Address already in use"):
        serve(address=taken)
    assert [parse_address(address) for address in ("9400", ":9400", "[::1]:9400", "10.0.0.1:1")] == [
        ("127.0.0.1", 9400),
        ("127.0.0.1", 9400),
        ("::1", 9400),
        ("10.0.0.1", 1),
    ]

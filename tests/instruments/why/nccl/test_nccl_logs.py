"""Logs of NCCL: public ones, shortened, and some made in its format; each file says which it is."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ownlab.errors import NotRecognised
from ownlab.instruments.why.nccl.explanation import explain_nccl, read_nccl_logs
from ownlab.instruments.why.nccl.log_reader import LogReader
from ownlab.instruments.why.nccl.records import NcclLog
from ownlab.instruments.why.records import Explanation
from ownlab.instruments.why.terminal import show_explanation
from ownlab.render.console import print_to_text

LOGS = Path(__file__).parent / "logs"
WIDTH = 100


def explained(*names: str) -> Explanation:
    return explain_nccl(read_nccl_logs([str(LOGS / f"{name}.log") for name in names]))


def codes(explanation: Explanation) -> list[str]:
    return [finding.code for finding in explanation.findings]


def read(*lines: str) -> NcclLog:
    reader = LogReader()
    reader.read(line.encode() for line in lines)
    return reader.result(["made.log"])


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("across-sockets", ["nccl-across-sockets"]),
        ("all-waited", ["nccl-timeout"]),
        ("behind", ["nccl-timeout"]),
        ("different-calls", ["nccl-timeout"]),
        ("different-settings", ["nccl-different-settings"]),
        ("duplicate", ["nccl-duplicate-gpu"]),
        ("gpu-direct", []),
        ("infiniband-off", ["nccl-sockets"]),
        ("link-error", ["nccl-link-error"]),
        ("locked-memory", ["nccl-locked-memory"]),
        ("loopback", ["nccl-virtual-interface", "nccl-sockets"]),
        ("missing-rank", ["nccl-timeout"]),
        ("no-gpu-direct", ["nccl-no-gpu-direct"]),
        ("no-route", ["nccl-no-connection"]),
        ("no-shared-memory", ["nccl-no-shared-memory", "nccl-no-p2p"]),
        ("p2p-disabled", ["nccl-no-p2p"]),
        ("protection-error", ["nccl-link-error"]),
        ("refused", ["nccl-no-connection"]),
        ("shared-memory-full", ["nccl-shared-memory-full", "nccl-no-p2p"]),
        ("shared-memory-full-new", ["nccl-shared-memory-full"]),
        ("shared-memory-only", ["nccl-no-p2p"]),
        ("size-mismatch", ["nccl-different-collectives"]),
        ("sockets-no-adapter", ["nccl-sockets"]),
        ("versions", ["nccl-version-mismatch"]),
        ("virtual-interface", ["nccl-virtual-interface", "nccl-sockets"]),
    ],
)
def test_causes(name: str, expected: list[str]) -> None:
    explanation = explained(name)
    assert codes(explanation) == expected
    if expected:
        assert explanation.findings[0].headline in explanation.sentence


def test_every_log_says_where_it_is_from() -> None:
    for path in LOGS.glob("*.log"):
        assert path.read_text().startswith(("# From a public report", "# From two public reports", "# Made in"))


@pytest.mark.parametrize("path", sorted(LOGS.glob("*.log")), ids=lambda path: path.stem)
def test_golden_text(path: Path) -> None:
    printed = print_to_text(lambda out: show_explanation(explained(path.stem), out), WIDTH)
    golden = path.with_suffix(".txt")
    if os.environ.get("OWNLAB_GOLDEN") == "write":
        golden.write_text(printed)
    assert golden.read_text() == printed


def test_connections_are_those_of_the_communicator() -> None:
    (group,) = read_nccl_logs([str(LOGS / "gpu-direct.log")]).communicators
    assert (group.size, group.complete, len(group.ranks)) == (4, 4, 4)
    ways = {(each.sender, each.receiver): each for each in group.connections}
    assert (ways[1, 0].transport, ways[1, 0].channels, ways[1, 0].same_machine) == ("P2P", 2, True)
    assert (ways[1, 3].network, ways[1, 3].gpu_direct, ways[1, 3].same_machine) == ("IB", True, False)
    assert (3, 0) in ways  # connected after the initialisation, by another thread


def test_ranks_of_two_communicators_are_not_mixed() -> None:
    log = read(
        "gpu01:10:20 [0] NCCL INFO comm 0xa rank 0 nranks 4 cudaDev 0 busId 7000 commId 0x1 - Init START",
        "gpu01:10:20 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM",
        "gpu01:10:30 [0] NCCL INFO comm 0xb rank 1 nranks 2 cudaDev 0 busId 7000 commId 0x2 - Init START",
        "gpu01:10:30 [0] NCCL INFO Channel 00/0 : 1[0] -> 0[0] [send] via NET/IB/0/GDRDMA",
    )
    assert [(group.size, [each.transport for each in group.connections]) for group in log.communicators] == [
        (4, ["P2P"]),
        (2, ["NET"]),
    ]


def test_logs_of_several_machines_are_read_together(tmp_path: Path) -> None:
    first, second = tmp_path / "a.log", tmp_path / "b.log"
    first.write_text("gpu01:1:2 [0] NCCL INFO NCCL version 2.21.5+cuda12.4\n")
    second.write_text("gpu02:1:2 [0] NCCL INFO NCCL version 2.25.1+cuda12.2\n")
    assert codes(explain_nccl(read_nccl_logs([str(first)]))) == []
    assert codes(explain_nccl(read_nccl_logs([str(first), str(second)]))) == ["nccl-version-mismatch"]


def test_the_rank_that_did_not_arrive_is_named() -> None:
    assert "Rank 2 did not wait" in explained("missing-rank").sentence
    assert "Rank 7 is at collective 64088" in explained("behind").sentence
    assert "Rank 0 waits in ALLGATHER" in explained("different-calls").sentence
    assert "did not wait" not in explained("all-waited").sentence


def test_a_log_of_half_of_the_machines_names_no_rank() -> None:
    line = "[Rank {}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=3, OpType=ALLREDUCE, Timeout(ms)=600000) ran for 600000 milliseconds"
    start = "gpu01:1:2 [0] NCCL INFO comm 0xa rank 0 nranks 8 cudaDev 0 busId 7000 commId 0x1 - Init COMPLETE"
    log = read(start, *("[E ProcessGroupNCCL.cpp:1] " + line.format(rank) for rank in range(4)))
    (finding,) = explain_nccl(log).findings
    assert "given up" in finding.headline


def test_one_machine_may_use_any_interface() -> None:
    log = read(
        "gpu01:1:2 [0] NCCL INFO Bootstrap : Using lo:127.0.0.1<0>",
        "gpu01:1:2 [0] NCCL INFO Using network Socket",
        "gpu01:1:2 [0] NCCL INFO comm 0xa rank 0 nranks 2 cudaDev 0 commId 0x1 - Init START",
        "gpu01:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM",
        "gpu01:3:4 [1] NCCL INFO comm 0xb rank 1 nranks 2 cudaDev 1 commId 0x1 - Init START",
    )
    assert codes(explain_nccl(log)) == []


def test_sockets_beside_infiniband() -> None:
    explanation = explain_nccl(
        read(
            "gpu01:1:2 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB ib0:10.0.0.1<0>",
            "gpu01:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/Socket/0",
        )
    )
    assert "although there is a faster network" in explanation.sentence
    assert "NCCL found mlx5_0:1/IB" in explanation.findings[0].evidence


def test_a_plugin_without_gpu_direct() -> None:
    log = read(
        "gpu01:1:2 [0] NCCL INFO NET/OFI Could not disable CUDA API usage for HMEM, disabling GDR",
        "gpu01:1:2 [0] NCCL INFO Ring 00 : 7 -> 8 [receive] via NET/AWS Libfabric/0",
    )
    (finding,) = explain_nccl(log).findings
    assert (finding.code, "AWS Libfabric" in finding.headline) == ("nccl-no-gpu-direct", True)


def test_warnings_alone() -> None:
    notes = explain_nccl(read("gpu01:1:2 [0] enqueue.cc:1 NCCL WARN Something new")).notes
    assert "NCCL warns: Something new" in notes
    assert any("NCCL_DEBUG=INFO" in note for note in notes)


@pytest.mark.parametrize(
    "content", [b"", b"no line of it\n", b"\xff\xfe\x00" * 1000, b"NCCL\n" * 10, b"NCCL INFO" * 100_000]
)
def test_a_file_that_is_no_log(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "some.log"
    path.write_bytes(content)
    with pytest.raises(NotRecognised, match="no line of NCCL") as caught:
        read_nccl_logs([str(path)])
    assert "NCCL_DEBUG=INFO" in caught.value.hint


def test_what_is_kept_does_not_grow_with_the_lines() -> None:
    def lines() -> list[bytes]:
        return [
            b"gpu01:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM\n",
            b"gpu01:1:2 [0] a.cc:1 NCCL WARN Same\n",
        ] * 1000

    reader = LogReader()
    reader.read(lines())
    log = reader.result(["made.log"])
    assert log.lines == 2000
    assert len(log.communicators[0].connections) == 1
    assert [(each.message, each.count) for each in log.failures] == [("Same", 1000)]

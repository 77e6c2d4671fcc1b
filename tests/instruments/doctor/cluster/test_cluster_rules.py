"""The rules about a cluster, on recorded facts of real clusters in which something was wrong, and on changed ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from ownlab.instruments.doctor.cluster.connections import connection_to
from ownlab.instruments.doctor.cluster.diagnosis import diagnose_cluster
from ownlab.instruments.doctor.cluster.munge import read_credential_times, read_status
from ownlab.instruments.doctor.cluster.node_report import users_that_differ
from ownlab.instruments.doctor.cluster.reader import read_configuration_file, read_ping
from ownlab.instruments.doctor.cluster.records import ClusterFacts, NodeCheck, NodeFacts
from ownlab.instruments.doctor.cluster.terminal import show_cluster_diagnosis
from ownlab.json_encoding import decode_json
from ownlab.lab.engines.slurm.readers import munge_socket
from ownlab.machine.facts import Known, Unknown
from ownlab.render.console import print_to_text

RECORDINGS = Path(__file__).resolve().parent / "recordings"
EXPECTED = {
    "a-clock-that-is-ahead": ["cluster-clocks"],
    "a-clock-that-is-behind": ["cluster-clocks"],
    "a-controller-that-does-not-run": ["cluster-controller"],
    "a-drained-node": ["cluster-node-drained"],
    "a-folder-that-is-not-shared": ["cluster-folder"],
    "a-healthy-cluster-has-no-findings": [],
    "a-node-in-use-is-asked-only-if-told-to": [],
    "a-node-whose-daemon-does-not-run": ["cluster-node-unreachable"],
    "a-node-with-another-munge-key": ["cluster-node-silent"],
    "an-interpreter-that-the-node-lacks": ["cluster-interpreter"],
    "another-key-here-than-at-the-controller": ["cluster-authentication"],
    "another-number-of-a-user": ["cluster-users"],
    "fewer-gpus": ["cluster-gpus"],
    "more-gpus": ["cluster-gpus"],
    "munge-does-not-run-here": ["cluster-munge"],
    "ports-that-are-closed-between-the-nodes": ["cluster-ports"],
    "the-current-folder-is-another-one": ["cluster-folder"],
}


def recorded(name: str) -> ClusterFacts:
    return decode_json((RECORDINGS / f"{name}.json").read_bytes(), ClusterFacts)


HEALTHY = recorded("a-healthy-cluster-has-no-findings")


def with_node(**changes: Any) -> ClusterFacts:
    node = msgspec.structs.replace(HEALTHY.nodes[1], **changes)
    return msgspec.structs.replace(HEALTHY, nodes=(HEALTHY.nodes[0], node))


def with_check(**changes: Any) -> ClusterFacts:
    check = HEALTHY.nodes[1].check
    assert check is not None
    return with_node(check=msgspec.structs.replace(check, **changes))


def codes(facts: ClusterFacts) -> list[tuple[str, str]]:
    return [(finding.code, finding.severity) for finding in diagnose_cluster(facts).findings]


def test_every_recording_is_expected() -> None:
    assert sorted(path.stem for path in RECORDINGS.glob("*.json")) == sorted(EXPECTED)


@pytest.mark.parametrize("name", EXPECTED)
def test_what_was_planted_is_found_and_nothing_else(name: str) -> None:
    diagnosis = diagnose_cluster(recorded(name))
    assert [finding.code for finding in diagnosis.findings] == EXPECTED[name]
    assert all(finding.evidence and finding.fix for finding in diagnosis.findings)
    shown = print_to_text(lambda out: show_cluster_diagnosis(diagnosis, out))
    assert shown.startswith(diagnosis.verdict.sentence[:60])
    assert all(f"[{code}]" in shown for code in EXPECTED[name])


def test_a_cluster_that_cannot_be_used_says_why() -> None:
    verdict = diagnose_cluster(recorded("munge-does-not-run-here")).verdict
    assert (verdict.usable, verdict.sentence) == (
        "no",
        "The cluster cannot be used. munge does not work on this machine.",
    )


@pytest.mark.parametrize(
    ("version", "severity"), [("22.05.9", None), ("21.08.8", "note"), ("23.11.1", "error"), ("", None)]
)
def test_versions_of_daemons(version: str, severity: str | None) -> None:
    assert codes(with_node(version=version)) == ([("cluster-versions", severity)] if severity else [])


def test_commands_that_are_older_than_the_controller_are_noted() -> None:
    assert codes(msgspec.structs.replace(HEALTHY, commands=Known("21.08", "sinfo"))) == [("cluster-versions", "note")]


def test_a_credential_that_has_expired_on_the_node_is_an_error() -> None:
    facts = with_check(credential="Expired credential (15)", encoded_at=1000.0, decoded_at=1500.0, seen_at=1002.0)
    (finding,) = diagnose_cluster(facts).findings
    assert (finding.code, finding.severity) == ("cluster-clocks", "error")
    assert finding.title == "The clock of n2 is at least 498 s ahead"


@pytest.mark.parametrize("decoded", [999.0, 1000.0, 1019.0, 1022.0])
def test_whole_seconds_are_no_difference_of_clocks(decoded: float) -> None:
    """The job may have waited: all that is known is when the credential was made, and when the report was there."""
    assert codes(with_check(encoded_at=1000.0, decoded_at=decoded, seen_at=1020.0)) == []


def test_slices_of_cards_are_more_than_cards() -> None:
    assert codes(with_node(gpus=28, gpu_types=("1g.10gb",))) == []


def test_a_node_whose_bus_cannot_be_read_has_no_number_of_cards() -> None:
    assert codes(with_check(cards=Unknown("/sys/bus/pci/devices does not exist"))) == []


def test_slurms_own_words_about_gpus() -> None:
    facts = with_node(
        state="IDLE", flags=("DRAIN", "INVALID_REG"), usable=False, check=None,
        reason="gres/gpu count reported lower than configured (3 < 4)",
    )  # fmt: skip
    assert codes(facts) == [("cluster-gpus", "error")]


def test_ownlab_that_is_not_in_the_interpreter_of_a_node() -> None:
    facts = with_check(problem="ownlab", detail="ModuleNotFoundError: No module named 'ownlab'")
    (finding,) = diagnose_cluster(facts).findings
    assert finding.title == "The interpreter of ownlab does not find ownlab on n2"
    assert "ModuleNotFoundError: No module named 'ownlab'" in finding.evidence


def test_a_folder_of_the_same_name_that_is_another_one() -> None:
    (finding,) = diagnose_cluster(with_check(problem="other-folder")).findings
    assert "is there, but is another folder" in finding.evidence[0]


@pytest.mark.parametrize(
    ("check", "severity"),
    [(NodeCheck("7", "pending", "Resources"), "note"), (NodeCheck("", "failed", "Invalid account"), "error")],
)
def test_a_job_that_did_not_end_well(check: NodeCheck, severity: str) -> None:
    facts = with_node(check=check)
    assert codes(facts) == [("cluster-node-job", severity)]
    assert check.detail in diagnose_cluster(facts).findings[0].evidence[0]


def test_a_job_that_saw_another_fault_is_reported_as_that_fault() -> None:
    for check in (NodeCheck("7", "folder", "/home/ada"), NodeCheck("7", "")):
        assert "cluster-node-job" not in dict(codes(with_node(check=check)))


def test_free_ports_that_are_closed_to_this_machine() -> None:
    (finding,) = diagnose_cluster(with_check(from_here="silent")).findings
    assert finding.title == "This machine cannot connect to free ports of n2"


def test_a_node_that_only_the_controller_reaches_is_in_order() -> None:
    assert codes(with_node(connection="silent")) == []


def test_a_cluster_without_nodes() -> None:
    assert diagnose_cluster(msgspec.structs.replace(HEALTHY, nodes=())).verdict.usable == "yes"


def test_many_nodes_are_not_all_listed() -> None:
    many = tuple(
        NodeFacts(f"n{number}", "IDLE", (), usable=True, reason="", gpus=0, check=None) for number in range(500)
    )
    shown = print_to_text(
        lambda out: show_cluster_diagnosis(diagnose_cluster(msgspec.structs.replace(HEALTHY, nodes=many)), out)
    )
    assert "and 460 more; --json lists all" in shown


def test_the_controllers_of_scontrol_ping() -> None:
    printed = "Slurmctld(primary) at login is UP\nSlurmctld(backup) at spare.site is DOWN\n"
    assert read_ping(printed) == [("login", True), ("spare.site", False)]
    assert read_ping("slurm_load_ctl_conf error: Unable to contact slurm controller") == []


def test_what_matters_of_a_configuration(tmp_path: Path) -> None:
    path = tmp_path / "slurm.conf"
    path.write_bytes(
        b"# SlurmctldHost=old\nslurmctldhost=login(10.0.0.1) # first\nSlurmctldHost=spare\nAuthInfo=socket=/x/y,ttl=60\n\xff\n"
    )
    assert read_configuration_file(str(path)) == {"SlurmctldHost": "login(10.0.0.1)", "AuthInfo": "socket=/x/y,ttl=60"}
    assert read_configuration_file(str(tmp_path)) == {}
    assert read_configuration_file(str(tmp_path / "none")) == {}
    assert [munge_socket(given) for given in ("socket=/x/y,ttl=60", "ttl=60", "(null)", "")] == ["/x/y", "", "", ""]


def test_what_unmunge_prints() -> None:
    printed = (
        "STATUS:          Rewound credential (16)\nENCODE_HOST:     login (10.0.0.1)\n"
        "ENCODE_TIME:     2026-11-19 05:00:00 +0000 (1795064400)\nDECODE_TIME:     2026-11-19 04:53:20 +0000 (1795064000)\n"
    )
    assert read_status(printed) == "Rewound credential (16)"
    assert read_credential_times(printed) == (1795064400.0, 1795064000.0)
    assert read_status("unmunge: Error: Invalid credential") == "Invalid credential"
    assert (read_status(""), read_credential_times("")) == ("", (None, None))


def test_users_that_are_not_here() -> None:
    assert users_that_differ({"root": 0, "nobody-has-this-name": 1234}) == [("nobody-has-this-name", 1234, None)]
    assert users_that_differ({"root": 7}) == [("root", 7, 0)]


def test_an_address_that_does_not_exist() -> None:
    assert connection_to("", 1) == "unknown address"
    assert connection_to("127.0.0.1", None) == "unknown address"
    assert connection_to("no-such-host.invalid", 6818) not in ("open", "refused")

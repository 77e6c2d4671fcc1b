"""`ownlab doctor --cluster` on a real two-node Slurm, in which something is wrong that was planted there."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.lab.engines.slurm.cluster import missing
from tests.lab.engines.slurm.node_namespaces import Node, NodeCluster, lacking

if TYPE_CHECKING:
    from tests.command_line import World

Until = Callable[..., Any]
ALL_WELL = "2 of 2 nodes of test take jobs. Jobs have looked at 2 of them."


@pytest.fixture(autouse=True)
def _possible() -> None:
    reason = missing() or lacking()
    if reason:
        pytest.skip(reason)


def cards(number: int) -> str:
    """Shell that gives a node so many NVIDIA GPUs on its PCI bus."""
    lines = ["mount -t tmpfs tmpfs /sys/bus/pci/devices"]
    for index in range(number):
        folder = f"/sys/bus/pci/devices/0000:0{index}:00.0"
        lines.append(
            f"mkdir {folder}; echo 0x030200 >{folder}/class; echo 0x10de >{folder}/vendor; echo 0x20b0 >{folder}/device"
        )
    return "\n".join(lines)


HEALTHY = {"n1": Node(prepare=cards(4)), "n2": Node(prepare=cards(4))}


@contextmanager
def cluster_with(
    nodes: Mapping[str, Node] | None = None, *, joining: int = 2, keys: int = 0, **settings: int
) -> Iterator[NodeCluster]:
    root = Path(tempfile.mkdtemp(prefix="ownlab-slurm-", dir="/tmp"))
    root.chmod(0o755)
    cluster = NodeCluster(root, {**HEALTHY, **(nodes or {})}, **settings)
    cluster.joining = joining
    for number in range(keys):
        cluster.new_key(f"other-{number}.key")
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()
        shutil.rmtree(root, ignore_errors=True)


def diagnose(world: World, cluster: NodeCluster, *options: str, code: int = 0, **environ: str) -> dict[str, Any]:
    """What the doctor prints as JSON."""
    world.env |= {
        "SLURM_CONF": cluster.env["SLURM_CONF"],
        "PATH": cluster.env["PATH"],
        "OWNLAB_SLURM_DEADLINE_SECONDS": "90",
    }
    ran = world.run("doctor", "--cluster", "--json", *options, env=environ)
    assert ran.returncode == code, ran.stdout + ran.stderr
    document: dict[str, Any] = json.loads(ran.stdout)
    return document


def found(document: Mapping[str, Any]) -> list[str]:
    return [finding["code"] for finding in document["findings"]]


def test_a_healthy_cluster_has_no_findings(world: World, valid: Callable[[str, str], Any], until: Until) -> None:
    with cluster_with() as cluster:
        document = diagnose(world, cluster)
        assert (document["verdict"]["sentence"], found(document)) == (ALL_WELL, [])
        valid(json.dumps(document), "doctor-cluster")
        checks = [node["check"] for node in document["cluster"]["nodes"]]
        assert [(each["host"], each["problem"], each["from_here"], each["unreachable"]) for each in checks] == [
            ("n1", "", "open", []),
            ("n2", "", "open", []),
        ]
        assert [each["cards"]["value"] for each in checks] == [4, 4]
        until(lambda: not cluster.ask("squeue", "-h", "-o", "%i").strip())
        assert not list((world.root / "home").glob("cluster-check-*")), "nothing is left in the state folder"
        shown = world.run("doctor", "--cluster").stdout
        assert shown.startswith(ALL_WELL)
        assert "looked at by job" in shown


def test_a_node_in_use_is_asked_only_if_told_to(world: World, until: Until) -> None:
    with cluster_with() as cluster:
        assert "Submitted" in cluster.ask("sbatch", "--nodelist=n1", "--output=/dev/null", "--wrap", "exec sleep 1000")
        until(lambda: cluster.idle() == 1)
        n1, n2 = diagnose(world, cluster)["cluster"]["nodes"]
        assert (n1["check"], n1["unchecked"]) == (None, "it is in use; --node-jobs all asks it, too")
        assert n2["check"]["problem"] == ""
        n1, n2 = diagnose(world, cluster, "--node-jobs", "all")["cluster"]["nodes"]
        assert (n1["check"]["problem"], n2["check"]["problem"]) == ("", "")
        before = cluster.ask("squeue", "-h", "-t", "all", "-o", "%i").split()
        n1, n2 = diagnose(world, cluster, "--node-jobs", "none")["cluster"]["nodes"]
        assert (n1["check"], n2["check"]) == (None, None)
        assert sorted(before) == sorted(cluster.ask("squeue", "-h", "-t", "all", "-o", "%i").split()), "no job"


def test_a_clock_that_is_ahead(world: World) -> None:
    if shutil.which("faketime") is None:
        pytest.skip("faketime is not installed; `scripts/setup test` installs it where it may")
    with cluster_with({"n2": Node(prepare=cards(4), clock="+200s")}) as cluster:
        (finding,) = diagnose(world, cluster)["findings"]
        assert finding["code"] == "cluster-clocks"
        ahead = int(finding["title"].removeprefix("The clock of n2 is at least ").removesuffix(" s ahead"))
        assert 1 <= ahead <= 200, "at least: what passed while the job started is not known"


def test_a_clock_that_is_behind(world: World) -> None:
    if shutil.which("faketime") is None:
        pytest.skip("faketime is not installed; `scripts/setup test` installs it where it may")
    with cluster_with({"n2": Node(prepare=cards(4), clock="-250s")}) as cluster:
        (finding,) = diagnose(world, cluster)["findings"]
        assert (finding["code"], finding["title"].endswith(" s behind")) == ("cluster-clocks", True)


def test_a_node_with_another_munge_key(world: World) -> None:
    with cluster_with({"n2": Node(key="other-0.key")}, joining=1, keys=1, node_timeout=5) as cluster:
        document = diagnose(world, cluster)
        assert found(document) == ["cluster-node-silent"]
        assert document["findings"][0]["title"] == "Node n2 listens, but does not answer the controller"


def test_a_folder_that_is_not_shared(world: World) -> None:
    home = world.root / "home"
    with cluster_with({"n2": Node(prepare=f"{cards(4)}\nmkdir -p {home}; mount -t tmpfs tmpfs {home}")}) as cluster:
        (finding,) = diagnose(world, cluster)["findings"]
        assert (finding["code"], finding["severity"]) == ("cluster-folder", "error")
        assert finding["evidence"] == [f"n2: {home} is not there"]


def test_the_current_folder_is_another_one(world: World) -> None:
    prepare = f"{cards(4)}\nmount -t tmpfs tmpfs /mnt; mkdir /mnt/kept; mount --bind {world.root} /mnt/kept; mount -t tmpfs tmpfs {world.root}"
    prepare += f"\nmkdir -p {world.root}/home /mnt/kept/home; mount --bind /mnt/kept/home {world.root}/home"
    with cluster_with({"n2": Node(prepare=prepare)}) as cluster:
        (finding,) = diagnose(world, cluster)["findings"]
        assert (finding["code"], finding["severity"]) == ("cluster-folder", "warning")
        assert finding["evidence"] == [f"n2: {world.root} is there, but is another folder"]


@pytest.mark.parametrize(("number", "severity"), [(3, "error"), (8, "warning")])
def test_gpus_that_are_not_those_of_the_configuration(world: World, number: int, severity: str) -> None:
    with cluster_with({"n2": Node(prepare=cards(number))}) as cluster:
        (finding,) = diagnose(world, cluster)["findings"]
        assert (finding["code"], finding["severity"]) == ("cluster-gpus", severity)
        assert finding["title"] == f"n2 is configured with 4 GPUs, and has {number}"


def test_another_number_of_a_user(world: World) -> None:
    with cluster_with() as cluster:
        passwd = cluster.root / "passwd"
        passwd.write_text(
            Path("/etc/passwd").read_text().replace("root:", "boss:", 1) + "\nroot:x:4711:4711::/:/bin/sh\n"
        )
        assert cluster.inside("n2", "mount", "--bind", str(passwd), "/etc/passwd") == ""
        (finding,) = diagnose(world, cluster)["findings"]
        assert (finding["code"], finding["severity"]) == ("cluster-users", "error")
        assert finding["evidence"] == ["your job on n2 ran as boss", "root: 0 here, 4711 on n2"]


def test_an_interpreter_that_the_node_lacks(world: World) -> None:
    folder = Path(sys.executable).parent
    with cluster_with({"n2": Node(prepare=f"{cards(4)}\nmount -t tmpfs tmpfs {folder}")}) as cluster:
        (finding,) = diagnose(world, cluster)["findings"]
        assert (finding["code"], finding["title"]) == (
            "cluster-interpreter",
            "n2 does not have the interpreter of ownlab",
        )


def test_ports_that_are_closed_between_the_nodes(world: World) -> None:
    with cluster_with() as cluster:
        cluster.inside("n1", "ip", "route", "add", "prohibit", cluster.address_of(2))
        (finding,) = diagnose(world, cluster)["findings"]
        assert finding["code"] == "cluster-ports"
        assert finding["title"] == "Nodes cannot connect to each other's free ports"
        assert "n1 cannot connect to n2" in finding["evidence"]


def test_a_node_whose_daemon_does_not_run(world: World, until: Until) -> None:
    with cluster_with(node_timeout=5) as cluster:
        cluster.inside("n2", "pkill", "slurmd")
        until(lambda: "not responding" in cluster.ask("sinfo", "-h", "-R").lower())
        document = diagnose(world, cluster)
        assert found(document) == ["cluster-node-unreachable"]
        assert "refused" in document["findings"][0]["evidence"][0]
        with cluster.cut_network("n2"):
            document = diagnose(world, cluster)
        assert found(document) == ["cluster-node-unreachable"]
        assert "refused" not in document["findings"][0]["evidence"][0]


def test_a_drained_node(world: World) -> None:
    with cluster_with() as cluster:
        cluster.ask("scontrol", "update", "NodeName=n2", "State=DRAIN", "Reason=bad fan")
        document = diagnose(world, cluster)
        assert found(document) == ["cluster-node-drained"]
        assert "bad fan" in document["findings"][0]["evidence"][0]
        assert document["cluster"]["nodes"][1]["unchecked"] == "it takes no jobs"


def test_a_controller_that_does_not_run(world: World) -> None:
    with cluster_with() as cluster:
        cluster.end("slurmctld")
        document = diagnose(world, cluster, code=1)
        assert found(document) == ["cluster-controller"]
        assert (
            document["verdict"]["sentence"] == "The cluster cannot be used. The controller of Slurm cannot be reached."
        )
        cluster.start_controller()


def test_munge_does_not_run_here(world: World) -> None:
    with cluster_with() as cluster:
        cluster.end("munged")
        assert found(diagnose(world, cluster, code=1)) == ["cluster-munge"]


def test_another_key_here_than_at_the_controller(world: World) -> None:
    """This machine is a third one, with a munged of its own."""
    with cluster_with(keys=1) as cluster:
        folder = cluster.root / "third"
        folder.mkdir()
        third = folder / "slurm.conf"
        third.write_text(Path(cluster.env["SLURM_CONF"]).read_text().replace(str(cluster.socket), str(folder / "sock")))
        shutil.copy(cluster.root / "gres.conf", folder)
        cluster.start_other_munge(cluster.root / "other-0.key", folder)
        assert found(diagnose(world, cluster, code=1, SLURM_CONF=str(third))) == ["cluster-authentication"]


def test_slurm_is_not_there(world: World, tmp_path: Path) -> None:
    ran = world.run("doctor", "--cluster", "--json", env={"PATH": str(tmp_path)})
    assert (ran.returncode, found(json.loads(ran.stdout))) == (1, ["cluster-commands"])
    ran = world.run("doctor", "--cluster", "--json", env={"SLURM_CONF": str(tmp_path / "none.conf")})
    assert (ran.returncode, found(json.loads(ran.stdout))) == (1, ["cluster-commands"])

"""Rates of the host, from counters in a folder of the test, and of this machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from ownlab.instruments.top.host_sampler import HostSampler
from ownlab.instruments.top.records import HostSample

KIB = 1024
# user nice system idle iowait irq softirq steal guest guest_nice
STAT = "cpu  {0} 0 0 {1} {2} 0 0 0 {0} 0\ncpu0 {0} 0 0 {1} 0 0 0 0 0 0\ncpu1 0 0 0 {3} {2} 0 0 0 0 0\nintr 5 5\nbtime 1700000000\n"
DISKS = """
 259 0 nvme0n1 10 0 {0} 5 20 0 {1} 6 0 0 0
 259 1 nvme0n1p1 10 0 {0} 5 20 0 {1} 6 0 0 0
 253 0 dm-0 10 0 {0} 5 20 0 {1} 6 0 0 0
   7 0 loop0 10 0 999999 5 20 0 999999 6 0 0 0
   8 0 sda 1 0 8 5 2 0 8 6 0 0 0
"""
NETWORK = """Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo: 999999 1 0 0 0 0 0 0 999999 1 0 0 0 0 0 0
  eth0:{0} 1 0 0 0 0 0 0 {1} 1 0 0 0 0 0 0
docker0: {0} 1 0 0 0 0 0 0 {1} 1 0 0 0 0 0 0
"""
MEMORY = "MemTotal: 1000 kB\nMemFree: 100 kB\nMemAvailable: 400 kB\nSwapTotal: 50 kB\nSwapFree: 20 kB\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for folder in ("proc/net", "sys/block/nvme0n1", "sys/block/sda", "sys/block/dm-0", "sys/block/loop0"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "sys/class/net/eth0/device").mkdir(parents=True)
    (tmp_path / "proc/meminfo").write_text(MEMORY)
    (tmp_path / "proc/loadavg").write_text("1.25 0.9 0.8 1/200 4242\n")
    write(tmp_path, cores=(100, 100, 0, 200), disks=(1000, 1000), network=(5000, 6000))
    return tmp_path


def write(root: Path, *, cores: tuple[int, ...], disks: tuple[int, int], network: tuple[int, int]) -> None:
    (root / "proc/stat").write_text(STAT.format(*cores))
    (root / "proc/diskstats").write_text(DISKS.format(*disks))
    (root / "proc/net/dev").write_text(NETWORK.format(*network))


def test_the_first_reading_has_no_rates(root: Path) -> None:
    first = HostSampler(root).read()
    assert first == HostSample(cores=2, load=1.25, memory=1000 * KIB, memory_used=600 * KIB, swap_used=30 * KIB)


def test_rates_are_those_between_two_readings(root: Path) -> None:
    host = HostSampler(root)
    host.read()
    write(root, cores=(160, 120, 20, 280), disks=(1400, 1200), network=(5300, 6100))
    then = host.read()
    assert (then.cpu, then.busiest_core, then.io_wait) == (60.0, 75.0, 20.0)
    # A partition, and what lies on a disk, is counted in the disk; a bridge's traffic in the card's.
    assert then.disk_read is not None
    assert then.disk_written is not None
    assert then.received is not None
    assert then.sent is not None
    assert then.disk_read == pytest.approx(2 * then.disk_written)
    assert then.received == pytest.approx(3 * then.sent)
    assert then.disk_written / then.sent == pytest.approx(200 * 512 / 100)


def test_counters_that_were_reset_give_no_negative_rates(root: Path) -> None:
    host = HostSampler(root)
    host.read()
    write(root, cores=(10, 10, 0, 20), disks=(0, 0), network=(0, 0))
    then = host.read()
    assert (then.cpu, then.disk_read, then.disk_written, then.received, then.sent) == (None, 0, 0, 0, 0)


def test_a_container_without_physical_devices_counts_all_interfaces(root: Path) -> None:
    (root / "sys/class/net/eth0/device").rmdir()
    host = HostSampler(root)
    host.read()
    write(root, cores=(100, 100, 0, 200), disks=(1000, 1000), network=(5300, 6100))
    then = host.read()
    assert then.received is not None
    assert then.sent is not None
    assert then.received == pytest.approx(3 * then.sent)


def test_a_system_without_proc_gives_unknown_values(tmp_path: Path) -> None:
    host = HostSampler(tmp_path)
    assert (host.read(), host.read()) == (HostSample(), HostSample())


def test_this_machine_is_known() -> None:
    sample = HostSampler().read()
    assert sample.cores
    assert sample.memory
    assert sample.memory_used
    assert 0 < sample.memory_used < sample.memory


def test_a_cpu_quota_is_compared_with_the_use_of_its_group(root: Path) -> None:
    assert HostSampler(root).read().quota is None
    (root / "proc/self").mkdir()
    (root / "proc/self/cgroup").write_text("0::/pod/job\n")
    (root / "proc/self/mountinfo").write_text("30 24 0:26 / /sys/fs/cgroup rw shared:9 - cgroup2 cgroup2 rw\n")
    group = root / "sys/fs/cgroup/pod"
    group.mkdir(parents=True)
    (group / "cpu.max").write_text("150000 100000\n")
    (group / "cpu.stat").write_text("usage_usec 5000000\nuser_usec 1\n")
    host = HostSampler(root)
    first = host.read()
    assert (first.quota, first.quota_used) == (1.5, None)
    assert host.read().quota_used == 0
    (group / "cpu.stat").write_text("usage_usec 6000000\nuser_usec 1\n")
    then = host.read()
    assert then.quota_used is not None
    assert then.quota_used > 0
    (group / "cpu.stat").unlink()
    assert host.read().quota_used is None

"""What is to be run on each machine, as shell scripts for Debian and Ubuntu. ownlab writes them; an administrator reads and runs them."""

from __future__ import annotations

from ownlab.instruments.cluster.records import ClusterPlan

__all__ = ["setup_script"]

_HEAD = """\
#!/bin/sh
# Written by `ownlab cluster write` for {host}. Read it, then run it as root in the folder of these files: sh setup-{host}.sh
# It needs munge.key, the same on all machines: make it once, where the controller is, and copy it over ssh:
#   ( umask 077; head -c 1024 /dev/urandom >munge.key )
set -eu
cd "$(dirname "$0")"
[ -s munge.key ] || {{ echo "munge.key is missing: see the beginning of this script" >&2; exit 1; }}
[ "$(hostname -s)" = {host} ] || {{ echo "this machine is not {host}: its name must be that of slurm.conf" >&2; exit 1; }}
export DEBIAN_FRONTEND=noninteractive
apt-get update
apt-get install -y --no-install-recommends munge slurm-client {packages}
install -o munge -g munge -m 400 munge.key /etc/munge/munge.key
systemctl enable munge
systemctl restart munge
munge -n | unmunge >/dev/null
install -d -m 755 /etc/slurm /var/lib/slurm /var/log/slurm
install -d -o slurm -g slurm -m 755 /var/lib/slurm/slurmctld
chown slurm:slurm /var/log/slurm
install -m 644 slurm.conf gres.conf cgroup.conf /etc/slurm/
timedatectl set-ntp true || echo "keep the clock right by other means: munge allows five minutes" >&2
"""
_DAEMON = """\
systemctl enable {daemon}
systemctl restart {daemon}
"""


def setup_script(plan: ClusterPlan, host: str) -> str:
    """What is to be run on one machine."""
    daemons = [
        *(["slurmctld"] if host == plan.controller else []),
        *(["slurmd"] if any(node.name == host for node in plan.nodes) else []),
    ]
    return _HEAD.format(host=host, packages=" ".join(daemons)) + "".join(
        _DAEMON.format(daemon=each) for each in daemons
    )

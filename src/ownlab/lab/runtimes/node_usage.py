"""`python -m ownlab.lab.runtimes.node_usage PLAN_FILE`: what a runtime uses on its node, a line of JSON for each line on stdin.

The supervisor on the node starts it when somebody looks. It ends when nothing was asked for some seconds: nobody looks any more.
"""

from __future__ import annotations

import os
import select
import shutil
import sys
import time
from collections.abc import Mapping

from msgspec.structs import replace

from ownlab.errors import LabError
from ownlab.instruments.top.records import Owner
from ownlab.json_encoding import encode_json
from ownlab.lab.runtimes.cards import KnownRuntimes, read_devices
from ownlab.lab.runtimes.launch_plan import Plan, read_plan
from ownlab.lab.runtimes.live_usage import LiveUsage, UsageSampler
from ownlab.lab.runtimes.records import CardShare, NodeUsage
from ownlab.lab.runtimes.state import read_state
from ownlab.lab.store.rows import Device
from ownlab.processes.procfs import all_processes, children_of
from ownlab.units import PARTS

__all__ = ["main", "share_of_cards"]

_NOBODY_LOOKS = 20.0  # seconds
# The numbers that Slurm gave to the cards of the job, on its node; in a control group the driver counts from 0.
_JOB_CARDS = "SLURM_JOB_GPUS"


def main(plan_file: str) -> int:
    """Measure whenever it is asked for, until nobody asks."""
    plan = read_plan(plan_file)
    devices = read_devices(os.environ, known=KnownRuntimes())
    sampler = UsageSampler(owners=lambda: _owners(plan))
    try:
        while _is_asked():
            usage = sampler.sample((), devices)
            line = encode_json(_figures(plan, usage, devices, os.environ))
            sys.stdout.buffer.write(line.replace(b"\n", b" ") + b"\n")
            sys.stdout.buffer.flush()
    except BrokenPipeError:  # the supervisor has ended
        return 0
    finally:
        sampler.close()
    return 0


def _is_asked() -> bool:
    """Wait for a line on stdin. False at its end, or if none comes."""
    if not select.select([0], [], [], _NOBODY_LOOKS)[0]:
        return False
    return bool(os.read(0, 1 << 16))


def _owners(plan: Plan) -> dict[int, Owner]:
    """The processes of the runtime: all children of its supervisor but this one, the kernel last."""
    owner = Owner(plan.runtime, plan.notebook, "")
    try:
        state = read_state(plan.home)
    except LabError:  # it is being replaced
        state = None
    kernel = (state or {}).get("kernel")
    if kernel is None:
        return {}
    siblings = children_of(all_processes()).get(os.getppid(), [])
    pids = [*(pid for pid in siblings if pid not in (os.getpid(), kernel["pid"])), kernel["pid"]]
    return dict.fromkeys(pids, owner)


def _figures(plan: Plan, usage: LiveUsage, devices: tuple[Device, ...], environ: Mapping[str, str]) -> NodeUsage:
    host = usage.host
    try:
        disk = shutil.disk_usage(plan.cwd)
        host = replace(host, disk=disk.total, disk_used=disk.total - disk.free)
    except OSError:  # the folder was removed
        pass
    return NodeUsage(
        at=time.time(),
        host=host,
        ram=usage.ram.get(plan.runtime),
        cpu=usage.cpu.get(plan.runtime),
        cards=share_of_cards(plan.runtime, usage, devices, environ),
        notices=usage.notices,
    )


def share_of_cards(
    runtime: str, usage: LiveUsage, devices: tuple[Device, ...], environ: Mapping[str, str]
) -> tuple[CardShare, ...]:
    """The cards of the job, with what the runtime uses of each. Without a driver that answers: their numbers alone."""
    given = [int(number) for number in environ.get(_JOB_CARDS, "").split(",") if number.isdigit()]
    if not devices:
        node = environ.get("SLURMD_NODENAME", "")
        return tuple(CardShare(f"{node}:{number}", number, "", PARTS) for number in given)
    numbers = given if len(given) == len(devices) else [device.number for device in devices]
    return tuple(_share(runtime, device, number, usage) for device, number in zip(devices, numbers, strict=True))


def _share(runtime: str, device: Device, number: int, usage: LiveUsage) -> CardShare:
    card = usage.cards.get(device.uuid)
    share = usage.shares.get((runtime, device.uuid))
    return CardShare(
        uuid=device.uuid,
        index=number,
        name=device.name,
        parts=PARTS,
        vram=usage.vram.get((runtime, device.uuid)),
        booked=device.memory,
        # The card is the job's alone: what the driver does not report by process is its own.
        utilisation=share if share is not None or card is None else card.utilisation,
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

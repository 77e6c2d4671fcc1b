"""Makes the explanation of a log of NCCL: what connects the ranks, in one sentence, and the findings."""

from __future__ import annotations

from collections.abc import Iterable

from ownlab.errors import NotRecognised
from ownlab.input_files import read_lines
from ownlab.instruments.why.nccl.failures import (
    DifferentCollectives,
    DuplicateGpu,
    LinkErrors,
    LockedMemory,
    NoConnection,
    SharedMemoryFull,
    VersionMismatch,
)
from ownlab.instruments.why.nccl.log_reader import LogReader
from ownlab.instruments.why.nccl.records import Communicator, Connection, NcclLog
from ownlab.instruments.why.nccl.rule import NcclRule
from ownlab.instruments.why.nccl.timeouts import CollectiveTimeout
from ownlab.instruments.why.nccl.transports import (
    AcrossSockets,
    DifferentSettings,
    NoGpuDirect,
    NoPeerToPeer,
    NoSharedMemory,
    SocketsOnly,
    VirtualInterface,
)
from ownlab.instruments.why.records import Explanation, Finding
from ownlab.text import Text, listing, plural, sentences, text

__all__ = ["NCCL_RULES", "explain_nccl", "read_nccl_logs", "transport_name"]

# What stops a run comes before what makes it slow.
NCCL_RULES: tuple[type[NcclRule], ...] = (
    VersionMismatch,
    DuplicateGpu,
    SharedMemoryFull,
    LockedMemory,
    NoConnection,
    LinkErrors,
    DifferentCollectives,
    CollectiveTimeout,
    VirtualInterface,
    SocketsOnly,
    NoSharedMemory,
    NoGpuDirect,
    NoPeerToPeer,
    AcrossSockets,
    DifferentSettings,
)

_MOST_WARNINGS = 5


def read_nccl_logs(paths: Iterable[str]) -> NcclLog:
    """Read the logs of one run. NotRecognised if there is no line of NCCL in them."""
    reader, names = LogReader(), list(paths)
    for path in names:
        reader.read(read_lines(path))
    log = reader.result(names)
    if not log.lines:
        raise NotRecognised(
            text("There is no line of NCCL in {paths}.", paths=listing(names)),
            hint=text("Run the training with NCCL_DEBUG=INFO, and keep what it prints: torchrun … 2>&1 | tee nccl.log"),
        )
    return log


def explain_nccl(log: NcclLog) -> Explanation:
    """Explain what NCCL chose."""
    findings = [finding for rule in NCCL_RULES for finding in rule().check(log)]
    return Explanation(
        sentence=_sentence(log, findings),
        findings=tuple(findings),
        notes=tuple(_notes(log)),
        command=(),
        exit_code=None,
        device="cuda",
        ranks=max((group.size or len(group.ranks) for group in log.communicators), default=0),
        nccl=log,
    )


def _sentence(log: NcclLog, findings: list[Finding]) -> Text:
    connected = any(group.connections for group in log.communicators)
    if findings:
        return sentences(_what_connects(log) if connected else None, findings[0].headline)
    if connected:
        return sentences(_what_connects(log), text("Nothing was found that is wrong with it."))
    name = text("NCCL {version}", version=listing(log.versions)) if log.versions else text("NCCL")
    return text("The log of {name} has no connections between ranks, and nothing was found in it.", name=name)


def _what_connects(log: NcclLog) -> Text:
    name = text("NCCL {version}", version=listing(log.versions)) if log.versions else text("NCCL")
    group = max(log.communicators, key=lambda each: len(each.connections))
    machines = {rank.machine for rank in group.ranks if rank.machine}
    ways = listing([_way(way, pairs) for way, pairs in _pairs_by_transport(group).items()])
    if not group.size:
        return text("{name} connects ranks: {ways}.", name=name, ways=ways)
    ranks = group.size
    if len(machines) > 1:
        return text(
            "{name} connects {ranks} ranks on {machines} machines: {ways}.",
            name=name,
            ranks=ranks,
            machines=len(machines),
            ways=ways,
        )
    return text("{name} connects {ranks} ranks: {ways}.", name=name, ranks=ranks, ways=ways)


def _way(name: str, pairs: int) -> Text:
    return plural(pairs, "one pair by {name}", "{n} pairs by {name}", name=name)


def _pairs_by_transport(group: Communicator) -> dict[str, int]:
    pairs: dict[str, set[frozenset[int]]] = {}
    for each in group.connections:
        pairs.setdefault(transport_name(each), set()).add(frozenset((each.sender, each.receiver)))
    return {name: len(found) for name, found in sorted(pairs.items(), key=lambda item: -len(item[1]))}


def transport_name(connection: Connection) -> str:
    """ "P2P", "SHM", "NET/Socket", "NET/IB with GPUDirect"."""
    if connection.transport != "NET" or not connection.network:
        return connection.transport
    if connection.gpu_direct:
        return text("NET/{network} with GPUDirect", network=connection.network)
    return f"NET/{connection.network}"


def _notes(log: NcclLog) -> list[str]:
    notes: list[str] = []
    if not log.informative:
        notes.append(text("The log has warnings alone. With NCCL_DEBUG=INFO it also says what connects the ranks."))
    elif not any(group.connections for group in log.communicators):
        notes.append(text("NCCL says what connects the ranks when the first collective runs; this log ends before."))
    for group in log.communicators:
        if group.size and len(group.ranks) < group.size:
            notes.append(
                text(
                    "{seen} of {size} ranks are in the log. Pass the logs of all machines: --nccl A --nccl B",
                    seen=len(group.ranks),
                    size=group.size,
                )
            )
            break
    if log.informative and not any(machine.paths for machine in log.machines):
        notes.append(
            text("NCCL_DEBUG_SUBSYS=INIT,ENV,NET,GRAPH adds how the GPUs and network cards of a machine are connected.")
        )
    others = [each for each in log.failures if each.kind in ("other", "cuda")]
    notes += [text("NCCL warns: {message}", message=each.message) for each in others[:_MOST_WARNINGS]]
    return notes  # fmt: skip

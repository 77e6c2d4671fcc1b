"""What the messages of NCCL on one machine say about its networks, GPUs and settings."""

from __future__ import annotations

import re

from ownlab.instruments.why.nccl.records import Machine

__all__ = ["MachineFacts"]

_SETTING = re.compile(r"(NCCL_\w+) set by environment to (.*?)\.?$")
_SOCKETS = re.compile(r"NET/Socket ?: Using (.*)")
_BOOTSTRAP = re.compile(r"Bootstrap ?: Using (?:\[0\])?([^:\s]+):")
_VERBS = re.compile(r"NET/IB ?: Using (.*)")
_INTERFACE = re.compile(r"\[\d+\]([^:\s]+):")
_ADAPTER = re.compile(r"\[\d+\](\w+:\d+/\w+)")
_NETWORK = re.compile(r"Using network (.+)")
_PLUGIN = re.compile(r"Loaded net plugin (.+?)(?: \(v\d+\))?$")
_GPU_DIRECT = re.compile(r"GPU Direct RDMA (?:\([^)]*\) )?(\w+) for HCA \d+ '([^']*)'")
_PATTERN = re.compile(r"Pattern 4, .*type (\w+)/\w+")  # 4: the rings (graph.h)
_NO_P2P = re.compile(r"P2P is disabled between connected GPUs (\d+) and (\d+)")
_NO_ADAPTER = re.compile(r"NET/IB ?: (No device found)|(Failed to open libibverbs\S*)")
_NO_OFI = re.compile(r"NET/OFI .*disabling GDR")
_LIBFABRIC = re.compile(r"NET/OFI Selected [Pp]rovider is (\w+)")

_MOST_PAIRS = 200
_MOST_NAMES = 64


class MachineFacts:
    """One machine while its lines are read."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.versions: dict[str, None] = {}
        self._network = self._plugin = self._bootstrap = self._no_adapter = ""
        self._interfaces: dict[str, None] = {}
        self._adapters: dict[str, None] = {}
        self._gpu_direct: dict[str, bool] = {}
        self._paths: dict[str, None] = {}
        self._settings: dict[str, str] = {}
        self._no_p2p: dict[str, None] = {}

    def read(self, message: str) -> None:
        """Take a message of any process of this machine."""
        if (setting := _SETTING.match(message)) is not None:
            if len(self._settings) < _MOST_NAMES:
                self._settings[setting[1]] = setting[2]
        elif message.startswith(("NET", "Bootstrap", "Using")):
            self._read_network(message)
        elif (pattern := _PATTERN.match(message)) is not None:
            self._paths[pattern[1]] = None
        elif (pair := _NO_P2P.match(message)) is not None and len(self._no_p2p) < _MOST_PAIRS:
            first, second = sorted((int(pair[1]), int(pair[2])))
            self._no_p2p[f"{first}-{second}"] = None
        elif (missing := _NO_ADAPTER.search(message)) is not None:
            self._no_adapter = missing[1] or missing[2]

    def _read_network(self, message: str) -> None:
        if (found := _SOCKETS.match(message)) is not None:
            self._interfaces.update(dict.fromkeys(_INTERFACE.findall(found[1])[:_MOST_NAMES]))
        elif (found := _BOOTSTRAP.match(message)) is not None:
            self._bootstrap = found[1]
        elif (found := _GPU_DIRECT.search(message)) is not None:
            self._gpu_direct[found[2]] = found[1].lower() == "enabled"
        elif (found := _VERBS.match(message)) is not None:
            self._adapters.update(dict.fromkeys(_ADAPTER.findall(found[1])[:_MOST_NAMES]))
        elif (found := _NO_ADAPTER.search(message)) is not None:
            self._no_adapter = found[1] or found[2]
        elif (found := _NETWORK.match(message)) is not None:
            self._network = found[1].strip()
        elif (found := _PLUGIN.search(message)) is not None:
            self._plugin = found[1]
        elif (found := _LIBFABRIC.search(message)) is not None:
            self._adapters[found[1]] = None
        elif _NO_OFI.search(message):
            self._gpu_direct["OFI"] = False

    def as_record(self) -> Machine:
        """What was read."""
        return Machine(
            name=self.name,
            versions=tuple(self.versions),
            network=self._network,
            plugin=self._plugin,
            interfaces=tuple(self._interfaces),
            bootstrap=self._bootstrap,
            adapters=tuple(self._adapters),
            no_adapter=self._no_adapter if not self._adapters else "",
            gpu_direct=self._gpu_direct,
            paths=tuple(self._paths),
            settings=self._settings,
            p2p_disabled=tuple(self._no_p2p),
        )

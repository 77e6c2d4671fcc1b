"""What a script writes, and whom it talks to, as far as Python sees it. What C++ libraries open by themselves is not seen."""

import functools
import os
import sys
from typing import Any, Dict, List, Tuple

__all__ = ["SideEffects"]

_MOST = 200
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_HERE = ("localhost", "::1", "0.0.0.0", "::", "")  # noqa: S104  # to be recognised, nothing is bound
# Devices, pipes and caches of bytecode are nothing that a run leaves behind.
_NOT_KEPT = ("/dev/", "/proc/", "/sys/")


class SideEffects:
    """Collects paths and addresses from Python's audit events."""

    def __init__(self, folder: str) -> None:
        self._folder = os.path.realpath(folder)
        self._written: Dict[str, None] = {}
        self._network: Dict[str, None] = {}

    @property
    def written(self) -> List[str]:
        """Files and folders that were opened to be written, or removed."""
        return list(self._written)

    @property
    def network(self) -> List[str]:
        """Addresses of other machines."""
        return list(self._network)

    def noticed(self, event: str, arguments: Tuple[Any, ...]) -> None:
        """An audit hook: it sees every event of the process, and must raise nothing."""
        if event == "open":
            path, _, flags = arguments
            if isinstance(flags, int) and flags & _WRITING:
                self._add(path)
        elif event in ("os.mkdir", "os.remove", "os.rmdir", "shutil.rmtree"):
            self._add(arguments[0])
        elif event == "os.rename":
            self._add(arguments[1])
        elif event == "socket.connect":
            self._connect(arguments[1])

    def _add(self, path: Any) -> None:
        if len(self._written) >= _MOST or not isinstance(path, (str, bytes)):
            return
        try:
            full = os.path.realpath(os.fsdecode(path))
        except (OSError, ValueError):
            return
        ours = full == self._folder or full.startswith(self._folder + os.sep)
        if not ours and not full.startswith(_NOT_KEPT) and ".pyc" not in full and "__pycache__" not in full:
            self._written[full] = None

    def _connect(self, address: Any) -> None:
        if not isinstance(address, tuple) or len(address) < 2 or len(self._network) >= _MOST:
            return  # a Unix socket
        host = str(address[0])
        if not host.startswith("127.") and host not in _HERE:
            self._network["%s:%s" % (host, address[1])] = None

    def patch_save(self, torch: Any) -> None:
        """torch.save opens files in C++."""
        original = torch.save

        @functools.wraps(original)
        def noted(*arguments: Any, **options: Any) -> Any:
            target = options.get("f", arguments[1] if len(arguments) > 1 else None)
            if isinstance(target, (str, os.PathLike)):
                self._add(os.fspath(target))
            return original(*arguments, **options)

        torch.save = noted
        sys.modules["torch.serialization"].save = noted  # type: ignore[attr-defined]

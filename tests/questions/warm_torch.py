"""A Python with torch that starts at once: a server that has imported torch and transformers forks for every guest.

`warm_torch.py serve SOCKET` runs in the interpreter that has torch; `warm_torch.py ask SOCKET LAUNCH.py MODULE …` stands in its place
as --python. An import takes seconds of every trace, and sixty questions need dozens of traces.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import json
import os
import runpy
import socket
import sys
from pathlib import Path

END = b"\0"  # before the exit code, after all output


def serve(path: str) -> None:
    """Fork for each connection, until stdin is closed."""
    for name in ("torch", "torch._subclasses.fake_tensor", "torch._dynamo", "torch.utils.flop_counter", "transformers"):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    for model in ("bert", "gpt2", "llama", "vit"):
        with contextlib.suppress(ImportError):
            importlib.import_module(f"transformers.models.{model}.modeling_{model}")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen(16)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    if os.fork() == 0:
        while True:
            connection, _ = listener.accept()
            if os.fork() == 0:
                listener.close()
                _answer(connection)
            connection.close()
            with contextlib.suppress(ChildProcessError):
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
    sys.stdin.read()
    os.killpg(0, 9)


def _answer(connection: socket.socket) -> None:
    """Run a program in a child, since a guest ends its process itself, and send its exit code after its output."""
    asked = json.loads(connection.makefile("r").readline())
    child = os.fork()
    if child == 0:
        os.environ.clear()
        os.environ.update(asked["environment"])
        os.chdir(asked["folder"])
        os.dup2(connection.fileno(), 1)
        sys.argv = asked["arguments"]
        runpy.run_path(sys.argv[0], run_name="__main__")
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    connection.sendall(END + str(code).encode())
    os._exit(0)


def ask(path: str, arguments: list[str]) -> int:
    """Let the server run a program, print its output, and return its exit code. The same request is answered once."""
    _, module, request, *rest = arguments
    key = hashlib.sha256("\0".join([module, Path(request).read_text(), *rest]).encode()).hexdigest()
    known = Path(f"{path}-{key}")
    if known.exists():
        sys.stdout.buffer.write(known.read_bytes())
        return 0
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(path)
    asked = {"arguments": arguments, "environment": dict(os.environ), "folder": os.getcwd()}
    connection.sendall(json.dumps(asked).encode() + b"\n")
    output, _, code = connection.makefile("rb").read().rpartition(END)
    sys.stdout.buffer.write(output)
    sys.stdout.flush()
    if code == b"0":
        known.write_bytes(output)
    return int(code or 1) & 0xFF


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(sys.argv[2])
    else:
        sys.exit(ask(sys.argv[2], sys.argv[3:]))

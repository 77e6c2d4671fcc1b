"""A package index on loopback with small stand-ins: for environments that `ownlab env create` builds in tests.

The stand-in of ipykernel leads to the packages of the Python that runs the tests, so that kernels really start; that of torch
computes with numpy. `hold` delays a file, as a slow network does.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import sysconfig
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

FAKES = Path(__file__).resolve().parent / "fakes" / "index"
# What the presets name, and what they need, without torch.
_FIRST_NOTEBOOK = ("numpy", "pandas", "matplotlib", "scikit-learn", "pillow", "tqdm", "ipywidgets")
_PLAIN = (*_FIRST_NOTEBOOK, "transformers", "accelerate", "pip", "nbformat")
_CHUNKS = 20


def make_package(folder: Path, name: str, version: str, files: dict[str, str], requires: tuple[str, ...] = ()) -> Path:
    """Make a wheel of any files."""
    folder.mkdir(parents=True, exist_ok=True)
    stem = f"{name.replace('-', '_')}-{version}"
    path, info = folder / f"{stem}-py3-none-any.whl", f"{stem}.dist-info"
    needs = "".join(f"Requires-Dist: {each}\n" for each in requires)
    contents = {
        **files,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    with zipfile.ZipFile(path, "w") as wheel:
        for part, content in contents.items():
            wheel.writestr(part, content)
        wheel.writestr(f"{info}/RECORD", "".join(f"{part},,\n" for part in [*contents, f"{info}/RECORD"]))
    return path


def make_torch(folder: Path, version: str) -> Path:
    """Make the stand-in of torch."""
    source = (FAKES / "torch" / "__init__.py").read_text().replace("VERSION", version, 1)
    # Random-looking bytes: a wheel of some size, so that its download can be watched.
    ballast = "".join(f"{number * 2654435761 % 2**32:08x}" for number in range(200_000))
    return make_package(folder, "torch", version, {"torch/__init__.py": source, "torch/ballast.txt": ballast})


def make_torchvision(folder: Path, version: str, torch: str) -> Path:
    """Make a stand-in of torchvision whose operator exists."""
    source = "import types\nops = types.SimpleNamespace(nms=lambda boxes, scores, limit: None)\n"
    return make_package(folder, "torchvision", version, {"torchvision/__init__.py": source}, (f"torch=={torch}",))


def make_packages(folder: Path, torch: str = "2.13.0") -> Path:
    """Make stand-ins of everything that the presets name; return the folder."""
    for name in _PLAIN:
        make_package(folder, name, "1.0", {f"stand_in_of_{name.replace('-', '_')}.py": ""})
    site = sysconfig.get_path("purelib")
    make_package(folder, "ipykernel", "7.0", {"packages_of_the_tests.pth": f"{site}\n"})
    make_torch(folder, torch)
    make_torchvision(folder, "0.28.0", torch)
    return folder


class PackageIndex(ThreadingHTTPServer):
    """`url`/simple/ is an index of `wheels`; `url`/whl/TAG/ one of the folder TAG in `torch_wheels`, if it exists."""

    daemon_threads = True

    def __init__(self, wheels: Path, torch_wheels: Path | None = None) -> None:
        self.wheels, self.torch_wheels = wheels, torch_wheels
        self.requested: list[str] = []
        self.held = ""  # files of this package arrive up to a point, and the rest after `release`
        self.released = threading.Event()
        self.arrived = threading.Event()  # the first part of a held file was sent
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"

    def hold(self, package: str) -> None:
        """From now on, files of this package stop in the middle until `release`."""
        self.held = package
        self.released.clear()
        self.arrived.clear()

    def release(self) -> None:
        """Send what was held back, and hold nothing any more."""
        self.held = ""
        self.released.set()

    def environment(self, cache: Path) -> dict[str, str]:
        """Return the variables with which ownlab and uv use nothing but this index."""
        return {
            "UV_DEFAULT_INDEX": f"{self.url}/simple",
            "UV_CACHE_DIR": str(cache),
            "UV_NO_CONFIG": "1",
            "UV_HTTP_RETRIES": "0",
            "OWNLAB_ENVIRONMENTS_TORCH_INDEX": f"{self.url}/whl",
            "NO_PROXY": "127.0.0.1",
        }


class _Handler(BaseHTTPRequestHandler):
    def do_HEAD(self) -> None:
        self._answer(body=False)

    def do_GET(self) -> None:
        self._answer(body=True)

    def _answer(self, *, body: bool) -> None:
        index = self.server
        assert isinstance(index, PackageIndex)
        index.requested.append(f"{self.command} {self.path}")
        page = re.fullmatch(r"/(simple|whl/([\w.]+))/([\w.-]+)/", self.path)
        file = re.fullmatch(r"/files/(?:([\w.]+)/)?([\w.+%-]+\.whl)(\.metadata)?", self.path)
        if page:
            self._send_page(index, page[2] or "", page[3], body)
        elif file:
            path = self._folder(index, file[1] or "") / file[2].replace("%2B", "+")
            if not path.is_file():
                self.send_error(404)
            elif file[3]:
                self._send(_metadata(path), "text/plain", body)
            else:
                self._send_file(index, path, body)
        else:
            self.send_error(404)

    def _folder(self, index: PackageIndex, tag: str) -> Path:
        return (index.torch_wheels or index.wheels / "none") / tag if tag else index.wheels

    def _send_page(self, index: PackageIndex, tag: str, package: str, body: bool) -> None:
        folder = self._folder(index, tag)
        names = sorted(path.name for path in folder.glob(f"{package.replace('-', '_')}-*.whl"))
        if not names:
            self.send_error(404)
            return
        prefix = f"/files/{tag}/" if tag else "/files/"
        files = [
            {
                "filename": name,
                "url": prefix + name.replace("+", "%2B"),
                "hashes": {"sha256": hashlib.sha256((folder / name).read_bytes()).hexdigest()},
                "size": (folder / name).stat().st_size,
                "core-metadata": True,
            }
            for name in names
        ]
        page = {"meta": {"api-version": "1.1"}, "name": package, "versions": [], "files": files}
        self._send(json.dumps(page).encode(), "application/vnd.pypi.simple.v1+json", body)

    def _send(self, data: bytes, kind: str, body: bool) -> None:
        self._start(len(data), kind)
        if body:
            self.wfile.write(data)

    def _send_file(self, index: PackageIndex, path: Path, body: bool) -> None:
        data = path.read_bytes()
        self._start(len(data), "application/octet-stream")
        if not body:
            return
        held = index.held and path.name.startswith(f"{index.held}-")
        middle = len(data) // 2 if held else len(data)
        for start in range(0, middle, max(1, middle // _CHUNKS)):
            self.wfile.write(data[start : min(middle, start + max(1, middle // _CHUNKS))])
            self.wfile.flush()
        if held:
            index.arrived.set()
            index.released.wait()
            self.wfile.write(data[middle:])

    def _start(self, length: int, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(length))
        self.end_headers()

    def log_message(self, *arguments: object) -> None:
        pass


def _metadata(path: Path) -> bytes:
    """Return the metadata of a wheel, which indexes serve beside it: uv resolves without downloading wheels."""
    with zipfile.ZipFile(path) as wheel:
        return wheel.read(next(name for name in wheel.namelist() if name.endswith("/METADATA")))


@contextlib.contextmanager
def serve_packages(wheels: Path, torch_wheels: Path | None = None) -> Iterator[PackageIndex]:
    """Serve an index until the end of the block."""
    index = PackageIndex(wheels, torch_wheels)
    thread = threading.Thread(target=index.serve_forever, daemon=True)
    thread.start()
    try:
        yield index
    finally:
        index.release()
        index.shutdown()
        index.server_close()
        thread.join()

"""Tries to load each of CUDA's libraries in this interpreter: through the dynamic loader, else from its wheels.

Each is really loaded (lazily), because an existing file may lack a dependency. The names come from the loader's cache,
LD_LIBRARY_PATH and the wheels, so that releases newer than ownlab are found, too.
"""

import ctypes
import glob
import os
import re
import sys
from typing import Dict, Iterator, List, NamedTuple, Optional, Tuple

from ownlab_guest.text import text

_CACHE = "/etc/ld.so.cache"
DRIVER = "libcuda.so.1"
WHEEL = text("a wheel of this interpreter")
TOOLKIT = text("the toolkit")
_TOOLKITS = ("/usr/local/cuda", "/opt/cuda", "/usr/lib/nvidia-cuda-toolkit", "/usr/lib/cuda")


class CudaLibrary(NamedTuple):
    """A library: the beginning of its file name, and what it is for."""

    name: str
    purpose: str


# In order of dependencies: a loaded library serves those that need it, in any folder (a wheel's libcusolver needs
# libcublas of another wheel). The driver and small libraries come first.
LIBRARIES = (
    CudaLibrary("libcuda.so", text("CUDA driver")),
    CudaLibrary("libcudart.so", text("CUDA runtime")),
    CudaLibrary("libnvrtc.so", text("run-time compiler")),
    CudaLibrary("libnvJitLink.so", text("run-time linker")),
    CudaLibrary("libnvvm.so", text("NVVM compiler")),
    CudaLibrary("libnvToolsExt.so", text("marks for profilers (NVTX; part of the headers since CUDA 12.9)")),
    CudaLibrary("libcupti.so", text("profiling interface")),
    CudaLibrary("libcuinj64.so", text("profiler injection")),
    CudaLibrary("libcufile.so", text("GPUDirect Storage")),
    CudaLibrary("libcurand.so", text("random numbers")),
    CudaLibrary("libcufft.so", text("Fourier transforms")),
    CudaLibrary("libcufftw.so", text("Fourier transforms, FFTW's interface")),
    CudaLibrary("libnppc.so", text("image and signal primitives: core")),
    CudaLibrary("libnppif.so", text("image and signal primitives: images")),
    CudaLibrary("libnpps.so", text("image and signal primitives: signals")),
    CudaLibrary("libcublasLt.so", text("linear algebra, light interface")),
    CudaLibrary("libcublas.so", text("linear algebra")),
    CudaLibrary("libcusparse.so", text("sparse matrices")),
    CudaLibrary("libcusolver.so", text("solvers")),
    CudaLibrary("libcudnn.so", text("neural network primitives")),
    CudaLibrary("libnccl.so", text("communication between GPUs")),
)
# Not a shared library, though some tables list it as libdevice.so: code that the compiler links.
LIBDEVICE = CudaLibrary("libdevice.10.bc", text("mathematical functions for the compiler"))


class LinkMap(ctypes.Structure):
    """The beginning of glibc's and musl's struct link_map (link.h): the path of a loaded library."""

    _fields_ = [("l_addr", ctypes.c_void_p), ("l_name", ctypes.c_char_p)]


class Loader:
    """Calls dlopen directly: ctypes.CDLL would bind every symbol at once, which takes seconds for large libraries."""

    def __init__(self) -> None:
        library = ctypes.CDLL(None)
        self.dlopen = library.dlopen
        self.dlopen.restype = ctypes.c_void_p
        self.dlopen.argtypes = [ctypes.c_char_p, ctypes.c_int]
        self.dlerror = library.dlerror
        self.dlerror.restype = ctypes.c_char_p
        self.dlinfo = library.dlinfo
        self.dlinfo.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p]

    def load(self, name: str) -> Tuple[Optional[str], str]:
        """Load a library; return its path, or None and the loader's message."""
        handle = self.dlopen(os.fsencode(name), os.RTLD_LAZY | os.RTLD_LOCAL)
        if not handle:
            message = self.dlerror()
            return None, os.fsdecode(message) if message else text("the loader gives no reason")
        link_map = ctypes.POINTER(LinkMap)()
        linkmap_request = 2  # RTLD_DI_LINKMAP
        if self.dlinfo(handle, linkmap_request, ctypes.byref(link_map)) == 0 and link_map.contents.l_name:
            return os.fsdecode(link_map.contents.l_name), ""
        return name, ""


def answer(arguments: List[str]) -> List[Dict[str, Optional[str]]]:
    """Return one row per library."""
    if sys.platform != "linux":
        return [
            row(library, error=text("not read on {platform}", platform=sys.platform))
            for library in (*LIBRARIES, LIBDEVICE)
        ]
    loader = Loader()
    known = loader_names()
    folders = own_folders()
    return [find(library, loader, known, folders) for library in LIBRARIES] + [find_libdevice()]


def row(
    library: CudaLibrary, path: Optional[str] = None, way: Optional[str] = None, error: Optional[str] = None
) -> Dict[str, Optional[str]]:
    return {"name": library.name, "purpose": library.purpose, "path": path, "way": way, "error": error}


def find(
    library: CudaLibrary, loader: Loader, known: List[str], folders: List[Tuple[str, str]]
) -> Dict[str, Optional[str]]:
    """Try the names that the loader finds, newest first, then those in the wheels."""
    message = ""
    # Programs load the driver by this name only; a file with a higher number is what the name should link to.
    names = [DRIVER] if DRIVER.startswith(library.name) else [*versions_of(library.name, known), library.name]
    for name in names:
        path, error = loader.load(name)
        if path:
            return row(library, path, text("the dynamic loader"))
        message = message or error
    for folder, way in folders:
        for name in versions_of(library.name, listing(folder)):
            path, error = loader.load(os.path.join(folder, name))
            if path:
                return row(library, path, way)
            message = error  # the file exists but does not load, which is more helpful than "not found"
    if library.name == "libnvvm.so" or "No such file" in message:
        return find_in_toolkits(library, loader, message)
    return row(library, error=message)


def find_in_toolkits(library: CudaLibrary, loader: Loader, message: str) -> Dict[str, Optional[str]]:
    """Find a copy in a toolkit outside the loader's folders; only programs that search there themselves can use it."""
    for toolkit in toolkits():
        for part in ("nvvm/lib64", "lib64", "extras/CUPTI/lib64"):
            folder = os.path.join(toolkit, part)
            for name in versions_of(library.name, listing(folder)):
                path = os.path.join(folder, name)
                if library.name == "libnvvm.so":  # compilers look for it in the toolkit, never through the loader
                    loaded, error = loader.load(path)
                    return row(library, loaded, TOOLKIT, error or None)
                return row(
                    library,
                    error=text(
                        "{error}; it is in {folder}, which the loader does not search (add it to LD_LIBRARY_PATH)",
                        error=message,
                        folder=folder,
                    ),
                )
    return row(library, error=message)


def find_libdevice() -> Dict[str, Optional[str]]:
    """Find libdevice in a toolkit, in a compiler's wheel, in this environment, or in Triton's wheel."""
    places = [(os.path.join(toolkit, "nvvm", "libdevice"), TOOLKIT) for toolkit in toolkits()]
    places.append((os.path.join(sys.prefix, "nvvm", "libdevice"), text("this environment")))
    for entry in site_folders():
        wheels = sorted(glob.glob(os.path.join(glob.escape(entry), "nvidia", "*", "nvvm", "libdevice")))
        places += [(wheel, WHEEL) for wheel in wheels]
        places.append((os.path.join(entry, "triton", "backends", "nvidia", "lib"), text("Triton's wheel")))
    for folder, way in places:
        path = os.path.join(folder, LIBDEVICE.name)
        if os.path.exists(path):
            return row(LIBDEVICE, path, way)
    return row(LIBDEVICE, error=text("no toolkit and no wheel has it"))


def loader_names() -> List[str]:
    """Return the file names that the loader may find: those in its cache and in LD_LIBRARY_PATH."""
    names: List[str] = []
    for folder in os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep):
        names += listing(folder) if folder else []
    try:
        with open(_CACHE, "rb") as file:
            cache = file.read()
    except OSError:  # musl has no cache; the plain names are tried anyway
        cache = b""
    return names + [os.fsdecode(name) for name in re.findall(rb"lib(?:cu|nv|npp|nccl)[\w-]*\.so[\w.]*", cache)]


def versions_of(name: str, names: List[str]) -> List[str]:
    """Return the numbered forms of a name, newest first: libcudart.so.13, libcudart.so.12, libcudart.so.11.0."""
    pattern = re.compile(re.escape(name) + r"\.(\d+(?:\.\d+)*)")
    found = {match.group(): match.group(1) for match in map(pattern.fullmatch, names) if match}
    return sorted(found, key=lambda form: [int(part) for part in found[form].split(".")], reverse=True)


def own_folders() -> List[Tuple[str, str]]:
    """Return the folders of this interpreter that may contain CUDA's libraries, and what they are."""
    folders: List[Tuple[str, str]] = []
    for entry in site_folders():
        for part in (("lib",), ("nvvm", "lib64")):
            wheels = sorted(glob.glob(os.path.join(glob.escape(entry), "nvidia", "*", *part)))
            folders += [(wheel, WHEEL) for wheel in wheels]
        folders.append((os.path.join(entry, "torch", "lib"), "torch's wheel"))
    return [*folders, (os.path.join(sys.prefix, "lib"), "this environment")]


def site_folders() -> Iterator[str]:
    for entry in sys.path:
        if os.path.isdir(os.path.join(entry, "nvidia")) or os.path.isdir(os.path.join(entry, "torch")):
            yield entry


def toolkits() -> List[str]:
    named = [os.environ.get(name, "") for name in ("CUDA_HOME", "CUDA_PATH")]
    return [folder for folder in (*named, *_TOOLKITS) if folder and os.path.isdir(folder)]


def listing(folder: str) -> List[str]:
    try:
        return os.listdir(folder)
    except OSError:  # missing or forbidden: the loader finds nothing there, either
        return []

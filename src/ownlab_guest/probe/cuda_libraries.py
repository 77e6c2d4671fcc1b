"""Which of CUDA's libraries load in this interpreter: through the dynamic loader, else from its wheels.

Each is really loaded (lazily), since a file that is there may still miss what it needs. A library is looked for under
the names that the loader's cache, LD_LIBRARY_PATH and the wheels hold, so that a release newer than us is found too.
"""

import ctypes
import glob
import os
import re
import sys
from typing import Dict, Iterator, List, NamedTuple, Optional, Tuple

_CACHE = "/etc/ld.so.cache"
DRIVER = "libcuda.so.1"
WHEEL = "a wheel of this interpreter"
_TOOLKITS = ("/usr/local/cuda", "/opt/cuda", "/usr/lib/nvidia-cuda-toolkit", "/usr/lib/cuda")


class Wanted(NamedTuple):
    """A library by the beginning of its file name, and what it is for."""

    name: str
    purpose: str


# In the order of need: what is loaded first serves those that depend on it, wherever they lie (a wheel's libcusolver
# needs libcublas of another wheel). Light ones and the driver come first.
LIBRARIES = (
    Wanted("libcuda.so", "CUDA driver"),
    Wanted("libcudart.so", "CUDA runtime"),
    Wanted("libnvrtc.so", "run-time compiler"),
    Wanted("libnvJitLink.so", "run-time linker"),
    Wanted("libnvvm.so", "NVVM compiler"),
    Wanted("libnvToolsExt.so", "marks for profilers (NVTX; part of the headers since CUDA 12.9)"),
    Wanted("libcupti.so", "profiling interface"),
    Wanted("libcuinj64.so", "profiler injection"),
    Wanted("libcufile.so", "GPUDirect Storage"),
    Wanted("libcurand.so", "random numbers"),
    Wanted("libcufft.so", "Fourier transforms"),
    Wanted("libcufftw.so", "Fourier transforms, FFTW's interface"),
    Wanted("libnppc.so", "image and signal primitives: core"),
    Wanted("libnppif.so", "image and signal primitives: images"),
    Wanted("libnpps.so", "image and signal primitives: signals"),
    Wanted("libcublasLt.so", "linear algebra, light interface"),
    Wanted("libcublas.so", "linear algebra"),
    Wanted("libcusparse.so", "sparse matrices"),
    Wanted("libcusolver.so", "solvers"),
    Wanted("libcudnn.so", "neural network primitives"),
    Wanted("libnccl.so", "communication between GPUs"),
)
# No shared library, though tables list it as libdevice.so: code for the compiler to link.
LIBDEVICE = Wanted("libdevice.10.bc", "mathematical functions for the compiler")


class LinkMap(ctypes.Structure):
    """The head of glibc's and musl's struct link_map (link.h): where a loaded library came from."""

    _fields_ = [("l_addr", ctypes.c_void_p), ("l_name", ctypes.c_char_p)]


class Loader:
    """dlopen itself: ctypes.CDLL would bind every symbol at once, which costs seconds with large libraries."""

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
        """The path that was loaded, or None and the loader's words."""
        handle = self.dlopen(os.fsencode(name), os.RTLD_LAZY | os.RTLD_LOCAL)
        if not handle:
            words = self.dlerror()
            return None, os.fsdecode(words) if words else "the loader gives no reason"
        place = ctypes.POINTER(LinkMap)()
        linkmap_request = 2  # RTLD_DI_LINKMAP
        if self.dlinfo(handle, linkmap_request, ctypes.byref(place)) == 0 and place.contents.l_name:
            return os.fsdecode(place.contents.l_name), ""
        return name, ""


def answer(arguments: List[str]) -> List[Dict[str, Optional[str]]]:
    """One row per library."""
    if sys.platform != "linux":
        return [row(wanted, error="is not looked for on " + sys.platform) for wanted in (*LIBRARIES, LIBDEVICE)]
    loader = Loader()
    known = loader_names()
    folders = own_folders()
    return [find(wanted, loader, known, folders) for wanted in LIBRARIES] + [find_libdevice()]


def row(
    wanted: Wanted, path: Optional[str] = None, way: Optional[str] = None, error: Optional[str] = None
) -> Dict[str, Optional[str]]:
    return {"name": wanted.name, "purpose": wanted.purpose, "path": path, "way": way, "error": error}


def find(wanted: Wanted, loader: Loader, known: List[str], folders: List[Tuple[str, str]]) -> Dict[str, Optional[str]]:
    """Try the loader's own names, newest first, then those of the wheels."""
    words = ""
    # Programs load the driver by this one name; a higher number beside it is the file that the name should lead to.
    names = [DRIVER] if DRIVER.startswith(wanted.name) else [*versions_of(wanted.name, known), wanted.name]
    for name in names:
        path, said = loader.load(name)
        if path:
            return row(wanted, path, "the dynamic loader")
        words = words or said
    for folder, way in folders:
        for name in versions_of(wanted.name, listing(folder)):
            path, said = loader.load(os.path.join(folder, name))
            if path:
                return row(wanted, path, way)
            words = said  # it is there and does not load: that says more than "not found"
    if wanted.name == "libnvvm.so" or "No such file" in words:
        return find_in_toolkits(wanted, loader, words)
    return row(wanted, error=words)


def find_in_toolkits(wanted: Wanted, loader: Loader, words: str) -> Dict[str, Optional[str]]:
    """A copy in a toolkit that the loader does not search: of use only to programs that look there themselves."""
    for toolkit in toolkits():
        for part in ("nvvm/lib64", "lib64", "extras/CUPTI/lib64"):
            folder = os.path.join(toolkit, part)
            for name in versions_of(wanted.name, listing(folder)):
                path = os.path.join(folder, name)
                if wanted.name == "libnvvm.so":  # compilers look for it in the toolkit, never through the loader
                    loaded, said = loader.load(path)
                    return row(wanted, loaded, "the toolkit", said or None)
                advice = "it is in %s, which the loader does not search (LD_LIBRARY_PATH can name it)" % folder
                return row(wanted, error=words + "; " + advice)
    return row(wanted, error=words)


def find_libdevice() -> Dict[str, Optional[str]]:
    """The file itself: in a toolkit, in a compiler's wheel, in this environment, or in Triton's own copy."""
    places = [(os.path.join(toolkit, "nvvm", "libdevice"), "the toolkit") for toolkit in toolkits()]
    places.append((os.path.join(sys.prefix, "nvvm", "libdevice"), "this environment"))
    for entry in site_folders():
        wheels = sorted(glob.glob(os.path.join(glob.escape(entry), "nvidia", "*", "nvvm", "libdevice")))
        places += [(wheel, WHEEL) for wheel in wheels]
        places.append((os.path.join(entry, "triton", "backends", "nvidia", "lib"), "Triton's wheel"))
    for folder, way in places:
        path = os.path.join(folder, LIBDEVICE.name)
        if os.path.exists(path):
            return row(LIBDEVICE, path, way)
    return row(LIBDEVICE, error="is in no toolkit and no wheel")


def loader_names() -> List[str]:
    """File names that the loader may find: those of its cache, and those in LD_LIBRARY_PATH."""
    names: List[str] = []
    for folder in os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep):
        names += listing(folder) if folder else []
    try:
        with open(_CACHE, "rb") as file:
            cache = file.read()
    except OSError:  # musl has no cache; the plain names are tried all the same
        cache = b""
    return names + [os.fsdecode(name) for name in re.findall(rb"lib(?:cu|nv|npp|nccl)[\w-]*\.so[\w.]*", cache)]


def versions_of(name: str, names: List[str]) -> List[str]:
    """libcudart.so.13, libcudart.so.12, libcudart.so.11.0: the numbered forms of a name, newest first."""
    pattern = re.compile(re.escape(name) + r"\.(\d+(?:\.\d+)*)")
    found = {match.group(): match.group(1) for match in map(pattern.fullmatch, names) if match}
    return sorted(found, key=lambda form: [int(part) for part in found[form].split(".")], reverse=True)


def own_folders() -> List[Tuple[str, str]]:
    """Folders of this interpreter in which CUDA's libraries lie, and what they are."""
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
    except OSError:  # not there, or not ours to list: the loader will find nothing there either
        return []

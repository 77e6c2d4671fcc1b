"""Packages that a notebook installs: report what a cell changed, and install what a runtime lacks.

The output of installers is not reliable (`pip install -q`, uv, conda, a script), so the package folders are compared.
"""

import contextlib
import importlib
import json
import os
import re
import shutil
import site
import subprocess
import sys
from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Set, Tuple
from urllib.parse import unquote

from ownlab_guest.shell.origins import record_origins
from ownlab_guest.shell.stale_modules import loaded_modules, show_stale, stale_packages
from ownlab_guest.text import lines, listing, pack_texts, text

__all__ = ["MESSAGE", "answer", "installed", "lacking", "restore", "watch"]

MESSAGE = "ownlab_packages"  # on iopub: {"pip": {name: requirement or None}, "apt": {name: name or None}}

_INFO = ".dist-info"
# What may be passed to installers: notebooks may come from strangers, so options must not match.
_REQUIREMENT = re.compile(
    r"([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)"
    r"(?:==[A-Za-z0-9][A-Za-z0-9.+!_-]*| @ (?:(?:git|hg|svn|bzr)\+)?(?:https?|ssh|file)://\S+)?"
)
# apt removes a package if a "-" follows its name.
_DEBIAN = re.compile(r"[a-z0-9][a-z0-9+.-]*[a-z0-9+.](?::[a-z0-9-]*[a-z0-9])?")
_APT = ["apt-get", "install", "--yes", "--quiet", "--no-remove"]

# Equivalent spellings in versions.
_PRERELEASE_NAMES = {"alpha": "a", "beta": "b", "c": "rc", "pre": "rc", "preview": "rc", "r": "post", "rev": "post"}

# By distribution folder: inode and time, which change when it is installed again, even in the same version.
Installed = Dict[str, Tuple[int, int]]
Changes = Dict[str, Dict[str, Optional[str]]]


class Missing(NamedTuple):
    """Packages to install."""

    pip: List[str]  # NAME==VERSION, NAME @ URL
    apt: List[str]


class _Snapshot(NamedTuple):
    """The environment before a cell."""

    pip: Installed
    status: bytes  # of dpkg


class _JsonResult(Dict[str, Any]):
    """A result that a page gets as JSON when it evaluates an expression."""

    def _repr_json_(self) -> Dict[str, Any]:
        answer: Dict[str, Any] = pack_texts(dict(self))
        return answer


# --- what a cell installs ---------------------------------------------------------------------------------------------


_watching = False  # for the cell that runs


def watch(shell: Any) -> None:
    """Called before a cell or a command that mentions an installer: report after the cell what it changed."""
    global _watching
    if _watching:
        return
    _watching = True
    before, modules = _Snapshot(installed(folders()), _dpkg_status()), loaded_modules()

    def after(*ignored: Any) -> None:
        global _watching
        _watching = False
        shell.events.unregister("post_run_cell", after)
        now = installed(folders())
        record_origins(before.pip, now)
        changes = _changes(before, now)
        if any(changes.values()):
            kernel = shell.kernel
            kernel.session.send(kernel.iopub_socket, MESSAGE, content=changes, parent=kernel.get_parent("shell"))
        stale = stale_packages([path for path in now if before.pip.get(path) != now[path]], modules)
        if stale:
            show_stale(shell, stale)

    shell.events.register("post_run_cell", after)


def folders() -> List[str]:
    """Return the package folders, with the user site, which is not on the path before its first package."""
    own = [site.getusersitepackages()] if site.ENABLE_USER_SITE else []
    return list(dict.fromkeys([*sys.path, *own]))


def installed(places: Iterable[str]) -> Installed:
    """Return the distributions in these folders, by the paths of their .dist-info folders."""
    found: Installed = {}
    for folder in places:
        with contextlib.suppress(OSError), os.scandir(folder or ".") as entries:
            for entry in entries:
                if entry.name.endswith(_INFO):
                    with contextlib.suppress(OSError):  # it is just being removed
                        status = entry.stat()
                        found[entry.path] = (status.st_ino, status.st_mtime_ns)
    return found


def _changes(before: _Snapshot, after: Installed) -> Changes:
    changed = {_name(path) for path in {*before.pip, *after} if before.pip.get(path) != after.get(path)}
    left = _by_name(after)
    pip = {name: _requirement(left[name]) if name in left else None for name in sorted(changed)}
    return {"pip": {name: value for name, value in pip.items() if value != ""}, "apt": _apt_changes(before.status)}


def _by_name(found: Installed) -> Dict[str, str]:
    """Map names to the folder of the first distribution on the path, which is imported; `pip --target` leaves old ones."""
    paths: Dict[str, str] = {}
    for path, (_, changed_at) in found.items():
        other = paths.setdefault(_name(path), path)
        if os.path.dirname(other) == os.path.dirname(path) and changed_at > found[other][1]:
            paths[_name(path)] = path
    return paths


def _name(path: str) -> str:
    """Return the normalised name: Foo_Bar-1.0.dist-info -> foo-bar."""
    return _normal(os.path.basename(path)[: -len(_INFO)].partition("-")[0])


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _requirement(path: str) -> str:
    """Return the requirement that installs exactly this; "" for an editable install (`-e`), which cannot be repeated."""
    address = _address(path)
    file = _file_of(address or "")
    # conda packages name a file of the build machine. A query string may contain a key.
    if address is None or "?" in address or (file and not os.path.exists(file)):
        return _pin(path)
    return address


def _pin(path: str) -> str:
    return f"{_name(path)}=={_version(path)}" if _version(path) else _name(path)


def _version(path: str) -> str:
    return os.path.basename(path)[: -len(_INFO)].partition("-")[2]


def _address(path: str, revision: Optional[str] = "commit_id") -> Optional[str]:
    """Return the origin by PEP 610: NAME @ URL. None where it is a package index, the usual case."""
    try:
        with open(os.path.join(path, "direct_url.json"), encoding="utf-8") as file:
            origin = json.load(file)
        if origin.get("dir_info", {}).get("editable"):
            return ""
        url = _without_password(origin["url"])  # installers remove passwords; make sure
        if "vcs_info" in origin:
            info = origin["vcs_info"]
            url = f"{info['vcs']}+{url}" + (f"@{info[revision]}" if revision else "")
    except (OSError, ValueError, KeyError, TypeError, AttributeError):  # not there, or damaged
        return None
    part = origin.get("subdirectory")
    return f"{_name(path)} @ {url}" + (f"#subdirectory={part}" if part else "")


def _without_password(url: str) -> str:
    """Remove user and password, except for the common ssh://git@…"""
    scheme, mark, rest = url.partition("://")
    host = re.split(r"[/?#]", rest, maxsplit=1)[0]
    user, _, bare = host.rpartition("@")
    return url if user == "git" else scheme + mark + bare + rest[len(host) :]


def _file_of(requirement: str) -> str:
    """Return the local file or folder of a requirement; "" where it is elsewhere."""
    _, is_file, rest = requirement.partition(" @ file://")
    return unquote(rest.partition("#")[0]) if is_file else ""


# --- Debian packages --------------------------------------------------------------------------------------------------


def _dpkg_status() -> bytes:
    with contextlib.suppress(OSError), open(os.path.join(_dpkg_folder(), "status"), "rb") as file:
        return file.read()
    return b""


def _dpkg_folder() -> str:
    return os.environ.get("DPKG_ADMINDIR") or "/var/lib/dpkg"  # as dpkg itself has it


def _apt_changes(before: bytes) -> Dict[str, Optional[str]]:
    status = _dpkg_status()
    if status == before:
        return {}
    old, new = _packages(before), _packages(status)
    changes: Dict[str, Optional[str]] = {name: name for name in sorted(new - old - _automatic_packages())}
    changes.update((name, None) for name in sorted(old - new))
    return changes


def _packages(status: bytes) -> Set[str]:
    found = re.findall(rb"^Package: (\S+)\nStatus: install ok installed$", status, re.MULTILINE)
    return {name.decode() for name in found}


def _automatic_packages() -> Set[str]:
    """Return packages that apt installed as dependencies: it does so again by itself."""
    try:
        with open("/var/lib/apt/extended_states", encoding="utf-8", errors="replace") as file:
            parts = file.read().split("\n\n")
    except OSError:
        return set()
    return {match[1] for part in parts if "Auto-Installed: 1" in part and (match := re.search(r"Package: (\S+)", part))}


# --- what a runtime lacks ---------------------------------------------------------------------------------------------


def lacking(pip: Iterable[str] = (), apt: Iterable[str] = ()) -> Dict[str, Any]:
    """Return which of these are missing here or have another version. Invalid requirements are ignored."""
    return _JsonResult(_lacking(pip, apt)._asdict())


def _lacking(pip: Iterable[str], apt: Iterable[str]) -> Missing:
    present = _by_name(installed(folders()))
    missing = []
    for each in pip:
        match = _REQUIREMENT.fullmatch(each) if isinstance(each, str) else None
        path = present.get(_normal(match[1])) if match else None
        if match and (path is None or not _meets(path, each[len(match[1]) :])):
            missing.append(each)
    names = [each for each in apt if isinstance(each, str) and _DEBIAN.fullmatch(each)]
    has = _packages(_dpkg_status()) if names else set()
    return Missing(missing, [each for each in names if each.partition(":")[0] not in has])


def _meets(path: str, wanted: str) -> bool:
    """Return whether a distribution is ==VERSION or from @ URL, in any spelling."""
    if wanted.startswith("=="):
        version = _version(path) if "+" in wanted else _version(path).partition("+")[0]  # 2.0 is also 2.0+cu118
        return _normal_version(version) == _normal_version(wanted)
    if not wanted:
        return True
    # People write a branch, or nothing, where an installer records the commit.
    came = [_address(path, revision) or "" for revision in ("commit_id", "requested_revision", None)]
    url = _without_password(wanted[len(" @ ") :])
    return _without_query(url) in [_without_query(each.partition(" @ ")[2]) for each in came]


def _without_query(url: str) -> str:
    return re.sub(r"\?[^#]*", "", url)


def _normal_version(text: str) -> List[str]:
    """Return the parts of a version, so that 1.0.0 equals 1.0, and 1.0-RC1 equals 1.0rc1."""
    found = re.findall(r"[0-9]+|[a-z]+|[!+]", text.lower())
    parts = [str(int(each)) if each.isdigit() else _PRERELEASE_NAMES.get(each, each) for each in found if each != "v"]
    end = next((at for at, each in enumerate(parts) if each != "!" and not each.isdigit()), len(parts))
    release, rest = parts[:end], parts[end:]
    while release[1:] and release[-1] == "0":
        release.pop()
    return release + rest


def restore(pip: Iterable[str] = (), apt: Iterable[str] = ()) -> Dict[str, Any]:
    """Install what is missing and print the installers' output. Return "installed", and "failed" with the reasons."""
    missing, before = _lacking(pip, apt), installed(folders())
    failures = [_install_apt(missing.apt) if missing.apt else "", _install_pip(missing.pip) if missing.pip else ""]
    importlib.invalidate_caches()
    record_origins(before, installed(folders()))
    failed: str = lines(failures)
    left = _lacking(*missing)
    if not failed:  # an address may have a spelling that only pip understands
        left = Missing([each for each in left.pip if any(_lacking([each.partition(" @ ")[0]], []))], left.apt)
    done = [each for each in [*missing.pip, *missing.apt] if each not in [*left.pip, *left.apt]]
    if not failed and any(left):
        failed = text(
            "These were installed but not found afterwards: {packages}",
            packages=listing([*left.pip, *left.apt], "{items}, {last}"),
        )
    return _JsonResult(installed=done, failed=failed)


def _install_pip(requirements: List[str]) -> str:
    """Install with pip. Return "", or why it failed."""
    absent = [each for each in requirements if _file_of(each) and not os.path.exists(_file_of(each))]
    here = [each for each in requirements if each not in absent]
    problems: List[str] = [
        text("{name} was installed from a file that does not exist here: {path}", name=name, path=path)
        for name, _, path in (a.partition(" @ ") for a in absent)
    ]
    program = _pip()
    if program is None:
        return text("{python} has no pip. Install it: {python} -m ensurepip", python=sys.executable)
    if here:
        code, output = _run([*program, *here])
        if code and "ResolutionImpossible" in output:
            # Packages that were installed one by one may contradict each other's requirements.
            code, output = _run([*program, "--no-deps", *here])
        if code:
            problems += _install_each(program, here) if len(here) > 1 else [_error_line(output, "pip")]
    return lines(problems)


def _install_each(program: List[str], requirements: List[str]) -> List[str]:
    """Install one by one, since pip installs nothing if one of a list is unavailable. Return the failures."""
    ran = [(each, *_run([*program, each])) for each in requirements]
    return [
        text("{package}: {error}", package=each, error=_error_line(output, "pip")) for each, code, output in ran if code
    ]


def _pip() -> Optional[List[str]]:
    from importlib.machinery import PathFinder

    if PathFinder.find_spec("pip") is not None:  # not importlib.util.find_spec: setuptools has a hook in it for pip
        quiet = ["--disable-pip-version-check", "--no-input", "--progress-bar", "off"]
        return [sys.executable, "-m", "pip", "install", *quiet]
    uv = shutil.which("uv")
    return [uv, "pip", "install", "--python", sys.executable] if uv else None


def _install_apt(names: List[str]) -> str:
    by_hand = f"sudo apt-get install {' '.join(names)}"
    if shutil.which("apt-get") is None:
        return text(
            "These Debian packages need apt-get, which is missing here: {packages}",
            packages=listing(names, "{items}, {last}"),
        )
    rights = [] if os.geteuid() == 0 else ["sudo", "-n"]
    if rights and (shutil.which("sudo") is None or subprocess.call(["sudo", "-n", "true"], stderr=subprocess.DEVNULL)):
        return text(
            "Only root can install {packages}. Run in a terminal: {command}",
            packages=listing(names, "{items}, {last}"),
            command=by_hand,
        )
    known = _known_to_apt(names)
    code, output = _run([*rights, *_APT, *names]) if known == names else (1, "")
    if code:  # a fresh container has no package lists yet
        _run([*rights, "apt-get", "update", "--quiet"])
        known = _known_to_apt(names)
        code, output = _run([*rights, *_APT, *known]) if known else (0, "")
    unknown = [each for each in names if each not in known]
    problems = [_error_line(output, "apt-get")] if code else []
    if unknown:
        problems.append(
            text("apt does not know these packages: {packages}", packages=listing(unknown, "{items}, {last}"))
        )
    return lines(problems)


def _known_to_apt(names: List[str]) -> List[str]:
    """Return the names that apt knows: it takes others for patterns, and "a.+b" would be many packages."""
    try:
        ran = subprocess.run(["apt-cache", "pkgnames"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    except OSError:
        return []
    known = set(ran.stdout.decode(errors="replace").split())
    return [each for each in names if each.partition(":")[0] in known]


def _run(command: List[str]) -> Tuple[int, str]:
    """Run a command and print its output. Return the exit code and the output."""
    # ipykernel asks programs for colours, which a notification cannot show.
    environ = {name: value for name, value in os.environ.items() if name not in ("FORCE_COLOR", "CLICOLOR_FORCE")}
    environ.update(NO_COLOR="1", DEBIAN_FRONTEND="noninteractive")
    output = []
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environ
    ) as child:
        assert child.stdout is not None
        for line in child.stdout:
            output.append(line.decode(errors="replace"))
            sys.stdout.write(output[-1])
            sys.stdout.flush()
    return child.returncode, "".join(output)


def _error_line(output: str, program: str) -> str:
    """Return the line that names the error, by the prefixes of pip, apt and uv."""
    found = [line.strip() for line in output.splitlines() if line.strip()]
    errors = [line.partition(":")[2].strip() for line in found if line.startswith(("ERROR:", "E:", "error:"))]
    return (errors or found or [text("{program} failed without an error message", program=program)])[-1]


def answer(arguments: List[str]) -> Dict[str, Any]:
    """Call `lacking` or `restore` with arguments as JSON, for a host that starts this file by path."""
    function, packages = arguments
    return dict({"lacking": lacking, "restore": restore}[function](**json.loads(packages)))

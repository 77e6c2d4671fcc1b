"""Packages that a notebook installs: what a cell changed is told, and what a runtime lacks is installed again.

What installers print does not tell (`pip install -q`, uv, conda, a script), so the folders of packages are compared.
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

__all__ = ["MESSAGE", "answer", "installed", "lacking", "restore", "watch"]

MESSAGE = "ownlab_packages"  # on iopub: {"pip": {name: requirement or None}, "apt": {name: name or None}}

_INFO = ".dist-info"
# What may be given to installers: notebooks may come from strangers, and no option must be among it.
_REQUIREMENT = re.compile(
    r"([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)"
    r"(?:==[A-Za-z0-9][A-Za-z0-9.+!_-]*| @ (?:(?:git|hg|svn|bzr)\+)?(?:https?|ssh|file)://\S+)?"
)
# apt removes what has a "-" behind its name.
_DEBIAN = re.compile(r"[a-z0-9][a-z0-9+.-]*[a-z0-9+.](?::[a-z0-9-]*[a-z0-9])?")
_APT = ["apt-get", "install", "--yes", "--quiet", "--no-remove"]

# Of versions: what is the same.
_WORDS = {"alpha": "a", "beta": "b", "c": "rc", "pre": "rc", "preview": "rc", "r": "post", "rev": "post"}

# Of a distribution's folder: what changes when it is installed again, even in the same version.
Installed = Dict[str, Tuple[int, int]]
Changes = Dict[str, Dict[str, Optional[str]]]


class Wanted(NamedTuple):
    """What there is to install."""

    pip: List[str]  # NAME==VERSION, NAME @ URL
    apt: List[str]


class _Before(NamedTuple):
    """The environment before a cell."""

    pip: Installed
    status: bytes  # of dpkg


class _Answer(Dict[str, Any]):
    """What a page gets as JSON, where it asks by an expression."""

    def _repr_json_(self) -> Dict[str, Any]:
        return dict(self)


# --- what a cell installs ---------------------------------------------------------------------------------------------


def watch(shell: Any) -> None:
    """Called before a cell that mentions an installer: after it, what it changed is told."""
    before = _Before(installed(folders()), _dpkg_status())

    def after(*ignored: Any) -> None:
        shell.events.unregister("post_run_cell", after)
        changes = _changes(before)
        if any(changes.values()):
            kernel = shell.kernel
            kernel.session.send(kernel.iopub_socket, MESSAGE, content=changes, parent=kernel.get_parent("shell"))

    shell.events.register("post_run_cell", after)


def folders() -> List[str]:
    """Where packages are: also the person's own, which is not on the path before the first is installed there."""
    own = [site.getusersitepackages()] if site.ENABLE_USER_SITE else []
    return list(dict.fromkeys([*sys.path, *own]))


def installed(places: Iterable[str]) -> Installed:
    """The distributions in these folders, by the paths of their own ones."""
    found: Installed = {}
    for folder in places:
        with contextlib.suppress(OSError), os.scandir(folder or ".") as entries:
            for entry in entries:
                if entry.name.endswith(_INFO):
                    with contextlib.suppress(OSError):  # it is being removed
                        status = entry.stat()
                        found[entry.path] = (status.st_ino, status.st_mtime_ns)
    return found


def _changes(before: _Before) -> Changes:
    after = installed(folders())
    changed = {_name(path) for path in {*before.pip, *after} if before.pip.get(path) != after.get(path)}
    left = _by_name(after)
    pip = {name: _requirement(left[name]) if name in left else None for name in sorted(changed)}
    return {"pip": {name: value for name, value in pip.items() if value != ""}, "apt": _apt_changes(before.status)}


def _by_name(found: Installed) -> Dict[str, str]:
    """Name -> the folder of the first on the path, which is the one that is imported; `pip --target` leaves old ones."""
    paths: Dict[str, str] = {}
    for path, (_, changed_at) in found.items():
        other = paths.setdefault(_name(path), path)
        if os.path.dirname(other) == os.path.dirname(path) and changed_at > found[other][1]:
            paths[_name(path)] = path
    return paths


def _name(path: str) -> str:
    """As package indexes write it: Foo_Bar-1.0.dist-info -> foo-bar."""
    return _normal(os.path.basename(path)[: -len(_INFO)].partition("-")[0])


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _requirement(path: str) -> str:
    """What installs just this one again; "" where nothing does: it is a folder that somebody works on (`-e`)."""
    address = _address(path)
    file = _file_of(address or "")
    # conda's packages name a file of the machine on which they were made. What is behind a "?" may be a key.
    if address is None or "?" in address or (file and not os.path.exists(file)):
        return _pin(path)
    return address


def _pin(path: str) -> str:
    return f"{_name(path)}=={_version(path)}" if _version(path) else _name(path)


def _version(path: str) -> str:
    return os.path.basename(path)[: -len(_INFO)].partition("-")[2]


def _address(path: str, revision: Optional[str] = "commit_id") -> Optional[str]:
    """From where it came, as PEP 610 writes it down: NAME @ URL. None where that is a package index, as most often."""
    try:
        with open(os.path.join(path, "direct_url.json"), encoding="utf-8") as file:
            origin = json.load(file)
        if origin.get("dir_info", {}).get("editable"):
            return ""
        url = _without_password(origin["url"])  # installers take them away; one may not
        if "vcs_info" in origin:
            info = origin["vcs_info"]
            url = f"{info['vcs']}+{url}" + (f"@{info[revision]}" if revision else "")
    except (OSError, ValueError, KeyError, TypeError, AttributeError):  # not there, or damaged
        return None
    part = origin.get("subdirectory")
    return f"{_name(path)} @ {url}" + (f"#subdirectory={part}" if part else "")


def _without_password(url: str) -> str:
    """Without the name too, but for the one that everybody has: ssh://git@…"""
    scheme, mark, rest = url.partition("://")
    host = re.split(r"[/?#]", rest, maxsplit=1)[0]
    user, _, bare = host.rpartition("@")
    return url if user == "git" else scheme + mark + bare + rest[len(host) :]


def _file_of(requirement: str) -> str:
    """The file or folder from which it is to come; "" where it comes from elsewhere."""
    _, is_file, rest = requirement.partition(" @ file://")
    return unquote(rest.partition("#")[0]) if is_file else ""


# --- Debian's packages ------------------------------------------------------------------------------------------------


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
    changes: Dict[str, Optional[str]] = {name: name for name in sorted(new - old - _brought_along())}
    changes.update((name, None) for name in sorted(old - new))
    return changes


def _packages(status: bytes) -> Set[str]:
    found = re.findall(rb"^Package: (\S+)\nStatus: install ok installed$", status, re.MULTILINE)
    return {name.decode() for name in found}


def _brought_along() -> Set[str]:
    """What apt installed because others need it: it would be so again."""
    try:
        with open("/var/lib/apt/extended_states", encoding="utf-8", errors="replace") as file:
            parts = file.read().split("\n\n")
    except OSError:
        return set()
    return {match[1] for part in parts if "Auto-Installed: 1" in part and (match := re.search(r"Package: (\S+)", part))}


# --- what a runtime lacks ---------------------------------------------------------------------------------------------


def lacking(pip: Iterable[str] = (), apt: Iterable[str] = ()) -> Dict[str, Any]:
    """What of this is not installed here, or in another version. Whatever is no requirement is left out."""
    found = _lacking(pip, apt)
    return _Answer(found._asdict())


def _lacking(pip: Iterable[str], apt: Iterable[str]) -> Wanted:
    there = _by_name(installed(folders()))
    wanted = []
    for each in pip:
        match = _REQUIREMENT.fullmatch(each) if isinstance(each, str) else None
        path = there.get(_normal(match[1])) if match else None
        if match and (path is None or not _meets(path, each[len(match[1]) :])):
            wanted.append(each)
    names = [each for each in apt if isinstance(each, str) and _DEBIAN.fullmatch(each)]
    has = _packages(_dpkg_status()) if names else set()
    return Wanted(wanted, [each for each in names if each.partition(":")[0] not in has])


def _meets(path: str, wanted: str) -> bool:
    """Whether a distribution is ==VERSION, or from @ URL, however that is written."""
    if wanted.startswith("=="):
        version = _version(path) if "+" in wanted else _version(path).partition("+")[0]  # 2.0 is also 2.0+cu118
        return _normal_version(version) == _normal_version(wanted)
    if not wanted:
        return True
    # People write a branch, or nothing, where an installer notes the commit.
    came = [_address(path, revision) or "" for revision in ("commit_id", "requested_revision", None)]
    url = _without_password(wanted[len(" @ ") :])
    return _without_query(url) in [_without_query(each.partition(" @ ")[2]) for each in came]


def _without_query(url: str) -> str:
    return re.sub(r"\?[^#]*", "", url)


def _normal_version(text: str) -> List[str]:
    """Its parts, so that 1.0.0 is 1.0, and 1.0-RC1 is 1.0rc1."""
    found = re.findall(r"[0-9]+|[a-z]+|[!+]", text.lower())
    parts = [str(int(each)) if each.isdigit() else _WORDS.get(each, each) for each in found if each != "v"]
    end = next((at for at, each in enumerate(parts) if each != "!" and not each.isdigit()), len(parts))
    release, rest = parts[:end], parts[end:]
    while release[1:] and release[-1] == "0":
        release.pop()
    return release + rest


def restore(pip: Iterable[str] = (), apt: Iterable[str] = ()) -> Dict[str, Any]:
    """Install what is lacking, and print what installers say. What was installed, and "failed": why not all of it."""
    wanted = _lacking(pip, apt)
    failures = [_install_apt(wanted.apt) if wanted.apt else "", _install_pip(wanted.pip) if wanted.pip else ""]
    importlib.invalidate_caches()
    failed = "\n".join(filter(None, failures))
    left = _lacking(*wanted)
    if not failed:  # an address may be written in a way that only pip understands
        left = Wanted([each for each in left.pip if any(_lacking([each.partition(" @ ")[0]], []))], left.apt)
    done = [each for each in [*wanted.pip, *wanted.apt] if each not in [*left.pip, *left.apt]]
    if not failed and any(left):
        failed = f"Installed, and not found afterwards: {', '.join([*left.pip, *left.apt])}"
    return _Answer(installed=done, failed=failed)


def _install_pip(requirements: List[str]) -> str:
    """ "", or why it failed."""
    absent = [each for each in requirements if _file_of(each) and not os.path.exists(_file_of(each))]
    here = [each for each in requirements if each not in absent]
    words = [
        f"{name} came from a file that is not here: {path}" for name, _, path in (a.partition(" @ ") for a in absent)
    ]
    program = _pip()
    if program is None:
        return f"{sys.executable} has no pip: {sys.executable} -m ensurepip"
    if here:
        code, said = _run([*program, *here])
        if code and "ResolutionImpossible" in said:
            # Installed one after the other, they may contradict what they ask of each other; so they were, all the same.
            code, said = _run([*program, "--no-deps", *here])
        if code:
            words += _install_each(program, here) if len(here) > 1 else [_why(said, "pip")]
    return "\n".join(words)


def _install_each(program: List[str], requirements: List[str]) -> List[str]:
    """One after the other, as pip installs nothing of a list with one that is not to be had; which failed, and why."""
    ran = [(each, *_run([*program, each])) for each in requirements]
    return [f"{each}: {_why(said, 'pip')}" for each, code, said in ran if code]


def _pip() -> Optional[List[str]]:
    from importlib.util import find_spec

    if find_spec("pip") is not None:
        quiet = ["--disable-pip-version-check", "--no-input", "--progress-bar", "off"]
        return [sys.executable, "-m", "pip", "install", *quiet]
    uv = shutil.which("uv")
    return [uv, "pip", "install", "--python", sys.executable] if uv else None


def _install_apt(names: List[str]) -> str:
    by_hand = f"sudo apt-get install {' '.join(names)}"
    if shutil.which("apt-get") is None:
        return f"There is no apt-get here; these are Debian's packages: {', '.join(names)}"
    rights = [] if os.geteuid() == 0 else ["sudo", "-n"]
    if rights and (shutil.which("sudo") is None or subprocess.call(["sudo", "-n", "true"], stderr=subprocess.DEVNULL)):
        return f"{', '.join(names)}: only root may install them. In a terminal: {by_hand}"
    known = _known_to_apt(names)
    code, said = _run([*rights, *_APT, *names]) if known == names else (1, "")
    if code:  # a fresh container does not know any package yet
        _run([*rights, "apt-get", "update", "--quiet"])
        known = _known_to_apt(names)
        code, said = _run([*rights, *_APT, *known]) if known else (0, "")
    unknown = [each for each in names if each not in known]
    words = [_why(said, "apt-get")] if code else []
    return "\n".join(words + ([f"apt knows no package of this name: {', '.join(unknown)}"] if unknown else []))


def _known_to_apt(names: List[str]) -> List[str]:
    """apt takes a name that it does not know for a pattern: "a.+b" would be many packages."""
    try:
        ran = subprocess.run(["apt-cache", "pkgnames"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    except OSError:
        return []
    known = set(ran.stdout.decode(errors="replace").split())
    return [each for each in names if each.partition(":")[0] in known]


def _run(command: List[str]) -> Tuple[int, str]:
    """Its exit code, and all that it said, which is printed as it comes."""
    # ipykernel asks programs for colours, which no notice can show.
    environ = {name: value for name, value in os.environ.items() if name not in ("FORCE_COLOR", "CLICOLOR_FORCE")}
    environ.update(NO_COLOR="1", DEBIAN_FRONTEND="noninteractive")
    said = []
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environ
    ) as child:
        assert child.stdout is not None
        for line in child.stdout:
            said.append(line.decode(errors="replace"))
            sys.stdout.write(said[-1])
            sys.stdout.flush()
    return child.returncode, "".join(said)


def _why(said: str, program: str) -> str:
    """The line that names the error: so pip, apt and uv begin it."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    errors = [line.partition(":")[2].strip() for line in lines if line.startswith(("ERROR:", "E:", "error:"))]
    return (errors or lines or [f"{program} failed, and did not say why"])[-1]


def answer(arguments: List[str]) -> Dict[str, Any]:
    """For a host that starts this by path: `lacking`, or `restore`, with what is given as JSON."""
    what, wanted = arguments
    return dict({"lacking": lacking, "restore": restore}[what](**json.loads(wanted)))

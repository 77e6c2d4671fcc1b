"""Rules about driver packages and their repositories, as apt, dnf and pacman report them."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ownlab.instruments.doctor.records import Case, Finding
from ownlab.instruments.doctor.rule import Cause, CauseRule, Rule
from ownlab.text import listing, text

__all__ = ["DriverPackagesBroken", "DriverPackagesMixed", "RepositoryKey"]

# Follows a check: it removes a driver that may work.
_PURGE = (
    text(
        "If that does not help, and a console without graphics is at hand: sudo apt-get purge '*nvidia*' 'libcuda*' 'cuda-drivers*' && sudo apt-get autoremove   # Fedora: sudo dnf remove '*nvidia*'"
    ),
    text("Then install one branch from one source:"),
    text("Ubuntu: sudo ubuntu-drivers install"),
    text("Debian: sudo apt-get install -y nvidia-driver   # from non-free"),
    text("Fedora: sudo dnf install -y akmod-nvidia   # from RPM Fusion"),
    text("Arch: sudo pacman -S --needed nvidia-open   # or the legacy package of an older card"),
    text("sudo reboot"),
)


class DriverPackagesBroken(CauseRule):
    """The package manager cannot install the driver, or driver packages of two sources are mixed.

    **Why it matters.** NVIDIA's own repository, the distribution and the .run installer name and split the driver
    differently. Packages of two branches or two sources exclude or overwrite each other; half-installed, no module loads.

    **What to do.** Reboot first: after an upgrade that is often all. If packages of two sources are mixed, keep one source and one branch,
    and remove the others. Exclude the driver from unattended upgrades on servers.

    **Sources.** NVIDIA, Driver Installation Guide; Ubuntu Server documentation, "NVIDIA drivers installation"; Arch Wiki, "NVIDIA".
    """

    code = "driver-packages"
    severity = "error"
    title = text("The driver's packages do not fit together")
    blocks = True
    while_broken = True
    causes = (
        Cause(
            r"must configure `?hardware\.nvidia\.open|has an unfree license[^\n]*refusing to evaluate|nvidia-x11[^\n]*(?:unfree|refusing)",
            text("NixOS needs two decisions in its configuration: unfree packages, and the kind of kernel modules"),
            text(
                "The driver is not free software, and since 560 NixOS asks whether the open kernel modules are to be used."
            ),
            (
                text('nixpkgs.config.allowUnfree = true; services.xserver.videoDrivers = [ "nvidia" ];'),
                text(
                    "hardware.nvidia.open = true;   # Turing and newer; false for older cards, with their legacy package; then: sudo nixos-rebuild switch"
                ),
            ),
        ),
        Cause(
            r"unattended-upgrade[\s\S]{0,600}(?:nvidia|libcuda)|(?:Upgrade|Install): [^\n]{0,400}(?:libnvidia|nvidia)-\S+:amd64",
            text("An automatic upgrade replaced parts of the driver"),
            text(
                "Packages were upgraded under the running driver, or over a driver that was installed by hand (.run file)."
            ),
            (
                text("sudo reboot   # so that module and libraries have the same version: mostly that is all"),
                text(
                    "If it remains: cat /sys/module/nvidia/version; dpkg -l | grep -E 'nvidia|libcuda'; ls /usr/bin/nvidia-uninstall   # a .run file beside packages"
                ),
                text(
                    "Only if two sources are mixed, when nothing uses the cards: keep one. Packages instead of the .run file:"
                ),
                *_PURGE,
                text(
                    "Afterwards keep it from upgrades: sudo apt-mark hold $(dpkg-query -W -f '${Package}\\n' '*nvidia*')"
                ),
            ),
        ),
        Cause(
            r"trying to overwrite '[^']*(?:nvidia|libcuda|libGLX|libEGL|xorg)[^']*', which is also in package"
            r"|dpkg-divert: error:[^\n]*(?:nvidia|libGL)|error processing archive \S*(?:nvidia|cuda|libcuda)"
            r"|file \S*nvidia\S* (?:from install of|conflicts)|nvidia\S*: \S+ exists in filesystem",
            text("Driver packages of two sources overwrite each other"),
            text("Two packages contain the same file of the driver: they come from two branches or two repositories."),
            (text("sudo apt-get -f install   # completes or removes half-installed packages; if that fails:"), *_PURGE),
        ),
        Cause(
            r"(?:nvidia|cuda|libcuda|rocm|amdgpu|hip)\S* ?:? ?(?:Pre)?Depends:.*(?:not going to be installed|not installable|is to be installed)"
            r"|nothing provides [^\n]*(?:nvidia-\w*(?:driver|kmod|dkms)|libcuda|cuda-drivers)|(?:problem|package) [^\n]*(?:nvidia-\w*(?:driver|kmod|dkms)|cuda-drivers)[^\n]*(?:conflict|requires)[^\n]*"
            r"|conflicting requests[\s\S]{0,200}nvidia|nvidia[^\n]*(?:conflicts with|breaks)|unable to satisfy dependency '?nvidia|nothing provides [^\n]*needed by[^\n]*nvidia|package \S*nvidia\S* requires [^\n]|breaks dependency [^\n]*nvidia"
            r"|(?:nvidia|cuda)[\s\S]{0,2000}held broken packages|held broken packages[\s\S]{0,600}(?:nvidia|cuda)|(?:^|\n)\s*(?:nvidia|cuda)-\S+ ?: (?:Pre)?Depends: |pkgProblemResolver::Resolve generated breaks|nvidia\S* .*unmet dependencies|nvidia\S* ?: ?(?:Conflicts|Breaks): ",
            text("The driver's packages have dependencies that exclude each other"),
            text(
                "Packages of another branch or another repository (the distribution's and NVIDIA's) are installed, mixed or held, and exclude the wanted ones."
            ),
            (
                text("RHEL: dkms is in EPEL: sudo dnf install -y epel-release"),
                text("Arch: sudo pacman -Syu   # kernel and driver are upgraded together only"),
                text(
                    "See what is held or mixed: apt-mark showhold; apt-cache policy | grep -i nvidia; dpkg -l | grep -i nvidia"
                ),
                *_PURGE,
            ),
        ),
        Cause(
            r"error processing package \S*(?:nvidia|cuda|libcuda)|Errors were encountered while processing:\s+\S*nvidia|dependency problems - leaving unconfigured[\s\S]{0,300}nvidia|nvidia\S*[\s\S]{0,200}dependency problems - leaving unconfigured",
            text("A driver package could not be set up: usually its kernel module did not build for this kernel"),
            text(
                "dpkg runs DKMS when it sets the package up. If the module does not build, the package and all that need it stay unconfigured."
            ),
            (
                text(
                    "Read the reason: sudo dpkg --configure -a; less /var/lib/dkms/nvidia/*/build/make.log; ls /lib/modules/$(uname -r)/build"
                ),
                text(
                    "Install the kernel's headers, or a newer release of the driver's branch for this card, or boot the previous kernel; then: sudo apt-get -f install"
                ),
                text("If packages of several branches are mixed:"),
                *_PURGE,
            ),
        ),
        Cause(
            r"All matches were filtered out by modular filtering for argument: (?:nvidia|cuda)|unable to locate package (?:rocm\S*|amdgpu\S*)|unable to locate package (?:nvidia-\S+|cuda\S*|libcudnn\S*|libnccl\S*)|target not found: (?:nvidia|cuda)\S*"
            r"|(?:unable to find a match|no match for argument): ?\S*(?:nvidia|cuda)\S*|no package (?:nvidia|cuda)\S* available"
            r"|package '?(?:nvidia|cuda|libcudnn)\S* has no installation candidate",
            text("The package manager does not know this package"),
            text(
                "The repository that has it is not enabled (restricted or multiverse, non-free, RPM Fusion, NVIDIA's own), or the name does not exist for this release."
            ),
            (
                text(
                    "Ubuntu: sudo add-apt-repository restricted multiverse; Debian: non-free non-free-firmware; Fedora: enable RPM Fusion nonfree; then update the lists."
                ),
                text("Or NVIDIA's repository: https://docs.nvidia.com/datacenter/tesla/driver-installation-guide/"),
            ),
        ),
    )


class RepositoryKey(CauseRule):
    """The package manager refuses NVIDIA's (or AMD's) package repository: its key or its entry is wrong.

    **Why it matters.** NVIDIA changed the signing key of its CUDA repositories on 27 April 2022 (A4B469963BF863CC replaced
    7FA2AF80). Systems and base images that are older have the old key, and no package can be installed.

    **What to do.** Install the package `cuda-keyring`, which brings the new key, and delete the old entry. In a Dockerfile do
    so before the first `apt-get update`, or use a base image from after April 2022. Do not install unauthenticated packages.

    **Sources.** NVIDIA developer blog, "Updating the CUDA Linux GPG repository key" (2022-04-28); nvidia-docker#1631, #1632.
    """

    code = "repository-key"
    severity = "error"
    title = text("The package manager does not trust NVIDIA's repository")
    causes = (
        Cause(
            r"Conflicting values set for option Signed-By[^\n]*(?:nvidia|cuda)",
            text("Two entries name the same NVIDIA repository with different keys"),
            text(
                "An older guide wrote a second file to /etc/apt/sources.list.d; apt reads no list until one of them is gone."
            ),
            (
                text("Find both: grep -rl nvidia /etc/apt/sources.list /etc/apt/sources.list.d"),
                text("Delete the older one (the file without signed-by), then: sudo apt-get update"),
            ),
        ),
        Cause(
            r"(?:nvidia\.com|nvidia\.github\.io)[^\n]*(?:NO_PUBKEY|is not signed|couldn't be verified|could not be verified|EXPKEYSIG|signature)"
            r"|NO_PUBKEY (?:A4B469963BF863CC|F60F4B3D7FA2AF80|DDCAE044F796ECB0|CC532EBF15FD0E71)|A4B469963BF863CC|3bf863cc"
            r"|no valid OpenPGP data found|(?:nvidia\.com|nvidia\.github\.io)\S*[^\n]*is not signed|repository \'[^\n]*nvidia[^\n]*is not signed|GPG (?:check|key)[^\n]*(?:cuda|nvidia)[^\n]*fail|Public key for \S*(?:cuda|nvidia)\S* is not installed",
            text("NVIDIA's package repository is signed with a key that is not installed here"),
            text(
                "NVIDIA replaced the key of its CUDA repositories in April 2022. This system, or this base image (or its copy in the"
                " build cache), is older."
            ),
            (
                text(
                    "sudo apt-key del 7fa2af80; sudo rm -f /etc/apt/sources.list.d/cuda*.list /etc/apt/sources.list.d/nvidia-ml.list"
                ),
                text(
                    "wget https://developer.download.nvidia.com/compute/cuda/repos/ubuntu2204/x86_64/cuda-keyring_1.1-1_all.deb   # with this system's name and architecture"
                ),
                text("sudo dpkg -i cuda-keyring_1.1-1_all.deb && sudo apt-get update"),
                text(
                    "In an image: do this before the first apt-get update, or pull a fresh base image and build with --no-cache --pull."
                ),
                text(
                    "The container toolkit's repository: curl -fsSL https://nvidia.github.io/libnvidia-container/gpgkey | sudo gpg --dearmor -o /usr/share/keyrings/nvidia-container-toolkit-keyring.gpg"
                ),
            ),
        ),
        Cause(
            r"repo\.radeon\.com[^\n]*(?:NO_PUBKEY|not signed|verified)|NO_PUBKEY 9386B48A1A693C5C",
            text("AMD's package repository is signed with a key that is not installed here"),
            text("The key of repo.radeon.com is missing."),
            (
                text(
                    "wget https://repo.radeon.com/rocm/rocm.gpg.key -O - | gpg --dearmor | sudo tee /etc/apt/keyrings/rocm.gpg > /dev/null; sudo apt-get update"
                ),
            ),
        ),
        Cause(
            r"Unsupported distribution!.*|curl: \(22\)[^\n]*404[^\n]*nvidia[^\n]*|nvidia-docker\.list[^\n]*(?:404|Unsupported|not)|does not have a Release file[^\n]*|(?:nvidia\.github\.io|developer\.download\.nvidia\.com)[^\n]*(?:404|403|does not have a Release)"
            r"|(?:404\s+Not Found|File has unexpected size|Hash Sum mismatch)[^\n]*(?:nvidia|cuda)|(?:nvidia|cuda)[^\n]*(?:404\s+Not Found|unexpected size|Hash Sum mismatch)",
            text("NVIDIA's repository has no packages at this address"),
            text(
                "The entry names a distribution or a release that NVIDIA does not serve, or the list is stale or was fetched during an update."
            ),
            (
                text(
                    "Wait and try again after: sudo apt-get clean; sudo rm -rf /var/lib/apt/lists/*; sudo apt-get update"
                ),
                text(
                    "Use the entry of the nearest supported release; the container toolkit has one for all: https://nvidia.github.io/libnvidia-container/stable/deb/nvidia-container-toolkit.list"
                ),
            ),
        ),
    )


# A line of dpkg -l, apt list --installed, rpm -qa or pacman -Q about a part of the driver, with its version.
_LISTED = re.compile(
    r"^(?:ii\s+)?(?P<name>(?:lib|xserver-xorg-video-|kmod-|akmod-|xorg-x11-drv-|dkms-)?nvidia-(?!container|settings|cuda|cudnn|prime|docker|modprobe|fs|ml|smi-exporter|cu\d|"
    r"[a-z]+-cu\d)[a-z0-9-]*?)(?::\w+|/\S+)?[\s-]+(?:now )?(?:\d+:)?(?P<version>\d{3}\.\d{2,3}(?:\.\d{2})?)(?=[-+~\s_]|$)[^\n]*",
    re.MULTILINE,
)


class DriverPackagesMixed(Rule):
    """A list of packages shows parts of the driver in several versions.

    **Why it matters.** The driver's kernel module, its libraries and its tools must have exactly one version. Parts of two
    branches or two repositories do not work together: nvidia-smi and CUDA then report a mismatch, or find no driver.

    **What to do.** See which source each package is from. Keep one source and one branch, remove the packages of the other, and reboot.

    **Sources.** NVIDIA, Driver Installation Guide; Ubuntu Server documentation, "NVIDIA drivers installation".
    """

    code = "driver-mixed"
    severity = "error"
    title = text("Packages of the driver have different versions")

    def check(self, case: Case) -> Iterable[Finding]:
        """Yield one finding where the listed parts have more than one version."""
        found = {
            match["name"]: match["version"]
            for message in case.messages
            for match in _LISTED.finditer(message.text)
            if not match[0].lstrip().startswith("rc ")
        }
        versions = sorted(set(found.values()))
        if len(found) < 2 or len(versions) < 2:
            return
        yield self.finding(
            evidence=[f"{name} {version}" for name, version in sorted(found.items())][:6],
            meaning=text(
                "Parts of {versions} are installed together; they must have one version.", versions=listing(versions)
            ),
            fix=_PURGE,
        )

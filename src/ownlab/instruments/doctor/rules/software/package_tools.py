"""Rules about pip, conda, apt and installers that stop before they have installed anything, and about missing helper packages."""

from __future__ import annotations

from ownlab.instruments.doctor.rule import Cause, CauseRule
from ownlab.text import text

__all__ = ["PackageTool"]


class PackageTool(CauseRule):
    """pip, conda, apt or NVIDIA's toolkit installer stops for a reason of its own: network, lock, rights, compiler, half-done work.

    **Why it matters.** Nothing is installed, or only half of it. The driver and the card are not concerned yet, but what is
    installed in part fails later with other words.

    **What to do.** Finish or undo what was begun, then install again.

    **Sources.** pip documentation; PEP 668 (externally managed environments); conda documentation, "Troubleshooting";
    apt(8), dpkg(1); NVIDIA CUDA Installation Guide for Linux, "Runfile Installation".
    """

    code = "package-tool"
    severity = "error"
    title = text("The installation stopped")
    causes = (
        Cause(
            r"externally-managed-environment",
            text("The system protects its own Python: packages belong into an environment"),
            text("Distributions do not let pip change the Python that the system itself uses (PEP 668)."),
            (text("python3 -m venv ~/lab && ~/lab/bin/pip install torch   # then use ~/lab/bin/python; or conda, uv"),),
        ),
        Cause(
            r"Could not get lock /var/lib/(?:dpkg|apt)|Waiting for cache lock|is another process using it|rpmdb[^\n]*lock|unable to lock database",
            text("Another program is installing packages right now"),
            text("apt, dnf and pacman work one at a time. After a boot, automatic updates run for some minutes."),
            (text("Wait until it has ended: ps aux | grep -E 'apt|dpkg|unattended|dnf|pacman'; then try again. Do not delete the lock while it runs."),),
        ),
        Cause(
            r"dpkg was interrupted|Unmet dependencies\. Try|apt(?:-get)? --fix-broken install|dpkg --configure -a|dependency problems prevent configuration",
            text("An earlier installation was left half done"),
            text("dpkg refuses new packages until the old ones are set up. Often the module of an NVIDIA driver did not build for a kernel."),
            (
                text("sudo dpkg --configure -a; sudo apt-get --fix-broken install   # read the first error: it names the package"),
                text("If an NVIDIA package is the one: sudo apt-get purge '*nvidia*' && sudo apt-get autoremove; sudo ubuntu-drivers install; sudo reboot"),
            ),
        ),
        Cause(
            r"Failed to verify gcc version|unsupported compiler(?: version)?: [\d.]+|Use --override to override this check|Missing gcc\. gcc is required",
            text("CUDA's installer does not accept this compiler"),
            text("The runfile checks for gcc, and for a release that this toolkit knows. It is missing, or too new."),
            (
                text("sudo apt-get install -y build-essential gcc-N g++-N   # one that this toolkit supports; then CC=/usr/bin/gcc-N sudo -E sh cuda_*.run"),
                text("Or install the toolkit with --override and give nvcc the older compiler: nvcc -ccbin g++-N; or from packages or conda: conda install -c nvidia cuda-toolkit"),
            ),
        ),
        Cause(
            r"Install of (?:driver component|\d{3}[\d.]+) failed|Driver: +Not Selected|cuda-installer[^\n]*(?:fail|ERROR)|A symlink already exists at /usr/local/cuda|Installation [Ff]ailed[^\n]*cuda|cuda_\S+\.run[^\n]*(?:fail|error)",
            text("CUDA's installer could not install its driver"),
            text("The runfile brings a driver too. It fails where one is installed, is in use, or does not build for this kernel."),
            (
                text("Where a driver works (nvidia-smi), install the toolkit alone: sudo sh cuda_*.run --silent --toolkit"),
                text("Otherwise read the reason: tail -50 /var/log/nvidia-installer.log; install the driver from the distribution's packages first."),
            ),
        ),
        Cause(
            r"CUDA[^\n]*[Vv]isual [Ss]tudio [Ii]ntegration[^\n]*(?:[Ff]ail|not)|Nsight Visual Studio[^\n]*[Ff]ail|No supported version of Visual Studio was found",
            text("CUDA's installer on Windows fails at its part for Visual Studio"),
            text("That part is needed only to compile in Visual Studio; its version must be one that this toolkit knows."),
            (text("Choose the custom installation, and leave out Visual Studio Integration and Nsight; or install a Visual Studio that this toolkit supports first."),),
        ),
        Cause(
            r"ReadTimeoutError|Read timed out|Connection(?:Error|ResetError| to \S+ timed out| broken)[^\n]*(?:pypi|pytorch|conda|nvidia|huggingface)|CondaHTTPError|HTTP 000 CONNECTION FAILED|Temporary failure in name resolution|SSLError|CERTIFICATE_VERIFY_FAILED|Could not fetch URL|NewConnectionError|Max retries exceeded|IncompleteRead|ProxyError",
            text("The network: a server was not reached, or the connection broke"),
            text("Wheels with CUDA have gigabytes; slow lines, proxies and compute nodes without a network break off."),
            (
                text("Try again: pip install --default-timeout=1000 --retries 10 …; behind a proxy: export HTTPS_PROXY=http://HOST:PORT"),
                text("On a cluster install on the login node. A wrong certificate: check the clock and the proxy, conda update ca-certificates."),
            ),
        ),
        Cause(
            r"DO NOT MATCH THE HASHES|Hash mismatch|InvalidArchiveError|ChecksumMismatchError|BadZipFile|zipfile\.BadZip|CRC (?:check )?failed|checksum[^\n]*(?:mismatch|fail)",
            text("A downloaded package is damaged"),
            text("The download was cut short, or a cache keeps a broken copy."),
            (text("pip cache purge; pip install --no-cache-dir …; conda clean --all; then again"),),
        ),
        Cause(
            r"uninstall-no-record-file|no RECORD file was found|Cannot uninstall \S+[^\n]*(?:distutils|RECORD|None)|It is a distutils installed project",
            text("pip cannot remove a package that was installed by other means, or in part"),
            text("The package came from conda or the system, or its list of files is gone."),
            (
                text("Remove what came from conda with conda; delete the leftover folder (PACKAGE and PACKAGE-*.dist-info) in site-packages; then pip install --ignore-installed --no-deps PACKAGE"),
                text("A new environment is cleaner: python -m venv lab"),
            ),
        ),
        Cause(
            r"Solving environment: (?:failed|/|-)|conda[^\n]*(?:Solving|solver)[^\n]*(?:failed|hang)|ResolvePackageNotFound|Found conflicts! Looking for incompatible packages",
            text("conda finds no set of packages that fits, or searches for very long"),
            text("The environment contains too many packages with fixed versions for this combination of Python, torch and CUDA."),
            (
                text("conda create -n lab -c conda-forge python=3.11 pytorch-gpu   # a new environment; conda config --set channel_priority strict"),
                text("Or pip inside conda: pip install torch --index-url https://download.pytorch.org/whl/cuXYZ"),
            ),
        ),
        Cause(
            r"No module named '?triton\.ops|cannot import name 'TypeIs' from|cannot import name '\w+' from '(?:typing_extensions|huggingface_hub|transformers|diffusers|accelerate|peft|tokenizers|flash_attn|auto_gptq)|(?:module|package) '?(?:transformers|diffusers|peft|accelerate|bitsandbytes|xformers|flash_attn)'? has no attribute",
            text("Packages of one family have different ages"),
            text("transformers, diffusers, accelerate, peft, bitsandbytes and Triton follow each other; one of them is older or newer than the others expect."),
            (
                text("pip install -U transformers diffusers accelerate peft huggingface_hub bitsandbytes typing_extensions   # triton.ops is gone since Triton 3: bitsandbytes 0.44 and newer do not need it"),
                text("Or exactly the versions that the program's requirements name, in a new environment."),
            ),
        ),
        Cause(
            r"requires the (?:PyTorch|TensorFlow|Flax) library but it was not found in your environment|None of PyTorch, TensorFlow[^\n]*have been found|Using (?:the )?`?\w+`?[^\n]*requires `?accelerate|PyTorch (?:was )?not (?:found|installed)|Disabling PyTorch because PyTorch >= ?[\d.]+ is required",
            text("transformers does not find torch (or accelerate), or finds one that is too old"),
            text("They are installed in another Python, not at all, or below the release that this transformers needs."),
            (
                text("python -c 'import sys, torch; print(sys.executable, torch.__version__)'; then, with this Python: python -m pip install -U torch accelerate"),
                text("An old torch that must stay: an older transformers (pip install 'transformers<4.50')."),
            ),
        ),
    )  # fmt: skip

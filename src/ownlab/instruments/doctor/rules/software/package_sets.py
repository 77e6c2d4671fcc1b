"""Rules about the set of installed packages: versions and builds that do not belong together, and a torch that sees no card."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from ownlab.catalog.versions import parse_version
from ownlab.instruments.doctor.queries import any_framework_works, framework, package_version
from ownlab.instruments.doctor.records import Case, Finding
from ownlab.instruments.doctor.remedies import torch_command
from ownlab.instruments.doctor.rule import Rule
from ownlab.machine.facts import Known, value_of
from ownlab.machine.records import Machine
from ownlab.text import listing, text

__all__ = ["MixedPackages", "TorchSeesNoGpu"]

_SAYS_NO = re.compile(r"torch\.cuda\.is_available\(?\)?[^\n\w]{0,8}(?:returns? |is )?False\b", re.IGNORECASE)
# The metadata of torchvision 0.29.2: torch (>=2.14.0). Earlier ones need exactly their own torch.
_STABLE_TORCHVISION, _STABLE_TORCH = (0, 29), (2, 14)
_LABEL = re.compile(r"\+(cu\d+|cpu|rocm[\d.]+|xpu)")


def _label(version: str | None) -> str | None:
    match = _LABEL.search(version or "")
    return match[1] if match else None


def _expected_torchvision(torch: str) -> tuple[int, ...]:
    """Return the torchvision of a torch release: 2.7 has 0.22, 1.13 has 0.14; empty if unknown."""
    parts = parse_version(torch)
    if len(parts) < 2 or parts[0] not in (1, 2):
        return ()
    return (0, parts[1] + (15 if parts[0] == 2 else 1))


def _fits_torchvision(torch: str, vision: str) -> bool:
    """Return whether a torchvision belongs to a torch, or nothing is known about them."""
    wanted, found, release = _expected_torchvision(torch), parse_version(vision)[:2], parse_version(torch)[:2]
    if found >= _STABLE_TORCHVISION and release >= _STABLE_TORCH:
        return True
    return not wanted or found == wanted


class MixedPackages(Rule):
    """Installed packages do not belong together: torch and torchvision, JAX and its plug-ins, two ONNX Runtimes.

    **Why it matters.** torchvision, torchaudio and torch_npu contain code for one torch release and one CUDA; JAX's plug-ins
    must have jaxlib's version. pip and conda allow other combinations, which fail when they are imported or compute on the
    CPU.

    **What to do.** Install the packages together, in one command, from one index (or one conda channel).

    **Sources.** pytorch/vision, README (compatibility table); docs.jax.dev, installation; onnxruntime.ai, "Install".
    """

    code = "mixed-packages"
    severity = "warning"
    title = text("Installed packages do not belong together")

    def check(self, case: Case) -> Iterable[Finding]:
        machine = case.machine
        for problem, evidence, fix in (*self._problems(machine), *_problems_of_others(machine)):
            yield self.finding(
                title=problem,
                evidence=[evidence],
                meaning=text(
                    "These packages contain code for each other's version; in this combination they fail or do not use the card."
                ),
                fix=(fix,),
                severity="warning" if any_framework_works(machine) or machine.origin == "live" else "error",
            )

    @staticmethod
    def _problems(machine: Machine) -> Iterator[tuple[str, str, str]]:
        torch = package_version(machine, "torch") or package_version(machine, "pytorch")
        vision = package_version(machine, "torchvision")
        one_index = text(
            "pip install --force-reinstall torch torchvision torchaudio --index-url https://download.pytorch.org/whl/{label}",
            label=_label(torch) or "cuXYZ",
        )
        if torch and vision:
            evidence = text("torch {torch}, torchvision {vision} (list of packages)", torch=torch, vision=vision)
            labels = _label(torch), _label(vision)
            if None not in labels and labels[0] != labels[1]:
                yield (
                    text("torch and torchvision are builds for different devices or CUDA versions"),
                    evidence,
                    one_index,
                )
            elif not _fits_torchvision(torch, vision) and "dev" not in torch and "a0" not in torch:
                yield (
                    text("torchvision {vision} does not belong to torch {torch}", vision=vision, torch=torch),
                    evidence,
                    one_index,
                )
        npu = package_version(machine, "torch-npu")
        if torch and npu and parse_version(torch)[:2] != parse_version(npu)[:2]:
            yield (
                text("torch_npu {npu} does not belong to torch {torch}", npu=npu, torch=torch),
                text("torch {torch}, torch_npu {npu} (list of packages)", torch=torch, npu=npu),
                f"pip install torch=={npu.split('.post')[0]} torch_npu=={npu}",
            )
        jaxlib = package_version(machine, "jaxlib")
        for major in (12, 13):
            plugin = package_version(machine, f"jax-cuda{major}-plugin")
            if jaxlib and plugin and parse_version(plugin)[:3] != parse_version(jaxlib)[:3]:
                yield (
                    text(
                        "JAX's CUDA plug-in {plugin} does not belong to jaxlib {jaxlib}", plugin=plugin, jaxlib=jaxlib
                    ),
                    text("jaxlib {jaxlib}, plug-in {plugin} (list of packages)", jaxlib=jaxlib, plugin=plugin),
                    f"pip install -U 'jax[cuda{major}]'",
                )
        if package_version(machine, "onnxruntime") and package_version(machine, "onnxruntime-gpu"):
            yield (
                text("onnxruntime and onnxruntime-gpu are both installed, and the CPU one is found"),
                text("onnxruntime and onnxruntime-gpu (list of packages)"),
                "pip uninstall -y onnxruntime onnxruntime-gpu && pip install onnxruntime-gpu",
            )


def _problems_of_others(machine: Machine) -> Iterator[tuple[str, str, str]]:
    """Yield the problems of NumPy, TensorFlow, JAX and CuPy: what is wrong, the evidence, the fix."""
    torch = package_version(machine, "torch") or package_version(machine, "pytorch")
    numpy = package_version(machine, "numpy")
    if torch and numpy and parse_version(numpy) >= (2,) and parse_version(torch)[:2] < (2, 3):
        yield (
            text("torch {torch} needs NumPy 1; NumPy {numpy} is installed", torch=torch, numpy=numpy),
            text("torch {torch}, numpy {numpy} (list of packages)", torch=torch, numpy=numpy),
            "pip install 'numpy<2'",
        )
    flow, keras = package_version(machine, "tensorflow"), package_version(machine, "keras")
    if flow and keras and parse_version(keras) >= (3,) and parse_version(flow)[:2] < (2, 16):
        yield (
            text("Keras {keras} does not belong to TensorFlow {flow}", keras=keras, flow=flow),
            text("tensorflow {flow}, keras {keras} (list of packages)", flow=flow, keras=keras),
            text("pip install 'keras<3'   # in the same minor version as TensorFlow"),
        )
    if flow and parse_version(flow)[:2] >= (2, 11) and value_of(machine.host.family) == "windows":
        yield (
            text("TensorFlow {flow} uses no GPU on Windows: 2.10 was the last release that did", flow=flow),
            text("tensorflow {flow} on Windows", flow=flow),
            text(
                "In WSL2: pip install 'tensorflow[and-cuda]'. On Windows itself: Python 3.10, pip install 'tensorflow<2.11', CUDA 11.2, cuDNN 8.1"
            ),
        )
    jaxlib = package_version(machine, "jaxlib")
    plugged = any(package_version(machine, f"jax-cuda{major}-plugin") for major in (12, 13))
    if (
        jaxlib
        and machine.origin == "pasted"
        and not plugged
        and "cuda" not in jaxlib
        and package_version(machine, "jax")
    ):
        yield (
            text("JAX is installed without its CUDA plug-in: it computes on the CPU"),
            text("jaxlib {jaxlib}, and no jax-cuda12-plugin (list of packages)", jaxlib=jaxlib),
            text("pip install -U 'jax[cuda12]'   # Linux, or WSL2 on Windows; with an NVIDIA card"),
        )
    packages = value_of(machine.interpreter.packages) or ()
    cupy = sorted(package.name for package in packages if package.name == "cupy" or package.name.startswith("cupy-"))
    if len(cupy) > 1:
        yield (
            text("CuPy is installed twice"),
            text("{names} (list of packages)", names=listing(cupy, "{items}, {last}")),
            text(
                "pip uninstall -y {names}; pip install cupy-cuda12x   # the one for the CUDA that the driver supports",
                names=" ".join(cupy),
            ),
        )


class TorchSeesNoGpu(Rule):
    """torch sees no GPU, and the text does not show why.

    **Why it matters.** `torch.cuda.is_available()` is False for few reasons: the build has no CUDA (the most frequent, also
    from conda-forge, whose solver prefers a CPU build where it sees no driver), the driver is missing or too old, the
    container has no card, or CUDA_VISIBLE_DEVICES hides it.

    **What to do.** Ask torch for its build first: `torch.version.cuda` is None in a CPU build. Adding cudatoolkit to a CPU
    build does not change it.

    **Sources.** `torch/cuda/__init__.py`; conda-forge documentation, "Installing CUDA-enabled packages".
    """

    code = "torch-no-gpu"
    severity = "error"
    last_resort = True
    title = text("torch sees no GPU; usually it is a build without CUDA")

    def check(self, case: Case) -> Iterable[Finding]:
        machine = case.machine
        torch = framework(machine, "torch")
        blind = torch is not None and value_of(torch.devices) == ()
        unexplained = (
            machine.origin == "pasted"
            and not (value_of(machine.cards) and "tegra" in (value_of(machine.host.kernel) or ""))
            and (blind or any(_SAYS_NO.search(message.text) for message in case.messages))
            and not (torch is not None and isinstance(torch.build, Known))
        )
        if not unexplained:
            return
        yield self.finding(
            evidence=[text("torch.cuda.is_available() is False (pasted text)")],
            meaning=text(
                "The installed build probably has no CUDA; adding cudatoolkit does not change a build. Otherwise the driver is"
                " missing or too old, or the card is hidden."
            ),
            fix=(
                text(
                    "python -c 'import torch; print(torch.__version__, torch.version.cuda)'   # None: a build without CUDA"
                ),
                text("With pip: {command}", command=torch_command(machine) or "pip install torch"),
                text("With conda-forge: conda install -c conda-forge pytorch-gpu   # in a new environment"),
                text(
                    "An AMD card: the ROCm build (torch.version.hip is not None): pip install torch --index-url https://download.pytorch.org/whl/rocm6.4; Jetson: NVIDIA's own wheel for its JetPack"
                ),
                text(
                    "If the build has CUDA: nvidia-smi must work and show a CUDA not older than the build's major version; echo $CUDA_VISIBLE_DEVICES; in a container --gpus all; after a driver update: reboot"
                ),
            ),
        )

"""Builds of frameworks: CPU only, for AMD or Intel cards, or without code for this card."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ownlab.instruments.doctor.rules.software.framework_builds import (
    CpuOnlyBuild,
    NoKernelImage,
    RocmBuildMissing,
    XpuBuildMissing,
)
from ownlab.instruments.doctor.rules.software.package_builds import JaxBuild
from ownlab.machine.facts import Known, Unknown
from ownlab.machine.records import Card, Cpu, Framework, FrameworkDevice, Host, Interpreter, Machine, Nvidia, Package


def machine_with(
    of: Any, *cards: str, torch: Framework | None = None, driver: str = "580.159.04", origin: str = "live", **host: Any
) -> Machine:
    machine: Machine = of(
        Machine,
        origin=origin,
        host=of(Host, family="linux", **host),
        nvidia=of(Nvidia, driver=driver),
        cards=tuple(of(Card, vendor="nvidia", index=index, name=name) for index, name in enumerate(cards)),
        interpreter=of(Interpreter, frameworks=(torch,) if torch else ()),
    )
    return machine


def cpu_torch(of: Any) -> Any:
    return of(Framework, name="torch", version="2.11.0+cpu", build="cpu", devices=())


@pytest.mark.parametrize("rule", [CpuOnlyBuild, RocmBuildMissing, XpuBuildMissing, NoKernelImage])
def test_a_healthy_machine_has_no_finding(rule: Any, h200: Machine, case: Any, find: Any) -> None:
    assert find(rule, case(h200)) == []


# --- cpu-build --------------------------------------------------------------------------------------------------------


def test_a_cpu_build_with_a_card_blocks_and_names_the_wheel(of: Any, case: Any, find: Any) -> None:
    (finding,) = find(CpuOnlyBuild, case(machine_with(of, "NVIDIA H200", torch=cpu_torch(of))))
    assert finding.blocks
    assert finding.title == "torch was built without GPU support"
    assert "torch 2.11.0+cpu is a CPU build" in finding.evidence
    assert finding.fix == ("pip install --force-reinstall torch --index-url https://download.pytorch.org/whl/cu132",)


def test_a_cpu_build_on_a_machine_without_a_card_is_right(of: Any, case: Any, find: Any) -> None:
    machine = machine_with(of, torch=cpu_torch(of))
    assert find(CpuOnlyBuild, case(machine, "Torch not compiled with CUDA enabled", where="torch")) == []


def test_a_second_framework_that_works_makes_it_a_note(of: Any, case: Any, find: Any, h200: Machine) -> None:
    jax = of(Framework, name="jax", version="0.10.2", build="cpu", devices=())
    frameworks = h200.interpreter.frameworks
    assert not isinstance(frameworks, Unknown)
    machine = msgspec.structs.replace(h200, interpreter=of(Interpreter, frameworks=(*frameworks.value, jax)))
    (finding,) = find(CpuOnlyBuild, case(machine))
    assert (finding.severity, finding.blocks) == ("note", False)
    assert finding.fix == ("pip install -U 'jax[cuda13]'",)


def test_jax_and_cupy_are_named_for_the_drivers_cuda(of: Any, case: Any, find: Any) -> None:
    jax = of(Framework, name="jax", build="cpu", devices=())
    (finding,) = find(CpuOnlyBuild, case(machine_with(of, "NVIDIA H200", torch=jax, driver="535.104.05")))
    assert finding.fix == ("pip install -U 'jax[cuda12]'",)


@pytest.mark.parametrize(
    ("name", "card", "driver", "fix"),
    [
        ("jax", "Tesla V100-SXM2-16GB", "580.159.04", "pip install -U 'jax[cuda12]'"),
        ("cupy", "Tesla V100-SXM2-16GB", "580.159.04", "pip install cupy-cuda12x"),
        ("cupy", "Tesla T4", "580.159.04", "pip install cupy-cuda13x"),
        ("cupy", "Tesla K80", "470.256.02", "pip install cupy-cuda11x"),
        ("jax", "Tesla M10", "580.159.04", "No CUDA build of jax is known"),  # 5.0: JAX begins with 5.2
    ],
)
def test_jax_and_cupy_are_named_for_the_card(
    name: str, card: str, driver: str, fix: str, of: Any, case: Any, find: Any
) -> None:
    framework = of(Framework, name=name, build="cpu", devices=())
    (finding,) = find(CpuOnlyBuild, case(machine_with(of, card, torch=framework, driver=driver)))
    assert finding.fix[0].startswith(fix)


@pytest.mark.parametrize(
    ("message", "title"),
    [
        ("AssertionError: Torch not compiled with CUDA enabled", "torch was built without GPU support"),
    ],
)
def test_pasted_messages_alone_are_enough(message: str, title: str, case: Any, find: Any) -> None:
    (finding,) = find(CpuOnlyBuild, case(None, message))
    assert finding.blocks
    assert finding.title == title
    assert any("map_location='cpu'" in step for step in finding.fix)


def test_jax_without_its_cuda_part_is_no_error_if_the_cpu_is_intended(case: Any, find: Any) -> None:
    message = "WARNING:jax._src.xla_bridge:791: An NVIDIA GPU may be present on this machine, but a CUDA-enabled jaxlib is not installed. Falling back to cpu."
    (finding,) = find(JaxBuild, case(None, message))
    assert "harmless if that is intended" in finding.title
    assert not finding.blocks


def test_jax_whose_cuda_plugin_fails_has_the_right_build(case: Any, find: Any) -> None:
    message = (
        "Jax plugin configuration error: Exception when calling jax_plugins.xla_cuda12.initialize()\n"
        "An NVIDIA GPU may be present on this machine, but a CUDA-enabled jaxlib is not installed. Falling back to cpu."
    )
    assert find(CpuOnlyBuild, case(None, message)) == []


def test_a_pasted_cpu_build_counts_if_the_cards_are_unknown(of: Any, case: Any, find: Any) -> None:
    machine = of(Machine, origin="pasted", interpreter=of(Interpreter, frameworks=(cpu_torch(of),)))
    (finding,) = find(CpuOnlyBuild, case(machine))
    assert finding.blocks


@pytest.mark.parametrize(
    "elsewhere",
    [{"family": "darwin"}, {"packages": (Package("torch_npu", "2.1.0.post10"),)}],
)
def test_a_mac_or_an_npu_needs_no_cuda_build(elsewhere: dict[str, Any], of: Any, case: Any, find: Any) -> None:
    family, packages = elsewhere.get("family", "linux"), elsewhere.get("packages", ())
    machine = of(
        Machine,
        origin="pasted",
        host=of(Host, family=family),
        interpreter=of(Interpreter, frameworks=(cpu_torch(of),), packages=packages),
    )
    assert find(CpuOnlyBuild, case(machine)) == []


@pytest.mark.parametrize(
    ("card", "driver", "python", "advice"),
    [
        ("Tesla M2090", "390.157", None, "No known torch wheel (1.7 and newer) has code for this card"),
        ("NVIDIA GeForce GTX 480", "390.157", None, "has code for this card (compute capability 2.0)"),
        ("NVIDIA GeForce RTX 5090", "470.256.02", None, "Install a newer driver"),
        (
            "NVIDIA GeForce RTX 5090",
            "580.159.04",
            "3.8.10",
            "has wheels for Python 3.8.10. Use Python 3.11 to 3.15: pip",
        ),
    ],
)
def test_advice_for_a_card_without_a_wheel(
    card: str, driver: str, python: str | None, advice: str, of: Any, case: Any, find: Any
) -> None:
    machine = machine_with(of, card, torch=cpu_torch(of), driver=driver)
    if python:
        interpreter = msgspec.structs.replace(machine.interpreter, version=Known(python, source="python"))
        machine = msgspec.structs.replace(machine, interpreter=interpreter)
    (finding,) = find(CpuOnlyBuild, case(machine))
    assert advice in finding.fix[0]


def test_the_wheel_matches_this_python(of: Any, case: Any, find: Any) -> None:
    machine = machine_with(of, "Tesla P100-PCIE-16GB", torch=cpu_torch(of))
    interpreter = msgspec.structs.replace(machine.interpreter, version=Known("3.9.18", source="python"))
    (finding,) = find(CpuOnlyBuild, case(msgspec.structs.replace(machine, interpreter=interpreter)))
    assert finding.fix == (
        "pip install --force-reinstall 'torch==2.8.*' --index-url https://download.pytorch.org/whl/cu126",
    )


# --- rocm-build -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("build", ["cpu", "cuda"])
def test_an_amd_card_needs_a_rocm_build(build: str, of: Any, case: Any, find: Any) -> None:
    torch = of(Framework, name="torch", version="2.11.0", build=build, devices=())
    machine = of(
        Machine,
        cards=(of(Card, vendor="amd", index=0, name="AMD Instinct MI300X"),),
        interpreter=of(Interpreter, frameworks=(torch,)),
    )
    (finding,) = find(RocmBuildMissing, case(machine))
    assert finding.blocks
    assert f"torch 2.11.0 is a build for {build.upper()}" in finding.evidence
    assert finding.fix[0].endswith("https://download.pytorch.org/whl/rocm7.14")


def test_a_chip_that_the_rocm_build_lacks(case: Any, find: Any) -> None:
    (finding,) = find(RocmBuildMissing, case(None, "RuntimeError: HIP error: invalid device function"))
    assert "HSA_OVERRIDE_GFX_VERSION" in finding.fix[0]


def test_a_rocm_build_that_sees_its_card(of: Any, case: Any, find: Any) -> None:
    device = FrameworkDevice("AMD Instinct MI300X", kind="rocm")
    torch = of(Framework, name="torch", version="2.11.0+rocm6.4", build="rocm", devices=(device,))
    machine = of(Machine, cards=(of(Card, vendor="amd", index=0),), interpreter=of(Interpreter, frameworks=(torch,)))
    assert find(RocmBuildMissing, case(machine, "RuntimeError: HIP error: invalid device ordinal")) == []


def other_vendor(of: Any, vendor: str, name: str, *more: Card, build: str = "cpu", **card: Any) -> Machine:
    torch = of(Framework, name="torch", version="2.11.0", build=build, devices=())
    cards = (of(Card, vendor=vendor, index=0, name=name, **card), *more)
    machine: Machine = of(Machine, cards=cards, interpreter=of(Interpreter, frameworks=(torch,)))
    return machine


@pytest.mark.parametrize("build", ["cpu", "cuda"])
def test_an_intel_card_needs_an_xpu_build(build: str, of: Any, case: Any, find: Any) -> None:
    (finding,) = find(XpuBuildMissing, case(other_vendor(of, "intel", "Intel Arc B580 (discrete GPU)", build=build)))
    assert finding.blocks
    assert finding.evidence == (
        "card 0 (Intel Arc B580 (discrete GPU))",
        f"torch 2.11.0 is a build for {build.upper()}",
    )
    assert finding.fix[0] == "pip install --force-reinstall torch --index-url https://download.pytorch.org/whl/xpu"


def test_intel_cards_that_need_no_xpu_build(of: Any, case: Any, find: Any) -> None:
    assert find(XpuBuildMissing, case(other_vendor(of, "intel", "Intel UHD Graphics 770", integrated=True))) == []
    assert find(XpuBuildMissing, case(other_vendor(of, "intel", "Intel Gaudi 2"))) == []
    assert find(XpuBuildMissing, case(other_vendor(of, "intel", "Intel Arc B580", build="xpu"))) == []


@pytest.mark.parametrize(("rule", "vendor"), [(RocmBuildMissing, "amd"), (XpuBuildMissing, "intel")])
def test_integrated_graphics_need_no_build(rule: Any, vendor: str, of: Any, case: Any, find: Any) -> None:
    assert find(rule, case(other_vendor(of, vendor, "Graphics", integrated=True))) == []


@pytest.mark.parametrize(("rule", "vendor"), [(RocmBuildMissing, "amd"), (XpuBuildMissing, "intel")])
def test_a_cuda_build_next_to_an_nvidia_card_is_correct(rule: Any, vendor: str, of: Any, case: Any, find: Any) -> None:
    geforce = of(Card, vendor="nvidia", index=0, name="NVIDIA GeForce RTX 3090")
    assert find(rule, case(other_vendor(of, vendor, "Card", geforce, build="cuda"))) == []


def test_no_pip_command_on_musl(of: Any, case: Any, find: Any) -> None:
    alpine = machine_with(of, "NVIDIA H200", torch=cpu_torch(of), libc="musl")
    (finding,) = find(CpuOnlyBuild, case(alpine))
    assert finding.fix == (
        "Framework wheels do not run on musl. Use a system or an image with glibc (see the finding musl).",
    )
    amd = msgspec.structs.replace(other_vendor(of, "amd", "AMD Instinct MI300X"), host=alpine.host)
    (finding,) = find(RocmBuildMissing, case(amd))
    assert not any("pip install" in step for step in finding.fix)


# --- no-kernel --------------------------------------------------------------------------------------------------------


def test_a_card_that_is_newer_than_the_build(of: Any, case: Any, find: Any) -> None:
    torch = of(
        Framework,
        name="torch",
        version="2.6.0+cu126",
        build="cuda",
        cuda="12.6",
        arch_list=("sm_50", "sm_60", "sm_70", "sm_75", "sm_80", "sm_86", "sm_90"),
        devices=(FrameworkDevice("NVIDIA GeForce RTX 5090"),),
    )
    (finding,) = find(NoKernelImage, case(machine_with(of, "NVIDIA GeForce RTX 5090", torch=torch)))
    assert finding.blocks
    assert finding.title == "torch 2.6.0+cu126 has no code for NVIDIA GeForce RTX 5090"
    assert "newer than every card that this build supports; it needs CUDA 12.8 or newer" in finding.meaning
    assert finding.fix == ("pip install --force-reinstall torch --index-url https://download.pytorch.org/whl/cu132",)


def test_a_card_that_the_build_has_dropped_is_found_by_the_table(of: Any, case: Any, find: Any) -> None:
    torch = of(Framework, name="torch", version="2.11.0+cu128", build="cuda", cuda="12.8")
    (finding,) = find(NoKernelImage, case(machine_with(of, "Tesla P100-PCIE-16GB", torch=torch)))
    assert finding.blocks
    assert "list of the official wheel" in finding.evidence[1]
    assert "not among the cards that this build supports" in finding.meaning
    assert finding.fix == (
        "pip install --force-reinstall 'torch==2.14.*' --index-url https://download.pytorch.org/whl/cu126",
    )


def test_one_of_two_cards_is_a_warning(of: Any, case: Any, find: Any) -> None:
    torch = of(Framework, name="torch", version="2.11.0+cu128", build="cuda", cuda="12.8")
    (finding,) = find(NoKernelImage, case(machine_with(of, "NVIDIA H200", "Tesla P100-PCIE-16GB", torch=torch)))
    assert (finding.severity, finding.blocks) == ("warning", False)
    assert finding.evidence[0] == "card 1 (Tesla P100-PCIE-16GB): compute capability 6.0"


def test_another_framework_that_works_keeps_it_from_blocking(of: Any, case: Any, find: Any) -> None:
    torch = of(Framework, name="torch", version="2.11.0+cu128", build="cuda", cuda="12.8")
    cupy = of(Framework, name="cupy", build="cuda", devices=(FrameworkDevice("Tesla P100"),))
    machine = machine_with(of, "Tesla P100-PCIE-16GB")
    machine = msgspec.structs.replace(machine, interpreter=of(Interpreter, frameworks=(torch, cupy)))
    (finding,) = find(NoKernelImage, case(machine))
    assert not finding.blocks


def test_an_extension_without_code_for_the_card(of: Any, case: Any, find: Any) -> None:
    torch = of(Framework, name="torch", version="2.4.0+cu121", build="cuda", cuda="12.1")
    message = "RuntimeError: CUDA error: no kernel image is available for execution on the device"
    machine = machine_with(of, "Tesla V100-SXM2-16GB", torch=torch, origin="pasted")
    (finding,) = find(NoKernelImage, case(machine, message))
    assert not finding.blocks
    assert finding.title == "An extension was compiled without this card"
    assert "TORCH_CUDA_ARCH_LIST='7.0'" in finding.fix[0]


@pytest.mark.parametrize(
    ("message", "tag"),
    [
        (
            (
                "NVIDIA GeForce RTX 5060 Ti with CUDA capability sm_120 is not compatible with the current PyTorch"
                " installation."
            ),
            "cu129",  # no driver is known: CUDA 12 runs on every driver for this card, CUDA 13 does not
        ),
        (
            (
                "Found GPU0 NVIDIA GeForce GTX 1080 Ti which is of cuda capability 6.1.\n"
                "PyTorch no longer supports this GPU because it is too old."
            ),
            "cu126",
        ),
    ],
)
def test_the_message_names_the_compute_capability(message: str, tag: str, case: Any, find: Any) -> None:
    (finding,) = find(NoKernelImage, case(None, message))
    assert finding.blocks
    assert f"/whl/{tag} " in finding.fix[0]


def test_messages_without_a_card_get_both_commands(case: Any, find: Any) -> None:
    message = "CUDA error: no kernel image is available for execution on the device"
    (finding,) = find(NoKernelImage, case(None, message))
    assert [step.split(" (")[0].split(",")[0] for step in finding.fix[:3]] == [
        "New card",
        "GeForce 30 and 40",
        "Old card",
    ]
    assert "ollama" in finding.fix[3]


@pytest.mark.parametrize(
    ("name", "version", "cuda", "architecture"),
    [
        ("NVIDIA GeForce GTX 1080 Ti", "2.1.0+cu121", "12.1", "x86_64"),
        ("NVIDIA GH200 480GB", "2.11.0+cu130", "13.0", "aarch64"),
        ("NVIDIA GeForce RTX 4090", "2.1.0a0+32f93b1", "12.2", "x86_64"),  # NVIDIA's own build: no table knows it
        ("NVIDIA Whatever 9000", "2.11.0", "13.0", "x86_64"),
    ],
)
def test_builds_that_support_the_card_or_are_unknown(
    name: str, version: str, cuda: str, architecture: str, of: Any, case: Any, find: Any
) -> None:
    torch = of(Framework, name="torch", version=version, build="cuda", cuda=cuda)
    machine = machine_with(of, name, torch=torch, cpu=of(Cpu, architecture=architecture))
    assert find(NoKernelImage, case(machine)) == []


def test_a_rocm_build_is_not_compared_with_the_cuda_table(of: Any, case: Any, find: Any) -> None:
    torch = of(Framework, name="torch", version="2.11.0", build="rocm", arch_list=("gfx942",))
    assert find(NoKernelImage, case(machine_with(of, "NVIDIA H200", torch=torch))) == []


def test_on_a_mac_the_gpu_has_another_name(of: Any, case: Any, find: Any) -> None:
    mac = of(Machine, origin="pasted", host=of(Host, family="darwin"))
    (finding,) = find(CpuOnlyBuild, case(mac, "AssertionError: Torch not compiled with CUDA enabled"))
    assert "'mps'" in finding.fix[0]
    assert not finding.blocks
    assert find(CpuOnlyBuild, case(mac)) == []

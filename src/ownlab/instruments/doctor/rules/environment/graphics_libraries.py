"""Rules about the driver's other libraries: OpenGL and EGL, video encoding, Vulkan and OpenCL."""

from __future__ import annotations

from ownlab.instruments.doctor.records import Case
from ownlab.instruments.doctor.rule import Cause, CauseRule
from ownlab.text import text

__all__ = ["GraphicsLibraries", "OpenClRuntime", "VideoEncoder"]

# What hwloc prints where OpenCL's loader is installed without a runtime (rule harmless).
_HWLOC = "OpenCL: Failed to get number of platforms with clGetPlatformIDs(): -1001"


class GraphicsLibraries(CauseRule):
    """A program that renders (OpenGL, EGL, Vulkan) does not reach NVIDIA's driver, and falls back to Mesa.

    **Why it matters.** CUDA works without the driver's graphics libraries. They are missing where the driver was installed
    with --no-opengl-files or from a compute-only package, and in containers that ask for compute and utility only. Flatpak and
    Snap bring libraries of their own, which must have the driver's version; Intel and AMD graphics have Mesa's drivers.

    **What to do.** In a container: NVIDIA_DRIVER_CAPABILITIES=all. On the host: install the driver's OpenGL and EGL packages.

    **Sources.** NVIDIA Container Toolkit, "Driver capabilities"; NVIDIA driver README, "--no-opengl-files"; glvnd, EGL vendor files; docs.mesa3d.org, environment variables;
    docs.flatpak.org, "Extensions" (GL drivers).
    """

    code = "graphics-libraries"
    severity = "error"
    title = text("The driver's OpenGL and EGL libraries are missing")
    causes = (
        Cause(
            r"Graphics driver '?nvidia\S* for Flatpak|org\.freedesktop\.Platform\.GL\.nvidia[^\n]*(?:not|missing)",
            text("Flatpak's copy of the driver's libraries does not have the host's driver version"),
            text(
                "Flatpak programs use the extension GL.nvidia of exactly the host's driver version; it was not installed after the driver changed."
            ),
            (text("flatpak update   # installs the matching extension; sudo flatpak update for system-wide ones"),),
        ),
        Cause(
            r"failed to open drm device: Permission denied|(?:libGL|libEGL|MESA)[^\n]*/dev/dri[^\n]*Permission denied",
            text("This user may not open the graphics device in /dev/dri"),
            text(
                "The device files in /dev/dri belong to the groups video and render. Without them Mesa computes on the CPU, slowly. In a container the groups' numbers are those of the host."
            ),
            (
                text("ls -ln /dev/dri; id   # then: sudo usermod -aG video,render $USER; log out and in again"),
                text(
                    "In a container (LXC, Docker): the user there must be in groups with these numbers: groupadd -g NUMBER render; usermod -aG render,video USER; or docker run --device /dev/dri --group-add NUMBER"
                ),
            ),
        ),
        Cause(
            r"(?:libGL error|MESA-LOADER)[^\n]*\b(?:i915|i965|iris|crocus|radeonsi|r300|r600)\b",
            text("Mesa's driver for the Intel or AMD graphics is not loaded"),
            text(
                "The message names a driver of Mesa, for Intel (i965, iris, crocus) or AMD (radeonsi, r600). Its file is missing, does not suit a library that the program brings (conda's libstdc++), or the device may not be opened."
            ),
            (
                text("LIBGL_DEBUG=verbose PROGRAM   # names the file or the library that fails; ls -ln /dev/dri; id"),
                text(
                    "Debian, Ubuntu: sudo apt-get install -y libgl1-mesa-dri. In conda: conda install -c conda-forge libstdcxx-ng. Not in the group render: sudo usermod -aG video,render $USER"
                ),
                text(
                    "If an NVIDIA card is to render: __NV_PRIME_RENDER_OFFLOAD=1 __GLX_VENDOR_LIBRARY_NAME=nvidia PROGRAM"
                ),
            ),
        ),
        Cause(
            r"libGL error: (?:No matching fbConfigs|failed to load driver: swrast)",
            text(
                "Mesa's OpenGL is used instead of the card's, and does not start: often in a sandbox, or beside other libraries"
            ),
            text(
                "If other programs render, the driver works, and this program has its own libraries: Flatpak and Snap bring a copy of the driver, which must have exactly its version; conda brings an older libstdc++; over ssh the display is another machine's."
            ),
            (
                text(
                    "glxinfo -B   # outside the sandbox: if it names the card, the driver is right, and must not be installed again"
                ),
                text(
                    "Flatpak: flatpak update (after a driver update, wait until the runtime GL.nvidia of this version is published). Snap: sudo snap refresh. conda: conda install -c conda-forge libstdcxx-ng"
                ),
                text("In a container: -e NVIDIA_DRIVER_CAPABILITIES=all (NVIDIA), --device /dev/dri (Intel, AMD)."),
                text("Only if glxinfo fails, too: install the driver's OpenGL packages (Ubuntu: libnvidia-gl-BRANCH)."),
            ),
        ),
        Cause(
            r"(?:unable to|cannot|could not) find (?:an? )?EGL device|DISPLAY environment variable is missing|Cannot initialize a EGL device|lib(?:OSMesa|EGL|GLX|GLdispatch)\S*\.so\S*: cannot open|eglInitialize failed|EGL[^\n]*(?:initialization failed|not initialized|failed to initialize|BAD_)|glutin error|cannot (?:create|initialize) (?:a )?(?:EGL|GL|OpenGL)|MESA-LOADER: failed|libGL error"
            r"|failed to (?:create|initialize|get) (?:an? )?(?:EGL|OpenGL|GL|GLX|GLFW)\b[^\n]*|EGL_NOT_INITIALIZED|no EGL devices? (?:found|available)|OpenGL platform library has not been loaded|GLFWError|GLEW initali?zation error|[Uu]nable to open display|could not connect to display|cannot open display|Couldn't find matching EGL|gladLoadGL error|Library .GLU. not found|NoSuchDisplayException|Failed to create any GPU devices|GLX[^\n]*(?:BadValue|failed)|BadValue[^\n]*GLX|libEGL_nvidia[^\n]*(?:not found|cannot)",
            text("EGL and OpenGL do not reach the NVIDIA driver, and fall back to Mesa"),
            text(
                "The driver was installed without its OpenGL and EGL files, or the container was given compute libraries only."
            ),
            (
                text(
                    "In a container: -e NVIDIA_DRIVER_CAPABILITIES=all (graphics), and the package libglvnd0 libegl1 in the image; apptainer: check /etc/apptainer/nvliblist.conf for missing (Tegra) libraries."
                ),
                text(
                    "On the host: reinstall the driver without --no-opengl-files; Ubuntu: sudo apt-get install -y libnvidia-gl-BRANCH"
                ),
                text(
                    "Check: cat /usr/share/glvnd/egl_vendor.d/10_nvidia.json; __EGL_VENDOR_LIBRARY_FILENAMES=/usr/share/glvnd/egl_vendor.d/10_nvidia.json PROGRAM"
                ),
            ),
        ),
        Cause(
            r"\(EE\) no screens found|extension \"?NV-GLX\"? missing|\(EE\) NVIDIA(?:\(\w+\))?: Failed|Fatal server error:[^\n]*\s*\(EE\)",
            text("The X server does not use the NVIDIA driver"),
            text(
                "The display server finds no usable driver, or the driver's X module is missing. CUDA itself needs no display."
            ),
            (
                text("nvidia-smi   # if it works, only the display is concerned; else fix the driver first"),
                text(
                    "Read the reason: grep -E '\\(EE\\)|\\(WW\\)' /var/log/Xorg.0.log; move an old /etc/X11/xorg.conf away; sudo reboot"
                ),
            ),
        ),
        Cause(
            r"loader_scanned_icd_add[^\n]*ICD \S+ failed",
            text("A file in icd.d names a library that is no Vulkan driver"),
            text(
                "The loader opened the library in the message and found no Vulkan in it: nvidia_icd.json must name libGLX_nvidia.so.0, not libGL.so.1."
            ),
            (
                text(
                    'cat /usr/share/vulkan/icd.d/nvidia_icd.json /etc/vulkan/icd.d/nvidia_icd.json; set "library_path": "libGLX_nvidia.so.0"'
                ),
                text(
                    "Or try it without a change: VK_ICD_FILENAMES=FILE.json vulkaninfo, with such a file; a newer driver package has the right one."
                ),
            ),
        ),
        Cause(
            r"vk(?:EnumeratePhysicalDevices|CreateDevice|CreateInstance)\b[^\n]*(?:fail|ERROR)|ERROR_INITIALIZATION_FAILED[^\n]*vk|Could not get 'vkCreateInstance'|Failed to load libvulkan|(?:Error)?IncompatibleDriver(?:Error)?\b|vkCreateInstance: Found no drivers|Failed to find all required Vulkan|ggml_vulkan: (?:No devices|Error)|[Nn]o Vulkan (?:devices?|driver|ICD)|VK_ERROR_(?:EXTENSION|LAYER|FEATURE)_NOT_PRESENT|No device could be created|driver is not installed properly and requires a clean|libvulkan\.so\S*: cannot open|VK_ERROR_(?:INCOMPATIBLE_DRIVER|INITIALIZATION_FAILED)|vkCreateInstance[^\n]*fail|ERROR_INCOMPATIBLE_DRIVER|failed to find (?:a )?(?:suitable )?(?:GPU|physical device)[^\n]*vulkan|vulkan[^\n]*no (?:devices|physical|driver)",
            text("Vulkan finds no driver for the card"),
            text("The file that names NVIDIA's Vulkan driver (nvidia_icd.json), or the library behind it, is missing."),
            (
                text("In a container: -e NVIDIA_DRIVER_CAPABILITIES=all; the image needs libvulkan1 and libegl1."),
                text(
                    "Windows: install the card's driver again, cleanly (NVIDIA: also the Studio driver), above all after a change of the card's maker; then vulkaninfo."
                ),
                text("Linux: ls /usr/share/vulkan/icd.d /etc/vulkan/icd.d; reinstall the driver's graphics packages."),
            ),
        ),
    )


class VideoEncoder(CauseRule):
    """NVENC or NVDEC, the card's video engines, cannot be used.

    **Why it matters.** The engines have libraries of their own (libnvidia-encode, libnvcuvid), need a minimum driver, and on
    GeForce cards serve a limited number of sessions.

    **What to do.** Give the container the capability `video`; update the driver to what ffmpeg asks for.

    **Sources.** NVIDIA Video Codec SDK, "Read me"; ffmpeg, libavcodec/nvenc.c; NVIDIA Container Toolkit, "Driver capabilities".
    """

    code = "video-engine"
    severity = "error"
    title = text("The card's video engine cannot be used")
    causes = (
        Cause(
            r"Cannot load lib(?:nvidia-encode|nvcuvid)|lib(?:nvidia-encode|nvcuvid)\.so\S*[^\n]*(?:cannot open|not found)|Failed loading nvcuvid|nvEncodeAPI(?:64)?\.dll|nvcuvid\.dll",
            text("The driver's video library is missing"),
            text(
                "libnvidia-encode and libnvcuvid belong to the driver. A container gets them only with the capability video; headless driver packages lack them."
            ),
            (
                text("In a container: -e NVIDIA_DRIVER_CAPABILITIES=compute,utility,video"),
                text(
                    "On the host (Ubuntu): sudo apt-get install -y libnvidia-encode-BRANCH libnvidia-decode-BRANCH; Debian: libnvidia-encode1 libnvcuvid1"
                ),
                text(
                    "A line below that asks for a newer driver is a consequence: without the library its version is unknown."
                ),
            ),
        ),
        Cause(
            r"(?:Driver does not support the required nvenc API|minimum required Nvidia driver for nvenc|nvenc API version[^\n]*Required)",
            text("The driver is too old for this ffmpeg's NVENC"),
            text(
                "ffmpeg was built with newer video headers than the driver supports; the message names both versions."
            ),
            (
                text(
                    "Update the driver to the version in the message, or use an ffmpeg built with older nv-codec-headers."
                ),
            ),
        ),
        Cause(
            r"No VA display found|vaInitialize failed|libva error|Failed to initialise VAAPI|Cannot open (?:a )?(?:DRM|VA) (?:render node|display)",
            text("VA-API, the video interface of Intel and AMD cards, does not start"),
            text(
                "The driver file of VA-API does not fit the card, is missing, or this user may not open /dev/dri/renderD128."
            ),
            (
                text(
                    "sudo usermod -aG render,video $USER; log in again. Intel: intel-media-va-driver (LIBVA_DRIVER_NAME=iHD; older chips i965); AMD: mesa-va-drivers"
                ),
                text("In a container: --device /dev/dri. On an NVIDIA card use NVENC instead."),
            ),
        ),
        Cause(
            r"nvEncOpenEncodeSession\w*[^\n]*(?:returned error|failed)|OpenEncodeSessionEx failed: (?:out of memory|incompatible client key|unsupported device)|Failed to open encode codec|NVENC Error|Failed to open NVENC codec|NVENC not available|NV_ENC_ERR_\w+|No (?:NVENC )?capable devices found|InitializeEncoder failed",
            text("The card refuses another encoding session, or has no such encoder"),
            text(
                "GeForce cards serve a limited number of sessions (eight with current drivers); old or small cards have no encoder for this codec. Some driver releases had faults in it: update within the branch."
            ),
            (
                text("If it fails from the first session on: update the driver within its branch."),
                text(
                    "Close other encoders (nvidia-smi encodersessions), update the driver, or encode on the CPU (libx264)."
                ),
            ),
        ),
    )


class OpenClRuntime(CauseRule):
    """OpenCL finds no platform, or not the card's: the vendor's runtime is missing or not registered.

    **Why it matters.** OpenCL is a loader that reads /etc/OpenCL/vendors/*.icd. Without the vendor's file, the library it
    names, or rights on the device, there are 0 platforms.

    **What to do.** Install the vendor's runtime, and join the group that owns the render node.

    **Sources.** Khronos OpenCL-ICD-Loader; Oblomov/clinfo#11; intel/compute-runtime#350.
    """

    code = "opencl"
    severity = "error"
    title = text("OpenCL finds no device")
    causes = (
        Cause(
            r"/dev/dri/renderD\d+[^\n]*(?:ENOENT|No such file)|no render node|/dev/dri: No such file",
            text("There is no render node: the kernel's graphics driver did not start the card"),
            text(
                "Intel's and AMD's runtimes open /dev/dri/renderD128, which i915, xe or amdgpu creates. That driver is not loaded, or does not know the card; a container may lack the device."
            ),
            (
                text(
                    "lspci -nnk | grep -iA3 -E 'vga|display'; sudo dmesg | grep -iE 'i915|xe |amdgpu'   # often a newer kernel or linux-firmware is needed"
                ),
                text("In a container: --device /dev/dri"),
            ),
        ),
        Cause(
            r"BUILD_PROGRAM_FAILURE|clBuildProgram[^\n]*fail|Kernel compil\w+ (?:failed|error)[^\n]*OpenCL|OpenCL[^\n]*(?:kernel|program) (?:build|compil\w+) (?:failed|error)",
            text("OpenCL's compiler, a part of the driver, did not accept the program's kernel"),
            text(
                "The card is found. Either this release of the driver has a fault or lacks a function, or the program's kernel does not suit this card; a cached kernel of another driver has the same effect."
            ),
            (
                text("Read the build log above the error; clinfo must work by itself."),
                text(
                    "Delete the program's kernel cache, and try another release of the driver (a newer one; or the former, if it began with an update); then a newer release of the program."
                ),
            ),
        ),
        Cause(
            r"Could not get platform count|Number of platforms:?\s+0\b|clGetPlatformIDs?\S*[^\n]*(?:-1001|PLATFORM_NOT_FOUND)|number of platforms : error -1001|CL_PLATFORM_NOT_FOUND_KHR|CL_DEVICE_NOT_(?:FOUND|AVAILABLE)|No devices found/left|No OpenCL (?:platforms?|devices?) (?:found|available|detected)|error -1001|no OpenCL compatible",
            text("OpenCL finds no platform: no runtime is installed, or this user may not open the device"),
            text(
                "Either /etc/OpenCL/vendors names no working runtime, or the runtime cannot open /dev/dri/renderD128 (group render)."
            ),
            (
                text(
                    "Install the runtime: Intel: intel-opencl-icd (Fedora: intel-compute-runtime); NVIDIA: the driver's libnvidia-opencl; AMD: rocm-opencl-runtime; CPU: pocl-opencl-icd"
                ),
                text("Join the groups: sudo usermod -aG render,video $USER; then log out and in again"),
            ),
        ),
    )

    def find_cause(self, case: Case) -> tuple[Cause, tuple[str, ...]] | None:
        """Leave out a case in which hwloc, which only looks for devices, is the only one that speaks of OpenCL."""
        speaking = [message for message in case.messages if "opencl" in message.text.lower()]
        hwloc = [message for message in speaking if _HWLOC in message.text and "\n" not in message.text.strip()]
        decoded = [message for message in speaking if message.text.startswith("OpenCL error -1001:")]
        if hwloc and len(hwloc) + len(decoded) == len(speaking):
            return None
        return super().find_cause(case)

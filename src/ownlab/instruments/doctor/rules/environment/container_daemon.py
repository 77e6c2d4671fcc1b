"""The rule about the container engine itself: its service, its configuration, its images and its disk."""

from __future__ import annotations

from ownlab.instruments.doctor.rule import Cause, CauseRule
from ownlab.text import text

__all__ = ["ContainerDaemon"]


class ContainerDaemon(CauseRule):
    """The container engine does not start, refuses this user, or cannot get an image.

    **Why it matters.** The GPU has no part in these errors, but they often appear while GPU support is set up: a comma in
    daemon.json is missing, a runtime is named twice, the user is not in the group docker, an old CUDA image is gone.

    **What to do.** Mend the engine first, and try a plain container (`docker run --rm hello-world`), then one with a card.

    **Sources.** docs.docker.com, "Post-installation steps" and "Troubleshooting the daemon"; NVIDIA, "CUDA container support policy".
    """

    code = "container-daemon"
    severity = "error"
    title = text("The container engine does not work")
    causes = (
        Cause(
            r"permission denied while trying to connect to the (?:Docker daemon|docker API)|dial unix /var/run/docker\.sock: connect: permission denied|docker\.sock[^\n]*permission denied",
            text("This user may not use Docker"),
            text("The socket of Docker belongs to the group docker, to which this user does not belong (yet)."),
            (text("sudo usermod -aG docker $USER; then log out and in again (or: newgrp docker)"),),
        ),
        Cause(
            r"unable to configure the Docker daemon with file|specified both as a flag and in the configuration file|daemon\.json[^\n]*(?:invalid character|unexpected|cannot unmarshal)|dockerd\b[^\n]*(?:invalid character|directives)",
            text("Docker does not start: /etc/docker/daemon.json is wrong"),
            text(
                "The file is no valid JSON (a comma or a brace is missing), or repeats a setting that is also given on the command line of the service, such as the runtime nvidia."
            ),
            (
                text(
                    "Check it: python3 -m json.tool /etc/docker/daemon.json; remove what systemctl cat docker also sets."
                ),
                text("sudo nvidia-ctk runtime configure --runtime=docker; sudo systemctl restart docker"),
            ),
        ),
        Cause(
            r"Cannot connect to the Docker daemon at|Is the docker daemon running\?|failed to start docker application container engine|docker\.service: (?:Failed with result|Main process exited)",
            text("The Docker service is not running"),
            text("The engine is stopped, or did not start. In WSL, Docker Desktop must be started on Windows."),
            (
                text("sudo systemctl enable --now docker; if it fails: sudo journalctl -u docker -n 30"),
                text("Windows: start Docker Desktop, and turn on its integration with this WSL distribution."),
            ),
        ),
        Cause(
            r"(?:failed to solve|manifest unknown|failed to resolve source metadata|pull access denied)[^\n]*nvidia/(?:cuda|cudagl|tensorrt|opengl)|nvidia/(?:cuda|cudagl)\S*: (?:not found|manifest unknown)|nvcr\.io/\S+[^\n]*(?:not found|unauthorized|denied)",
            text("This image no longer exists, or needs a login"),
            text(
                "NVIDIA removes the images of old CUDA versions, and has no tag latest. Some images of nvcr.io need a key."
            ),
            (
                text(
                    "Choose a full tag of https://hub.docker.com/r/nvidia/cuda/tags, for example nvidia/cuda:12.4.1-base-ubuntu22.04, not newer than the CUDA that nvidia-smi shows."
                ),
                text("nvcr.io: docker login nvcr.io   # user $oauthtoken, password: the API key"),
            ),
        ),
        Cause(
            r"failed to register layer[^\n]*no space left on device|no space left on device[^\n]*(?:overlay2|/var/lib/docker|docker|layer)|ApplyLayer[^\n]*no space left",
            text("The disk with the container images is full"),
            text("GPU images take 5 to 20 GB each."),
            (text("docker system df; docker system prune -a   # deletes images that no container uses"),),
        ),
        Cause(
            r"exec: \\?\"--\w[\w-]*\\?\": executable file not found",
            text("An option stands after the name of the image"),
            text("What follows the image is the command to run in it: docker takes the option for a program."),
            (text("docker run --gpus all IMAGE COMMAND   # options before the image"),),
        ),
        Cause(
            r"Error looking up volume plugin nvidia-docker|create nvidia_driver_[\d.]+:|nvidia-docker-plugin[^\n]*(?:not found|fail)",
            text("The plug-in of nvidia-docker 1 is not running"),
            text(
                "nvidia-docker 1 is no longer maintained; Docker passes cards itself since 19.03, with the Container Toolkit."
            ),
            (
                text("docker volume ls -q -f driver=nvidia-docker   # remove containers that use these volumes"),
                text(
                    "Remove nvidia-docker 1, install nvidia-container-toolkit, sudo nvidia-ctk runtime configure --runtime=docker, sudo systemctl restart docker; then: docker run --gpus all …"
                ),
            ),
        ),
        Cause(
            r"Failed to start device \"?\w+\"?: (?:Failed to detect requested GPU|GPU)|No matching GPU|lxc[^\n]*nvidia[^\n]*(?:hook|fail|not found)|nvidia\.runtime[^\n]*(?:fail|error|not)",
            text("LXD (Incus) does not find the card, or its NVIDIA runtime"),
            text("The device names a card that the host does not have, or the host lacks nvidia-container-cli."),
            (
                text(
                    "lxc info --resources   # then: lxc config device add NAME gpu gpu pci=0000:01:00.0; lxc config set NAME nvidia.runtime=true"
                ),
                text(
                    "On the host, nvidia-smi and nvidia-container-cli info must work (the snap of LXD brings its own)."
                ),
            ),
        ),
    )

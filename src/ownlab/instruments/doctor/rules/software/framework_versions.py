"""The rule about code and frameworks of different times: functions that were removed, or that do not exist yet."""

from __future__ import annotations

from ownlab.instruments.doctor.rule import Cause, CauseRule
from ownlab.text import text

__all__ = ["FrameworkVersion"]


class FrameworkVersion(CauseRule):
    """A program was written for another release of a framework than is installed.

    **Why it matters.** TensorFlow 2 removed what TensorFlow 1 had, JAX and torchvision remove functions every few months. The
    error looks like a broken installation; the card and the driver are not at fault.

    **What to do.** Install the release for which the program was written, in its own environment, or a newer program.

    **Sources.** tensorflow.org, "Migrate to TensorFlow 2"; docs.jax.dev, change log; pytorch/vision, release notes.
    """

    code = "api-version"
    severity = "error"
    title = text("The program was written for another release of a framework")
    causes = (
        Cause(
            r"module '?tensorflow\S*' has no attribute '(?:Session|placeholder|ConfigProto|GPUOptions|get_default_graph|app|contrib|flags|logging|reset_default_graph|set_random_seed|gfile|layers|InteractiveSession|global_variables_initializer|truncated_normal|log|to_float)'|No module named '?tensorflow\.contrib|The \"?tensorflow-gpu\"? package has been removed|tensorflow-gpu[^\n]*has been removed",
            text("The program is for TensorFlow 1, or asks for a package that no longer exists"),
            text(
                "TensorFlow 2 removed these names, and tensorflow-gpu is part of tensorflow since 2.1. TensorFlow 1 has no wheels for Python 3.8 and newer, and knows no card newer than Turing."
            ),
            (
                text(
                    "TensorFlow 2: pip install 'tensorflow[and-cuda]'   # Linux; and in the program: import tensorflow.compat.v1 as tf; tf.disable_v2_behavior()"
                ),
                text("TensorFlow 1.15 on newer cards: NVIDIA's image nvcr.io/nvidia/tensorflow:23.03-tf1-py3"),
            ),
        ),
        Cause(
            r"No module named '?(?:tensorflow\.python|tensorflow\.compat|tensorflow\.keras|keras\.\w+)'?(?:\s|$|;)|cannot import name '\w+' from '(?:tensorflow|keras)\b|module '?keras\S*' has no attribute|cannot import name '\w+' from 'tensorflow\.(?:python|keras)",
            text("TensorFlow and Keras do not belong together, or TensorFlow is installed incompletely"),
            text(
                "Keras 3 came with TensorFlow 2.16; packages that were written for Keras 2 fail with it. Of the packages tensorflow, tensorflow-gpu and tensorflow-intel, two overwrite each other."
            ),
            (
                text(
                    "pip uninstall -y tensorflow tensorflow-gpu tensorflow-cpu tensorflow-intel keras tf-keras; pip install 'tensorflow[and-cuda]'"
                ),
                text(
                    "For Keras 2: pip install tf-keras; export TF_USE_LEGACY_KERAS=1; or pip install 'tensorflow<2.16'"
                ),
            ),
        ),
        Cause(
            r"(?<!': )module '?jax\S*' has no attribute|cannot import name '\w+' from 'jaxl?i?b?\b|No module named '?(?:jax|jaxlib)\.\w+|jaxlib[^\n]*(?:incompatible|requires) ?[^\n]*jax",
            text("jax, jaxlib and the packages that use them have different ages"),
            text(
                "jax needs a jaxlib of its own version; flax, optax, haiku and others follow jax closely, and jax removes old names."
            ),
            (
                text(
                    "pip install -U 'jax[cuda12]' flax optax chex   # all together; or the versions that the program's requirements name"
                ),
                text("Without an NVIDIA card: pip install -U jax"),
            ),
        ),
        Cause(
            r"torchvision\.transforms\.functional_tensor|No module named '?torch\._(?:six|utils_internal|dynamo|inductor)|cannot import name '\w+' from 'torch'|No module named '?torch\.(?!_C)\w+|module '?torch\.library'? has no attribute|module '?torchvision'? has no attribute '(?:extension|_?\w*ops?)'|cannot import name '\w+' from (?:partially initialized module )?'torchvision|module '?torch\.(?:_C|onnx|fx|utils|nn|_inductor|compiler|distributed|amp|cuda|backends)\S*' has no attribute|module 'torch' has no attribute '(?!cuda\b|npu\b|version\b|__version__\b|Tensor\b)\w+'|cannot import name '\w+' from 'torch\.",
            text("torch is older or newer than this package expects"),
            text("torchvision, torchaudio, transformers and others use functions of certain torch releases."),
            (
                text(
                    "pip install --force-reinstall torch torchvision torchaudio --index-url https://download.pytorch.org/whl/cuXYZ   # with the cuXYZ of the installed torch, all three in one command"
                ),
                text(
                    "Or the release of the package that belongs to the installed torch; basicsr: pip install 'torchvision<0.17'"
                ),
            ),
        ),
        Cause(
            r"No module named 'torch\._C'|Failed to load PyTorch C extensions|module '?torch'? has no attribute '(?:cuda|version|__version__|Tensor)'|module '?tensorflow'? has no attribute '(?:__version__|config|keras|compat)'|module 'triton' has no attribute '\w+'",
            text("Python finds another file or folder instead of the framework, or the framework is installed in part"),
            text(
                "A file torch.py, a folder torch/ or triton/ without code, or what is left of an uninstalled package is found first."
            ),
            (
                text(
                    "python -c 'import torch; print(torch.__file__, torch.__path__)'   # None or your own folder: rename it, delete __pycache__"
                ),
                text(
                    "Otherwise: pip uninstall -y torch; delete the folder torch in site-packages; install torch again"
                ),
            ),
        ),
        Cause(
            r"identifier \"?AT_CHECK\"? is undefined|has no member (?:named )?'?\"?(?:type\(\)\.is_cuda|data<)|'?\"?cudaDeviceProp'?\"?[^\n]{0,4} has no member|texture[^\n]*(?:is undefined|not declared|no longer)|no suitable conversion function from \"?const at::Deprecated|identifier \"?cusparse\w+\"? is undefined|#error[^\n]*C\+\+\d\d or later compatible compiler is required",
            text("The extension's source is older or newer than torch or the CUDA toolkit"),
            text(
                "torch removed AT_CHECK in 1.5, CUDA 12 and 13 removed old functions and fields, torch 2.1 needs C++17."
            ),
            (
                text(
                    "Use a newer release (or a fork) of the extension; or the torch and CUDA that its README names, if the card allows them."
                ),
                text("In its source: AT_CHECK → TORCH_CHECK, .data<T>() → .data_ptr<T>(), -std=c++14 → -std=c++17"),
            ),
        ),
        Cause(
            r"MMCV==\S+ is used but incompatible|is used but incompatible\. Please install mmcv|mmcv\S* (?:version )?[^\n]*incompatible",
            text("mmcv has another version than the OpenMMLab package needs"),
            text("Each release of mmdetection, mmsegmentation and others names a range of mmcv versions."),
            (text("pip install -U openmim; mim install 'mmcv>=…,<…'   # the range in the message; 1.x: mmcv-full"),),
        ),
        Cause(
            r"Cannot find DGL C\+\+ graphbolt library|'NoneType' object has no attribute 'origin'|Could not find module '\S*_(?:version|scatter|sparse|cluster|spline)_cuda|libgraphbolt_pytorch",
            text("A graph library was built for another torch"),
            text("DGL and PyG's extensions (torch_scatter, torch_sparse, …) have wheels for each torch and CUDA."),
            (
                text(
                    "pip install --force-reinstall --no-deps torch_scatter torch_sparse torch_cluster -f https://data.pyg.org/whl/torch-X.Y.Z+cuXYZ.html   # torch's version and CUDA"
                ),
                text(
                    "DGL: pip install dgl -f https://data.dgl.ai/wheels/torch-X.Y/cuXYZ/repo.html; its last release is for torch 2.4"
                ),
            ),
        ),
    )

"""Proves that torch computes: a matrix product on each of its devices and on the CPU, and one operator of torchvision."""

import importlib.util
from typing import Any, Dict, List

from ownlab_guest.probe.framework_report import exception_text
from ownlab_guest.probe.verify_devices import answer as device_checks
from ownlab_guest.probe.verify_devices import check, torch_product


def answer(arguments: List[str]) -> Dict[str, Any]:
    """Return the checks of all devices and of the CPU, and what is wrong with torchvision ("" if nothing)."""
    import torch

    return {
        "version": str(torch.__version__),
        "products": device_checks(["torch"]),
        "cpu": check("torch", "cpu", "CPU", "float32", torch_product, torch, "cpu", "float32"),
        "torchvision": _torchvision_error(torch),
    }


def _torchvision_error(torch: Any) -> str:
    """Its compiled operators are missing where it was built for another torch; importing it does not always fail."""
    if importlib.util.find_spec("torchvision") is None:
        return ""
    try:
        import torchvision

        torchvision.ops.nms(torch.zeros(1, 4), torch.zeros(1), 0.5)
    except Exception as exc:
        return exception_text(exc)
    return ""

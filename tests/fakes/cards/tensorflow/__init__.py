"""TensorFlow that sees a T4."""

from types import SimpleNamespace

__version__ = "2.17.0"
DEVICES = [
    SimpleNamespace(name="/physical_device:CPU:0", device_type="CPU"),
    SimpleNamespace(name="/physical_device:GPU:0", device_type="GPU"),
]
DETAILS = {"device_name": "Tesla T4", "compute_capability": (7, 5)}
sysconfig = SimpleNamespace(
    get_build_info=lambda: {"is_cuda_build": True, "cuda_version": "12.3", "cudnn_version": "8"}
)
config = SimpleNamespace(
    list_physical_devices=lambda: DEVICES, experimental=SimpleNamespace(get_device_details=lambda device: DETAILS)
)

"""A CPU build of torch beside which Huawei's torch_npu stands."""

from types import SimpleNamespace

__version__ = "2.1.0"
version = SimpleNamespace(cuda=None, hip=None)
backends = SimpleNamespace(mps=SimpleNamespace(is_built=lambda: False))

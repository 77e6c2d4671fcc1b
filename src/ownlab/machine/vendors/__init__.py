"""Accelerators of other vendors: AMD, Apple, Intel, Google TPU, Huawei Ascend. One file per vendor.

`reader.py` reads all of them. `amd.py` reads the kernel's files; `amd_tools.py` parses amd-smi, rocm-smi and rocminfo,
which only pasted reports need. `sysfs.py` has what every PCI device shows: its link, its sensors, its name.
"""

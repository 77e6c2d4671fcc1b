"""The host: operating system, CPU, memory, disks, containers, and what the kernel shows of accelerators.

`reader.py` puts the `Host` record together. Each other file reads one part of it on Linux, from files under a root:
`operating_system.py`, `containers.py` (containers, hypervisors, rented platforms), `cpu_and_memory.py` (with the limits
of control groups), `disks.py` (mounts, free space, RAID) and `kernel.py` (PCI devices, modules, RDMA and NVMe, the log).
`macos_windows.py` reads the same record elsewhere.
"""

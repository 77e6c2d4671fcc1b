"""NVIDIA's driver and cards.

`reader.py` asks NVML in a child process, falls back to nvidia-smi, and otherwise keeps what the file system shows.
`driver.py` reads the driver's files, `nvidia_smi.py` parses `nvidia-smi -q -x`, and `processes.py` names the programs
that use a card.
"""

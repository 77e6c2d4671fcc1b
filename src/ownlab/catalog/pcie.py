"""PCIe: what a link can carry."""

from __future__ import annotations

__all__ = ["PCIE_LANE_BYTES"]

# Bytes per second of one lane in one direction, by generation, after line coding (PCI-SIG, PCIe 1.0 to 6.0).
PCIE_LANE_BYTES = {1: 0.25e9, 2: 0.5e9, 3: 0.985e9, 4: 1.969e9, 5: 3.938e9, 6: 7.563e9}

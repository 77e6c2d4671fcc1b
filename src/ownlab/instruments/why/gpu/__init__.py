"""The GPU of a training run: what was measured of it (`records`), read from the profiler's trace (`kernel_window`) and from the driver
(`card_watch`), and what of a step it works and is idle (`gpu_lane`, `rooflines`).
"""

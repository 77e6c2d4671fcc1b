"""What could be had, as data with sources and dates: CUDA releases and drivers, architectures, wheels, Xids;
cards, how fast they are, and platforms that rent them.

Each file in `data/` says where its figures come from and when they were gathered. What no source says is absent, and the
functions here answer None: never a guess.
"""

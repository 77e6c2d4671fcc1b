"""Rules about the NVIDIA driver: its version, its library, its kernel module, and the cards it starts."""

"""Probes: what an interpreter, a framework or a driver library says of itself."""

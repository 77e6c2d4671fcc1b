"""Rules about the surroundings: containers, WSL, and the host's CPU, memory and disks."""

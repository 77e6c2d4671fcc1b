"""nvidia-smi's forms: table, -q, CSV, -L; all read through the tree of its XML."""

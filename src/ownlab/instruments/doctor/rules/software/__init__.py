"""Rules about software: framework builds, Python, CUDA libraries, the CUDA toolkit, and errors of programs."""
